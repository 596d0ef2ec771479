// SPDX-License-Identifier: GPL-2.0

//! Tokens to a program: recursive descent. Which names are types is remembered as they are declared,
//! since P4's grammar cannot tell a cast or a declaration from an expression without.

use crate::ast::*;
use crate::lex::{Tok, Token};
use crate::source::{fault, Pos, Res};
use std::collections::HashSet;
use std::rc::Rc;

/// Nesting of expressions, types, and statements.
const MAX_DEPTH: usize = 120;
/// Steps over all of a program: looking ahead must not take for ever on a hostile text.
const MAX_STEPS: usize = 1 << 23;

pub(crate) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    end: Pos,
    types: HashSet<String>,
    depth: usize,
    steps: usize,
}

const KEYWORDS: [&str; 38] = [
    "abstract",
    "action",
    "actions",
    "apply",
    "bit",
    "bool",
    "const",
    "control",
    "default",
    "else",
    "entries",
    "enum",
    "error",
    "exit",
    "extern",
    "false",
    "header",
    "header_union",
    "if",
    "in",
    "inout",
    "int",
    "key",
    "match_kind",
    "out",
    "package",
    "parser",
    "return",
    "select",
    "state",
    "string",
    "struct",
    "switch",
    "table",
    "transition",
    "true",
    "tuple",
    "typedef",
];
/// Keywords that P4 allows as names too.
const SOFT: [&str; 6] = ["actions", "apply", "entries", "key", "state", "type"];

// Unlike C, the bitwise operators bind closer than comparisons.
const BINARY: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["==", "!="],
    &["<", ">", "<=", ">="],
    &["|"],
    &["^"],
    &["&"],
    &["<<", ">>"],
    &["+", "-", "|+|", "|-|", "++"],
    &["*", "/", "%"],
];

impl Parser {
    pub fn new(tokens: Vec<Token>, end: Pos) -> Self {
        Self {
            tokens,
            at: 0,
            end,
            types: HashSet::new(),
            depth: 0,
            steps: 0,
        }
    }

    fn tok(&self) -> Option<&Tok> {
        self.tokens.get(self.at).map(|t| &t.tok)
    }

    fn ahead(&self, n: usize) -> Option<&Tok> {
        self.tokens.get(self.at + n).map(|t| &t.tok)
    }

