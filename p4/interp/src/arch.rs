// SPDX-License-Identifier: GPL-2.0

//! The two architectures: what `main` is made of, and which fields the switch itself reads and writes.

use crate::ast::*;
use crate::ir::*;
use crate::lower::*;
use crate::source::{fault, Pos, Res};
use crate::types::*;
use std::rc::Rc;

/// Which architecture a program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// v1model, what BMv2's `simple_switch` runs.
    V1Model,
    /// Tofino 1: `tna.p4`.
    Tofino1,
    /// Tofino 2: `t2na.p4`.
    Tofino2,
}

/// A header that the switch puts in front of the packet for a parser, field by field.
#[derive(Clone, Debug, Default)]
pub(crate) struct Front {
    pub fields: Vec<(String, u32)>,
}

/// A program, ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Linked {
    pub code: Code,
    pub arch: Architecture,
    /// v1model: one parser; Tofino: ingress, egress.
    pub parsers: Vec<ParserCode>,
    /// v1model: verify, ingress, egress, compute, deparser. Tofino: ingress, its deparser, egress, its
    /// deparser.
    pub controls: Vec<Vec<St>>,
    /// Fields of the metadata structs, by struct and field: `standard_metadata.egress_spec`.
    pub fields: FieldSlots,
    pub ingress_front: Front,
    pub egress_front: Front,
    /// Whether the ingress looks at the parser's error; else such packets are dropped (Tofino).
    pub reads_error: bool,
    /// Bits that Tofino puts behind the ingress metadata.
    pub port_metadata_bits: u32,
}

type Binding = (String, Slot, Ty);

impl Lower {
    /// Finds `main` and lowers what it is made of.
    pub fn link(mut self, end: Pos) -> Res<Linked> {
        let instances = self.instances.clone();
        let Some(main) = instances.iter().find(|i| i.name == "main") else {
            return fault(end, "there is no `main`");
        };
        let name = match &main.ty.kind {
            TypeKind::Named(name, _) => name.clone(),
            _ => String::new(),
        };
        let ty = self.ty(&main.ty, &Env::new())?;
        let Ty::Package(package, _) = ty else {
            return fault(main.pos, "`main` must be an instance of a package");
        };
        match name.as_str() {
            "V1Switch" => self.v1model(main, package),
            "Switch" => {
                let pipe = match main.args.first().map(|a| &a.kind) {
                    Some(ExprKind::Name(n)) => instances.iter().find(|i| &i.name == n),
                    _ => None,
                };
                let Some(pipe) = pipe else {
                    return fault(main.pos, "Switch takes the name of a Pipeline");
                };
                let Ty::Package(package, _) = self.ty(&pipe.ty, &Env::new())? else {
                    return fault(pipe.pos, "Switch takes a Pipeline");
                };
                self.tofino(pipe, package)
            }
            _ => fault(main.pos, format!("package {name} is not supported")),
        }
    }

    /// The blocks of a package, each checked against what the package wants there.
    fn parts(&mut self, main: &Rc<Instance>, package: usize) -> Res<Vec<(Rc<Inst>, Rc<Block>)>> {
        let package = self.packages[package].clone();
        if main.args.len() != package.params.len() {
            return fault(
                main.pos,
                format!(
                    "{} is made of {} blocks, not {}",
                    package.name,
                    package.params.len(),
                    main.args.len()
                ),
            );
        }
        let mut env: Env = package
            .type_params
            .iter()
            .map(|p| (p.clone(), Ty::Var(p.clone())))
            .collect();
        let mut binds = Env::new();
        let mut out = Vec::new();
        for (param, arg) in package.params.iter().zip(&main.args) {
            let ExprKind::New(ty, args) = &arg.kind else {
                return fault(arg.pos, "expected a block, as in MyParser()");
            };
            let (Ty::Block(want, targs), Ty::Block(have, _)) =
                (self.ty(&param.ty, &env)?, self.ty(ty, &Env::new())?)
            else {
                return fault(arg.pos, "expected a parser or control");
            };
            let (want, have) = (self.blocks[want].clone(), self.blocks[have].clone());
            self.fits(&want, &targs, &have, &mut binds, arg.pos)?;
            for (name, ty) in &binds {
                env.insert(name.clone(), ty.clone());
            }
            let values = self.ctor_args(&have, args, arg.pos)?;
            self.path = vec![param.name.clone()];
            let inst = self.instantiate(&have, values, arg.pos)?;
            self.path.clear();
            out.push((inst, want));
        }
        Ok(out)
    }

    /// Whether a block has the parameters that its place in the package asks for.
    fn fits(
        &mut self,
        want: &Block,
        targs: &[Ty],
        have: &Block,
        binds: &mut Env,
        pos: Pos,
    ) -> Res<()> {
        if want.is_parser != have.is_parser {
            let kind = if want.is_parser { "parser" } else { "control" };
            return fault(
                pos,
                format!("`{}` must be a {kind} like {}", have.name, want.name),
            );
        }
        let needed = want.params.iter().filter(|p| !p.optional).count();
        if !(needed..=want.params.len()).contains(&have.params.len()) {
            return fault(
                pos,
                format!(
                    "`{}` has {} parameters, {} asks for {}",
                    have.name,
                    have.params.len(),
                    want.name,
                    want.params.len()
                ),
            );
        }
        let inner: Env = want
            .type_params
            .iter()
            .cloned()
            .zip(targs.iter().cloned())
            .collect();
        for (w, h) in want.params.iter().zip(&have.params) {
            let formal = self.ty(&w.ty, &inner)?;
            let actual = self.ty(&h.ty, &Env::new())?;
            if w.dir != h.dir || !self.types.unify(&formal, &actual, binds) {
                let formal = self.types.show(&subst(&formal, binds));
                let actual = self.types.show(&actual);
                return fault(
                    h.pos,
                    format!(
                        "parameter `{}` of `{}` must be `{}{formal}` as in {}, not `{}{actual}`",
                        h.name,
                        have.name,
                        dir(w.dir),
                        want.name,
                        dir(h.dir)
                    ),
                );
            }
        }
        Ok(())
    }

