// SPDX-License-Identifier: GPL-2.0

//! Expressions: types are checked, constants folded, calls emitted as statements before.

use crate::ast::*;
use crate::ir::*;
use crate::lower::*;
use crate::source::{fault, Pos, Res};
use crate::types::*;
use std::collections::HashMap;
use std::rc::Rc;

fn tv(ty: Ty, v: V) -> Tv {
    Tv { ty, v }
}

impl Lower {
    pub fn expr(&mut self, e: &Expr) -> Res<Tv> {
        let pos = e.pos;
        match &e.kind {
            ExprKind::Number(n, None) => {
                if *n > i128::MAX as u128 {
                    return fault(pos, "this number is too large");
                }
                Ok(tv(Ty::Int, V::Const(*n)))
            }
            ExprKind::Number(n, Some((w, signed))) => {
                let w = width_ok((*w).into(), pos)?;
                if *n & !mask(w) != 0 {
                    return fault(pos, format!("{n} does not fit into {w} bits"));
                }
                Ok(tv(Ty::Bits(w, *signed), V::Const(*n)))
            }
            ExprKind::Bool(b) => Ok(tv(Ty::Bool, V::Const(u128::from(*b)))),
            ExprKind::Text => Ok(tv(Ty::Text, V::Nothing)),
            ExprKind::Name(name) => self.name(name, pos),
            ExprKind::TypeMember(ty, member) => self.type_member(ty, member),
            ExprKind::Member(inner, member) => self.member(inner, member, pos),
            ExprKind::Index(inner, index) => self.index(inner, index),
            ExprKind::Slice(inner, high, low) => self.slice(inner, high, low),
            ExprKind::Call(callee, types, args) => self.call(callee, types, args, pos),
            ExprKind::Cast(ty, inner) => {
                let to = self.ty(ty, &Env::new())?;
                let from = self.expr(inner)?;
                self.cast(from, &to, pos)
            }
            ExprKind::Unary(op, inner) => self.unary(op, inner, pos),
            ExprKind::Binary(op, a, b) => self.binary(op, a, b, pos),
            ExprKind::Cond(c, a, b) => self.conditional(c, a, b),
            ExprKind::List(items) => {
                let all: Res<Vec<Tv>> = items.iter().map(|i| self.expr(i)).collect();
                let all = all?;
                let tys = all.iter().map(|t| t.ty.clone()).collect();
                Ok(tv(Ty::Tuple(tys), V::List(all)))
            }
            ExprKind::New(ty, _) => {
                let ty = self.ty(ty, &Env::new())?;
                let shown = self.types.show(&ty);
                fault(pos, format!("an instance of {shown} cannot be made here"))
            }
            ExprKind::Mask(..) | ExprKind::Range(..) | ExprKind::Default => {
                fault(pos, "a key set cannot be a value")
            }
        }
    }

    fn name(&mut self, name: &str, pos: Pos) -> Res<Tv> {
        match self.lookup(name) {
            Some(Sym::Const(ty, c)) => Ok(tv(ty.clone(), V::Const(*c))),
            Some(Sym::Var { slot, ty, writable }) => Ok(tv(ty.clone(), V::Place(*slot, *writable))),
            Some(Sym::Obj(obj)) => {
                let ty = match &obj.ext {
                    Some((i, args)) => Ty::Extern(*i, args.clone()),
                    None => Ty::Void,
                };
                Ok(tv(ty, V::Obj(obj.clone())))
            }
            Some(Sym::Type(_)) => fault(pos, format!("`{name}` is a type, not a value")),
            Some(Sym::Action(..)) => fault(pos, format!("`{name}` is an action, not a value")),
            Some(Sym::Table(..)) => fault(pos, format!("`{name}` is a table, not a value")),
            Some(Sym::Fun(_)) => fault(pos, format!("`{name}` is a function, not a value")),
            None => fault(pos, format!("unknown name `{name}`")),
        }
    }

    fn type_member(&mut self, ty: &TypeRef, member: &str) -> Res<Tv> {
        let pos = ty.pos;
        match self.ty(ty, &Env::new())? {
            Ty::Error => match self.code.errors.iter().position(|n| n == member) {
                Some(i) => Ok(tv(Ty::Error, V::Const(i as u128))),
                None => fault(pos, format!("unknown error `{member}`")),
            },
            Ty::Enum(i) => {
                let found = self.types.enums[i]
                    .members
                    .iter()
                    .find(|(n, _)| n == member);
                match found {
                    Some((_, value)) => Ok(tv(Ty::Enum(i), V::Const(*value))),
                    None => {
                        let name = &self.types.enums[i].name;
                        fault(pos, format!("enum {name} has no member `{member}`"))
                    }
                }
            }
            other => fault(pos, format!("{} has no members", self.types.show(&other))),
        }
    }

