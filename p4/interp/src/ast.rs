// SPDX-License-Identifier: GPL-2.0

//! The program as written.

use crate::source::Pos;
use std::rc::Rc;

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub pos: Pos,
    pub kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Number(u128, Option<(u32, bool)>),
    Bool(bool),
    Name(String),
    /// `T.m`, where T is a type: `error.X`, `Enum.Y`.
    TypeMember(TypeRef, String),
    Member(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    Call(Box<Expr>, Vec<TypeRef>, Vec<Expr>),
    Cast(TypeRef, Box<Expr>),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Cond(Box<Expr>, Box<Expr>, Box<Expr>),
    List(Vec<Expr>),
    /// Key sets only.
    Mask(Box<Expr>, Box<Expr>),
    Range(Box<Expr>, Box<Expr>),
    Default,
    /// An instance without a name: `Parser()` among a package's arguments.
    New(TypeRef, Vec<Expr>),
    Text,
}

#[derive(Clone, Debug)]
pub(crate) struct TypeRef {
    pub pos: Pos,
    pub kind: TypeKind,
}

#[derive(Clone, Debug)]
pub(crate) enum TypeKind {
    Bool,
    Error,
    Text,
    Void,
    Int,
    Bits(Box<Expr>, bool),
    Varbit,
    Tuple(Vec<TypeRef>),
    Stack(Box<TypeRef>, Box<Expr>),
    Named(String, Vec<TypeRef>),
    DontCare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dir {
    None,
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub pos: Pos,
    pub dir: Dir,
    pub ty: TypeRef,
    pub name: String,
    pub optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Stmt {
    pub pos: Pos,
    pub kind: StmtKind,
}

#[derive(Clone, Debug)]
pub(crate) enum StmtKind {
    Empty,
    Assign(Expr, Expr),
    Call(Expr),
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    Block(Vec<Stmt>),
    Var(TypeRef, String, Option<Expr>),
    Const(TypeRef, String, Expr),
    Switch(Expr, Vec<(Vec<Expr>, Option<Vec<Stmt>>)>),
    Return(Option<Expr>),
    Exit,
}

#[derive(Clone, Debug)]
pub(crate) struct Method {
    pub pos: Pos,
    pub name: String,
    pub type_params: Vec<String>,
    /// None for a constructor.
    pub ret: Option<TypeRef>,
    pub params: Vec<Param>,
    pub is_abstract: bool,
}

#[derive(Debug)]
pub(crate) struct ExternDecl {
    pub name: String,
    pub type_params: Vec<String>,
    pub methods: Vec<Method>,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub pos: Pos,
    pub name: String,
    pub params: Vec<Param>,
    pub body: Vec<Stmt>,
    /// Set for a function: what it returns.
    pub ret: Option<TypeRef>,
}

#[derive(Debug)]
pub(crate) struct KeyField {
    pub expr: Expr,
    pub kind: String,
    pub kind_pos: Pos,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub pos: Pos,
    pub keys: Vec<Expr>,
    pub action: Expr,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub pos: Pos,
    pub name: String,
    pub keys: Vec<KeyField>,
    pub actions: Vec<Expr>,
    pub default: Option<Expr>,
    pub default_const: bool,
    pub entries: Option<Vec<Entry>>,
    pub size: Option<Expr>,
}

#[derive(Debug)]
pub(crate) struct Instance {
    pub pos: Pos,
    pub ty: TypeRef,
    pub args: Vec<Expr>,
    pub name: String,
    /// Methods given in braces: a `RegisterAction`'s `apply`.
    pub methods: Vec<Rc<Action>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub pos: Pos,
    pub name: String,
    pub body: Vec<Stmt>,
    pub next: Transition,
}

#[derive(Debug)]
pub(crate) enum Transition {
    To(String, Pos),
    Select(Vec<Expr>, Vec<SelectCase>),
}

#[derive(Debug)]
pub(crate) struct SelectCase {
    pub pos: Pos,
    pub keys: Vec<Expr>,
    pub next: String,
    pub next_pos: Pos,
}

/// A parser or a control.
#[derive(Debug)]
pub(crate) struct Block {
    pub pos: Pos,
    pub name: String,
    pub is_parser: bool,
    pub type_params: Vec<String>,
    pub params: Vec<Param>,
    pub ctor: Vec<Param>,
    /// None when it is only a type, as an architecture declares them.
    pub body: Option<BlockBody>,
}

#[derive(Debug)]
pub(crate) struct BlockBody {
    pub locals: Vec<Decl>,
    pub states: Vec<State>,
    pub apply: Vec<Stmt>,
}

#[derive(Debug)]
pub(crate) struct Package {
    pub name: String,
    pub type_params: Vec<String>,
    pub params: Vec<Param>,
}

#[derive(Debug)]
pub(crate) struct Fields {
    pub pos: Pos,
    pub name: String,
    pub is_header: bool,
    pub fields: Vec<(TypeRef, String, Pos)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Decl {
    Const(Pos, TypeRef, String, Expr),
    Var(Pos, TypeRef, String, Option<Expr>),
    Typedef(Pos, TypeRef, String),
    Enum(Pos, String, Option<TypeRef>, Vec<(String, Option<Expr>)>),
    Errors(Vec<(String, Pos)>),
    MatchKinds(Vec<String>),
    Fields(Rc<Fields>),
    Extern(Rc<ExternDecl>),
    ExternFn(Rc<Method>),
    Block(Rc<Block>),
    Package(Rc<Package>),
    Action(Rc<Action>),
    Table(Rc<Table>),
    Instance(Rc<Instance>),
}
