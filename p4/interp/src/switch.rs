// SPDX-License-Identifier: GPL-2.0

//! A switch that runs a program: what happens to a packet from port to port, and the control plane.

use crate::arch::{Architecture, Front, Linked};
use crate::exec::{prefix, put, Cpu, EntryRt, LpfRt, Memory, TableRt, NO_ERROR, TOO_SHORT};
use crate::ir::{mask, KeyKind, Match, TableInfo};
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// The port that means "drop" in v1model.
pub(crate) const DROP_PORT: u128 = 511;
/// A port that Tofino's ingress did not choose.
const NO_PORT: u128 = 511;

/// What a switch knows of a packet besides its bytes. Times are ns, of one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Where it came from.
    pub ingress_port: u16,
    /// When it came to the switch.
    pub ingress_ns: u64,
    /// Where it goes. [`Switch::process`] takes the program's choice instead.
    pub egress_port: u16,
    /// When it was put into the egress port's queue.
    pub enqueue_ns: u64,
    /// When it left that queue.
    pub dequeue_ns: u64,
    /// The queue it found, bytes.
    pub enqueue_bytes: u32,
    /// The queue it leaves behind, bytes.
    pub dequeue_bytes: u32,
    /// Its length on the link without preamble and checksum, when that is not the number of its bytes: a
    /// simulator may leave the payload out. 0 = the number of its bytes.
    pub length: u32,
}

/// A value that a table's key must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// This one.
    Exact(u128),
    /// This one, where the mask has ones.
    Ternary(u128, u128),
    /// This one in its first bits.
    Lpm(u128, u32),
    /// From, to.
    Range(u128, u128),
}

/// The control plane asked for something that the program does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlError(String);

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ControlError {}

type Control<T> = Result<T, ControlError>;

fn refuse<T>(message: String) -> Control<T> {
    Err(ControlError(message))
}

/// A switch with its tables, registers and counters. The same calls in the same order give the same
/// packets, always.
#[derive(Clone, Debug)]
pub struct Switch {
    program: Arc<Linked>,
    memory: Memory,
    frame: Vec<u128>,
    sums: Vec<u32>,
    scratch: Vec<u8>,
    middle: Vec<u8>,
    fields: Fields,
}

/// The slots the switch itself uses, looked up once.
#[derive(Clone, Debug, Default)]
struct Fields {
    ingress_port: Option<(u32, u32)>,
    egress_spec: Option<(u32, u32)>,
    egress_port: Option<(u32, u32)>,
    packet_length: Option<(u32, u32)>,
    enq_timestamp: Option<(u32, u32)>,
    enq_qdepth: Option<(u32, u32)>,
    deq_timedelta: Option<(u32, u32)>,
    deq_qdepth: Option<(u32, u32)>,
    ingress_time: Option<(u32, u32)>,
    egress_time: Option<(u32, u32)>,
    parser_error: Option<(u32, u32)>,
    ingress_drop: Option<(u32, u32)>,
    egress_drop: Option<(u32, u32)>,
    ingress_error: Option<(u32, u32)>,
}

/// Bytes of a cell of the packet buffer, in which queues are counted.
fn cell_bytes(arch: Architecture) -> u32 {
    match arch {
        Architecture::V1Model | Architecture::Tofino1 => 80,
        Architecture::Tofino2 => 176,
    }
}