    fn member(&mut self, inner: &Expr, member: &str, pos: Pos) -> Res<Tv> {
        let base = self.expr(inner)?;
        if let V::Applied(hit, _, _) = &base.v {
            return match member {
                "hit" => Ok(tv(Ty::Bool, V::E(E::S(*hit)))),
                "miss" => Ok(tv(Ty::Bool, V::E(E::LNot(Box::new(E::S(*hit)))))),
                "action_run" => Ok(base),
                _ => fault(pos, format!("a table's result has no `{member}`")),
            };
        }
        if let (Ty::Stack(header, n), V::Place(slot, writable)) = (&base.ty, &base.v) {
            let (header, n, slot) = (*header, *n, *slot);
            return match member {
                "next" if *writable => Ok(tv(Ty::Stack(header, n), V::Next(slot))),
                "next" => fault(pos, "`next` of a read-only stack"),
                "last" => Ok(tv(Ty::Header(header), V::Next(slot))),
                "lastIndex" => {
                    let one = Box::new((E::S(slot), E::C(1)));
                    Ok(tv(
                        Ty::Bits(32, false),
                        V::E(E::Bin(Op::Sub, one, mask(32))),
                    ))
                }
                "size" => Ok(tv(Ty::Bits(32, false), V::Const(n.into()))),
                _ => fault(pos, format!("a header stack has no member `{member}`")),
            };
        }
        if let Ty::Struct(i) = &base.ty {
            self.touched.insert((*i, member.to_owned()));
        }
        let Some((offset, ty)) = self.types.field(&base.ty, member) else {
            let shown = self.types.show(&base.ty);
            return match base.ty {
                Ty::Header(_) | Ty::Struct(_) => {
                    fault(pos, format!("{shown} has no field `{member}`"))
                }
                _ => fault(pos, format!("{shown} has no member `{member}`")),
            };
        };
        match base.v {
            V::Place(slot, writable) => Ok(tv(ty, V::Place(slot + offset, writable))),
            V::Next(slot) => {
                let stride = self.types.size(&base.ty);
                let base = slot + 1 + offset;
                let index = slot;
                Ok(tv(
                    ty,
                    V::E(E::Last {
                        base,
                        index,
                        stride,
                    }),
                ))
            }
            _ => fault(pos, format!("`{member}` cannot be taken from this")),
        }
    }

    fn index(&mut self, inner: &Expr, index: &Expr) -> Res<Tv> {
        let base = self.expr(inner)?;
        let (Ty::Stack(header, n), V::Place(slot, writable)) = (&base.ty, &base.v) else {
            let shown = self.types.show(&base.ty);
            return fault(inner.pos, format!("{shown} cannot be indexed"));
        };
        let (header, n, slot, writable) = (*header, *n, *slot, *writable);
        let i = self.const_int(index)?;
        if !(0..i128::from(n)).contains(&i) {
            return fault(
                index.pos,
                format!("index {i} is outside a stack of {n} headers"),
            );
        }
        let size = self.types.headers[header].size;
        let at = slot + 1 + i as u32 * size;
        Ok(tv(Ty::Header(header), V::Place(at, writable)))
    }

    fn slice(&mut self, inner: &Expr, high: &Expr, low: &Expr) -> Res<Tv> {
        let base = self.expr(inner)?;
        let (high_pos, high, low) = (high.pos, self.const_int(high)?, self.const_int(low)?);
        let Ty::Bits(w, _) = base.ty else {
            let shown = self.types.show(&base.ty);
            return fault(
                inner.pos,
                format!("{shown} has no bits to slice; cast it first"),
            );
        };
        if low < 0 || high < low || high >= i128::from(w) {
            return fault(high_pos, format!("[{high}:{low}] is outside of {} bits", w));
        }
        let (high, low) = (high as u32, low as u32);
        let width = high - low + 1;
        let ty = Ty::Bits(width, false);
        Ok(match base.v {
            V::Const(c) => tv(ty, V::Const(c >> low & mask(width))),
            V::Place(slot, writable) => tv(ty, V::Part(slot, high, low, writable)),
            V::Part(slot, _, from, writable) => {
                tv(ty, V::Part(slot, high + from, low + from, writable))
            }
            _ => {
                let e = self.scalar(&base, inner.pos)?;
                tv(ty, V::E(E::Slice(Box::new(e), low, mask(width))))
            }
        })
    }