    /// Lowers a block whose parameters are the switch's own variables, by the names its type gives them.
    fn place(
        &mut self,
        part: &(Rc<Inst>, Rc<Block>),
        rooms: &mut Vec<Binding>,
    ) -> Res<(ParserCode, Vec<St>)> {
        let (inst, want) = part;
        let mut binds = Vec::new();
        for (w, h) in want.params.iter().zip(&inst.block.params) {
            let ty = self.ty(&h.ty, &Env::new())?;
            if let Ty::Extern(i, _) = &ty {
                let sym = self.packet(*i, h.pos)?;
                binds.push((h.name.clone(), sym));
                continue;
            }
            // A Tofino's deparser calls the user's metadata differently.
            let room = match w.name.as_str() {
                "ig_md" | "eg_md" => "metadata",
                name => name,
            };
            let slot = match rooms.iter().find(|(name, _, _)| name == room) {
                Some((_, slot, _)) => *slot,
                None => {
                    let slot = self.alloc(&ty, h.pos)?;
                    rooms.push((room.to_owned(), slot, ty.clone()));
                    slot
                }
            };
            let writable = matches!(h.dir, Dir::Out | Dir::InOut);
            binds.push((h.name.clone(), Sym::Var { slot, ty, writable }));
        }
        if inst.block.is_parser {
            Ok((self.parser(inst, binds)?, Vec::new()))
        } else {
            Ok((ParserCode::default(), self.control(inst, binds)?))
        }
    }

    fn slots_of(&self, rooms: &[Binding], into: &mut FieldSlots) {
        for (room, slot, ty) in rooms {
            if let Ty::Struct(i) = ty {
                let mut at = *slot;
                for (field, ty) in &self.types.structs[*i].fields {
                    if let Some(w) = self.types.width(ty) {
                        into.insert(format!("{room}.{field}"), (at, w));
                    }
                    at += self.types.size(ty);
                }
            }
        }
    }

    fn front(&self, name: &str) -> Front {
        let header = self.types.headers.iter().find(|h| h.name == name);
        let fields = header.map_or(Vec::new(), |h| {
            let width = |ty| self.types.width(ty).unwrap_or(0);
            h.fields
                .iter()
                .map(|(n, ty)| (n.clone(), width(ty)))
                .collect()
        });
        Front { fields }
    }

    fn v1model(mut self, main: &Rc<Instance>, package: usize) -> Res<Linked> {
        let parts = self.parts(main, package)?;
        let mut rooms: Vec<Binding> = Vec::new();
        let mut parsers = Vec::new();
        let mut controls = Vec::new();
        for part in &parts {
            let (parser, control) = self.place(part, &mut rooms)?;
            if part.1.is_parser {
                parsers.push(parser);
            } else {
                controls.push(control);
            }
        }
        let mut fields = FieldSlots::new();
        self.slots_of(&rooms, &mut fields);
        Ok(Linked {
            code: self.code,
            arch: Architecture::V1Model,
            parsers,
            controls,
            fields,
            ingress_front: Front::default(),
            egress_front: Front::default(),
            reads_error: true,
            port_metadata_bits: 0,
        })
    }

    fn tofino(mut self, pipe: &Rc<Instance>, package: usize) -> Res<Linked> {
        let parts = self.parts(pipe, package)?;
        let mut parsers = Vec::new();
        let mut controls = Vec::new();
        let mut fields = FieldSlots::new();
        let mut reads_error = false;
        for half in parts.chunks(3) {
            let mut rooms: Vec<Binding> = Vec::new();
            self.touched.clear();
            for part in half {
                let (parser, control) = self.place(part, &mut rooms)?;
                if part.1.is_parser {
                    parsers.push(parser);
                } else {
                    controls.push(control);
                }
            }
            if parsers.len() == 1 {
                reads_error = self.touched.iter().any(|(_, field)| field == "parser_err");
            }
            self.slots_of(&rooms, &mut fields);
        }
        let wide = match self.lookup("PORT_METADATA_SIZE") {
            Some(Sym::Const(_, n)) => *n as u32,
            _ => 64,
        };
        let arch = if wide > 64 {
            Architecture::Tofino2
        } else {
            Architecture::Tofino1
        };
        Ok(Linked {
            ingress_front: self.front("ingress_intrinsic_metadata_t"),
            egress_front: self.front("egress_intrinsic_metadata_t"),
            code: self.code,
            arch,
            parsers,
            controls,
            fields,
            reads_error,
            port_metadata_bits: wide,
        })
    }
}

fn dir(dir: Dir) -> &'static str {
    match dir {
        Dir::None => "",
        Dir::In => "in ",
        Dir::Out => "out ",
        Dir::InOut => "inout ",
    }
}
