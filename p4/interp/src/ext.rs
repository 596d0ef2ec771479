// SPDX-License-Identifier: GPL-2.0

//! What the architectures' externs do. Their signatures come from the files in `arch/`; here each becomes
//! statements.

use crate::ast::*;
use crate::expr::Call;
use crate::ir::*;
use crate::lower::*;
use crate::source::{fault, Pos, Res};
use crate::types::*;
use std::collections::HashMap;
use std::rc::Rc;

fn nothing() -> Tv {
    Tv {
        ty: Ty::Void,
        v: V::Nothing,
    }
}

impl Lower {
    /// Makes an extern object.
    pub fn make_extern(
        &mut self,
        ext: usize,
        targs: Vec<Ty>,
        decl: &Rc<Instance>,
        name: String,
    ) -> Res<Rc<Obj>> {
        let pos = decl.pos;
        let external = self.externs[ext].clone();
        let env: Env = external
            .type_params
            .iter()
            .cloned()
            .zip(targs.iter().cloned())
            .collect();
        let ctors: Vec<&Method> = external
            .methods
            .iter()
            .filter(|m| m.ret.is_none())
            .collect();
        if ctors.is_empty() {
            return fault(pos, format!("{} cannot be instantiated", external.name));
        }
        let call = self.resolve(&ctors, &env, &[], &decl.args, pos)?;
        let number = |i: usize| match call.args.get(i) {
            Some((_, Tv { v: V::Const(c), .. }, _)) => Some(*c),
            _ => None,
        };
        let size = || match number(0) {
            Some(n) if (1..=MAX_ARRAY as u128).contains(&n) => Ok(n as u32),
            Some(n) => fault(
                pos,
                format!("`{}`: a size of {n} is not supported", decl.name),
            ),
            None => fault(
                pos,
                format!("the size of `{}` must be a constant", decl.name),
            ),
        };
        let abstracts = external.methods.iter().filter(|m| m.is_abstract).count();
        if decl.methods.len() != abstracts {
            return fault(
                pos,
                format!(
                    "{} wants {abstracts} methods in braces, not {}",
                    external.name,
                    decl.methods.len()
                ),
            );
        }
        let kind = match external.name.as_str() {
            "register" | "Register" => {
                let size = size()?;
                let masks = self.cells(&targs[0], pos)?;
                let init = vec![number(1).unwrap_or(0); masks.len()];
                self.code.registers.push(RegInfo {
                    name,
                    size,
                    cells: masks.len() as u32,
                    init,
                    masks,
                });
                ObjKind::Reg {
                    id: self.code.registers.len() as u32 - 1,
                    ty: targs[0].clone(),
                }
            }
            "RegisterAction" => {
                let Some((_, Tv { v: V::Obj(reg), .. }, _)) = call.args.first() else {
                    return fault(pos, "a RegisterAction needs a Register");
                };
                let ObjKind::Reg { id, ty } = &reg.kind else {
                    return fault(pos, "a RegisterAction needs a Register");
                };
                let apply = decl.methods[0].clone();
                if apply.name != "apply" {
                    return fault(apply.pos, "a RegisterAction has the method `apply`");
                }
                ObjKind::RegAction {
                    reg: *id,
                    ty: ty.clone(),
                    ret: targs[2].clone(),
                    apply,
                }
            }
            "Hash" => {
                let kind = self.hash_kind(&call.args[0].1, pos)?;
                ObjKind::Hash(kind)
            }
            "Checksum" => {
                self.code.checksums += 1;
                ObjKind::Checksum(self.code.checksums - 1)
            }
            "counter" | "Counter" => {
                let size = size()?;
                self.code.counters.push(ArrayInfo { name, size });
                ObjKind::Counter(self.code.counters.len() as u32 - 1)
            }
            "Lpf" => {
                let size = size()?;
                self.code.lpfs.push(ArrayInfo { name, size });
                ObjKind::Lpf(self.code.lpfs.len() as u32 - 1)
            }
            other => return fault(pos, format!("extern {other} is not supported")),
        };
        Ok(Rc::new(Obj {
            ext: Some((ext, targs)),
            kind,
        }))
    }