    /// A scalar as an expression.
    pub fn scalar(&mut self, value: &Tv, pos: Pos) -> Res<E> {
        match &value.v {
            V::Const(c) => Ok(E::C(*c)),
            V::E(e) => Ok(e.clone()),
            V::Place(slot, _) if self.types.width(&value.ty).is_some() => Ok(E::S(*slot)),
            V::Part(slot, high, low, _) => {
                Ok(E::Slice(Box::new(E::S(*slot)), *low, mask(high - low + 1)))
            }
            _ => {
                let shown = self.types.show(&value.ty);
                fault(pos, format!("a number or bool is needed here, not {shown}"))
            }
        }
    }

    /// What P4 casts by itself: a number without a width to one with it. All else must be equal.
    pub fn coerce(&mut self, value: Tv, ty: &Ty, pos: Pos) -> Res<Tv> {
        if value.ty == *ty || *ty == Ty::Any {
            return Ok(value);
        }
        match (&value.ty, ty, &value.v) {
            (Ty::Int, Ty::Bits(w, signed), V::Const(c)) => {
                let n = *c as i128;
                if !fits(n, *w, *signed) {
                    let shown = self.types.show(ty);
                    return fault(pos, format!("{n} does not fit into {shown}"));
                }
                Ok(tv(ty.clone(), V::Const(*c & mask(*w))))
            }
            (Ty::Bits(a, s), Ty::Bits(b, t), _) => {
                let (from, to) = (self.types.show(&value.ty), self.types.show(ty));
                let what = if s == t {
                    format!("widths {a} and {b} differ")
                } else {
                    "signed and unsigned differ".into()
                };
                fault(
                    pos,
                    format!("cannot use {from} as {to}: {what}; cast with ({to})"),
                )
            }
            _ => {
                let (from, to) = (self.types.show(&value.ty), self.types.show(ty));
                fault(pos, format!("cannot use {from} as {to}"))
            }
        }
    }

    pub fn cast(&mut self, value: Tv, to: &Ty, pos: Pos) -> Res<Tv> {
        if value.ty == *to {
            return Ok(value);
        }
        let no = |l: &Self| {
            let (a, b) = (l.types.show(&value.ty), l.types.show(to));
            fault(pos, format!("cannot cast {a} to {b}"))
        };
        let (from_w, from_signed) = match &value.ty {
            Ty::Bits(w, s) => (*w, *s),
            Ty::Int => (128, true),
            Ty::Bool => (1, false),
            Ty::Enum(i) => match self.types.enums[*i].under {
                Some((w, s)) => (w, s),
                None => return no(self),
            },
            _ => return no(self),
        };
        let (to_w, to_signed) = match to {
            Ty::Bits(w, s) => (*w, *s),
            Ty::Bool if from_w == 1 => (1, false),
            Ty::Int if matches!(value.v, V::Const(_)) => (128, true),
            Ty::Enum(i) => match self.types.enums[*i].under {
                Some((w, s)) if w == from_w || value.ty == Ty::Int => (w, s),
                _ => return no(self),
            },
            _ => return no(self),
        };
        if value.ty == Ty::Bool && to_w != 1 {
            return no(self);
        }
        // P4 changes width or sign, not both at once.
        let sized = matches!((&value.ty, to), (Ty::Bits(..), Ty::Bits(..)));
        if sized && from_signed != to_signed && from_w != to_w {
            return no(self);
        }
        let v = match &value.v {
            V::Const(c) => {
                let wide = if from_signed {
                    sign(*c, from_w) as u128
                } else {
                    *c
                };
                V::Const(wide & mask(to_w))
            }
            _ => {
                let e = self.scalar(&value, pos)?;
                V::E(if to_w <= from_w {
                    if to_w == from_w {
                        e
                    } else {
                        E::Mask(Box::new(e), mask(to_w))
                    }
                } else if from_signed {
                    E::Sext(Box::new(e), from_w, mask(to_w))
                } else {
                    e
                })
            }
        };
        Ok(tv(to.clone(), v))
    }

