// SPDX-License-Identifier: GPL-2.0

//! Types, statements and expressions.

use super::*;

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
    // --- types --------------------------------------------------------------------------------------

    pub(super) fn type_ref(&mut self) -> Res<TypeRef> {
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

    pub(super) fn take(&mut self, kind: TypeKind) -> TypeKind {
        self.at += 1;
        kind
    }

    /// The width of a `bit<...>`: a number, a name, or an expression in parentheses.
    pub(super) fn width(&mut self) -> Res<Expr> {
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

    pub(super) fn type_args(&mut self) -> Res<Vec<TypeRef>> {
        self.expect("<")?;
        let mut out = vec![self.type_ref()?];
        while self.eat(",") {
            out.push(self.type_ref()?);
        }
        self.expect(">")?;
        Ok(out)
    }

    // --- statements ---------------------------------------------------------------------------------

    pub(super) fn block_statement(&mut self) -> Res<Vec<Stmt>> {
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

    pub(super) fn statement(&mut self) -> Res<Stmt> {
        self.deeper()?;
        let s = self.statement_here();
        self.depth -= 1;
        s
    }

    pub(super) fn statement_here(&mut self) -> Res<Stmt> {
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

    pub(super) fn switch(&mut self, pos: Pos) -> Res<Stmt> {
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

    pub(super) fn conditional(&mut self) -> Res<Expr> {
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
    pub(super) fn operator(&self, level: usize) -> Option<(&'static str, usize)> {
        let Some(Tok::Sym(first)) = self.tok() else {
            return None;
        };
        let shift = *first == ">"
            && self.ahead(1) == Some(&Tok::Sym(">"))
            && self.tokens[self.at + 1].glued;
        let (op, len) = if shift { (">>", 2) } else { (*first, 1) };
        BINARY[level].contains(&op).then_some((op, len))
    }

    pub(super) fn binary(&mut self, level: usize) -> Res<Expr> {
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

    pub(super) fn unary(&mut self) -> Res<Expr> {
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
    pub(super) fn is_cast(&self) -> bool {
        match self.ahead(1) {
            Some(Tok::Name(n)) if matches!(n.as_str(), "bit" | "int" | "bool") => true,
            Some(Tok::Name(n)) => self.types.contains(n) && self.ahead(2) == Some(&Tok::Sym(")")),
            _ => false,
        }
    }

    pub(super) fn postfix(&mut self) -> Res<Expr> {
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

    pub(super) fn call(&self, callee: Expr, types: Vec<TypeRef>, args: Vec<Expr>) -> Expr {
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
    pub(super) fn generic_call(&mut self) -> Res<Option<Vec<TypeRef>>> {
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

    pub(super) fn primary(&mut self) -> Res<Expr> {
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
