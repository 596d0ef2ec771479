// SPDX-License-Identifier: GPL-2.0

//! What a program becomes: names are gone, every variable has a slot of a flat frame, every block is
//! inlined where it is applied. A slot holds a scalar of up to 128 bits; a header is a slot for its
//! validity and one for each field; a stack begins with a slot for its next index.

use std::collections::HashMap;

pub(crate) type Slot = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    SatAdd,
    SatSub,
    Shl,
    Shr,
    And,
    Or,
    Xor,
    Eq,
    Ne,
    Lt,
    Le,
    LAnd,
    LOr,
}

/// An expression; evaluating it changes nothing.
#[derive(Clone, Debug)]
pub(crate) enum E {
    C(u128),
    S(Slot),
    /// A field of the element before `index` of a stack.
    Last {
        base: Slot,
        index: Slot,
        stride: u32,
    },
    /// Results are cut to the mask.
    Bin(Op, Box<(E, E)>, u128),
    /// Arithmetic shift right of a number of that many bits.
    Sar(Box<(E, E)>, u32),
    Not(Box<E>, u128),
    Neg(Box<E>, u128),
    LNot(Box<E>),
    Slice(Box<E>, u32, u128),
    Cat(Box<(E, E)>, u32),
    Mask(Box<E>, u128),
    /// Sign extension from that many bits, cut to the mask.
    Sext(Box<E>, u32, u128),
    Cond(Box<(E, E, E)>),
    /// Bits of the packet from the cursor on: offset and width.
    Ahead(u32, u32),
    PacketLength,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HashKind {
    Crc32,
    Crc16,
    Identity,
    Csum16,
    Xor16,
}

/// Fields in the order of a list, with their widths.
pub(crate) type Bits = Vec<(E, u32)>;

#[derive(Clone, Debug)]
pub(crate) enum St {
    Set(Slot, E),
    SetSlice(Slot, u32, u128, E),
    Copy(Slot, Slot, u32),
    Zero(Slot, u32),
    If(E, Vec<St>, Vec<St>),
    /// By the value in the slot; the last block is the default.
    Switch(E, Vec<(Vec<u128>, Vec<St>)>, Vec<St>),
    /// Ends a `return` inside it.
    Scope(Vec<St>),
    Return,
    Exit,
    /// Applies a table: site, then where hit and the action's number go.
    Table(u32, Slot, Slot),
    Extract(Slot, u32),
    /// Into the next element of a stack: its slot, elements, stride, layout.
    ExtractNext(Slot, u32, u32, u32),
    Advance(E),
    Verify(E, E),
    SubParser(u32),
    /// Headers in order: slot and layout.
    Emit(Vec<(Slot, u32)>),
    RegRead(u32, E, Slot),
    RegWrite(u32, E, Slot),
    /// Register, index, where its value goes, what happens to it.
    RegAction(u32, E, Slot, Vec<St>),
    Hash(HashKind, Bits, Slot, u128),
    /// base + hash % max.
    HashRange(HashKind, Bits, Slot, u128, E, E),
    CsumAdd(u32, Bits, bool),
    CsumDeposit(u32, Slot),
    CsumGet(u32, Slot),
    /// One's complement sum, complemented; whether zero becomes all ones.
    CsumUpdate(Bits, Slot, E),
    Lpf(u32, E, E, Slot),
    Count(u32, E),
    Push(Slot, u32, u32, u32, bool),
}

/// Whether any of `all` may write `slot`, tables' actions included.
pub(crate) fn writes(all: &[St], slot: Slot, sites: &[Site]) -> bool {
    let covers = |from: Slot, n: u32| (from..from.saturating_add(n)).contains(&slot);
    all.iter().any(|st| match st {
        St::Set(to, _) | St::SetSlice(to, ..) | St::RegRead(_, _, to) => *to == slot,
        St::Hash(_, _, to, _) | St::HashRange(_, _, to, ..) | St::Lpf(_, _, _, to) => *to == slot,
        St::CsumDeposit(_, to) | St::CsumGet(_, to) | St::CsumUpdate(_, to, _) => *to == slot,
        St::Copy(to, _, n) | St::Zero(to, n) => covers(*to, *n),
        St::If(_, a, b) => writes(a, slot, sites) || writes(b, slot, sites),
        St::Switch(_, cases, other) => {
            cases.iter().any(|(_, c)| writes(c, slot, sites)) || writes(other, slot, sites)
        }
        St::Scope(body) => writes(body, slot, sites),
        St::RegAction(_, _, to, body) => *to == slot || writes(body, slot, sites),
        St::Table(site, hit, action) => {
            *hit == slot
                || *action == slot
                || sites
                    .get(*site as usize)
                    .is_some_and(|s| s.actions.iter().any(|a| writes(&a.body, slot, sites)))
        }
        St::Return
        | St::Exit
        | St::Extract(..)
        | St::ExtractNext(..)
        | St::Advance(_)
        | St::Verify(..)
        | St::SubParser(_)
        | St::Emit(_)
        | St::RegWrite(..)
        | St::CsumAdd(..)
        | St::Count(..)
        | St::Push(..) => false,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Any,
    Masked(u128, u128),
    Range(u128, u128),
}

impl Match {
    pub fn matches(&self, v: u128) -> bool {
        match *self {
            Self::Any => true,
            Self::Masked(value, mask) => v & mask == value,
            Self::Range(low, high) => (low..=high).contains(&v),
        }
    }
}

pub(crate) const ACCEPT: u32 = u32::MAX;
pub(crate) const REJECT: u32 = u32::MAX - 1;

#[derive(Clone, Debug, Default)]
pub(crate) struct StateCode {
    pub body: Vec<St>,
    pub keys: Vec<E>,
    pub cases: Vec<(Vec<Match>, u32)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ParserCode {
    pub init: Vec<St>,
    pub states: Vec<StateCode>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Exact,
    Ternary,
    Lpm,
    Range,
}

#[derive(Clone, Debug)]
pub(crate) struct ActionInfo {
    pub name: String,
    pub widths: Vec<u32>,
}

/// A table, wherever it is applied.
#[derive(Clone, Debug)]
pub(crate) struct TableInfo {
    pub name: String,
    pub keys: Vec<(KeyKind, u32)>,
    pub actions: Vec<ActionInfo>,
    pub default: (u32, Vec<u128>),
    pub default_const: bool,
    pub entries: Vec<(Vec<Match>, u32, Vec<u128>)>,
    pub entries_const: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ActionCode {
    pub params: Vec<Slot>,
    pub body: Vec<St>,
}

/// A place where a table is applied.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub table: u32,
    pub keys: Vec<E>,
    pub actions: Vec<ActionCode>,
}

/// A register array; `cells` values in each element (two for a pair).
#[derive(Clone, Debug)]
pub(crate) struct RegInfo {
    pub name: String,
    pub size: u32,
    pub cells: u32,
    pub init: Vec<u128>,
    pub masks: Vec<u128>,
}

#[derive(Clone, Debug)]
pub(crate) struct ArrayInfo {
    pub name: String,
    pub size: u32,
}

/// Widths of a header's fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub widths: Vec<u32>,
    pub bits: u32,
}

/// The slots of a struct's fields, by name.
pub(crate) type FieldSlots = HashMap<String, (Slot, u32)>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    pub slots: u32,
    pub layouts: Vec<Layout>,
    pub parsers: Vec<ParserCode>,
    pub tables: Vec<TableInfo>,
    pub sites: Vec<Site>,
    pub registers: Vec<RegInfo>,
    pub lpfs: Vec<ArrayInfo>,
    pub counters: Vec<ArrayInfo>,
    pub checksums: u32,
    pub errors: Vec<String>,
}

pub(crate) fn mask(width: u32) -> u128 {
    if width >= 128 {
        u128::MAX
    } else {
        (1 << width) - 1
    }
}