    fn unary(&mut self, op: &str, inner: &Expr, pos: Pos) -> Res<Tv> {
        let value = self.expr(inner)?;
        if let (Ty::Int, V::Const(c)) = (&value.ty, &value.v) {
            let n = *c as i128;
            return match op {
                "-" => Ok(tv(Ty::Int, V::Const(n.wrapping_neg() as u128))),
                "+" => Ok(value),
                _ => fault(
                    pos,
                    format!("`{op}` needs a number with a width, as in 16w1"),
                ),
            };
        }
        match (op, &value.ty) {
            ("!", Ty::Bool) => Ok(match value.v {
                V::Const(c) => tv(Ty::Bool, V::Const(c ^ 1)),
                _ => {
                    let e = self.scalar(&value, pos)?;
                    tv(Ty::Bool, V::E(E::LNot(Box::new(e))))
                }
            }),
            ("~" | "-" | "+", Ty::Bits(w, _)) => {
                let (ty, m) = (value.ty.clone(), mask(*w));
                let v = match (op, &value.v) {
                    ("+", _) => return Ok(value),
                    ("~", V::Const(c)) => V::Const(!c & m),
                    ("-", V::Const(c)) => V::Const(c.wrapping_neg() & m),
                    _ => {
                        let e = Box::new(self.scalar(&value, pos)?);
                        V::E(if op == "~" {
                            E::Not(e, m)
                        } else {
                            E::Neg(e, m)
                        })
                    }
                };
                Ok(tv(ty, v))
            }
            (_, ty) => {
                let shown = self.types.show(ty);
                fault(pos, format!("`{op}` does not work on {shown}"))
            }
        }
    }

    fn binary(&mut self, op: &'static str, a: &Expr, b: &Expr, pos: Pos) -> Res<Tv> {
        if matches!(op, "&&" | "||") {
            return self.logical(op, a, b);
        }
        let (mut left, mut right) = (self.expr(a)?, self.expr(b)?);
        if matches!(op, "<<" | ">>") {
            return self.shift(op, left, right, b.pos);
        }
        if op == "++" {
            let (Ty::Bits(wa, _), Ty::Bits(wb, _)) = (&left.ty, &right.ty) else {
                return fault(
                    pos,
                    "`++` joins two bit<W>; a number needs a width, as in 4w0",
                );
            };
            let (wa, wb) = (*wa, *wb);
            let w = width_ok((wa + wb).into(), pos)?;
            let ty = Ty::Bits(w, false);
            if let (V::Const(x), V::Const(y)) = (&left.v, &right.v) {
                return Ok(tv(ty, V::Const(x << wb | y)));
            }
            let both = Box::new((self.scalar(&left, a.pos)?, self.scalar(&right, b.pos)?));
            return Ok(tv(ty, V::E(E::Cat(both, wb))));
        }
        // A number without a width takes that of the other side.
        match (&left.ty, &right.ty) {
            (Ty::Int, Ty::Bits(..)) => left = self.coerce(left, &right.ty.clone(), a.pos)?,
            (Ty::Bits(..), Ty::Int) => right = self.coerce(right, &left.ty.clone(), b.pos)?,
            _ => {}
        }
        if left.ty != right.ty {
            let (x, y) = (self.types.show(&left.ty), self.types.show(&right.ty));
            return fault(
                pos,
                format!("`{op}` on {x} and {y}: the types differ; cast one"),
            );
        }
        let compares = matches!(op, "==" | "!=" | "<" | ">" | "<=" | ">=");
        let ordered = !matches!(op, "==" | "!=");
        match &left.ty {
            Ty::Int => {
                let (V::Const(x), V::Const(y)) = (&left.v, &right.v) else {
                    return fault(pos, "a number without a width must be a constant");
                };
                return self.fold_int(op, *x as i128, *y as i128, pos);
            }
            Ty::Bits(..) => {}
            Ty::Bool | Ty::Error | Ty::Enum(_) if !ordered => {}
            Ty::Header(_) | Ty::Struct(_) if !ordered => {
                let shown = self.types.show(&left.ty);
                return fault(
                    pos,
                    format!("comparing whole values of type {shown} is not supported"),
                );
            }
            other => {
                let shown = self.types.show(other);
                return fault(pos, format!("`{op}` does not work on {shown}"));
            }
        }
        let (w, signed) = match left.ty {
            Ty::Bits(w, s) => (w, s),
            _ => (128, false),
        };
        let m = mask(w);
        let ty = if compares { Ty::Bool } else { left.ty.clone() };
        let (mut x, mut y) = (self.scalar(&left, a.pos)?, self.scalar(&right, b.pos)?);
        if signed && ordered && compares {
            // Order of signed numbers: that of unsigned ones with the sign turned.
            let turn = |e| E::Bin(Op::Xor, Box::new((e, E::C(1 << (w - 1)))), m);
            (x, y) = (turn(x), turn(y));
        }
        if matches!(op, ">" | ">=") {
            (x, y) = (y, x);
        }
        let kind = match op {
            "+" => Op::Add,
            "-" => Op::Sub,
            "*" => Op::Mul,
            "&" => Op::And,
            "|" => Op::Or,
            "^" => Op::Xor,
            "==" => Op::Eq,
            "!=" => Op::Ne,
            "<" | ">" => Op::Lt,
            "<=" | ">=" => Op::Le,
            "|+|" if !signed => Op::SatAdd,
            "|-|" if !signed => Op::SatSub,
            "/" | "%" => {
                return fault(
                    pos,
                    format!("`{op}` works on constants only: no switch divides"),
                )
            }
            _ => return fault(pos, format!("`{op}` is not supported on signed numbers")),
        };
        let known = matches!((&left.v, &right.v), (V::Const(_), V::Const(_)));
        let e = E::Bin(kind, Box::new((x, y)), m);
        Ok(tv(
            ty,
            if known {
                V::Const(crate::exec::fold(&e))
            } else {
                V::E(e)
            },
        ))
    }