impl Switch {
    pub(crate) fn new(program: Arc<Linked>) -> Self {
        let code = &program.code;
        let memory = Memory {
            tables: code.tables.iter().map(TableRt::new).collect(),
            registers: code
                .registers
                .iter()
                .map(|r| r.init.repeat(r.size as usize))
                .collect(),
            lpfs: code
                .lpfs
                .iter()
                .map(|l| vec![LpfRt::IDLE; l.size as usize])
                .collect(),
            counters: code
                .counters
                .iter()
                .map(|c| vec![(0, 0); c.size as usize])
                .collect(),
        };
        let field = |name: &str| program.fields.get(name).copied();
        let fields = if program.arch == Architecture::V1Model {
            let field = |name: &str| field(&format!("standard_metadata.{name}"));
            Fields {
                ingress_port: field("ingress_port"),
                egress_spec: field("egress_spec"),
                egress_port: field("egress_port"),
                packet_length: field("packet_length"),
                enq_timestamp: field("enq_timestamp"),
                enq_qdepth: field("enq_qdepth"),
                deq_timedelta: field("deq_timedelta"),
                deq_qdepth: field("deq_qdepth"),
                ingress_time: field("ingress_global_timestamp"),
                egress_time: field("egress_global_timestamp"),
                parser_error: field("parser_error"),
                ..Fields::default()
            }
        } else {
            Fields {
                egress_spec: field("ig_intr_md_for_tm.ucast_egress_port"),
                ingress_time: field("ig_intr_md_from_prsr.global_tstamp"),
                egress_time: field("eg_intr_md_from_prsr.global_tstamp"),
                ingress_error: field("ig_intr_md_from_prsr.parser_err"),
                parser_error: field("eg_intr_md_from_prsr.parser_err"),
                ingress_drop: field("ig_intr_md_for_dprsr.drop_ctl"),
                egress_drop: field("eg_intr_md_for_dprsr.drop_ctl"),
                ..Fields::default()
            }
        };
        Self {
            frame: vec![0; code.slots as usize],
            sums: vec![0; code.checksums as usize],
            scratch: Vec::new(),
            middle: Vec::new(),
            memory,
            fields,
            program,
        }
    }

    /// A packet goes through the whole switch, and where the program sends it; nothing when the program
    /// drops it.
    pub fn process(&mut self, packet: &[u8], metadata: &Metadata) -> Option<(u16, Vec<u8>)> {
        let mut out = Vec::with_capacity(packet.len());
        let port = self.run(packet, metadata, None, &mut out)?;
        Some((port, out))
    }

    /// A packet goes through the program on its way to the port that `metadata` names: for a caller that
    /// forwards by itself. What the program's ingress decides about forwarding, a drop included, does not
    /// count; what its egress drops is dropped, and then the answer is false. The packet is appended to `out`.
    pub fn port(&mut self, packet: &[u8], metadata: &Metadata, out: &mut Vec<u8>) -> bool {
        let forced = Some(metadata.egress_port);
        self.run(packet, metadata, forced, out).is_some()
    }

    fn run(
        &mut self,
        packet: &[u8],
        metadata: &Metadata,
        forced: Option<u16>,
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        self.frame.fill(0);
        self.sums.fill(0);
        if self.program.arch == Architecture::V1Model {
            self.v1model(packet, metadata, forced, out)
        } else {
            self.tofino(packet, metadata, forced, out)
        }
    }

    fn set(&mut self, field: Option<(u32, u32)>, value: u128) {
        if let Some((slot, width)) = field {
            self.frame[slot as usize] = value & mask(width);
        }
    }

    fn get(&self, field: Option<(u32, u32)>) -> u128 {
        field.map_or(0, |(slot, _)| self.frame[slot as usize])
    }