    /// The scalars of a register's element.
    fn cells(&mut self, ty: &Ty, pos: Pos) -> Res<Vec<u128>> {
        let tys: Vec<Ty> = match ty {
            Ty::Struct(i) => self.types.structs[*i]
                .fields
                .iter()
                .map(|f| f.1.clone())
                .collect(),
            other => vec![other.clone()],
        };
        let widths: Option<Vec<u32>> = tys.iter().map(|t| self.types.width(t)).collect();
        match widths {
            Some(widths) => Ok(widths.into_iter().map(mask).collect()),
            None => {
                let shown = self.types.show(ty);
                fault(pos, format!("a register cannot hold {shown}"))
            }
        }
    }

    fn hash_kind(&mut self, value: &Tv, pos: Pos) -> Res<HashKind> {
        let (Ty::Enum(i), V::Const(c)) = (&value.ty, &value.v) else {
            return fault(pos, "the algorithm must be a constant");
        };
        let name = self.types.enums[*i].members[*c as usize].0.to_lowercase();
        Ok(match name.as_str() {
            "crc32" => HashKind::Crc32,
            "crc16" => HashKind::Crc16,
            "identity" => HashKind::Identity,
            "csum16" => HashKind::Csum16,
            "xor16" => HashKind::Xor16,
            _ => return fault(pos, format!("hash algorithm {name} is not supported")),
        })
    }

    /// In check mode: what is made but maybe not called.
    pub fn check_object(&mut self, obj: &Rc<Obj>, pos: Pos) -> Res<()> {
        if let ObjKind::RegAction { .. } = &obj.kind {
            let cur = std::mem::take(&mut self.cur);
            self.register_action(obj, E::C(0), pos)?;
            self.cur = cur;
        }
        Ok(())
    }

    /// Runs a RegisterAction; the slot of what it returns.
    fn register_action(&mut self, obj: &Rc<Obj>, index: E, pos: Pos) -> Res<Slot> {
        let ObjKind::RegAction {
            reg,
            ty,
            ret,
            apply,
        } = &obj.kind
        else {
            return fault(pos, "not a RegisterAction");
        };
        if !(1..=2).contains(&apply.params.len()) {
            return fault(
                apply.pos,
                "`apply` takes the value and, if wanted, the result",
            );
        }
        let value = self.alloc(ty, pos)?;
        let result = self.alloc(ret, pos)?;
        let mut scope = HashMap::new();
        for (param, (slot, want, dir)) in apply
            .params
            .iter()
            .zip([(value, ty, Dir::InOut), (result, ret, Dir::Out)])
        {
            let have = self.ty(&param.ty, &Env::new())?;
            if have != *want || param.dir != dir {
                let shown = self.types.show(want);
                let dir = if dir == Dir::Out { "out" } else { "inout" };
                return fault(
                    param.pos,
                    format!("`{}` must be `{dir} {shown}`", param.name),
                );
            }
            let (ty, writable) = (have, true);
            scope.insert(param.name.clone(), Sym::Var { slot, ty, writable });
        }
        // The control's own names, but not those of the action that calls.
        let inner = self.scopes.split_off(1.min(self.scopes.len()));
        self.scopes.push(scope);
        let outer = std::mem::take(&mut self.cur);
        let size = self.types.size(ret);
        self.push(St::Zero(result, size));
        self.action_body(apply)?;
        let body = std::mem::replace(&mut self.cur, outer);
        self.scopes.pop();
        self.scopes.extend(inner);
        self.push(St::RegAction(*reg, index, value, body));
        Ok(result)
    }