    fn fold_int(&mut self, op: &str, x: i128, y: i128, pos: Pos) -> Res<Tv> {
        let bool_of = |b: bool| Ok(tv(Ty::Bool, V::Const(b.into())));
        let value = match op {
            "+" => x.checked_add(y),
            "-" => x.checked_sub(y),
            "*" => x.checked_mul(y),
            "/" | "%" if y <= 0 || x < 0 => return fault(pos, "division needs positive numbers"),
            "/" => x.checked_div(y),
            "%" => x.checked_rem(y),
            "&" => Some(x & y),
            "|" => Some(x | y),
            "^" => Some(x ^ y),
            "==" => return bool_of(x == y),
            "!=" => return bool_of(x != y),
            "<" => return bool_of(x < y),
            ">" => return bool_of(x > y),
            "<=" => return bool_of(x <= y),
            ">=" => return bool_of(x >= y),
            _ => {
                return fault(
                    pos,
                    format!("`{op}` needs a number with a width, as in 16w1"),
                )
            }
        };
        match value {
            Some(v) => Ok(tv(Ty::Int, V::Const(v as u128))),
            None => fault(pos, "this constant is too large"),
        }
    }

    fn shift(&mut self, op: &str, left: Tv, right: Tv, pos: Pos) -> Res<Tv> {
        if let (Ty::Int, V::Const(c)) = (&right.ty, &right.v) {
            if *c as i128 >= 4096 || (*c as i128) < 0 {
                return fault(pos, "a shift must be from 0 to 4095");
            }
        } else if !matches!(right.ty, Ty::Bits(_, false)) {
            let shown = self.types.show(&right.ty);
            return fault(pos, format!("a shift's amount must be bit<W>, not {shown}"));
        }
        if let (Ty::Int, V::Const(c), V::Const(n)) = (&left.ty, &left.v, &right.v) {
            let (x, n) = (*c as i128, (*n).min(126) as u32);
            let value = if op == "<<" {
                x.checked_mul(1i128 << n)
            } else {
                Some(x >> n)
            };
            return match value {
                Some(v) => Ok(tv(Ty::Int, V::Const(v as u128))),
                None => fault(pos, "this constant is too large"),
            };
        }
        let Ty::Bits(w, signed) = left.ty else {
            let shown = self.types.show(&left.ty);
            return fault(pos, format!("{shown} cannot be shifted"));
        };
        let known = matches!((&left.v, &right.v), (V::Const(_), V::Const(_)));
        let both = Box::new((self.scalar(&left, pos)?, self.scalar(&right, pos)?));
        let e = match (op, signed) {
            ("<<", _) => E::Bin(Op::Shl, both, mask(w)),
            (_, false) => E::Bin(Op::Shr, both, mask(w)),
            (_, true) => E::Sar(both, w),
        };
        let ty = Ty::Bits(w, signed);
        Ok(tv(
            ty,
            if known {
                V::Const(crate::exec::fold(&e))
            } else {
                V::E(e)
            },
        ))
    }

    fn boolean(&mut self, e: &Expr) -> Res<E> {
        let value = self.expr(e)?;
        if value.ty != Ty::Bool {
            let shown = self.types.show(&value.ty);
            return fault(e.pos, format!("bool is needed here, not {shown}"));
        }
        self.scalar(&value, e.pos)
    }

    fn logical(&mut self, op: &str, a: &Expr, b: &Expr) -> Res<Tv> {
        let left = self.boolean(a)?;
        let mut right = E::C(0);
        let calls = self.nested(|l| {
            right = l.boolean(b)?;
            Ok(())
        })?;
        let kind = if op == "&&" { Op::LAnd } else { Op::LOr };
        if calls.is_empty() {
            return Ok(tv(Ty::Bool, V::E(E::Bin(kind, Box::new((left, right)), 1))));
        }
        // The right side does something: only when the left side asks for it.
        let slot = self.temp(a.pos)?;
        let mut then = calls;
        then.push(St::Set(slot, right));
        self.push(St::Set(slot, left));
        let (yes, no) = if op == "&&" {
            (then, Vec::new())
        } else {
            (Vec::new(), then)
        };
        self.push(St::If(E::S(slot), yes, no));
        Ok(tv(Ty::Bool, V::E(E::S(slot))))
    }

