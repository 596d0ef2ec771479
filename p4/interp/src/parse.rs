// SPDX-License-Identifier: GPL-2.0

//! Tokens to a program: recursive descent. Which names are types is remembered as they are declared,
//! since P4's grammar cannot tell a cast or a declaration from an expression without.

use crate::ast::*;
use crate::lex::{Tok, Token};
use crate::source::{fault, Pos, Res};
use std::collections::HashSet;
use std::rc::Rc;

mod body;

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
}