    /// Calls a method of an object.
    pub fn call_object(
        &mut self,
        obj: &Rc<Obj>,
        method: &str,
        types: &[TypeRef],
        args: &[Expr],
        pos: Pos,
    ) -> Res<Tv> {
        if let ObjKind::Block(inst) = &obj.kind {
            if method != "apply" {
                return fault(pos, format!("a block has `apply`, not `{method}`"));
            }
            return self.apply_block(inst, args, pos);
        }
        let Some((ext, targs)) = &obj.ext else {
            return fault(pos, format!("`{method}` cannot be called"));
        };
        let external = self.externs[*ext].clone();
        let env: Env = external
            .type_params
            .iter()
            .cloned()
            .zip(targs.iter().cloned())
            .collect();
        let overloads: Vec<&Method> = external
            .methods
            .iter()
            .filter(|m| m.name == method && m.ret.is_some() && !m.is_abstract)
            .collect();
        if overloads.is_empty() {
            return fault(pos, format!("{} has no method `{method}`", external.name));
        }
        let call = self.resolve(&overloads, &env, types, args, pos)?;
        match (&obj.kind, method) {
            (ObjKind::PacketIn, "extract") => self.extract(call, pos),
            (ObjKind::PacketIn, "lookahead") => self.lookahead(&call, pos),
            (ObjKind::PacketIn, "advance") => {
                let bits = self.scalar(&call.args[0].1, pos)?;
                self.push(St::Advance(bits));
                Ok(nothing())
            }
            (ObjKind::PacketIn, "length") => Ok(Tv {
                ty: call.ret,
                v: V::E(E::PacketLength),
            }),
            (ObjKind::PacketOut, "emit") => {
                let value = &call.args[0].1;
                let V::Place(slot, _) = value.v else {
                    return fault(pos, "emit takes a header, a stack or a struct of them");
                };
                let mut list = Vec::new();
                self.emitted(&value.ty, slot, pos, &mut list)?;
                self.push(St::Emit(list));
                Ok(nothing())
            }
            (ObjKind::Reg { id, .. }, "read") if call.ret == Ty::Void => {
                let index = self.scalar(&call.args[1].1, pos)?;
                let (dst, after) = self.target(&call.args[0], pos)?;
                self.push(St::RegRead(*id, index, dst));
                self.cur.extend(after);
                Ok(nothing())
            }
            (ObjKind::Reg { id, .. }, "read") => {
                let index = self.scalar(&call.args[0].1, pos)?;
                let dst = self.alloc(&call.ret, pos)?;
                self.push(St::RegRead(*id, index, dst));
                Ok(Tv {
                    ty: call.ret,
                    v: V::Place(dst, false),
                })
            }
            (ObjKind::Reg { id, ty }, "write") => {
                let index = self.scalar(&call.args[0].1, pos)?;
                let src = self.alloc(ty, pos)?;
                self.store(
                    src,
                    &ty.clone(),
                    call.args[1].1.clone(),
                    pos,
                    "the register",
                )?;
                self.push(St::RegWrite(*id, index, src));
                Ok(nothing())
            }
            (ObjKind::RegAction { .. }, "execute") => {
                let index = self.scalar(&call.args[0].1, pos)?;
                let result = self.register_action(obj, index, pos)?;
                Ok(Tv {
                    ty: call.ret,
                    v: V::Place(result, false),
                })
            }
            (ObjKind::Hash(kind), "get") => {
                let bits = self.bits(&call.args[0].1, pos)?;
                let dst = self.temp(pos)?;
                let m = mask(self.types.width(&call.ret).unwrap_or(32));
                self.push(St::Hash(*kind, bits, dst, m));
                Ok(Tv {
                    ty: call.ret,
                    v: V::Place(dst, false),
                })
            }
            (ObjKind::Checksum(id), "add" | "subtract") => {
                let bits = self.bits(&call.args[0].1, pos)?;
                self.whole_bytes(&bits, pos)?;
                self.push(St::CsumAdd(*id, bits, method == "subtract"));
                Ok(nothing())
            }
            (ObjKind::Checksum(id), "subtract_all_and_deposit") => {
                let (dst, after) = self.target(&call.args[0], pos)?;
                self.push(St::CsumDeposit(*id, dst));
                self.cur.extend(after);
                Ok(nothing())
            }
            (ObjKind::Checksum(id), "verify") => {
                let dst = self.temp(pos)?;
                self.push(St::CsumGet(*id, dst));
                Ok(Tv {
                    ty: Ty::Bool,
                    v: V::E(E::Bin(Op::Eq, Box::new((E::S(dst), E::C(0))), 1)),
                })
            }
            (ObjKind::Checksum(_), "update") => {
                let bits = self.bits(&call.args[0].1, pos)?;
                self.whole_bytes(&bits, pos)?;
                let ones = match call.args.get(1) {
                    Some((_, value, _)) => self.scalar(value, pos)?,
                    None => E::C(0),
                };
                let dst = self.temp(pos)?;
                self.push(St::CsumUpdate(bits, dst, ones));
                Ok(Tv {
                    ty: call.ret,
                    v: V::Place(dst, false),
                })
            }
            (ObjKind::Counter(id), "count") => {
                let index = self.scalar(&call.args[0].1, pos)?;
                self.push(St::Count(*id, index));
                Ok(nothing())
            }
            (ObjKind::Lpf(id), "execute") => {
                let value = self.scalar(&call.args[0].1, pos)?;
                let index = self.scalar(&call.args[1].1, pos)?;
                let dst = self.temp(pos)?;
                self.push(St::Lpf(*id, value, index, dst));
                Ok(Tv {
                    ty: call.ret,
                    v: V::Place(dst, false),
                })
            }
            _ => fault(pos, format!("{}.{method} is not supported", external.name)),
        }
    }