    fn conditional(&mut self, c: &Expr, a: &Expr, b: &Expr) -> Res<Tv> {
        let cond = self.boolean(c)?;
        let (mut yes, mut no) = (self.expr(a)?, self.expr(b)?);
        match (&yes.ty, &no.ty) {
            (Ty::Int, Ty::Bits(..)) => yes = self.coerce(yes, &no.ty.clone(), a.pos)?,
            (Ty::Bits(..), Ty::Int) => no = self.coerce(no, &yes.ty.clone(), b.pos)?,
            _ => {}
        }
        if yes.ty != no.ty || yes.ty == Ty::Int {
            let (x, y) = (self.types.show(&yes.ty), self.types.show(&no.ty));
            return fault(a.pos, format!("the two values of `?:` are {x} and {y}"));
        }
        let all = Box::new((cond, self.scalar(&yes, a.pos)?, self.scalar(&no, b.pos)?));
        Ok(tv(yes.ty, V::E(E::Cond(all))))
    }

    // --- calls --------------------------------------------------------------------------------------

    fn call(&mut self, callee: &Expr, types: &[TypeRef], args: &[Expr], pos: Pos) -> Res<Tv> {
        match &callee.kind {
            ExprKind::Name(name) => match self.lookup(name).cloned() {
                Some(Sym::Action(action, depth)) => self.call_action(&action, depth, args, pos),
                Some(Sym::Fun(overloads)) => {
                    let all: Vec<&Method> = overloads.iter().map(|m| &**m).collect();
                    let call = self.resolve(&all, &Env::new(), types, args, pos)?;
                    self.builtin(name, call, pos)
                }
                Some(_) => fault(pos, format!("`{name}` cannot be called")),
                None => fault(pos, format!("unknown name `{name}`")),
            },
            ExprKind::Member(object, method) => {
                if let ExprKind::Name(name) = &object.kind {
                    if let Some(Sym::Table(table, id)) = self.lookup(name).cloned() {
                        return self.apply_table(&table, id, method, args, pos);
                    }
                }
                let base = self.expr(object)?;
                match &base.v {
                    V::Obj(obj) => self.call_object(&obj.clone(), method, types, args, pos),
                    V::Place(slot, writable) => {
                        self.call_header(&base.ty.clone(), *slot, *writable, method, args, pos)
                    }
                    _ => fault(pos, format!("`{method}` cannot be called on this")),
                }
            }
            _ => fault(pos, "this cannot be called"),
        }
    }

    fn call_header(
        &mut self,
        ty: &Ty,
        slot: Slot,
        writable: bool,
        method: &str,
        args: &[Expr],
        pos: Pos,
    ) -> Res<Tv> {
        let shown = self.types.show(ty);
        let wants = usize::from(matches!(method, "push_front" | "pop_front"));
        if args.len() != wants {
            return fault(pos, format!("`{method}` takes {wants} arguments"));
        }
        match (ty, method) {
            (Ty::Header(_), "isValid") => Ok(tv(Ty::Bool, V::E(E::S(slot)))),
            (Ty::Header(_), "setValid" | "setInvalid") => {
                if !writable {
                    return fault(pos, format!("this {shown} is read-only here"));
                }
                self.push(St::Set(slot, E::C(u128::from(method == "setValid"))));
                Ok(tv(Ty::Void, V::Nothing))
            }
            (Ty::Stack(header, n), "push_front" | "pop_front") => {
                let count = self.const_int(&args[0])?;
                if !(1..=i128::from(*n)).contains(&count) {
                    return fault(pos, format!("`{method}` by {count} on a stack of {n}"));
                }
                let stride = self.types.headers[*header].size;
                let up = method == "push_front";
                self.push(St::Push(slot, *n, stride, count as u32, up));
                Ok(tv(Ty::Void, V::Nothing))
            }
            _ => fault(pos, format!("{shown} has no method `{method}`")),
        }
    }

    fn apply_table(
        &mut self,
        table: &Rc<Table>,
        id: u32,
        method: &str,
        args: &[Expr],
        pos: Pos,
    ) -> Res<Tv> {
        if method != "apply" || !args.is_empty() {
            return fault(pos, format!("a table has `apply()`, not `{method}`"));
        }
        let site = self.site(table, id)?;
        let (hit, action) = (self.temp(pos)?, self.temp(pos)?);
        self.push(St::Table(site, hit, action));
        Ok(tv(Ty::Void, V::Applied(hit, action, table.clone())))
    }