    fn v1model(
        &mut self,
        packet: &[u8],
        m: &Metadata,
        forced: Option<u16>,
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        let program = self.program.clone();
        let fields = self.fields.clone();
        let length = if m.length == 0 {
            packet.len() as u32
        } else {
            m.length
        };
        self.set(fields.ingress_port, m.ingress_port.into());
        self.set(fields.packet_length, length.into());
        self.set(fields.ingress_time, m.ingress_ns.into());
        let mut cpu = Cpu {
            code: &program.code,
            mem: &mut self.memory,
            frame: &mut self.frame,
            packet,
            at: 0,
            out,
            out_bits: 0,
            error: Cell::new(NO_ERROR),
            sums: &mut self.sums,
            deposit: None,
            now_ns: m.dequeue_ns,
            length,
        };
        cpu.parse(&program.parsers[0]);
        if let Some((slot, _)) = fields.parser_error {
            cpu.frame[slot as usize] = cpu.error.get().into();
        }
        let [verify, ingress, egress, compute, deparser] = program.controls.as_slice() else {
            return None;
        };
        cpu.error.set(NO_ERROR);
        cpu.run(verify);
        cpu.run(ingress);
        let spec = fields
            .egress_spec
            .map_or(0, |(slot, _)| cpu.frame[slot as usize]);
        let port = match forced {
            Some(port) => port,
            None if spec == DROP_PORT => return None,
            None => spec as u16,
        };
        let cell = u128::from(cell_bytes(program.arch));
        // Longer than the field can tell is as long as it can tell: this clock is ours.
        let delta = m.dequeue_ns.wrapping_sub(m.enqueue_ns).min(u32::MAX.into());
        // The units of this architecture's clock and queue: see arch/v1model.p4.
        for (field, value) in [
            (fields.egress_port, u128::from(port)),
            // A drop that was not taken, or the choice: either way not egress's own.
            (fields.egress_spec, u128::from(port)),
            (fields.enq_timestamp, m.enqueue_ns.into()),
            (
                fields.enq_qdepth,
                (u128::from(m.enqueue_bytes) / cell).min(mask(19)),
            ),
            (fields.deq_timedelta, delta.into()),
            (
                fields.deq_qdepth,
                (u128::from(m.dequeue_bytes) / cell).min(mask(19)),
            ),
            (fields.egress_time, m.dequeue_ns.into()),
        ] {
            if let Some((slot, width)) = field {
                cpu.frame[slot as usize] = value & mask(width);
            }
        }
        cpu.run(egress);
        let spec = fields
            .egress_spec
            .map_or(0, |(slot, _)| cpu.frame[slot as usize]);
        if spec == DROP_PORT {
            return None;
        }
        cpu.run(compute);
        cpu.run(deparser);
        let rest = packet.get(cpu.at.div_ceil(8)..).unwrap_or(&[]);
        out.extend_from_slice(rest);
        Some(port)
    }

    /// Puts a header in front of a packet.
    fn in_front(
        to: &mut Vec<u8>,
        front: &Front,
        pad_bits: u32,
        packet: &[u8],
        value: impl Fn(&str) -> u128,
    ) {
        to.clear();
        let mut at = 0;
        for (name, width) in &front.fields {
            put(to, &mut at, value(name) & mask(*width), *width);
        }
        to.resize(to.len() + pad_bits as usize / 8, 0);
        to.extend_from_slice(packet);
    }