    fn whole_bytes(&self, bits: &Bits, pos: Pos) -> Res<()> {
        match bits.iter().find(|(_, w)| w % 8 != 0) {
            Some((_, w)) => fault(pos, format!("a checksum takes whole bytes, not {w} bits")),
            None => Ok(()),
        }
    }

    /// A slot to write an `out` argument of one scalar to, and what takes it to its place.
    fn target(&mut self, arg: &(Dir, Tv, Expr), pos: Pos) -> Res<(Slot, Vec<St>)> {
        match arg.1.v {
            V::Place(slot, true) => Ok((slot, Vec::new())),
            V::Part(slot, high, low, true) => {
                let temp = self.temp(pos)?;
                let st = St::SetSlice(slot, low, mask(high - low + 1), E::S(temp));
                Ok((temp, vec![st]))
            }
            _ => fault(pos, format!("`{}` cannot be written", show_expr(&arg.2))),
        }
    }

    fn extract(&mut self, call: Call, pos: Pos) -> Res<Tv> {
        let value = &call.args[0].1;
        match (&value.ty, &value.v) {
            (Ty::Header(i), V::Place(slot, true)) => {
                let layout = self.types.headers[*i].layout;
                self.push(St::Extract(*slot, layout));
            }
            (Ty::Stack(i, n), V::Next(slot)) => {
                let header = &self.types.headers[*i];
                let st = St::ExtractNext(*slot, *n, header.size, header.layout);
                self.push(st);
            }
            (ty, _) => {
                let shown = self.types.show(ty);
                return fault(pos, format!("extract takes a header to write, not {shown}"));
            }
        }
        Ok(nothing())
    }

    fn lookahead(&mut self, call: &Call, pos: Pos) -> Res<Tv> {
        match &call.ret {
            Ty::Bits(w, _) => Ok(Tv {
                ty: call.ret.clone(),
                v: V::E(E::Ahead(0, *w)),
            }),
            Ty::Header(i) => {
                // A header of its own, valid, with each field looked at.
                let slot = self.alloc(&call.ret, pos)?;
                let fields = self.types.headers[*i].fields.clone();
                self.push(St::Set(slot, E::C(1)));
                let mut at = 0;
                for (n, (_, ty)) in fields.iter().enumerate() {
                    let w = self.types.width(ty).unwrap_or(1);
                    self.push(St::Set(slot + 1 + n as u32, E::Ahead(at, w)));
                    at += w;
                }
                Ok(Tv {
                    ty: call.ret.clone(),
                    v: V::Place(slot, false),
                })
            }
            Ty::Var(_) => fault(pos, "lookahead needs a type, as in lookahead<bit<16>>()"),
            ty => {
                let shown = self.types.show(ty);
                fault(pos, format!("lookahead of {shown} is not supported"))
            }
        }
    }

