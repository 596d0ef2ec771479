// SPDX-License-Identifier: GPL-2.0

//! From the program as written to [`Code`]: names are resolved, types checked, blocks inlined.
//!
//! Every parser and control is first lowered alone and thrown away, so that what nobody uses is checked
//! too; then `main` is elaborated, and what it reaches is lowered again, for good.

use crate::ast::*;
use crate::ir::*;
use crate::source::{fault, Fault, Pos, Res};
use crate::types::*;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

mod states;
mod table;

/// Blocks and actions within each other; P4 has no recursion.
const MAX_DEPTH: usize = 48;
/// Statements of a whole program: blocks that double each other must not eat the machine.
const MAX_STATEMENTS: usize = 1 << 19;
/// Slots of a frame, elements of a stack.
const MAX_SLOTS: u32 = 1 << 16;
const MAX_STACK: i128 = 256;
/// Elements of a register array.
pub(crate) const MAX_ARRAY: i128 = 1 << 22;

/// What a name means.
#[derive(Clone)]
pub(crate) enum Sym {
    Const(Ty, u128),
    Var { slot: Slot, ty: Ty, writable: bool },
    Type(Ty),
    Action(Rc<Action>, usize),
    Table(Rc<Table>, u32),
    Obj(Rc<Obj>),
    Fun(Vec<Rc<Method>>),
}

/// Something that is made once and lives as long as the switch.
pub(crate) struct Obj {
    /// Its extern type, for the methods' signatures.
    pub ext: Option<(usize, Vec<Ty>)>,
    pub kind: ObjKind,
}

pub(crate) enum ObjKind {
    PacketIn,
    PacketOut,
    Reg {
        id: u32,
        ty: Ty,
    },
    RegAction {
        reg: u32,
        ty: Ty,
        ret: Ty,
        apply: Rc<Action>,
    },
    Hash(HashKind),
    Checksum(u32),
    Counter(u32),
    Lpf(u32),
    Block(Rc<Inst>),
}

/// A parser or control that was instantiated.
pub(crate) struct Inst {
    pub block: Rc<Block>,
    pub ctor: Vec<(String, Ty, u128)>,
    pub objects: HashMap<String, Rc<Obj>>,
    pub tables: HashMap<String, u32>,
}

/// A value with its type.
#[derive(Clone)]
pub(crate) struct Tv {
    pub ty: Ty,
    pub v: V,
}

#[derive(Clone)]
pub(crate) enum V {
    Const(u128),
    E(E),
    Place(Slot, bool),
    /// Bits high to low of a variable, to be written.
    Part(Slot, u32, u32, bool),
    /// The next element of a stack, for `extract` alone: slot of the stack.
    Next(Slot),
    List(Vec<Tv>),
    Obj(Rc<Obj>),
    /// A table that was applied: where hit and the action are.
    Applied(Slot, Slot, Rc<Table>),
    Nothing,
}

pub(crate) struct Lower {
    pub types: Types,
    pub match_kinds: Vec<String>,
    pub externs: Vec<Rc<ExternDecl>>,
    pub blocks: Vec<Rc<Block>>,
    pub packages: Vec<Rc<Package>>,
    pub globals: HashMap<String, Sym>,
    pub scopes: Vec<HashMap<String, Sym>>,
    pub code: Code,
    pub cur: Vec<St>,
    pub instances: Vec<Rc<Instance>>,
    pub statements: usize,
    pub depth: usize,
    pub path: Vec<String>,
    /// Where a function's result goes, and its type.
    pub returns: Vec<Option<(Slot, Ty)>>,
    /// Lowering to check alone: actions and tables that are not used count too.
    pub checking: bool,
    pub in_parser: bool,
    /// Struct fields that were read or written, as TYPE.FIELD.
    pub touched: HashSet<(Ty0, String)>,
}

/// Index of a struct type.
pub(crate) type Ty0 = usize;

pub(crate) type Env = HashMap<String, Ty>;

impl Lower {
    pub fn new() -> Self {
        Self {
            types: Types::default(),
            match_kinds: Vec::new(),
            externs: Vec::new(),
            blocks: Vec::new(),
            packages: Vec::new(),
            globals: HashMap::new(),
            scopes: Vec::new(),
            code: Code::default(),
            cur: Vec::new(),
            instances: Vec::new(),
            statements: 0,
            depth: 0,
            path: Vec::new(),
            returns: Vec::new(),
            checking: false,
            in_parser: false,
            touched: HashSet::new(),
        }
    }