    fn tofino(
        &mut self,
        packet: &[u8],
        m: &Metadata,
        forced: Option<u16>,
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        let program = self.program.clone();
        let fields = self.fields.clone();
        let length = if m.length == 0 {
            packet.len() as u32
        } else {
            m.length
        };
        let [ingress, ingress_deparser, egress, egress_deparser] = program.controls.as_slice()
        else {
            return None;
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut middle = std::mem::take(&mut self.middle);
        let value = |name: &str| match name {
            "ingress_port" => m.ingress_port.into(),
            "ingress_mac_tstamp" => m.ingress_ns.into(),
            _ => 0,
        };
        let bits = program.port_metadata_bits;
        Self::in_front(&mut scratch, &program.ingress_front, bits, packet, value);
        self.set(fields.egress_spec, NO_PORT);
        self.set(fields.ingress_time, m.ingress_ns.into());
        middle.clear();
        let (mut at, error) = self.parse(0, &scratch, m, length);
        let ingress_error = error_bits(error);
        self.set(fields.ingress_error, ingress_error);
        let mut port = None;
        if ingress_error == 0 || program.reads_error || forced.is_some() {
            self.control(ingress, &scratch, at, m, length, &mut Vec::new());
            let dropped = self.get(fields.ingress_drop) & 1 == 1;
            let chosen = self.get(fields.egress_spec);
            port = match forced {
                Some(port) => Some(port),
                None if dropped || chosen == NO_PORT => None,
                None => Some(chosen as u16),
            };
        }
        if let Some(port) = port {
            self.control(ingress_deparser, &scratch, at, m, length, &mut middle);
            middle.extend_from_slice(scratch.get(at.div_ceil(8)..).unwrap_or(&[]));
            let cell = u128::from(cell_bytes(program.arch));
            let cells = |bytes: u32| (u128::from(bytes) / cell).min(mask(19));
            let value = |name: &str| match name {
                "egress_port" => port.into(),
                "enq_tstamp" => m.enqueue_ns.into(),
                "enq_qdepth" => cells(m.enqueue_bytes),
                "deq_timedelta" => m.dequeue_ns.wrapping_sub(m.enqueue_ns).into(),
                "deq_qdepth" => cells(m.dequeue_bytes),
                "pkt_length" => length.into(),
                _ => 0,
            };
            Self::in_front(&mut scratch, &program.egress_front, 0, &middle, value);
            self.sums.fill(0);
            self.set(fields.egress_time, m.dequeue_ns.into());
            let (parsed, error) = self.parse(1, &scratch, m, length);
            at = parsed;
            self.set(fields.parser_error, error_bits(error));
            self.control(egress, &scratch, at, m, length, &mut Vec::new());
        }
        let dropped = self.get(fields.egress_drop) & 1 == 1;
        let sent = port.filter(|_| !dropped);
        if sent.is_some() {
            self.control(egress_deparser, &scratch, at, m, length, out);
            out.extend_from_slice(scratch.get(at.div_ceil(8)..).unwrap_or(&[]));
        }
        self.scratch = scratch;
        self.middle = middle;
        sent
    }

    fn parse(&mut self, which: usize, packet: &[u8], m: &Metadata, length: u32) -> (usize, u32) {
        let program = self.program.clone();
        let mut cpu = Cpu {
            code: &program.code,
            mem: &mut self.memory,
            frame: &mut self.frame,
            packet,
            at: 0,
            out: &mut Vec::new(),
            out_bits: 0,
            error: Cell::new(NO_ERROR),
            sums: &mut self.sums,
            deposit: None,
            now_ns: m.dequeue_ns,
            length,
        };
        cpu.parse(&program.parsers[which]);
        (cpu.at, cpu.error.get())
    }

    fn control(
        &mut self,
        control: &[crate::ir::St],
        packet: &[u8],
        at: usize,
        m: &Metadata,
        length: u32,
        out: &mut Vec<u8>,
    ) {
        let program = self.program.clone();
        let mut cpu = Cpu {
            code: &program.code,
            mem: &mut self.memory,
            frame: &mut self.frame,
            packet,
            at,
            out,
            out_bits: 0,
            error: Cell::new(NO_ERROR),
            sums: &mut self.sums,
            deposit: None,
            now_ns: m.dequeue_ns,
            length,
        };
        cpu.run(control);
    }

    // --- the control plane --------------------------------------------------------------------------

    /// The one thing whose name is `name`, or ends in it after a dot.
    fn find<'a>(
        kind: &str,
        names: impl Iterator<Item = &'a String> + Clone,
        name: &str,
    ) -> Control<usize> {
        let exact = names.clone().position(|n| n == name);
        if let Some(i) = exact {
            return Ok(i);
        }
        let tail = format!(".{name}");
        let mut found = names
            .clone()
            .enumerate()
            .filter(|(_, n)| n.ends_with(&tail));
        match (found.next(), found.next()) {
            (Some((i, _)), None) => Ok(i),
            (Some((_, a)), Some((_, b))) => refuse(format!("{kind} `{name}` may be {a} or {b}")),
            _ => {
                let all: Vec<&str> = names.map(String::as_str).collect();
                refuse(format!("no {kind} `{name}`; there are: {}", all.join(", ")))
            }
        }
    }