    fn emitted(&mut self, ty: &Ty, slot: Slot, pos: Pos, out: &mut Vec<(Slot, u32)>) -> Res<()> {
        match ty {
            Ty::Header(i) => out.push((slot, self.types.headers[*i].layout)),
            Ty::Stack(i, n) => {
                let header = self.types.headers[*i].clone();
                for k in 0..*n {
                    out.push((slot + 1 + k * header.size, header.layout));
                }
            }
            Ty::Struct(i) => {
                let mut at = slot;
                for (_, ty) in self.types.structs[*i].fields.clone() {
                    self.emitted(&ty, at, pos, out)?;
                    at += self.types.size(&ty);
                }
            }
            other => {
                let shown = self.types.show(other);
                return fault(pos, format!("emit takes headers, not {shown}"));
            }
        }
        Ok(())
    }

    /// Functions of an architecture.
    pub fn builtin(&mut self, name: &str, call: Call, pos: Pos) -> Res<Tv> {
        match name {
            "verify" => {
                let ok = self.scalar(&call.args[0].1, pos)?;
                let what = self.scalar(&call.args[1].1, pos)?;
                self.push(St::Verify(ok, what));
                Ok(nothing())
            }
            "max" | "min" => {
                let (a, b) = (
                    self.scalar(&call.args[0].1, pos)?,
                    self.scalar(&call.args[1].1, pos)?,
                );
                if !matches!(call.ret, Ty::Bits(_, false)) {
                    let shown = self.types.show(&call.ret);
                    return fault(pos, format!("`{name}` of {shown} is not supported"));
                }
                let less = E::Bin(Op::Lt, Box::new((a.clone(), b.clone())), 1);
                let (x, y) = if name == "max" { (b, a) } else { (a, b) };
                Ok(Tv {
                    ty: call.ret,
                    v: V::E(E::Cond(Box::new((less, x, y)))),
                })
            }
            "mark_to_drop" => {
                let (Ty::Struct(_), V::Place(slot, true)) = (&call.args[0].1.ty, &call.args[0].1.v)
                else {
                    return fault(pos, "mark_to_drop takes the standard metadata");
                };
                let slot = *slot;
                let ty = call.args[0].1.ty.clone();
                for (field, value) in [("egress_spec", crate::switch::DROP_PORT), ("mcast_grp", 0)]
                {
                    if let Some((offset, _)) = self.types.field(&ty, field) {
                        self.push(St::Set(slot + offset, E::C(value)));
                    }
                }
                Ok(nothing())
            }
            "hash" => {
                let kind = self.hash_kind(&call.args[1].1, pos)?;
                let base = self.scalar(&call.args[2].1, pos)?;
                let bits = self.bits(&call.args[3].1, pos)?;
                let max = self.scalar(&call.args[4].1, pos)?;
                let Some(w) = self.types.width(&call.args[0].1.ty) else {
                    return fault(pos, "a hash goes into a bit<W>");
                };
                let (dst, after) = self.target(&call.args[0], pos)?;
                self.push(St::HashRange(kind, bits, dst, mask(w), base, max));
                self.cur.extend(after);
                Ok(nothing())
            }
            "update_checksum" => {
                let ok = self.scalar(&call.args[0].1, pos)?;
                let bits = self.bits(&call.args[1].1, pos)?;
                let kind = self.hash_kind(&call.args[3].1, pos)?;
                if kind != HashKind::Csum16 {
                    return fault(pos, "update_checksum works with csum16");
                }
                let total: u32 = bits.iter().map(|b| b.1).sum();
                if total % 16 != 0 {
                    return fault(
                        pos,
                        format!("csum16 over {total} bits: a multiple of 16 is needed"),
                    );
                }
                let (dst, after) = self.target(&call.args[2], pos)?;
                let mut then = vec![St::CsumUpdate(bits, dst, E::C(0))];
                then.extend(after);
                self.push(St::If(ok, then, Vec::new()));
                Ok(nothing())
            }
            _ => fault(pos, format!("`{name}` is not supported")),
        }
    }
}
