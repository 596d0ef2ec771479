// SPDX-License-Identifier: GPL-2.0

//! Running [`Code`] on a packet. Nothing here allocates per packet but the output, and nothing panics:
//! every index was checked when the program was lowered, or is checked here.

use crate::ir::*;
use std::cell::Cell;
use std::collections::HashMap;

/// Parser states per packet; loops consume, this bounds an `advance(0)`.
const MAX_STATES: u32 = 4096;
/// Keys of a table that is looked up by hash; others are searched.
const HASHED: usize = 4;

// As `core.p4` declares them.
pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const TOO_SHORT: u32 = 1;
pub(crate) const NO_MATCH: u32 = 2;
pub(crate) const OUT_OF_BOUNDS: u32 = 3;
pub(crate) const TIMEOUT: u32 = 5;

#[derive(Clone, Debug)]
pub(crate) struct EntryRt {
    pub keys: Vec<Match>,
    pub prefix: u32,
    pub action: u32,
    pub args: Vec<u128>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct TableRt {
    pub entries: Vec<EntryRt>,
    pub exact: Option<HashMap<[u128; HASHED], usize>>,
    pub lpm: bool,
    pub default: (u32, Vec<u128>),
}

impl TableRt {
    pub fn new(info: &TableInfo) -> Self {
        let exact = info.keys.iter().all(|(k, _)| *k == KeyKind::Exact);
        let mut table = Self {
            entries: Vec::new(),
            exact: (exact && (1..=HASHED).contains(&info.keys.len())).then(HashMap::new),
            lpm: info.keys.iter().any(|(k, _)| *k == KeyKind::Lpm),
            default: info.default.clone(),
        };
        for (keys, action, args) in &info.entries {
            table.add(EntryRt {
                prefix: prefix(keys, info),
                keys: keys.clone(),
                action: *action,
                args: args.clone(),
            });
        }
        table
    }

    pub fn add(&mut self, entry: EntryRt) {
        if let Some(exact) = &mut self.exact {
            let mut key = [0; HASHED];
            for (to, m) in key.iter_mut().zip(&entry.keys) {
                if let Match::Masked(v, _) = m {
                    *to = *v;
                }
            }
            // The first one counts, as in a search.
            exact.entry(key).or_insert(self.entries.len());
        }
        self.entries.push(entry);
    }

    /// Replaces the entry with the same keys, if there is one.
    pub fn set(&mut self, entry: EntryRt) {
        match self.entries.iter_mut().find(|e| e.keys == entry.keys) {
            Some(old) => *old = entry,
            None => self.add(entry),
        }
    }

    fn find(&self, key: &[u128]) -> Option<&EntryRt> {
        if let Some(exact) = &self.exact {
            let mut k = [0; HASHED];
            k[..key.len()].copy_from_slice(key);
            return exact.get(&k).and_then(|i| self.entries.get(*i));
        }
        let fits = |e: &&EntryRt| e.keys.iter().zip(key).all(|(m, v)| m.matches(*v));
        let mut all = self.entries.iter().filter(fits);
        if !self.lpm {
            return all.next();
        }
        // The longest; of equals the first.
        all.fold(None, |best: Option<&EntryRt>, e| match best {
            Some(b) if b.prefix >= e.prefix => Some(b),
            _ => Some(e),
        })
    }
}

/// Bits of the prefix of an entry's lpm key.
pub(crate) fn prefix(keys: &[Match], info: &TableInfo) -> u32 {
    let lpm = keys
        .iter()
        .zip(&info.keys)
        .find(|(_, (k, _))| *k == KeyKind::Lpm);
    match lpm {
        Some((Match::Masked(_, m), _)) => m.count_ones(),
        _ => 0,
    }
}

/// One element of an `Lpf`: a level that values raise and that leaks away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LpfRt {
    pub level: u64,
    pub last_ns: u64,
    pub gain: u32,
    pub half_life_shift: u32,
    pub scale_down: u32,
}