    fn table(&self, name: &str) -> Control<usize> {
        Self::find(
            "table",
            self.program.code.tables.iter().map(|t| &t.name),
            name,
        )
    }

    fn action(info: &TableInfo, action: &str, args: &[u128]) -> Control<(u32, Vec<u128>)> {
        let Some(i) = info.actions.iter().position(|a| a.name == action) else {
            let all: Vec<&str> = info.actions.iter().map(|a| a.name.as_str()).collect();
            return refuse(format!(
                "table {} has no action `{action}`; it has: {}",
                info.name,
                all.join(", ")
            ));
        };
        let widths = &info.actions[i].widths;
        if widths.len() != args.len() {
            return refuse(format!(
                "action {action} takes {} values, not {}",
                widths.len(),
                args.len()
            ));
        }
        for (arg, w) in args.iter().zip(widths) {
            if *arg > mask(*w) {
                return refuse(format!("action {action}: {arg} does not fit into {w} bits"));
            }
        }
        Ok((i as u32, args.to_vec()))
    }

    /// Adds an entry to a table. Of entries that match the same packet the longest prefix counts, then the
    /// one added first. A table's name may be shortened to what comes after any of its dots.
    ///
    /// # Errors
    /// When the program has no such table or action, its entries are constant, or values do not fit.
    pub fn add_entry(
        &mut self,
        table: &str,
        keys: &[Key],
        action: &str,
        args: &[u128],
    ) -> Control<()> {
        let (id, entry) = self.entry(table, keys, action, args)?;
        self.memory.tables[id].add(entry);
        Ok(())
    }

    /// The same, in the place of an entry with the same keys.
    ///
    /// # Errors
    /// As [`Switch::add_entry`].
    pub fn set_entry(
        &mut self,
        table: &str,
        keys: &[Key],
        action: &str,
        args: &[u128],
    ) -> Control<()> {
        let (id, entry) = self.entry(table, keys, action, args)?;
        self.memory.tables[id].set(entry);
        Ok(())
    }

    fn entry(
        &self,
        table: &str,
        keys: &[Key],
        action: &str,
        args: &[u128],
    ) -> Control<(usize, EntryRt)> {
        let id = self.table(table)?;
        let info = &self.program.code.tables[id];
        if info.entries_const {
            return refuse(format!("the entries of table {} are constant", info.name));
        }
        if keys.len() != info.keys.len() {
            return refuse(format!(
                "table {} has {} keys, not {}",
                info.name,
                info.keys.len(),
                keys.len()
            ));
        }
        let mut matches = Vec::new();
        for (key, (kind, w)) in keys.iter().zip(&info.keys) {
            let m = mask(*w);
            let made = match (*kind, *key) {
                (_, Key::Exact(v)) if v <= m => Match::Masked(v, m),
                (KeyKind::Ternary, Key::Ternary(v, t)) if v <= m && t <= m => {
                    Match::Masked(v & t, t)
                }
                (KeyKind::Lpm, Key::Lpm(v, n)) if v <= m && n <= *w => {
                    let t = m & !mask(*w - n);
                    Match::Masked(v & t, t)
                }
                (KeyKind::Range, Key::Range(a, b)) if a <= b && b <= m => Match::Range(a, b),
                _ => {
                    return refuse(format!(
                        "table {}: {key:?} does not fit a key of {w} bits, {kind:?}",
                        info.name
                    ))
                }
            };
            matches.push(made);
        }
        let (action, args) = Self::action(info, action, args)?;
        let entry = EntryRt {
            prefix: prefix(&matches, info),
            keys: matches,
            action,
            args,
        };
        Ok((id, entry))
    }

    /// What a table does with packets that no entry matches.
    ///
    /// # Errors
    /// When the program has no such table or action, the default is constant, or values do not fit.
    pub fn set_default(&mut self, table: &str, action: &str, args: &[u128]) -> Control<()> {
        let id = self.table(table)?;
        let info = &self.program.code.tables[id];
        if info.default_const {
            return refuse(format!(
                "the default action of table {} is constant",
                info.name
            ));
        }
        self.memory.tables[id].default = Self::action(info, action, args)?;
        Ok(())
    }