    pub fn push(&mut self, st: St) {
        self.statements += 1;
        self.cur.push(st);
    }

    fn deeper(&mut self, pos: Pos, what: &str) -> Res<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return fault(
                pos,
                format!("{what}: nested too deeply; P4 has no recursion"),
            );
        }
        if self.statements > MAX_STATEMENTS {
            return fault(pos, "the program is too large once its blocks are inlined");
        }
        Ok(())
    }

    pub fn alloc(&mut self, ty: &Ty, pos: Pos) -> Res<Slot> {
        let slot = self.code.slots;
        let size = self.types.size(ty);
        self.code.slots = slot.saturating_add(size);
        if self.code.slots > MAX_SLOTS {
            return fault(pos, "the program's variables take too much room");
        }
        Ok(slot)
    }

    pub fn temp(&mut self, pos: Pos) -> Res<Slot> {
        self.alloc(&Ty::Bool, pos)
    }

    pub fn lookup(&self, name: &str) -> Option<&Sym> {
        let inner = self.scopes.iter().rev().find_map(|s| s.get(name));
        inner.or_else(|| self.globals.get(name))
    }

    pub fn declare(&mut self, name: &str, sym: Sym, pos: Pos) -> Res<()> {
        let scope = match self.scopes.last_mut() {
            Some(scope) => scope,
            None => &mut self.globals,
        };
        if scope.insert(name.to_owned(), sym).is_some() {
            return fault(pos, format!("`{name}` is declared twice"));
        }
        Ok(())
    }

    // --- global declarations ------------------------------------------------------------------------

    pub fn program(&mut self, decls: &[Decl]) -> Res<()> {
        for decl in decls {
            self.global(decl)?;
        }
        Ok(())
    }

    fn global(&mut self, decl: &Decl) -> Res<()> {
        match decl {
            Decl::Const(pos, ty, name, value) => self.constant(*pos, ty, name, value),
            Decl::Typedef(pos, ty, name) => {
                let ty = self.ty(ty, &Env::new())?;
                self.declare(name, Sym::Type(ty), *pos)
            }
            Decl::Enum(pos, name, under, members) => self.enumeration(*pos, name, under, members),
            Decl::Errors(names) => {
                for (name, pos) in names {
                    if self.code.errors.contains(name) {
                        return fault(*pos, format!("error.{name} is declared twice"));
                    }
                    self.code.errors.push(name.clone());
                }
                Ok(())
            }
            Decl::MatchKinds(names) => {
                self.match_kinds.extend(names.iter().cloned());
                Ok(())
            }
            Decl::Fields(fields) => self.fields(fields),
            Decl::Extern(decl) => {
                let index = self.externs.len();
                self.externs.push(decl.clone());
                self.types.extern_names.push(decl.name.clone());
                let ty = Ty::Extern(index, Vec::new());
                self.declare(&decl.name, Sym::Type(ty), Pos::default())
            }
            Decl::ExternFn(method) => {
                if let Some(Sym::Fun(all)) = self.globals.get_mut(&method.name) {
                    all.push(method.clone());
                    return Ok(());
                }
                self.declare(&method.name, Sym::Fun(vec![method.clone()]), method.pos)
            }
            Decl::Block(block) => {
                let index = self.blocks.len();
                self.blocks.push(block.clone());
                self.types.block_names.push(block.name.clone());
                let ty = Ty::Block(index, Vec::new());
                self.declare(&block.name, Sym::Type(ty), block.pos)
            }
            Decl::Package(package) => {
                let index = self.packages.len();
                self.packages.push(package.clone());
                self.types.package_names.push(package.name.clone());
                let ty = Ty::Package(index, Vec::new());
                self.declare(&package.name, Sym::Type(ty), Pos::default())
            }
            Decl::Action(action) => {
                let sym = Sym::Action(action.clone(), 0);
                self.declare(&action.name, sym, action.pos)
            }
            Decl::Instance(instance) => {
                self.instances.push(instance.clone());
                Ok(())
            }
            Decl::Table(table) => fault(table.pos, "a table belongs inside a control"),
            Decl::Var(pos, _, name, _) => fault(
                *pos,
                format!("`{name}`: a variable cannot be global; make it a const"),
            ),
        }
    }

    fn constant(&mut self, pos: Pos, ty: &TypeRef, name: &str, value: &Expr) -> Res<()> {
        let ty = self.ty(ty, &Env::new())?;
        let value = self.expr(value)?;
        let value = self.coerce(value, &ty, pos)?;
        let V::Const(value) = value.v else {
            return fault(
                pos,
                format!("the value of `{name}` is not known at compile time"),
            );
        };
        self.declare(name, Sym::Const(ty, value), pos)
    }

    fn enumeration(
        &mut self,
        pos: Pos,
        name: &str,
        under: &Option<TypeRef>,
        members: &[(String, Option<Expr>)],
    ) -> Res<()> {
        let under = match under {
            Some(ty) => match self.ty(ty, &Env::new())? {
                Ty::Bits(w, s) => Some((w, s)),
                _ => return fault(pos, "an enum's type must be bit<W> or int<W>"),
            },
            None => None,
        };
        let mut all = Vec::new();
        for (i, (member, value)) in members.iter().enumerate() {
            let value = match (value, under) {
                (Some(e), Some((w, s))) => {
                    let v = self.expr(e)?;
                    match self.coerce(v, &Ty::Bits(w, s), e.pos)?.v {
                        V::Const(c) => c,
                        _ => return fault(e.pos, "an enum's values must be constants"),
                    }
                }
                (None, None) => i as u128,
                (Some(e), None) => return fault(e.pos, "this enum has no type for values"),
                (None, Some(_)) => return fault(pos, format!("{name}.{member} needs a value")),
            };
            all.push((member.clone(), value));
        }
        let index = self.types.enums.len();
        self.types.enums.push(EnumTy {
            name: name.to_owned(),
            members: all,
            under,
        });
        self.declare(name, Sym::Type(Ty::Enum(index)), pos)
    }

    fn fields(&mut self, decl: &Fields) -> Res<()> {
        let mut fields: Vec<(String, Ty)> = Vec::new();
        let mut size = u32::from(decl.is_header);
        let mut layout = Layout::default();
        for (ty, name, pos) in &decl.fields {
            let ty = self.ty(ty, &Env::new())?;
            if fields.iter().any(|(n, _)| n == name) {
                return fault(*pos, format!("{} has two fields `{name}`", decl.name));
            }
            if decl.is_header {
                match self.types.width(&ty) {
                    Some(w) if !matches!(ty, Ty::Error) => layout.widths.push(w),
                    _ => {
                        return fault(
                            *pos,
                            format!(
                                "a header cannot hold a field of type {}",
                                self.types.show(&ty)
                            ),
                        )
                    }
                }
            } else if matches!(ty, Ty::Int | Ty::Void | Ty::Extern(..) | Ty::Block(..)) {
                return fault(
                    *pos,
                    format!(
                        "a struct cannot hold a field of type {}",
                        self.types.show(&ty)
                    ),
                );
            }
            size = size.saturating_add(self.types.size(&ty));
            fields.push((name.clone(), ty));
        }
        layout.bits = layout.widths.iter().sum();
        let mut made = FieldsTy {
            name: decl.name.clone(),
            fields,
            size,
            layout: 0,
        };
        let ty = if decl.is_header {
            made.layout = self.code.layouts.len() as u32;
            self.code.layouts.push(layout);
            self.types.headers.push(made);
            Ty::Header(self.types.headers.len() - 1)
        } else {
            self.types.structs.push(made);
            Ty::Struct(self.types.structs.len() - 1)
        };
        self.declare(&decl.name, Sym::Type(ty), decl.pos)
    }

    // --- types --------------------------------------------------------------------------------------

    pub fn ty(&mut self, ty: &TypeRef, env: &Env) -> Res<Ty> {
        Ok(match &ty.kind {
            TypeKind::Bool => Ty::Bool,
            TypeKind::Error => Ty::Error,
            TypeKind::Text => Ty::Text,
            TypeKind::Void => Ty::Void,
            TypeKind::Int => Ty::Int,
            TypeKind::DontCare => Ty::Any,
            TypeKind::Varbit => return fault(ty.pos, "varbit is not supported"),
            TypeKind::Bits(width, signed) => {
                let width = self.const_int(width)?;
                Ty::Bits(width_ok(width, ty.pos)?, *signed)
            }
            TypeKind::Tuple(tys) => {
                let all: Res<Vec<Ty>> = tys.iter().map(|t| self.ty(t, env)).collect();
                Ty::Tuple(all?)
            }
            TypeKind::Stack(element, size) => {
                let element = self.ty(element, env)?;
                let size = self.const_int(size)?;
                match element {
                    Ty::Header(i) if (1..=MAX_STACK).contains(&size) => Ty::Stack(i, size as u32),
                    Ty::Header(_) => {
                        return fault(
                            ty.pos,
                            format!("a stack of {size} headers is not supported"),
                        )
                    }
                    other => {
                        let name = self.types.show(&other);
                        return fault(ty.pos, format!("a stack holds headers, not {name}"));
                    }
                }
            }
            TypeKind::Named(name, args) => {
                if let Some(bound) = env.get(name) {
                    return Ok(bound.clone());
                }
                let found = match self.lookup(name) {
                    Some(Sym::Type(t)) => t.clone(),
                    Some(_) => return fault(ty.pos, format!("`{name}` is not a type")),
                    None => return fault(ty.pos, format!("unknown type `{name}`")),
                };
                let args: Res<Vec<Ty>> = args.iter().map(|t| self.ty(t, env)).collect();
                let args = args?;
                let wanted = match &found {
                    Ty::Extern(i, _) => self.externs[*i].type_params.len(),
                    Ty::Block(i, _) => self.blocks[*i].type_params.len(),
                    Ty::Package(i, _) => self.packages[*i].type_params.len(),
                    _ => 0,
                };
                // A package infers what it is not told.
                if args.len() != wanted && !(args.is_empty() && matches!(found, Ty::Package(..))) {
                    return fault(
                        ty.pos,
                        format!("`{name}` takes {wanted} type arguments, not {}", args.len()),
                    );
                }
                match found {
                    Ty::Extern(i, _) => Ty::Extern(i, args),
                    Ty::Block(i, _) => Ty::Block(i, args),
                    Ty::Package(i, _) => Ty::Package(i, args),
                    other => other,
                }
            }
        })
    }

    pub fn const_int(&mut self, e: &Expr) -> Res<i128> {
        let tv = self.expr(e)?;
        match (&tv.ty, &tv.v) {
            (Ty::Int, V::Const(c)) => Ok(*c as i128),
            (Ty::Bits(w, true), V::Const(c)) => Ok(sign(*c, *w)),
            (Ty::Bits(..), V::Const(c)) => Ok(*c as i128),
            _ => fault(e.pos, "expected a number that is known at compile time"),
        }
    }

    // --- instances ----------------------------------------------------------------------------------

    fn full(&self, name: &str) -> String {
        let mut all = self.path.clone();
        all.push(name.to_owned());
        all.join(".")
    }

    /// Makes an instance of a block.
    pub fn instantiate(
        &mut self,
        block: &Rc<Block>,
        args: Vec<(Ty, u128)>,
        pos: Pos,
    ) -> Res<Rc<Inst>> {
        let Some(body) = &block.body else {
            return fault(
                pos,
                format!("`{}` is a type only; it has no body", block.name),
            );
        };
        if let Some(param) = block.type_params.first() {
            return fault(
                block.pos,
                format!(
                    "`{}` has type parameter `{param}`: not supported here",
                    block.name
                ),
            );
        }
        self.deeper(pos, &block.name)?;
        let ctor: Vec<(String, Ty, u128)> = block
            .ctor
            .iter()
            .zip(args)
            .map(|(p, (ty, value))| (p.name.clone(), ty, value))
            .collect();
        let mut inst = Inst {
            block: block.clone(),
            ctor,
            objects: HashMap::new(),
            tables: HashMap::new(),
        };
        let scopes = std::mem::take(&mut self.scopes);
        self.scopes = vec![HashMap::new()];
        for (name, ty, value) in inst.ctor.clone() {
            self.declare(&name, Sym::Const(ty, value), block.pos)?;
        }
        for local in &body.locals {
            match local {
                Decl::Const(pos, ty, name, value) => self.constant(*pos, ty, name, value)?,
                Decl::Instance(decl) => {
                    let obj = self.object(decl)?;
                    self.declare(&decl.name, Sym::Obj(obj.clone()), decl.pos)?;
                    inst.objects.insert(decl.name.clone(), obj);
                }
                Decl::Table(table) => {
                    let id = self.code.tables.len() as u32;
                    // Filled in when it is applied first: its keys' types are known there.
                    self.code.tables.push(TableInfo {
                        name: self.full(&table.name),
                        keys: Vec::new(),
                        actions: Vec::new(),
                        default: (0, Vec::new()),
                        default_const: table.default_const,
                        entries: Vec::new(),
                        entries_const: table.entries.is_some(),
                    });
                    inst.tables.insert(table.name.clone(), id);
                }
                _ => {}
            }
        }
        self.scopes = scopes;
        self.depth -= 1;
        Ok(Rc::new(inst))
    }

    fn object(&mut self, decl: &Rc<Instance>) -> Res<Rc<Obj>> {
        let ty = self.ty(&decl.ty, &Env::new())?;
        match ty {
            Ty::Block(i, _) => {
                let block = self.blocks[i].clone();
                let args = self.ctor_args(&block, &decl.args, decl.pos)?;
                self.path.push(decl.name.clone());
                let inst = self.instantiate(&block, args, decl.pos)?;
                self.path.pop();
                Ok(Rc::new(Obj {
                    ext: None,
                    kind: ObjKind::Block(inst),
                }))
            }
            Ty::Extern(i, targs) => {
                let name = self.full(&decl.name);
                self.make_extern(i, targs, decl, name)
            }
            other => fault(
                decl.pos,
                format!("{} cannot be instantiated", self.types.show(&other)),
            ),
        }
    }

    /// The values of a block's constructor.
    pub fn ctor_args(
        &mut self,
        block: &Rc<Block>,
        args: &[Expr],
        pos: Pos,
    ) -> Res<Vec<(Ty, u128)>> {
        if args.len() != block.ctor.len() {
            return fault(
                pos,
                format!(
                    "`{}` is made with {} arguments, not {}",
                    block.name,
                    block.ctor.len(),
                    args.len()
                ),
            );
        }
        let mut out = Vec::new();
        for (param, arg) in block.ctor.iter().zip(args) {
            let ty = self.ty(&param.ty, &Env::new())?;
            let tv = self.expr(arg)?;
            let tv = self.coerce(tv, &ty, arg.pos)?;
            let V::Const(value) = tv.v else {
                return fault(arg.pos, "a constructor's argument must be a constant");
            };
            out.push((ty, value));
        }
        Ok(out)
    }

    /// Lowers every block with a body alone, to check it.
    pub fn check_all(&mut self) -> Res<()> {
        self.checking = true;
        // Global actions and functions.
        let actions: Vec<Rc<Action>> = self
            .globals
            .values()
            .filter_map(|s| match s {
                Sym::Action(a, _) => Some(a.clone()),
                _ => None,
            })
            .collect();
        for action in actions {
            self.check_action(&action)?;
        }
        for block in self.blocks.clone() {
            if block.body.is_none() {
                continue;
            }
            let mut args = Vec::new();
            for param in &block.ctor {
                let ty = self.ty(&param.ty, &Env::new())?;
                args.push((ty, 1));
            }
            let inst = self.instantiate(&block, args, block.pos)?;
            let mut binds = Vec::new();
            for param in &block.params {
                let sym = self.fresh(param)?;
                binds.push((param.name.clone(), sym));
            }
            if block.is_parser {
                self.parser(&inst, binds)?;
            } else {
                self.control(&inst, binds)?;
            }
            self.cur.clear();
        }
        self.checking = false;
        let kept = std::mem::take(&mut self.code);
        self.code.layouts = kept.layouts;
        self.code.errors = kept.errors;
        self.statements = 0;
        self.touched.clear();
        Ok(())
    }

    /// A parameter with room of its own.
    fn fresh(&mut self, param: &Param) -> Res<Sym> {
        let ty = self.ty(&param.ty, &Env::new())?;
        if let Ty::Extern(i, _) = &ty {
            return self.packet(*i, param.pos);
        }
        let slot = self.alloc(&ty, param.pos)?;
        Ok(Sym::Var {
            slot,
            ty,
            writable: matches!(param.dir, Dir::Out | Dir::InOut),
        })
    }

    /// The packet, as a parameter.
    pub fn packet(&mut self, ext: usize, pos: Pos) -> Res<Sym> {
        let kind = match self.types.extern_names[ext].as_str() {
            "packet_in" => ObjKind::PacketIn,
            "packet_out" => ObjKind::PacketOut,
            name => return fault(pos, format!("{name} cannot be a parameter here")),
        };
        Ok(Sym::Obj(Rc::new(Obj {
            ext: Some((ext, Vec::new())),
            kind,
        })))
    }

    fn check_action(&mut self, action: &Rc<Action>) -> Res<()> {
        let cur = std::mem::take(&mut self.cur);
        let mut scope = HashMap::new();
        for param in &action.params {
            let ty = self.ty(&param.ty, &Env::new())?;
            let slot = self.alloc(&ty, param.pos)?;
            let writable = matches!(param.dir, Dir::Out | Dir::InOut);
            scope.insert(param.name.clone(), Sym::Var { slot, ty, writable });
        }
        self.scopes.push(scope);
        self.action_body(action)?;
        self.scopes.pop();
        self.cur = cur;
        Ok(())
    }

    /// The body of an action or function whose parameters are in scope. A result goes to its slot.
    pub fn action_body(&mut self, action: &Rc<Action>) -> Res<Option<(Slot, Ty)>> {
        self.deeper(action.pos, &action.name)?;
        let result = match &action.ret {
            Some(ty) => match self.ty(ty, &Env::new())? {
                Ty::Void => None,
                ty => Some((self.alloc(&ty, action.pos)?, ty)),
            },
            None => None,
        };
        self.returns.push(result.clone());
        let outer = std::mem::take(&mut self.cur);
        self.block_of(&action.body)?;
        let body = std::mem::replace(&mut self.cur, outer);
        self.returns.pop();
        if has_return(&body) {
            self.push(St::Scope(body));
        } else {
            self.cur.extend(body);
        }
        self.depth -= 1;
        Ok(result)
    }

    // --- controls -----------------------------------------------------------------------------------

    /// Binds a block's own names; the caller takes the scope away again.
    fn enter(&mut self, inst: &Rc<Inst>, binds: Vec<(String, Sym)>) -> Res<()> {
        let block = &inst.block;
        self.scopes = vec![HashMap::new()];
        for (name, ty, value) in &inst.ctor {
            self.declare(name, Sym::Const(ty.clone(), *value), block.pos)?;
        }
        for (name, sym) in binds {
            self.declare(&name, sym, block.pos)?;
        }
        let Some(body) = &block.body else {
            return Ok(());
        };
        for local in &body.locals {
            match local {
                Decl::Const(pos, ty, name, value) => self.constant(*pos, ty, name, value)?,
                Decl::Var(pos, ty, name, value) => self.variable(*pos, ty, name, value)?,
                Decl::Action(action) => {
                    // Checked with what was declared before it alone: P4 wants names in order.
                    if self.checking {
                        self.check_action(action)?;
                    }
                    let sym = Sym::Action(action.clone(), self.scopes.len());
                    self.declare(&action.name, sym, action.pos)?;
                }
                Decl::Table(table) => {
                    let id = inst.tables.get(&table.name).copied().unwrap_or(0);
                    if self.checking {
                        let cur = std::mem::take(&mut self.cur);
                        self.site(table, id)?;
                        self.cur = cur;
                    }
                    self.declare(&table.name, Sym::Table(table.clone(), id), table.pos)?;
                }
                Decl::Instance(decl) => {
                    let Some(obj) = inst.objects.get(&decl.name) else {
                        return fault(decl.pos, format!("`{}` was not made", decl.name));
                    };
                    let obj = obj.clone();
                    if self.checking {
                        self.check_object(&obj, decl.pos)?;
                    }
                    self.declare(&decl.name, Sym::Obj(obj), decl.pos)?;
                }
                Decl::Block(b) => return fault(b.pos, "a block cannot be declared in a block"),
                _ => return fault(block.pos, "this cannot be declared inside a block"),
            }
        }
        Ok(())
    }

    /// The code of a control with its parameters bound.
    pub fn control(&mut self, inst: &Rc<Inst>, binds: Vec<(String, Sym)>) -> Res<Vec<St>> {
        let block = &inst.block;
        self.deeper(block.pos, &block.name)?;
        let Some(body) = &block.body else {
            return Ok(Vec::new());
        };
        let scopes = std::mem::take(&mut self.scopes);
        let outer = std::mem::take(&mut self.cur);
        let returns = std::mem::take(&mut self.returns);
        let in_parser = std::mem::replace(&mut self.in_parser, false);
        self.enter(inst, binds)?;
        self.block_of(&body.apply)?;
        let mut code = std::mem::replace(&mut self.cur, outer);
        if has_return(&code) {
            code = vec![St::Scope(code)];
        }
        self.scopes = scopes;
        self.returns = returns;
        self.in_parser = in_parser;
        self.depth -= 1;
        Ok(code)
    }

    pub fn block_of(&mut self, stmts: &[Stmt]) -> Res<()> {
        self.scopes.push(HashMap::new());
        for stmt in stmts {
            self.stmt(stmt)?;
        }
        self.scopes.pop();
        Ok(())
    }

    fn variable(&mut self, pos: Pos, ty: &TypeRef, name: &str, value: &Option<Expr>) -> Res<()> {
        let ty = self.ty(ty, &Env::new())?;
        if matches!(
            ty,
            Ty::Int | Ty::Void | Ty::Extern(..) | Ty::Block(..) | Ty::Package(..)
        ) {
            let shown = self.types.show(&ty);
            return fault(
                pos,
                format!("`{name}`: a variable cannot have type {shown}"),
            );
        }
        let slot = self.alloc(&ty, pos)?;
        match value {
            Some(e) => {
                let tv = self.expr(e)?;
                self.store(slot, &ty, tv, e.pos, &format!("`{name}`"))?;
            }
            None => {
                let size = self.types.size(&ty);
                self.push(St::Zero(slot, size));
            }
        }
        let writable = true;
        self.declare(name, Sym::Var { slot, ty, writable }, pos)
    }

    /// Writes a value of the same type into a variable.
    pub fn store(&mut self, slot: Slot, ty: &Ty, tv: Tv, pos: Pos, what: &str) -> Res<()> {
        if let (Ty::Struct(_) | Ty::Tuple(_) | Ty::Header(_), V::List(items)) = (ty, &tv.v) {
            let tys: Vec<Ty> = match ty {
                Ty::Struct(i) => self.types.structs[*i]
                    .fields
                    .iter()
                    .map(|f| f.1.clone())
                    .collect(),
                Ty::Header(i) => self.types.headers[*i]
                    .fields
                    .iter()
                    .map(|f| f.1.clone())
                    .collect(),
                Ty::Tuple(tys) => tys.clone(),
                _ => Vec::new(),
            };
            if tys.len() != items.len() {
                return fault(
                    pos,
                    format!("{what} has {} fields, the list {}", tys.len(), items.len()),
                );
            }
            let mut at = slot;
            if matches!(ty, Ty::Header(_)) {
                self.push(St::Set(at, E::C(1)));
                at += 1;
            }
            for (ty, item) in tys.iter().zip(items) {
                self.store(at, ty, item.clone(), pos, what)?;
                at += self.types.size(ty);
            }
            return Ok(());
        }
        let tv = self.coerce(tv, ty, pos).map_err(|f| Fault {
            message: format!("{what}: {}", f.message),
            ..f
        })?;
        let size = self.types.size(ty);
        match tv.v {
            V::Place(from, _)
                if matches!(
                    ty,
                    Ty::Struct(_) | Ty::Header(_) | Ty::Stack(..) | Ty::Tuple(_)
                ) =>
            {
                self.push(St::Copy(slot, from, size));
            }
            _ => {
                let e = self.scalar(&tv, pos)?;
                self.push(St::Set(slot, e));
            }
        }
        Ok(())
    }

    // --- statements ---------------------------------------------------------------------------------

    pub fn stmt(&mut self, stmt: &Stmt) -> Res<()> {
        let pos = stmt.pos;
        match &stmt.kind {
            StmtKind::Empty => Ok(()),
            StmtKind::Block(stmts) => self.block_of(stmts),
            StmtKind::Var(ty, name, value) => self.variable(pos, ty, name, value),
            StmtKind::Const(ty, name, value) => self.constant(pos, ty, name, value),
            StmtKind::Call(e) => {
                self.expr(e)?;
                Ok(())
            }
            StmtKind::Assign(left, right) => self.assign(left, right),
            StmtKind::Exit => {
                if self.in_parser {
                    return fault(pos, "`exit` belongs in a control");
                }
                self.push(St::Exit);
                Ok(())
            }
            StmtKind::Return(value) => {
                let result = self.returns.last().cloned().flatten();
                match (value, result) {
                    (Some(e), Some((slot, ty))) => {
                        let tv = self.expr(e)?;
                        self.store(slot, &ty, tv, e.pos, "the result")?;
                    }
                    (None, None) => {}
                    (Some(e), None) => return fault(e.pos, "nothing is returned here"),
                    (None, Some(_)) => return fault(pos, "a value must be returned here"),
                }
                self.push(St::Return);
                Ok(())
            }
            StmtKind::If(cond, yes, no) => {
                if self.in_parser {
                    return fault(pos, "`if` belongs in a control; a parser uses select");
                }
                let cond_tv = self.expr(cond)?;
                if cond_tv.ty != Ty::Bool {
                    let shown = self.types.show(&cond_tv.ty);
                    return fault(cond.pos, format!("a condition must be bool, not {shown}"));
                }
                let cond = self.scalar(&cond_tv, cond.pos)?;
                let yes = self.nested(|l| l.block_of(std::slice::from_ref(yes)))?;
                let no = match no {
                    Some(no) => self.nested(|l| l.block_of(std::slice::from_ref(no)))?,
                    None => Vec::new(),
                };
                self.push(St::If(cond, yes, no));
                Ok(())
            }
            StmtKind::Switch(on, cases) => self.switch(on, cases),
        }
    }

    /// What `f` emits, apart.
    pub fn nested(&mut self, f: impl FnOnce(&mut Self) -> Res<()>) -> Res<Vec<St>> {
        let outer = std::mem::take(&mut self.cur);
        f(self)?;
        Ok(std::mem::replace(&mut self.cur, outer))
    }

    fn switch(&mut self, on: &Expr, cases: &[(Vec<Expr>, Option<Vec<Stmt>>)]) -> Res<()> {
        let tv = self.expr(on)?;
        let mut out = Vec::new();
        let mut default = Vec::new();
        for (labels, body) in cases {
            let code = match body {
                Some(body) => self.nested(|l| l.block_of(body))?,
                None => Vec::new(),
            };
            let mut values = Vec::new();
            for label in labels {
                match (&label.kind, &tv.v) {
                    (ExprKind::Default, _) => default = code.clone(),
                    (ExprKind::Name(name), V::Applied(_, _, table)) => {
                        let named = |e: &Expr| action_name(e) == Some(name);
                        let Some(i) = table.actions.iter().position(named) else {
                            return fault(
                                label.pos,
                                format!("table `{}` has no action `{name}`", table.name),
                            );
                        };
                        values.push(i as u128);
                    }
                    _ => {
                        let value = self.expr(label)?;
                        match self.coerce(value, &tv.ty, label.pos)?.v {
                            V::Const(c) => values.push(c),
                            _ => return fault(label.pos, "a label must be a constant"),
                        }
                    }
                }
            }
            if !values.is_empty() {
                out.push((values, code));
            }
        }
        let e = match &tv.v {
            V::Applied(_, action, _) => E::S(*action),
            _ => self.scalar(&tv, on.pos)?,
        };
        self.push(St::Switch(e, out, default));
        Ok(())
    }

    fn assign(&mut self, left: &Expr, right: &Expr) -> Res<()> {
        let to = self.expr(left)?;
        let value = self.expr(right)?;
        self.write(&to, value, left, right.pos)
    }

    /// Writes into an l-value.
    pub fn write(&mut self, to: &Tv, value: Tv, left: &Expr, pos: Pos) -> Res<()> {
        let name = show_expr(left);
        match to.v {
            V::Place(slot, true) => self.store(slot, &to.ty, value, pos, &format!("`{name}`")),
            V::Part(slot, high, low, true) => {
                let value = self.coerce(value, &to.ty, pos)?;
                let e = self.scalar(&value, pos)?;
                self.push(St::SetSlice(slot, low, mask(high - low + 1), e));
                Ok(())
            }
            V::Place(_, false) | V::Part(_, _, _, false) => fault(
                left.pos,
                format!("`{name}` is read-only here: it is an `in` parameter or constant"),
            ),
            _ => fault(left.pos, format!("`{name}` cannot be assigned to")),
        }
    }
}