impl LpfRt {
    pub const IDLE: Self = Self {
        level: 0,
        last_ns: 0,
        gain: 1,
        half_life_shift: 15,
        scale_down: 0,
    };

    fn execute(&mut self, now_ns: u64, value: u64) -> u64 {
        let gap = now_ns.saturating_sub(self.last_ns);
        let halvings = gap >> self.half_life_shift;
        let level = if halvings > 63 {
            0
        } else {
            self.level >> halvings
        };
        let part = gap & ((1 << self.half_life_shift) - 1);
        let decayed = (u128::from(level) * u128::from(part)) >> (self.half_life_shift + 1);
        let level = level.saturating_sub(decayed as u64);
        self.level = level.saturating_add(value.saturating_mul(self.gain.into()));
        self.last_ns = now_ns;
        self.level >> self.scale_down
    }
}

/// What outlives a packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub tables: Vec<TableRt>,
    pub registers: Vec<Vec<u128>>,
    pub lpfs: Vec<Vec<LpfRt>>,
    pub counters: Vec<Vec<(u64, u64)>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Return,
    Exit,
}

/// A run over one packet.
pub(crate) struct Cpu<'a> {
    pub code: &'a Code,
    pub mem: &'a mut Memory,
    pub frame: &'a mut [u128],
    pub packet: &'a [u8],
    /// The parser's place, bits.
    pub at: usize,
    pub out: &'a mut Vec<u8>,
    pub out_bits: usize,
    pub error: Cell<u32>,
    pub sums: &'a mut Vec<u32>,
    /// Where a residual was left: headers extracted later come off it.
    pub deposit: Option<Slot>,
    pub now_ns: u64,
    pub length: u32,
}

pub(crate) fn bits(packet: &[u8], at: usize, width: u32) -> u128 {
    let (mut value, mut at, mut left) = (0u128, at, width as usize);
    while left > 0 {
        let byte = packet.get(at / 8).copied().unwrap_or(0);
        let room = 8 - at % 8;
        let take = room.min(left);
        let part = (u16::from(byte) >> (room - take)) & ((1 << take) - 1);
        value = value << take | u128::from(part);
        at += take;
        left -= take;
    }
    value
}

pub(crate) fn put(out: &mut Vec<u8>, at: &mut usize, value: u128, width: u32) {
    let mut left = width as usize;
    while left > 0 {
        if *at % 8 == 0 {
            out.push(0);
        }
        let room = 8 - *at % 8;
        let take = room.min(left);
        let part = (value >> (left - take)) as u16 & ((1 << take) - 1);
        if let Some(last) = out.last_mut() {
            *last |= (part << (room - take)) as u8;
        }
        *at += take;
        left -= take;
    }
}

fn arith(op: Op, a: u128, b: u128, m: u128) -> u128 {
    match op {
        Op::Add => a.wrapping_add(b) & m,
        Op::Sub => a.wrapping_sub(b) & m,
        Op::Mul => a.wrapping_mul(b) & m,
        Op::SatAdd => a.checked_add(b).map_or(m, |s| s.min(m)),
        Op::SatSub => a.saturating_sub(b),
        Op::Shl if b > 127 => 0,
        Op::Shl => a << b & m,
        Op::Shr if b > 127 => 0,
        Op::Shr => a >> b,
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Eq => (a == b).into(),
        Op::Ne => (a != b).into(),
        Op::Lt => (a < b).into(),
        Op::Le => (a <= b).into(),
        Op::LAnd => a & b,
        Op::LOr => a | b,
    }
}

fn sar(value: u128, by: u128, width: u32) -> u128 {
    let shift = 128 - width.clamp(1, 128);
    let signed = ((value << shift) as i128) >> shift;
    (signed >> by.min(127)) as u128 & mask(width)
}

/// An operation on constants.
pub(crate) fn fold(e: &E) -> u128 {
    match e {
        E::C(c) => *c,
        E::Bin(op, both, m) => arith(*op, fold(&both.0), fold(&both.1), *m),
        E::Sar(both, w) => sar(fold(&both.0), fold(&both.1), *w),
        _ => 0,
    }
}