    fn pos(&self) -> Pos {
        self.tokens.get(self.at).map_or(self.end, |t| t.pos)
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.tok(), Some(Tok::Sym(s)) if *s == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.tok(), Some(Tok::Name(n)) if n == word)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let is = self.is(symbol);
        self.at += usize::from(is);
        is
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        self.at += usize::from(is);
        is
    }

    fn unexpected<T>(&self, wanted: &str) -> Res<T> {
        let found = self.tok().map_or("the end of the file".into(), Tok::show);
        fault(self.pos(), format!("expected {wanted}, found {found}"))
    }

    fn expect(&mut self, symbol: &str) -> Res<()> {
        if self.eat(symbol) {
            Ok(())
        } else {
            self.unexpected(&format!("`{symbol}`"))
        }
    }

    fn name(&mut self) -> Res<String> {
        match self.tok() {
            Some(Tok::Name(n)) if !KEYWORDS.contains(&n.as_str()) || SOFT.contains(&n.as_str()) => {
                let n = n.clone();
                self.at += 1;
                Ok(n)
            }
            Some(Tok::Name(n)) => fault(self.pos(), format!("`{n}` is a keyword, not a name")),
            _ => self.unexpected("a name"),
        }
    }

    fn deeper(&mut self) -> Res<()> {
        self.depth += 1;
        self.steps += 1;
        if self.depth > MAX_DEPTH {
            return fault(self.pos(), "nested too deeply");
        }
        if self.steps > MAX_STEPS {
            return fault(self.pos(), "the program is too large or too entangled");
        }
        Ok(())
    }

    // --- declarations -------------------------------------------------------------------------------

    pub fn program(&mut self) -> Res<Vec<Decl>> {
        let mut out = Vec::new();
        while self.tok().is_some() {
            if self.eat(";") {
                continue;
            }
            self.declaration(&mut out)?;
        }
        Ok(out)
    }

    /// Annotations; whether `@optional` is among them.
    fn annotations(&mut self) -> Res<bool> {
        let mut optional = false;
        while self.eat("@") {
            if self.is_word("pragma") {
                let logical = self.tokens[self.at].logical;
                while self
                    .tokens
                    .get(self.at)
                    .is_some_and(|t| t.logical == logical)
                {
                    self.at += 1;
                }
                continue;
            }
            match self.tok() {
                Some(Tok::Name(n)) => optional |= n == "optional",
                _ => return self.unexpected("the name of an annotation"),
            }
            self.at += 1;
            for (open, close) in [("(", ")"), ("[", "]")] {
                if self.is(open) {
                    self.balanced(open, close)?;
                }
            }
        }
        Ok(optional)
    }

    fn balanced(&mut self, open: &str, close: &str) -> Res<()> {
        let mut depth = 0usize;
        loop {
            if self.tok().is_none() {
                return self.unexpected(&format!("`{close}`"));
            }
            if self.is(open) {
                depth += 1;
            } else if self.is(close) {
                depth -= 1;
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn declaration(&mut self, out: &mut Vec<Decl>) -> Res<()> {
        self.annotations()?;
        let pos = self.pos();
        let Some(Tok::Name(word)) = self.tok().cloned() else {
            return self.unexpected("a declaration");
        };
        match word.as_str() {
            "const" => {
                self.at += 1;
                let ty = self.type_ref()?;
                let name = self.name()?;
                self.expect("=")?;
                let value = self.expr()?;
                self.expect(";")?;
                out.push(Decl::Const(pos, ty, name, value));
            }
            "typedef" | "type" => {
                self.at += 1;
                let ty = self.type_ref()?;
                let name = self.name()?;
                self.expect(";")?;
                self.types.insert(name.clone());
                out.push(Decl::Typedef(pos, ty, name));
            }
            "enum" => out.push(self.enumeration(pos)?),
            "error" if self.ahead(1) == Some(&Tok::Sym("{")) => {
                self.at += 2;
                let mut names = Vec::new();
                while !self.eat("}") {
                    let pos = self.pos();
                    names.push((self.name()?, pos));
                    if !self.is("}") {
                        self.expect(",")?;
                    }
                }
                out.push(Decl::Errors(names));
            }
            "match_kind" => {
                self.at += 1;
                self.expect("{")?;
                let mut names = Vec::new();
                while !self.eat("}") {
                    names.push(self.name()?);
                    if !self.is("}") {
                        self.expect(",")?;
                    }
                }
                out.push(Decl::MatchKinds(names));
            }
            "header" | "struct" => out.push(self.fields(pos)?),
            "header_union" => return fault(pos, "header_union is not supported"),
            "extern" => out.push(self.external()?),
            "parser" | "control" => out.push(self.block()?),
            "package" => {
                self.at += 1;
                let name = self.name()?;
                self.types.insert(name.clone());
                let (type_params, added) = self.type_params()?;
                let params = self.params()?;
                self.forget(added);
                self.expect(";")?;
                out.push(Decl::Package(Rc::new(Package {
                    name,
                    type_params,
                    params,
                })));
            }
            "action" => out.push(Decl::Action(self.action()?)),
            "table" => out.push(Decl::Table(self.table()?)),
            _ => {
                let ty = self.type_ref()?;
                if self.is("(") {
                    out.push(Decl::Instance(self.instance(pos, ty)?));
                    return Ok(());
                }
                let name = self.name()?;
                if self.is("(") {
                    let params = self.params()?;
                    let body = self.block_statement()?;
                    out.push(Decl::Action(Rc::new(Action {
                        pos,
                        name,
                        params,
                        body,
                        ret: Some(ty),
                    })));
                    return Ok(());
                }
                let value = if self.eat("=") {
                    Some(self.expr()?)
                } else {
                    None
                };
                self.expect(";")?;
                out.push(Decl::Var(pos, ty, name, value));
            }
        }
        Ok(())
    }

    fn enumeration(&mut self, pos: Pos) -> Res<Decl> {
        self.at += 1;
        let under = if self.is_word("bit") || self.is_word("int") {
            Some(self.type_ref()?)
        } else {
            None
        };
        let name = self.name()?;
        self.types.insert(name.clone());
        self.expect("{")?;
        let mut members = Vec::new();
        while !self.eat("}") {
            let member = self.name()?;
            let value = if self.eat("=") {
                Some(self.expr()?)
            } else {
                None
            };
            members.push((member, value));
            if !self.is("}") {
                self.expect(",")?;
            }
        }
        Ok(Decl::Enum(pos, name, under, members))
    }

    fn fields(&mut self, pos: Pos) -> Res<Decl> {
        let is_header = self.is_word("header");
        self.at += 1;
        let name = self.name()?;
        self.types.insert(name.clone());
        self.expect("{")?;
        let mut fields = Vec::new();
        while !self.eat("}") {
            self.annotations()?;
            let ty = self.type_ref()?;
            let at = self.pos();
            let field = self.name()?;
            self.expect(";")?;
            fields.push((ty, field, at));
        }
        Ok(Decl::Fields(Rc::new(Fields {
            pos,
            name,
            is_header,
            fields,
        })))
    }

    fn external(&mut self) -> Res<Decl> {
        self.at += 1;
        let object = matches!(self.tok(), Some(Tok::Name(_)))
            && matches!(self.ahead(1), Some(Tok::Sym("{" | "<")))
            && {
                // `extern T f<T>(...)` has a `(` behind its name; `extern E<T> {` has not.
                let mut n = 1;
                while !matches!(self.ahead(n), None | Some(Tok::Sym("{" | "(" | ";"))) {
                    n += 1;
                }
                matches!(self.ahead(n), Some(Tok::Sym("{")))
            };
        if !object {
            let method = self.prototype(None, false)?;
            return Ok(Decl::ExternFn(Rc::new(method)));
        }
        let name = self.name()?;
        self.types.insert(name.clone());
        let (type_params, added) = self.type_params()?;
        self.expect("{")?;
        let mut methods = Vec::new();
        while !self.eat("}") {
            self.annotations()?;
            let is_abstract = self.eat_word("abstract");
            methods.push(self.prototype(Some(&name), is_abstract)?);
        }
        self.forget(added);
        Ok(Decl::Extern(Rc::new(ExternDecl {
            name,
            type_params,
            methods,
        })))
    }

    /// A method or a function without a body. Its own type parameters come behind its name, and its
    /// return type may use them.
    fn prototype(&mut self, owner: Option<&str>, is_abstract: bool) -> Res<Method> {
        let pos = self.pos();
        let ctor = owner.is_some_and(|o| self.is_word(o)) && self.ahead(1) == Some(&Tok::Sym("("));
        let ret = if ctor { None } else { Some(self.type_ref()?) };
        let name = self.name()?;
        let (type_params, added) = self.type_params()?;
        let params = self.params()?;
        self.forget(added);
        self.expect(";")?;
        Ok(Method {
            pos,
            name,
            type_params,
            ret,
            params,
            is_abstract,
        })
    }

    /// `<A, B>`; and which of them were not types before.
    fn type_params(&mut self) -> Res<(Vec<String>, Vec<String>)> {
        let (mut names, mut added) = (Vec::new(), Vec::new());
        if self.eat("<") {
            loop {
                let name = self.name()?;
                if self.types.insert(name.clone()) {
                    added.push(name.clone());
                }
                names.push(name);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(">")?;
        }
        Ok((names, added))
    }

    fn forget(&mut self, names: Vec<String>) {
        for name in names {
            self.types.remove(&name);
        }
    }

    fn params(&mut self) -> Res<Vec<Param>> {
        self.expect("(")?;
        let mut out = Vec::new();
        while !self.eat(")") {
            let optional = self.annotations()?;
            let pos = self.pos();
            let dir = if self.eat_word("in") {
                Dir::In
            } else if self.eat_word("out") {
                Dir::Out
            } else if self.eat_word("inout") {
                Dir::InOut
            } else {
                Dir::None
            };
            let ty = self.type_ref()?;
            let name = self.name()?;
            out.push(Param {
                pos,
                dir,
                ty,
                name,
                optional,
            });
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        Ok(out)
    }

    fn block(&mut self) -> Res<Decl> {
        let pos = self.pos();
        let is_parser = self.is_word("parser");
        self.at += 1;
        let name = self.name()?;
        self.types.insert(name.clone());
        let (type_params, added) = self.type_params()?;
        let params = self.params()?;
        let mut ctor = Vec::new();
        let body = if self.eat(";") {
            None
        } else {
            if self.is("(") {
                ctor = self.params()?;
            }
            self.expect("{")?;
            let mut body = BlockBody {
                locals: Vec::new(),
                states: Vec::new(),
                apply: Vec::new(),
            };
            let mut applied = false;
            while !self.eat("}") {
                if self.tok().is_none() {
                    return self.unexpected("`}`");
                }
                let mark = self.at;
                self.annotations()?;
                if is_parser && self.is_word("state") {
                    body.states.push(self.state()?);
                } else if !is_parser
                    && self.is_word("apply")
                    && self.ahead(1) == Some(&Tok::Sym("{"))
                {
                    if applied {
                        return fault(self.pos(), "a control has one `apply`");
                    }
                    applied = true;
                    self.at += 1;
                    body.apply = self.block_statement()?;
                } else {
                    self.at = mark;
                    if self.eat(";") {
                        continue;
                    }
                    self.declaration(&mut body.locals)?;
                }
            }
            if !is_parser && !applied {
                return fault(pos, format!("control {name} has no `apply`"));
            }
            Some(body)
        };
        self.forget(added);
        Ok(Decl::Block(Rc::new(Block {
            pos,
            name,
            is_parser,
            type_params,
            params,
            ctor,
            body,
        })))
    }

    fn state(&mut self) -> Res<State> {
        self.at += 1;
        let pos = self.pos();
        let name = self.name()?;
        self.expect("{")?;
        let mut body = Vec::new();
        while !self.is_word("transition") && !self.is("}") {
            body.push(self.statement()?);
        }
        let next = if self.eat_word("transition") {
            self.transition()?
        } else {
            // P4 lets a state without a transition reject.
            Transition::To("reject".into(), self.pos())
        };
        self.expect("}")?;
        Ok(State {
            pos,
            name,
            body,
            next,
        })
    }

    fn transition(&mut self) -> Res<Transition> {
        let pos = self.pos();
        if !self.eat_word("select") {
            let to = self.name()?;
            self.expect(";")?;
            return Ok(Transition::To(to, pos));
        }
        self.expect("(")?;
        let mut keys = vec![self.expr()?];
        while self.eat(",") {
            keys.push(self.expr()?);
        }
        self.expect(")")?;
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.eat("}") {
            let pos = self.pos();
            let keys = self.key_set()?;
            self.expect(":")?;
            let next_pos = self.pos();
            let next = self.name()?;
            self.expect(";")?;
            cases.push(SelectCase {
                pos,
                keys,
                next,
                next_pos,
            });
        }
        Ok(Transition::Select(keys, cases))
    }

    /// One key set or several in parentheses.
    fn key_set(&mut self) -> Res<Vec<Expr>> {
        if !self.is("(") {
            return Ok(vec![self.simple_key()?]);
        }
        // `(a, b)` is a tuple of keys, `(a) + 1` an expression.
        let mark = self.at;
        self.at += 1;
        let mut keys = vec![self.simple_key()?];
        while self.eat(",") {
            keys.push(self.simple_key()?);
        }
        self.expect(")")?;
        if keys.len() == 1 && !self.is(":") {
            self.at = mark;
            return Ok(vec![self.simple_key()?]);
        }
        Ok(keys)
    }

    fn simple_key(&mut self) -> Res<Expr> {
        let pos = self.pos();
        if self.eat_word("default") || self.eat("_") {
            return Ok(Expr {
                pos,
                kind: ExprKind::Default,
            });
        }
        let left = self.expr()?;
        let kind = if self.eat("&&&") {
            ExprKind::Mask(Box::new(left), Box::new(self.expr()?))
        } else if self.eat("..") {
            ExprKind::Range(Box::new(left), Box::new(self.expr()?))
        } else {
            return Ok(left);
        };
        Ok(Expr { pos, kind })
    }

    fn action(&mut self) -> Res<Rc<Action>> {
        self.at += 1;
        let pos = self.pos();
        let name = self.name()?;
        let params = self.params()?;
        let body = self.block_statement()?;
        Ok(Rc::new(Action {
            pos,
            name,
            params,
            body,
            ret: None,
        }))
    }

    fn table(&mut self) -> Res<Rc<Table>> {
        self.at += 1;
        let pos = self.pos();
        let name = self.name()?;
        let mut table = Table {
            pos,
            name,
            keys: Vec::new(),
            actions: Vec::new(),
            default: None,
            default_const: false,
            entries: None,
            size: None,
        };
        self.expect("{")?;
        while !self.eat("}") {
            self.annotations()?;
            let is_const = self.eat_word("const");
            let at = self.pos();
            let property = self.name_or_default()?;
            self.expect("=")?;
            match property.as_str() {
                "key" => {
                    self.expect("{")?;
                    while !self.eat("}") {
                        let expr = self.expr()?;
                        self.expect(":")?;
                        let kind_pos = self.pos();
                        let kind = self.name()?;
                        self.annotations()?;
                        self.expect(";")?;
                        table.keys.push(KeyField {
                            expr,
                            kind,
                            kind_pos,
                        });
                    }
                    self.eat(";");
                }
                "actions" => {
                    self.expect("{")?;
                    while !self.eat("}") {
                        self.annotations()?;
                        table.actions.push(self.expr()?);
                        self.expect(";")?;
                    }
                    self.eat(";");
                }
                "default_action" => {
                    table.default = Some(self.expr()?);
                    table.default_const = is_const;
                    self.expect(";")?;
                }
                "entries" => {
                    if !is_const {
                        return fault(at, "entries must be `const entries`");
                    }
                    table.entries = Some(self.entries()?);
                    self.eat(";");
                }
                "size" => {
                    table.size = Some(self.expr()?);
                    self.expect(";")?;
                }
                _ => return fault(at, format!("`{property}` is no table property known here")),
            }
        }
        Ok(Rc::new(table))
    }

    fn name_or_default(&mut self) -> Res<String> {
        match self.tok() {
            Some(Tok::Name(n)) => {
                let n = n.clone();
                self.at += 1;
                Ok(n)
            }
            _ => self.unexpected("a table property"),
        }
    }

    fn entries(&mut self) -> Res<Vec<Entry>> {
        self.expect("{")?;
        let mut out = Vec::new();
        while !self.eat("}") {
            let pos = self.pos();
            let keys = self.key_set()?;
            self.expect(":")?;
            let action = self.expr()?;
            self.expect(";")?;
            out.push(Entry { pos, keys, action });
        }
        Ok(out)
    }

    fn instance(&mut self, pos: Pos, ty: TypeRef) -> Res<Rc<Instance>> {
        let args = self.args()?;
        let name = self.name()?;
        let mut methods = Vec::new();
        if self.eat("=") {
            self.expect("{")?;
            while !self.eat("}") {
                let pos = self.pos();
                let ret = self.type_ref()?;
                let name = self.name()?;
                let params = self.params()?;
                let body = self.block_statement()?;
                methods.push(Rc::new(Action {
                    pos,
                    name,
                    params,
                    body,
                    ret: Some(ret),
                }));
            }
        }
        self.expect(";")?;
        Ok(Rc::new(Instance {
            pos,
            ty,
            args,
            name,
            methods,
        }))
    }

    fn args(&mut self) -> Res<Vec<Expr>> {
        self.expect("(")?;
        let mut out = Vec::new();
        while !self.eat(")") {
            out.push(self.expr()?);
            if !self.is(")") {
                self.expect(",")?;
            }
        }
        Ok(out)
    }

    // --- types --------------------------------------------------------------------------------------

    fn type_ref(&mut self) -> Res<TypeRef> {
        self.deeper()?;
        let pos = self.pos();
        if self.eat("_") {
            self.depth -= 1;
            let kind = TypeKind::DontCare;
            return Ok(TypeRef { pos, kind });
        }
        let Some(Tok::Name(word)) = self.tok().cloned() else {
            return self.unexpected("a type");
        };
        let kind = match word.as_str() {
            "bool" => self.take(TypeKind::Bool),
            "error" => self.take(TypeKind::Error),
            "string" => self.take(TypeKind::Text),
            "void" => self.take(TypeKind::Void),
            "bit" | "int" => {
                self.at += 1;
                if self.eat("<") {
                    let width = self.width()?;
                    self.expect(">")?;
                    TypeKind::Bits(Box::new(width), word == "int")
                } else if word == "int" {
                    TypeKind::Int
                } else {
                    let kind = ExprKind::Number(1, None);
                    TypeKind::Bits(Box::new(Expr { pos, kind }), false)
                }
            }
            "varbit" => {
                self.at += 1;
                self.expect("<")?;
                self.width()?;
                self.expect(">")?;
                TypeKind::Varbit
            }
            "tuple" => {
                self.at += 1;
                TypeKind::Tuple(self.type_args()?)
            }
            _ => {
                let name = self.name()?;
                let args = if self.is("<") {
                    self.type_args()?
                } else {
                    Vec::new()
                };
                TypeKind::Named(name, args)
            }
        };
        let mut ty = TypeRef { pos, kind };
        while self.is("[") {
            self.at += 1;
            let size = self.expr()?;
            self.expect("]")?;
            ty = TypeRef {
                pos,
                kind: TypeKind::Stack(Box::new(ty), Box::new(size)),
            };
        }
        self.depth -= 1;
        Ok(ty)
    }

    fn take(&mut self, kind: TypeKind) -> TypeKind {
        self.at += 1;
        kind
    }

    /// The width of a `bit<...>`: a number, a name, or an expression in parentheses.
    fn width(&mut self) -> Res<Expr> {
        let pos = self.pos();
        match self.tok().cloned() {
            Some(Tok::Number(n, w)) => {
                self.at += 1;
                let kind = ExprKind::Number(n, w);
                Ok(Expr { pos, kind })
            }
            Some(Tok::Name(n)) => {
                self.at += 1;
                let kind = ExprKind::Name(n);
                Ok(Expr { pos, kind })
            }
            _ => {
                self.expect("(")?;
                let e = self.expr()?;
                self.expect(")")?;
                Ok(e)
            }
        }
    }

    fn type_args(&mut self) -> Res<Vec<TypeRef>> {
        self.expect("<")?;
        let mut out = vec![self.type_ref()?];
        while self.eat(",") {
            out.push(self.type_ref()?);
        }
        self.expect(">")?;
        Ok(out)
    }

    // --- statements ---------------------------------------------------------------------------------

    fn block_statement(&mut self) -> Res<Vec<Stmt>> {
        self.expect("{")?;
        let mut out = Vec::new();
        while !self.eat("}") {
            if self.tok().is_none() {
                return self.unexpected("`}`");
            }
            out.push(self.statement()?);
        }
        Ok(out)
    }

    fn statement(&mut self) -> Res<Stmt> {
        self.deeper()?;
        let s = self.statement_here();
        self.depth -= 1;
        s
    }

    fn statement_here(&mut self) -> Res<Stmt> {
        self.annotations()?;
        let pos = self.pos();
        let make = |kind| Ok(Stmt { pos, kind });
        if self.is("{") {
            return make(StmtKind::Block(self.block_statement()?));
        }
        if self.eat(";") {
            return make(StmtKind::Empty);
        }
        let word = match self.tok() {
            Some(Tok::Name(n)) => n.clone(),
            _ => String::new(),
        };
        match word.as_str() {
            "if" => {
                self.at += 1;
                self.expect("(")?;
                let cond = self.expr()?;
                self.expect(")")?;
                let yes = Box::new(self.statement()?);
                let no = if self.eat_word("else") {
                    Some(Box::new(self.statement()?))
                } else {
                    None
                };
                return make(StmtKind::If(cond, yes, no));
            }
            "return" => {
                self.at += 1;
                let value = if self.is(";") {
                    None
                } else {
                    Some(self.expr()?)
                };
                self.expect(";")?;
                return make(StmtKind::Return(value));
            }
            "exit" => {
                self.at += 1;
                self.expect(";")?;
                return make(StmtKind::Exit);
            }
            "switch" => {
                self.at += 1;
                return self.switch(pos);
            }
            "const" => {
                self.at += 1;
                let ty = self.type_ref()?;
                let name = self.name()?;
                self.expect("=")?;
                let value = self.expr()?;
                self.expect(";")?;
                return make(StmtKind::Const(ty, name, value));
            }
            "transition" => return self.unexpected("a statement"),
            _ => {}
        }
        let base = matches!(word.as_str(), "bit" | "int" | "bool" | "tuple" | "varbit");
        let named = self.types.contains(&word)
            && matches!(self.ahead(1), Some(Tok::Name(_) | Tok::Sym("<" | "[")));
        let error = word == "error" && matches!(self.ahead(1), Some(Tok::Name(_)));
        if base || named || error {
            let ty = self.type_ref()?;
            let name = self.name()?;
            let value = if self.eat("=") {
                Some(self.expr()?)
            } else {
                None
            };
            self.expect(";")?;
            return make(StmtKind::Var(ty, name, value));
        }
        let left = self.expr()?;
        if self.eat("=") {
            let right = self.expr()?;
            self.expect(";")?;
            return make(StmtKind::Assign(left, right));
        }
        if !matches!(left.kind, ExprKind::Call(..)) {
            return self.unexpected("`=` or a call");
        }
        self.expect(";")?;
        make(StmtKind::Call(left))
    }

    fn switch(&mut self, pos: Pos) -> Res<Stmt> {
        self.expect("(")?;
        let on = self.expr()?;
        self.expect(")")?;
        self.expect("{")?;
        let mut cases: Vec<(Vec<Expr>, Option<Vec<Stmt>>)> = Vec::new();
        while !self.eat("}") {
            let label = self.simple_key()?;
            self.expect(":")?;
            let body = if self.is("{") {
                Some(self.block_statement()?)
            } else {
                None
            };
            match cases.last_mut() {
                // A label without a block falls through to the next.
                Some((labels, last)) if last.is_none() => {
                    labels.push(label);
                    *last = body;
                }
                _ => cases.push((vec![label], body)),
            }
        }
        let kind = StmtKind::Switch(on, cases);
        Ok(Stmt { pos, kind })
    }

    // --- expressions --------------------------------------------------------------------------------

    pub fn expr(&mut self) -> Res<Expr> {
        self.deeper()?;
        let e = self.conditional();
        self.depth -= 1;
        e
    }

    fn conditional(&mut self) -> Res<Expr> {
        let cond = self.binary(0)?;
        if !self.eat("?") {
            return Ok(cond);
        }
        let yes = self.expr()?;
        self.expect(":")?;
        let no = self.expr()?;
        Ok(Expr {
            pos: cond.pos,
            kind: ExprKind::Cond(Box::new(cond), Box::new(yes), Box::new(no)),
        })
    }

    /// The binary operator here, if it is one of `level`; and its number of tokens.
    fn operator(&self, level: usize) -> Option<(&'static str, usize)> {
        let Some(Tok::Sym(first)) = self.tok() else {
            return None;
        };
        let shift = *first == ">"
            && self.ahead(1) == Some(&Tok::Sym(">"))
            && self.tokens[self.at + 1].glued;
        let (op, len) = if shift { (">>", 2) } else { (*first, 1) };
        BINARY[level].contains(&op).then_some((op, len))
    }

    fn binary(&mut self, level: usize) -> Res<Expr> {
        if level == BINARY.len() {
            return self.unary();
        }
        let mut left = self.binary(level + 1)?;
        while let Some((op, len)) = self.operator(level) {
            self.at += len;
            let pos = left.pos;
            let right = self.binary(level + 1)?;
            left = Expr {
                pos,
                kind: ExprKind::Binary(op, Box::new(left), Box::new(right)),
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Res<Expr> {
        self.deeper()?;
        let pos = self.pos();
        let op = ["!", "~", "-", "+"].into_iter().find(|op| self.is(op));
        let e = if let Some(op) = op {
            self.at += 1;
            let kind = ExprKind::Unary(op, Box::new(self.unary()?));
            Expr { pos, kind }
        } else if self.is("(") && self.is_cast() {
            self.at += 1;
            let ty = self.type_ref()?;
            self.expect(")")?;
            let kind = ExprKind::Cast(ty, Box::new(self.unary()?));
            Expr { pos, kind }
        } else {
            self.postfix()?
        };
        self.depth -= 1;
        Ok(e)
    }

    /// Whether the `(` here begins a cast.
    fn is_cast(&self) -> bool {
        match self.ahead(1) {
            Some(Tok::Name(n)) if matches!(n.as_str(), "bit" | "int" | "bool") => true,
            Some(Tok::Name(n)) => self.types.contains(n) && self.ahead(2) == Some(&Tok::Sym(")")),
            _ => false,
        }
    }

    fn postfix(&mut self) -> Res<Expr> {
        let mut e = self.primary()?;
        loop {
            let pos = e.pos;
            if self.eat(".") {
                let name = match self.tok() {
                    Some(Tok::Name(n)) => n.clone(),
                    _ => return self.unexpected("a member"),
                };
                self.at += 1;
                let kind = ExprKind::Member(Box::new(e), name);
                e = Expr { pos, kind };
            } else if self.eat("[") {
                let first = self.expr()?;
                let kind = if self.eat(":") {
                    let low = self.expr()?;
                    ExprKind::Slice(Box::new(e), Box::new(first), Box::new(low))
                } else {
                    ExprKind::Index(Box::new(e), Box::new(first))
                };
                self.expect("]")?;
                e = Expr { pos, kind };
            } else if self.is("(") {
                let args = self.args()?;
                e = self.call(e, Vec::new(), args);
            } else if self.is("<") {
                match self.generic_call()? {
                    Some(types) => {
                        let args = self.args()?;
                        e = self.call(e, types, args);
                    }
                    None => return Ok(e),
                }
            } else {
                return Ok(e);
            }
        }
    }

    fn call(&self, callee: Expr, types: Vec<TypeRef>, args: Vec<Expr>) -> Expr {
        let pos = callee.pos;
        let kind = match &callee.kind {
            // `Name(...)` of a type makes an instance.
            ExprKind::Name(n) if self.types.contains(n) => {
                let kind = TypeKind::Named(n.clone(), types);
                ExprKind::New(TypeRef { pos, kind }, args)
            }
            _ => ExprKind::Call(Box::new(callee), types, args),
        };
        Expr { pos, kind }
    }

    /// `<T>` in front of a `(`, if that is what follows.
    fn generic_call(&mut self) -> Res<Option<Vec<TypeRef>>> {
        let (mark, depth) = (self.at, self.depth);
        self.deeper()?;
        match self.type_args() {
            Ok(types) if self.is("(") => {
                self.depth = depth;
                Ok(Some(types))
            }
            _ => {
                self.at = mark;
                self.depth = depth;
                Ok(None)
            }
        }
    }

    fn primary(&mut self) -> Res<Expr> {
        let pos = self.pos();
        let make = |kind| Ok(Expr { pos, kind });
        match self.tok().cloned() {
            Some(Tok::Number(n, w)) => {
                self.at += 1;
                make(ExprKind::Number(n, w))
            }
            Some(Tok::Text(_)) => {
                self.at += 1;
                make(ExprKind::Text)
            }
            Some(Tok::Sym("(")) => {
                self.at += 1;
                let e = self.expr()?;
                self.expect(")")?;
                Ok(e)
            }
            Some(Tok::Sym("{")) => {
                self.at += 1;
                let mut items = Vec::new();
                while !self.eat("}") {
                    items.push(self.expr()?);
                    if !self.is("}") {
                        self.expect(",")?;
                    }
                }
                make(ExprKind::List(items))
            }
            Some(Tok::Name(n)) => match n.as_str() {
                "true" | "false" => {
                    self.at += 1;
                    make(ExprKind::Bool(n == "true"))
                }
                "error" => {
                    self.at += 1;
                    let kind = TypeKind::Error;
                    self.expect(".")?;
                    let member = self.name()?;
                    make(ExprKind::TypeMember(TypeRef { pos, kind }, member))
                }
                _ => {
                    let name = self.name()?;
                    if self.types.contains(&name) && self.is(".") {
                        if let Some(Tok::Name(member)) = self.ahead(1).cloned() {
                            self.at += 2;
                            let kind = TypeKind::Named(name, Vec::new());
                            return make(ExprKind::TypeMember(TypeRef { pos, kind }, member));
                        }
                    }
                    make(ExprKind::Name(name))
                }
            },
            _ => self.unexpected("an expression"),
        }
    }
}