pub(crate) fn sign(value: u128, width: u32) -> i128 {
    let shift = 128 - width.clamp(1, 128);
    ((value << shift) as i128) >> shift
}

fn has_return(body: &[St]) -> bool {
    body.iter().any(|st| match st {
        St::Return => true,
        St::If(_, a, b) => has_return(a) || has_return(b),
        St::Switch(_, cases, d) => cases.iter().any(|(_, c)| has_return(c)) || has_return(d),
        _ => false,
    })
}

pub(crate) fn action_name(e: &Expr) -> Option<&String> {
    match &e.kind {
        ExprKind::Name(n) => Some(n),
        ExprKind::Call(f, _, _) => match &f.kind {
            ExprKind::Name(n) => Some(n),
            _ => None,
        },
        _ => None,
    }
}

/// An l-value as it was written, more or less.
pub(crate) fn show_expr(e: &Expr) -> String {
    match &e.kind {
        ExprKind::Name(n) => n.clone(),
        ExprKind::Member(e, n) => format!("{}.{n}", show_expr(e)),
        ExprKind::Index(e, i) => format!("{}[{}]", show_expr(e), show_expr(i)),
        ExprKind::Slice(e, ..) => format!("{}[..]", show_expr(e)),
        ExprKind::Number(n, _) => n.to_string(),
        ExprKind::Call(f, ..) => format!("{}(...)", show_expr(f)),
        _ => "this expression".into(),
    }
}