/// A one's complement sum of 16-bit words, folded.
fn folded(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

impl Cpu<'_> {
    fn get(&self, slot: Slot) -> u128 {
        self.frame.get(slot as usize).copied().unwrap_or(0)
    }

    fn set(&mut self, slot: Slot, value: u128) {
        if let Some(to) = self.frame.get_mut(slot as usize) {
            *to = value;
        }
    }

    pub fn eval(&self, e: &E) -> u128 {
        match e {
            E::C(c) => *c,
            E::S(slot) => self.get(*slot),
            E::Last {
                base,
                index,
                stride,
            } => {
                let n = self.get(*index);
                match n.checked_sub(1) {
                    Some(i) => self.get(base + i as u32 * stride),
                    None => {
                        self.fail(OUT_OF_BOUNDS);
                        0
                    }
                }
            }
            E::Bin(Op::LAnd, both, _) => {
                if self.eval(&both.0) == 0 {
                    0
                } else {
                    self.eval(&both.1)
                }
            }
            E::Bin(Op::LOr, both, _) => {
                if self.eval(&both.0) != 0 {
                    1
                } else {
                    self.eval(&both.1)
                }
            }
            E::Bin(op, both, m) => arith(*op, self.eval(&both.0), self.eval(&both.1), *m),
            E::Sar(both, w) => sar(self.eval(&both.0), self.eval(&both.1), *w),
            E::Not(e, m) => !self.eval(e) & m,
            E::Neg(e, m) => self.eval(e).wrapping_neg() & m,
            E::LNot(e) => self.eval(e) ^ 1,
            E::Slice(e, low, m) => self.eval(e) >> low & m,
            E::Cat(both, w) => self.eval(&both.0) << w | self.eval(&both.1),
            E::Mask(e, m) => self.eval(e) & m,
            E::Sext(e, w, m) => {
                sar(self.eval(e), 0, *w) & mask(*w) | {
                    let v = self.eval(e);
                    if v >> (w - 1) & 1 == 1 {
                        !mask(*w) & m
                    } else {
                        0
                    }
                }
            }
            E::Cond(all) => {
                if self.eval(&all.0) != 0 {
                    self.eval(&all.1)
                } else {
                    self.eval(&all.2)
                }
            }
            E::Ahead(offset, width) => {
                let at = self.at + *offset as usize;
                if at + *width as usize > self.packet.len() * 8 {
                    self.fail(TOO_SHORT);
                    return 0;
                }
                bits(self.packet, at, *width)
            }
            E::PacketLength => self.length.into(),
        }
    }

    fn fail(&self, error: u32) {
        if self.error.get() == NO_ERROR {
            self.error.set(error);
        }
    }

    pub fn run(&mut self, code: &[St]) -> Flow {
        for st in code {
            let flow = self.step(st);
            if flow != Flow::Next {
                return flow;
            }
        }
        Flow::Next
    }

    fn step(&mut self, st: &St) -> Flow {
        match st {
            St::Set(slot, e) => {
                let v = self.eval(e);
                self.set(*slot, v);
            }
            St::SetSlice(slot, low, m, e) => {
                let v = self.eval(e);
                let old = self.get(*slot);
                self.set(*slot, old & !(m << low) | (v & m) << low);
            }
            St::Copy(to, from, n) => {
                let from = *from as usize..(from + n) as usize;
                if from.end <= self.frame.len() && (to + n) as usize <= self.frame.len() {
                    self.frame.copy_within(from, *to as usize);
                }
            }
            St::Zero(slot, n) => {
                if let Some(part) = self.frame.get_mut(*slot as usize..(slot + n) as usize) {
                    part.fill(0);
                }
            }
            St::If(cond, yes, no) => {
                return if self.eval(cond) != 0 {
                    self.run(yes)
                } else {
                    self.run(no)
                };
            }
            St::Switch(on, cases, default) => {
                let v = self.eval(on);
                let found = cases.iter().find(|(values, _)| values.contains(&v));
                return self.run(found.map_or(default, |(_, body)| body));
            }
            St::Scope(body) => {
                return match self.run(body) {
                    Flow::Exit => Flow::Exit,
                    _ => Flow::Next,
                };
            }
            St::Return => return Flow::Return,
            St::Exit => return Flow::Exit,
            St::Table(site, hit, action) => return self.table(*site, *hit, *action),
            St::Extract(slot, layout) => self.extract(*slot, *layout),
            St::ExtractNext(slot, n, stride, layout) => {
                let next = self.get(*slot);
                if next >= u128::from(*n) {
                    self.fail(OUT_OF_BOUNDS);
                    return Flow::Next;
                }
                self.extract(slot + 1 + next as u32 * stride, *layout);
                if self.error.get() == NO_ERROR {
                    self.set(*slot, next + 1);
                }
            }
            St::Advance(e) => {
                let n = self.eval(e) as usize;
                match self.at.checked_add(n) {
                    Some(at) if at <= self.packet.len() * 8 => self.at = at,
                    _ => self.fail(TOO_SHORT),
                }
            }
            St::Verify(ok, what) => {
                if self.eval(ok) == 0 {
                    let what = self.eval(what) as u32;
                    self.fail(what);
                }
            }
            St::SubParser(id) => self.sub_parser(*id),
            St::Emit(headers) => {
                for (slot, layout) in headers {
                    if self.get(*slot) == 0 {
                        continue;
                    }
                    let layout = &self.code.layouts[*layout as usize];
                    for (i, w) in layout.widths.iter().enumerate() {
                        let v = self.get(slot + 1 + i as u32);
                        put(self.out, &mut self.out_bits, v, *w);
                    }
                }
            }
            St::Push(slot, n, stride, count, up) => {
                self.push_stack(*slot, *n, *stride, *count, *up)
            }
            _ => self.external(st),
        }
        Flow::Next
    }

    fn push_stack(&mut self, slot: Slot, n: u32, stride: u32, count: u32, up: bool) {
        let first = slot as usize + 1;
        let (all, by) = ((n * stride) as usize, (count * stride) as usize);
        if first + all > self.frame.len() || by > all {
            return;
        }
        let cleared = if up {
            self.frame.copy_within(first..first + all - by, first + by);
            first..first + by
        } else {
            self.frame.copy_within(first + by..first + all, first);
            first + all - by..first + all
        };
        self.frame[cleared].fill(0);
        let next = self.get(slot);
        let next = if up {
            (next + u128::from(count)).min(n.into())
        } else {
            next.saturating_sub(count.into())
        };
        self.set(slot, next);
    }

    fn extract(&mut self, slot: Slot, layout: u32) {
        let layout = &self.code.layouts[layout as usize];
        if self.at + layout.bits as usize > self.packet.len() * 8 {
            self.fail(TOO_SHORT);
            return;
        }
        let mut at = self.at;
        self.set(slot, 1);
        for (i, w) in layout.widths.iter().enumerate() {
            let v = bits(self.packet, at, *w);
            self.set(slot + 1 + i as u32, v);
            at += *w as usize;
        }
        if let Some(residual) = self.deposit {
            let mut sum = self.get(residual) as u64;
            for word in (self.at..at).step_by(16) {
                let width = (at - word).min(16) as u32;
                let v = (bits(self.packet, word, width) << (16 - width)) as u64;
                sum += !v & 0xffff;
            }
            self.set(residual, folded(sum).into());
        }
        self.at = at;
    }

    fn table(&mut self, site: u32, hit: Slot, action_slot: Slot) -> Flow {
        let code = self.code;
        let Some(site) = code.sites.get(site as usize) else {
            return Flow::Next;
        };
        let mut few = [0u128; 16];
        let count = site.keys.len().min(16);
        for (to, key) in few.iter_mut().zip(&site.keys) {
            *to = self.eval(key);
        }
        let table = &self.mem.tables[site.table as usize];
        let found = if count == 0 {
            None
        } else {
            table.find(&few[..count])
        };
        let is_hit = found.is_some();
        let (action, args) = match found {
            Some(e) => (e.action, &e.args),
            None => (table.default.0, &table.default.1),
        };
        let Some(run) = site.actions.get(action as usize) else {
            return Flow::Next;
        };
        for (slot, value) in run.params.iter().zip(args) {
            if let Some(to) = self.frame.get_mut(*slot as usize) {
                *to = *value;
            }
        }
        self.set(hit, is_hit.into());
        self.set(action_slot, action.into());
        match self.run(&run.body) {
            Flow::Exit => Flow::Exit,
            _ => Flow::Next,
        }
    }

    fn sub_parser(&mut self, id: u32) {
        let code = self.code;
        if let Some(parser) = code.parsers.get(id as usize) {
            self.parse(parser);
        }
    }

    /// Runs a parser; `error` says how it ended.
    pub fn parse(&mut self, parser: &ParserCode) {
        self.run(&parser.init);
        let mut state = 0u32;
        for _ in 0..MAX_STATES {
            let Some(now) = parser.states.get(state as usize) else {
                break;
            };
            for st in &now.body {
                self.step(st);
                if self.error.get() != NO_ERROR {
                    return;
                }
            }
            let mut keys = [0u128; 16];
            for (to, key) in keys.iter_mut().zip(&now.keys) {
                *to = self.eval(key);
            }
            if self.error.get() != NO_ERROR {
                return;
            }
            let fits = |(matches, _): &&(Vec<Match>, u32)| {
                matches.iter().zip(&keys).all(|(m, v)| m.matches(*v))
            };
            match now.cases.iter().find(fits) {
                Some((_, ACCEPT)) => return,
                Some((_, REJECT)) | None => {
                    self.fail(NO_MATCH);
                    return;
                }
                Some((_, next)) => state = *next,
            }
        }
        self.fail(TIMEOUT);
    }

    /// Sum of 16-bit words of a list of fields, each in turn.
    fn sum(&self, fields: &Bits, inverted: bool) -> u64 {
        let (mut sum, mut word, mut have) = (0u64, 0u64, 0u32);
        let mut add = |w: u64| sum += if inverted { !w & 0xffff } else { w };
        for (e, width) in fields {
            let value = self.eval(e);
            let mut left = *width;
            while left > 0 {
                let take = (16 - have).min(left);
                let part = (value >> (left - take)) as u64 & ((1 << take) - 1);
                word = word << take | part;
                have += take;
                left -= take;
                if have == 16 {
                    add(word);
                    (word, have) = (0, 0);
                }
            }
        }
        if have > 0 {
            add(word << (16 - have));
        }
        sum
    }

    fn hash(&self, kind: HashKind, fields: &Bits) -> u128 {
        match kind {
            HashKind::Csum16 => return u128::from(!folded(self.sum(fields, false))),
            HashKind::Xor16 => {
                let mut x = 0u128;
                let mut odd = 0;
                self.bytes(fields, |b| {
                    x ^= u128::from(b) << (8 * (1 - odd));
                    odd ^= 1;
                });
                return x;
            }
            HashKind::Identity => {
                let mut v = 0u128;
                for (e, w) in fields {
                    v = v.checked_shl(*w).unwrap_or(0) | self.eval(e);
                }
                return v;
            }
            _ => {}
        }
        let (poly, start) = match kind {
            HashKind::Crc16 => (0xa001u32, 0u32),
            _ => (0xedb8_8320, u32::MAX),
        };
        let mut crc = start;
        self.bytes(fields, |b| {
            crc ^= u32::from(b);
            for _ in 0..8 {
                crc = if crc & 1 == 1 {
                    crc >> 1 ^ poly
                } else {
                    crc >> 1
                };
            }
        });
        let done = if start == 0 { crc } else { !crc };
        done.into()
    }

    /// The bytes of a list of fields, the last one filled up with zeroes.
    fn bytes(&self, fields: &Bits, mut each: impl FnMut(u8)) {
        let (mut byte, mut have) = (0u16, 0u32);
        for (e, width) in fields {
            let value = self.eval(e);
            let mut left = *width;
            while left > 0 {
                let take = (8 - have).min(left);
                byte = byte << take | (value >> (left - take)) as u16 & ((1 << take) - 1);
                have += take;
                left -= take;
                if have == 8 {
                    each(byte as u8);
                    (byte, have) = (0, 0);
                }
            }
        }
        if have > 0 {
            each((byte << (8 - have)) as u8);
        }
    }

    /// Where an element of a register lies; outside of it nothing happens.
    fn element(&self, reg: u32, index: u128) -> Option<(usize, usize)> {
        let info = self.code.registers.get(reg as usize)?;
        if index >= u128::from(info.size) {
            return None;
        }
        let cells = info.cells as usize;
        Some((index as usize * cells, cells))
    }

    fn external(&mut self, st: &St) {
        match st {
            St::RegRead(reg, index, dst) => {
                let index = self.eval(index);
                if let Some((at, cells)) = self.element(*reg, index) {
                    for i in 0..cells {
                        let v = self.mem.registers[*reg as usize][at + i];
                        self.set(dst + i as u32, v);
                    }
                }
            }
            St::RegWrite(reg, index, src) => {
                let index = self.eval(index);
                if let Some((at, cells)) = self.element(*reg, index) {
                    for i in 0..cells {
                        let v = self.get(src + i as u32);
                        self.mem.registers[*reg as usize][at + i] = v;
                    }
                }
            }
            St::RegAction(reg, index, value, body) => {
                let index = self.eval(index);
                let place = self.element(*reg, index);
                if let Some((at, cells)) = place {
                    for i in 0..cells {
                        let v = self.mem.registers[*reg as usize][at + i];
                        self.set(value + i as u32, v);
                    }
                }
                self.run(body);
                if let Some((at, cells)) = place {
                    for i in 0..cells {
                        let v = self.get(value + i as u32);
                        self.mem.registers[*reg as usize][at + i] = v;
                    }
                }
            }
            St::Hash(kind, fields, dst, m) => {
                let v = self.hash(*kind, fields);
                self.set(*dst, v & m);
            }
            St::HashRange(kind, fields, dst, m, base, max) => {
                let v = self.hash(*kind, fields);
                let (base, max) = (self.eval(base), self.eval(max));
                let v = if max == 0 {
                    base
                } else {
                    base.wrapping_add(v % max)
                };
                self.set(*dst, v & m);
            }
            St::CsumAdd(id, fields, subtract) => {
                let sum = self.sum(fields, *subtract);
                if let Some(to) = self.sums.get_mut(*id as usize) {
                    *to = folded(u64::from(*to) + sum).into();
                }
            }
            St::CsumDeposit(id, dst) => {
                let v = self.sums.get(*id as usize).copied().unwrap_or(0);
                self.set(*dst, v.into());
                self.deposit = Some(*dst);
            }
            St::CsumGet(id, dst) => {
                let v = self.sums.get(*id as usize).copied().unwrap_or(0);
                self.set(*dst, u128::from(!(v as u16)));
            }
            St::CsumUpdate(fields, dst, ones) => {
                let mut v = !folded(self.sum(fields, false));
                if v == 0 && self.eval(ones) != 0 {
                    v = 0xffff;
                }
                self.set(*dst, v.into());
            }
            St::Lpf(id, value, index, dst) => {
                let (value, index) = (self.eval(value) as u64, self.eval(index) as usize);
                let now = self.now_ns;
                let found = self.mem.lpfs.get_mut(*id as usize);
                if let Some(lpf) = found.and_then(|all| all.get_mut(index)) {
                    let v = lpf.execute(now, value);
                    self.set(*dst, v.into());
                }
            }
            St::Count(id, index) => {
                let index = self.eval(index) as usize;
                let length = u64::from(self.length);
                let found = self.mem.counters.get_mut(*id as usize);
                if let Some((packets, bytes)) = found.and_then(|all| all.get_mut(index)) {
                    *packets = packets.wrapping_add(1);
                    *bytes = bytes.wrapping_add(length);
                }
            }
            _ => {}
        }
    }
}