    fn register(&self, name: &str, index: u32) -> Control<(usize, std::ops::Range<usize>)> {
        let registers = &self.program.code.registers;
        let id = Self::find("register", registers.iter().map(|r| &r.name), name)?;
        let info = &registers[id];
        if index >= info.size {
            return refuse(format!(
                "register {} has {} elements; {index} is none",
                info.name, info.size
            ));
        }
        let cells = info.cells as usize;
        let at = index as usize * cells;
        Ok((id, at..at + cells))
    }

    /// What an element of a register holds, field by field.
    ///
    /// # Errors
    /// When the program has no such register or element.
    pub fn read_register(&self, name: &str, index: u32) -> Control<Vec<u128>> {
        let (id, range) = self.register(name, index)?;
        Ok(self.memory.registers[id][range].to_vec())
    }

    /// Writes an element of a register, field by field.
    ///
    /// # Errors
    /// When the program has no such register or element, or the values do not fit.
    pub fn write_register(&mut self, name: &str, index: u32, values: &[u128]) -> Control<()> {
        let (id, range) = self.register(name, index)?;
        let info = &self.program.code.registers[id];
        let fits = values.iter().zip(&info.masks).all(|(v, m)| v <= m);
        if values.len() != info.masks.len() || !fits {
            return refuse(format!(
                "register {}: {values:?} does not fit an element",
                info.name
            ));
        }
        self.memory.registers[id][range].copy_from_slice(values);
        Ok(())
    }

    /// Packets and bytes of an element of a counter.
    ///
    /// # Errors
    /// When the program has no such counter or element.
    pub fn read_counter(&self, name: &str, index: u32) -> Control<(u64, u64)> {
        let counters = &self.program.code.counters;
        let id = Self::find("counter", counters.iter().map(|c| &c.name), name)?;
        match self.memory.counters[id].get(index as usize) {
            Some(counts) => Ok(*counts),
            None => refuse(format!("counter {name} has no element {index}")),
        }
    }

    /// Configures an element of a Tofino `Lpf`, and sets its level as of `now_ns`.
    ///
    /// # Errors
    /// When the program has no such filter or element, or a shift is too large.
    pub fn set_lpf(&mut self, name: &str, index: u32, lpf: &Lpf, now_ns: u64) -> Control<()> {
        let lpfs = &self.program.code.lpfs;
        let id = Self::find("Lpf", lpfs.iter().map(|l| &l.name), name)?;
        if lpf.half_life_shift > 62 || lpf.scale_down > 63 {
            return refuse(format!(
                "Lpf {name}: half_life_shift is at most 62, scale_down 63"
            ));
        }
        match self.memory.lpfs[id].get_mut(index as usize) {
            Some(to) => {
                *to = LpfRt {
                    level: lpf.level,
                    last_ns: now_ns,
                    gain: lpf.gain,
                    half_life_shift: lpf.half_life_shift,
                    scale_down: lpf.scale_down,
                };
                Ok(())
            }
            None => refuse(format!("Lpf {name} has no element {index}")),
        }
    }
}

/// How a Tofino `Lpf` is modelled: a level that each value raises and that halves in 2^shift ns. The real
/// one has time constants of its own; it ranks ports, so it need not agree to the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lpf {
    /// What each value is multiplied with.
    pub gain: u32,
    /// The level halves in 2^this ns.
    pub half_life_shift: u32,
    /// The result is the level over 2^this.
    pub scale_down: u32,
    /// The level to begin with.
    pub level: u64,
}

/// A parser's error as Tofino's flags.
fn error_bits(error: u32) -> u128 {
    match error {
        NO_ERROR => 0,
        TOO_SHORT => 2,
        _ => 1,
    }
}