    fn call_action(
        &mut self,
        action: &Rc<Action>,
        depth: usize,
        args: &[Expr],
        pos: Pos,
    ) -> Res<Tv> {
        if action.params.len() != args.len() {
            return fault(
                pos,
                format!(
                    "`{}` takes {} arguments, not {}",
                    action.name,
                    action.params.len(),
                    args.len()
                ),
            );
        }
        let (binds, after) = self.bind(&action.params, args)?;
        let inner = self.scopes.split_off(depth.min(self.scopes.len()));
        self.scopes.push(binds.into_iter().collect());
        let result = self.action_body(action)?;
        self.scopes.pop();
        self.scopes.extend(inner);
        self.cur.extend(after);
        Ok(match result {
            // The slot is written anew by the next call: take the value now.
            Some((slot, ty)) => {
                let copy = self.alloc(&ty, pos)?;
                let size = self.types.size(&ty);
                self.push(St::Copy(copy, slot, size));
                tv(ty, V::Place(copy, false))
            }
            None => tv(Ty::Void, V::Nothing),
        })
    }

    /// Applies a sub-parser or control.
    pub fn apply_block(&mut self, inst: &Rc<Inst>, args: &[Expr], pos: Pos) -> Res<Tv> {
        let block = inst.block.clone();
        if block.is_parser != self.in_parser {
            let kinds = if block.is_parser { "parser" } else { "control" };
            return fault(
                pos,
                format!("`{}` is a {kinds}; it cannot be applied here", block.name),
            );
        }
        if block.params.len() != args.len() {
            return fault(
                pos,
                format!(
                    "`{}` takes {} arguments, not {}",
                    block.name,
                    block.params.len(),
                    args.len()
                ),
            );
        }
        let (binds, after) = self.bind(&block.params, args)?;
        if block.is_parser {
            let code = self.parser(inst, binds)?;
            self.code.parsers.push(code);
            let id = self.code.parsers.len() as u32 - 1;
            self.push(St::SubParser(id));
        } else {
            let code = self.control(inst, binds)?;
            self.cur.extend(code);
        }
        self.cur.extend(after);
        Ok(tv(Ty::Void, V::Nothing))
    }

    /// Parameters to what they mean inside; and what is to be done after the call.
    fn bind(&mut self, params: &[Param], args: &[Expr]) -> Res<Bound> {
        let (mut binds, mut after) = (Vec::new(), Vec::new());
        for (param, arg) in params.iter().zip(args) {
            let ty = self.ty(&param.ty, &Env::new())?;
            let value = self.expr(arg)?;
            if let V::Obj(obj) = &value.v {
                if value.ty != ty {
                    let (a, b) = (self.types.show(&value.ty), self.types.show(&ty));
                    return fault(arg.pos, format!("`{}` is {b}, not {a}", param.name));
                }
                binds.push((param.name.clone(), Sym::Obj(obj.clone())));
                continue;
            }
            let what = format!("argument `{}`", param.name);
            let sym = match param.dir {
                Dir::In | Dir::None => {
                    let slot = self.alloc(&ty, arg.pos)?;
                    self.store(slot, &ty, value, arg.pos, &what)?;
                    let writable = false;
                    Sym::Var { slot, ty, writable }
                }
                Dir::Out | Dir::InOut => {
                    if value.ty != ty {
                        let (a, b) = (self.types.show(&value.ty), self.types.show(&ty));
                        return fault(arg.pos, format!("{what} is {b}, not {a}"));
                    }
                    let writable = true;
                    let slot = match value.v {
                        V::Place(slot, true) => slot,
                        V::Part(slot, high, low, true) => {
                            let copy = self.temp(arg.pos)?;
                            let e = self.scalar(&value, arg.pos)?;
                            self.push(St::Set(copy, e));
                            let m = mask(high - low + 1);
                            after.push(St::SetSlice(slot, low, m, E::S(copy)));
                            copy
                        }
                        _ => {
                            let name = show_expr(arg);
                            return fault(arg.pos, format!("{what}: `{name}` cannot be written"));
                        }
                    };
                    if param.dir == Dir::Out {
                        let size = self.types.size(&ty);
                        self.push(St::Zero(slot, size));
                    }
                    Sym::Var { slot, ty, writable }
                }
            };
            binds.push((param.name.clone(), sym));
        }
        Ok((binds, after))
    }

    /// Fields of a value in order, with widths.
    pub fn bits(&mut self, value: &Tv, pos: Pos) -> Res<Bits> {
        let mut out = Vec::new();
        self.bits_into(value, pos, &mut out)?;
        Ok(out)
    }

