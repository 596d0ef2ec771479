// SPDX-License-Identifier: GPL-2.0

//! Types, and what they are called.

use crate::source::{fault, Pos, Res};
use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ty {
    Bits(u32, bool),
    /// A number without a width.
    Int,
    Bool,
    Error,
    Text,
    Void,
    Enum(usize),
    Header(usize),
    Struct(usize),
    Stack(usize, u32),
    Tuple(Vec<Ty>),
    Extern(usize, Vec<Ty>),
    /// A parser or control type with its arguments.
    Block(usize, Vec<Ty>),
    Package(usize, Vec<Ty>),
    /// A type parameter.
    Var(String),
    Any,
}

#[derive(Clone, Debug)]
pub(crate) struct FieldsTy {
    pub name: String,
    pub fields: Vec<(String, Ty)>,
    /// Slots of all of it.
    pub size: u32,
    /// Index among layouts, of a header.
    pub layout: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct EnumTy {
    pub name: String,
    pub members: Vec<(String, u128)>,
    pub under: Option<(u32, bool)>,
}

/// All types of a program.
#[derive(Default)]
pub(crate) struct Types {
    pub headers: Vec<FieldsTy>,
    pub structs: Vec<FieldsTy>,
    pub enums: Vec<EnumTy>,
    pub extern_names: Vec<String>,
    pub block_names: Vec<String>,
    pub package_names: Vec<String>,
}

impl Types {
    pub fn show(&self, ty: &Ty) -> String {
        let list = |tys: &[Ty]| {
            let all: Vec<String> = tys.iter().map(|t| self.show(t)).collect();
            all.join(", ")
        };
        let applied = |name: &str, args: &[Ty]| {
            if args.is_empty() {
                name.to_owned()
            } else {
                format!("{name}<{}>", list(args))
            }
        };
        match ty {
            Ty::Bits(w, false) => format!("bit<{w}>"),
            Ty::Bits(w, true) => format!("int<{w}>"),
            Ty::Int => "int".into(),
            Ty::Bool => "bool".into(),
            Ty::Error => "error".into(),
            Ty::Text => "string".into(),
            Ty::Void => "void".into(),
            Ty::Enum(i) => self.enums[*i].name.clone(),
            Ty::Header(i) => self.headers[*i].name.clone(),
            Ty::Struct(i) => self.structs[*i].name.clone(),
            Ty::Stack(i, n) => format!("{}[{n}]", self.headers[*i].name),
            Ty::Tuple(tys) => format!("tuple<{}>", list(tys)),
            Ty::Extern(i, args) => applied(&self.extern_names[*i], args),
            Ty::Block(i, args) => applied(&self.block_names[*i], args),
            Ty::Package(i, args) => applied(&self.package_names[*i], args),
            Ty::Var(name) => name.clone(),
            Ty::Any => "_".into(),
        }
    }

    /// Slots that a value takes.
    pub fn size(&self, ty: &Ty) -> u32 {
        match ty {
            Ty::Header(i) => self.headers[*i].size,
            Ty::Struct(i) => self.structs[*i].size,
            Ty::Stack(i, n) => 1 + n * self.headers[*i].size,
            Ty::Tuple(tys) => tys.iter().map(|t| self.size(t)).sum(),
            _ => 1,
        }
    }

    /// Bits of a scalar in a packet or a list.
    pub fn width(&self, ty: &Ty) -> Option<u32> {
        match ty {
            Ty::Bits(w, _) => Some(*w),
            Ty::Bool => Some(1),
            Ty::Enum(i) => Some(self.enums[*i].under.map_or(32, |(w, _)| w)),
            Ty::Error => Some(32),
            _ => None,
        }
    }

    /// Where a field lies from the start of its struct or header, and its type.
    pub fn field(&self, ty: &Ty, name: &str) -> Option<(u32, Ty)> {
        let (fields, mut at) = match ty {
            Ty::Header(i) => (&self.headers[*i].fields, 1),
            Ty::Struct(i) => (&self.structs[*i].fields, 0),
            _ => return None,
        };
        for (field, ty) in fields {
            if field == name {
                return Some((at, ty.clone()));
            }
            at += self.size(ty);
        }
        None
    }

    /// Makes `formal`, which may hold type parameters, into `actual`; false when it cannot be.
    pub fn unify(&self, formal: &Ty, actual: &Ty, binds: &mut HashMap<String, Ty>) -> bool {
        match (formal, actual) {
            (Ty::Any, _) | (_, Ty::Any) => true,
            (Ty::Var(name), _) => match binds.get(name) {
                Some(bound) => {
                    let bound = bound.clone();
                    bound == *actual || *actual == Ty::Int && matches!(bound, Ty::Bits(..))
                }
                None => {
                    if *actual != Ty::Int {
                        binds.insert(name.clone(), actual.clone());
                    }
                    true
                }
            },
            (Ty::Bits(..), Ty::Int) => true,
            (Ty::Tuple(a), Ty::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.unify(a, b, binds))
            }
            (Ty::Struct(i), Ty::Tuple(b)) => {
                let fields = &self.structs[*i].fields;
                fields.len() == b.len()
                    && fields
                        .iter()
                        .zip(b)
                        .all(|((_, a), b)| self.unify(a, b, binds))
            }
            (Ty::Extern(i, a), Ty::Extern(j, b))
            | (Ty::Block(i, a), Ty::Block(j, b))
            | (Ty::Package(i, a), Ty::Package(j, b)) => {
                i == j
                    && a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| self.unify(a, b, binds))
            }
            (a, b) => a == b,
        }
    }
}

/// `ty` with its parameters replaced.
pub(crate) fn subst(ty: &Ty, binds: &HashMap<String, Ty>) -> Ty {
    let all = |tys: &[Ty]| tys.iter().map(|t| subst(t, binds)).collect();
    match ty {
        Ty::Var(name) => binds.get(name).cloned().unwrap_or_else(|| ty.clone()),
        Ty::Tuple(tys) => Ty::Tuple(all(tys)),
        Ty::Extern(i, tys) => Ty::Extern(*i, all(tys)),
        Ty::Block(i, tys) => Ty::Block(*i, all(tys)),
        Ty::Package(i, tys) => Ty::Package(*i, all(tys)),
        other => other.clone(),
    }
}

/// Whether a constant fits.
pub(crate) fn fits(value: i128, width: u32, signed: bool) -> bool {
    if signed {
        let half = 1i128 << (width - 1).min(126);
        width > 126 || (-half..half).contains(&value)
    } else {
        value >= 0 && (width >= 127 || value < 1i128 << width)
    }
}

pub(crate) fn width_ok(width: i128, pos: Pos) -> Res<u32> {
    match width {
        1..=128 => Ok(width as u32),
        129.. => fault(
            pos,
            format!("a width of {width} bits is not supported: at most 128"),
        ),
        _ => fault(pos, format!("a width must be at least 1, not {width}")),
    }
}