    fn bits_into(&mut self, value: &Tv, pos: Pos, out: &mut Bits) -> Res<()> {
        match (&value.ty, &value.v) {
            (_, V::List(items)) => {
                for item in items {
                    self.bits_into(item, pos, out)?;
                }
                Ok(())
            }
            (Ty::Header(_) | Ty::Struct(_), V::Place(slot, w)) => {
                let (fields, mut at) = match &value.ty {
                    Ty::Header(i) => (self.types.headers[*i].fields.clone(), slot + 1),
                    Ty::Struct(i) => (self.types.structs[*i].fields.clone(), *slot),
                    _ => (Vec::new(), 0),
                };
                for (_, ty) in fields {
                    let size = self.types.size(&ty);
                    self.bits_into(&tv(ty, V::Place(at, *w)), pos, out)?;
                    at += size;
                }
                Ok(())
            }
            (Ty::Int, _) => fault(pos, "a number in a list needs a width, as in 16w0"),
            (ty, _) => match self.types.width(ty) {
                Some(w) => {
                    let e = self.scalar(value, pos)?;
                    out.push((e, w));
                    Ok(())
                }
                None => {
                    let shown = self.types.show(ty);
                    fault(pos, format!("{shown} cannot be part of this list"))
                }
            },
        }
    }
}

/// What parameters mean inside, and what is to be done after the call.
type Bound = (Vec<(String, Sym)>, Vec<St>);

/// A call whose overload is chosen and whose arguments fit.
pub(crate) struct Call {
    pub args: Vec<(Dir, Tv, Expr)>,
    pub ret: Ty,
}

impl Lower {
    /// Chooses among overloads by the number of arguments, infers type parameters, checks the types.
    pub fn resolve(
        &mut self,
        overloads: &[&Method],
        outer: &Env,
        types: &[TypeRef],
        args: &[Expr],
        pos: Pos,
    ) -> Res<Call> {
        let fits = |m: &&&Method| {
            let needed = m.params.iter().filter(|p| !p.optional).count();
            (needed..=m.params.len()).contains(&args.len())
        };
        let Some(&method) = overloads.iter().find(fits) else {
            let name = overloads.first().map_or("", |m| &m.name);
            let wants: Vec<String> = overloads
                .iter()
                .map(|m| m.params.len().to_string())
                .collect();
            return fault(
                pos,
                format!(
                    "`{name}` takes {} arguments, not {}",
                    wants.join(" or "),
                    args.len()
                ),
            );
        };
        let mut env = outer.clone();
        for name in &method.type_params {
            env.insert(name.clone(), Ty::Var(name.clone()));
        }
        let mut binds: Env = HashMap::new();
        if !types.is_empty() {
            if types.len() != method.type_params.len() {
                return fault(
                    pos,
                    format!(
                        "`{}` takes {} type arguments, not {}",
                        method.name,
                        method.type_params.len(),
                        types.len()
                    ),
                );
            }
            for (name, ty) in method.type_params.iter().zip(types) {
                let ty = self.ty(ty, &Env::new())?;
                binds.insert(name.clone(), ty);
            }
        }
        let mut values = Vec::new();
        for (param, arg) in method.params.iter().zip(args) {
            let formal = self.ty(&param.ty, &env)?;
            let value = self.expr(arg)?;
            if !self.types.unify(&formal, &value.ty, &mut binds) {
                let want = self.types.show(&subst(&formal, &binds));
                let got = self.types.show(&value.ty);
                return fault(
                    arg.pos,
                    format!(
                        "argument `{}` of `{}` is {want}, not {got}",
                        param.name, method.name
                    ),
                );
            }
            values.push((param.dir, formal, value, arg.clone()));
        }
        let mut out = Vec::new();
        for (dir, formal, value, arg) in values {
            let want = subst(&formal, &binds);
            if value.ty == Ty::Int && matches!(want, Ty::Var(_)) {
                return fault(arg.pos, "this number needs a width, as in 16w1");
            }
            let value = match &value.v {
                V::List(_) | V::Obj(_) | V::Next(_) => value,
                _ => self.coerce(value, &want, arg.pos)?,
            };
            if matches!(dir, Dir::Out | Dir::InOut)
                && !matches!(
                    value.v,
                    V::Place(_, true) | V::Part(_, _, _, true) | V::Next(_)
                )
            {
                let name = show_expr(&arg);
                return fault(arg.pos, format!("`{name}` cannot be written"));
            }
            out.push((dir, value, arg));
        }
        let ret = match &method.ret {
            Some(ty) => {
                let ty = self.ty(ty, &env)?;
                subst(&ty, &binds)
            }
            None => Ty::Void,
        };
        Ok(Call { args: out, ret })
    }
}
