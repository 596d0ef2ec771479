// SPDX-License-Identifier: GPL-2.0

//! Packets, and a port of a P4 switch that stands where `wire::Hop` says.

#![allow(dead_code)]

use p4::{load_with, Key, Lpf, Metadata, Program, Switch};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use wire::Hop;

#[path = "../../../../wire/tests/runner/mod.rs"]
pub mod runner;

pub const PORT: u16 = 3;

pub fn p4_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A program of this folder; each is read once.
pub fn program(file: &str, defines: &[(&str, &str)]) -> Program {
    static ALL: OnceLock<Mutex<HashMap<String, Program>>> = OnceLock::new();
    let all = ALL.get_or_init(Mutex::default);
    let key = format!("{file} {defines:?}");
    let mut all = all.lock().expect("no test panics in here");
    let load = || load_with(&p4_dir().join(file), &[], defines).unwrap_or_else(|e| panic!("{e}"));
    all.entry(key).or_insert_with(load).clone()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ip {
    /// With this many words of options.
    V4(usize),
    V6,
}

#[derive(Clone, Debug)]
pub struct Packet {
    pub ip: Ip,
    pub vlan: bool,
    pub ecn: u8,
    pub flags: u8,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
    pub flow: (u8, u8, u16, u16),
}

impl Packet {
    pub fn new(ip: Ip, vlan: bool, options: &[u8]) -> Self {
        Self {
            ip,
            vlan,
            ecn: 2,
            flags: 0x10,
            options: options.to_vec(),
            payload: b"fathom".to_vec(),
            flow: (1, 2, 40000, 5201),
        }
    }

    /// Where its IP header begins.
    pub fn ip_at(&self) -> usize {
        14 + if self.vlan { 4 } else { 0 }
    }

    /// Where its TCP header begins.
    pub fn tcp_at(&self) -> usize {
        let ip = match self.ip {
            Ip::V4(words) => 20 + 4 * words,
            Ip::V6 => 40,
        };
        self.ip_at() + ip
    }

    /// The bytes, with both checksums right.
    pub fn bytes(&self) -> Vec<u8> {
        assert_eq!(self.options.len() % 4, 0);
        let mut b = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        if self.vlan {
            b.extend([0x81, 0x00, 0x20, 0x07]);
        }
        let (src, dst, sport, dport) = self.flow;
        let tcp_len = 20 + self.options.len() + self.payload.len();
        match self.ip {
            Ip::V4(words) => {
                b.extend([0x08, 0x00]);
                let len = (20 + 4 * words + tcp_len) as u16;
                let mut ip = vec![0x45 + words as u8, self.ecn];
                ip.extend(len.to_be_bytes());
                ip.extend([0x12, 0x34, 0x40, 0x00, 64, 6, 0, 0]);
                ip.extend([10, 0, 0, src, 10, 0, 0, dst]);
                ip.extend(vec![1; 4 * words]);
                let sum = !fold(sum(&ip));
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
                b.extend(ip);
            }
            Ip::V6 => {
                b.extend([0x86, 0xdd, 0x60, self.ecn << 4, 0, 0]);
                b.extend((tcp_len as u16).to_be_bytes());
                b.extend([6, 64]);
                for last in [src, dst] {
                    b.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
                }
            }
        }
        let at = b.len();
        b.extend(sport.to_be_bytes());
        b.extend(dport.to_be_bytes());
        b.extend([0, 0, 0, 1, 0, 0, 0, 2]);
        b.extend([((5 + self.options.len() / 4) << 4) as u8, self.flags]);
        b.extend([0x10, 0, 0, 0, 0, 0]);
        b.extend(&self.options);
        b.extend(&self.payload);
        let check = tcp_check(&b, self.ip_at(), at);
        b[at + 16..at + 18].copy_from_slice(&check.to_be_bytes());
        b
    }
}

pub fn sum(bytes: &[u8]) -> u64 {
    bytes
        .chunks(2)
        .map(|c| u64::from(c[0]) << 8 | u64::from(c.get(1).copied().unwrap_or(0)))
        .sum()
}

pub fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// What the TCP checksum should be, its field taken for zero.
pub fn tcp_check(b: &[u8], ip_at: usize, at: usize) -> u16 {
    let len = (b.len() - at) as u64;
    let addresses = if b[ip_at] >> 4 == 4 {
        &b[ip_at + 12..ip_at + 20]
    } else {
        &b[ip_at + 8..ip_at + 40]
    };
    let mut segment = b[at..].to_vec();
    segment[16..18].fill(0);
    !fold(sum(addresses) + 6 + len + sum(&segment))
}

/// Whether both checksums are right.
pub fn checksums_valid(b: &[u8], ip_at: usize, at: usize) -> bool {
    let field = u16::from_be_bytes([b[at + 16], b[at + 17]]);
    let ip_ok = b[ip_at] >> 4 == 6 || fold(sum(&b[ip_at..at])) == 0xffff;
    ip_ok && tcp_check(b, ip_at, at) == field
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    V1Model,
    Tofino1,
    Tofino2,
}

impl Target {
    pub const ALL: [Self; 3] = [Self::V1Model, Self::Tofino1, Self::Tofino2];

    pub fn file(self, name: &str) -> String {
        match self {
            Self::V1Model => format!("v1model/{name}.p4"),
            _ => format!("tna/{name}.p4"),
        }
    }

    pub fn program_with(self, name: &str, defines: &[(&str, &str)]) -> Program {
        let mut defines = defines.to_vec();
        if self == Self::Tofino2 {
            defines.push(("FATHOM_TOFINO2", "1"));
        }
        program(&self.file(name), &defines)
    }

    pub fn program(self, name: &str, shift: u8) -> Program {
        let shift = shift.to_string();
        self.program_with(name, &[("FATHOM_MPD_SHIFT", shift.as_str())])
    }

    /// The hop as this target sees it: what its metadata can hold of a delay, and its cells of a queue.
    pub fn sees(self, hop: &Hop) -> Hop {
        let cells = hop.qlen_bytes / 176;
        let in_80 = (2 * cells + cells / 8 + cells / 16).min(0xffff);
        Hop {
            delay_ns: self.delay(hop.delay_ns),
            qlen_bytes: match self {
                Self::Tofino2 if cells >= 1 << 15 => 0xffff * 80,
                Self::Tofino2 => in_80 * 80,
                _ => hop.qlen_bytes,
            },
            ..*hop
        }
    }

    /// What its metadata can hold of a queueing delay.
    pub fn delay(self, ns: u64) -> u64 {
        match self {
            Self::V1Model => ns.min(u32::MAX.into()),
            Self::Tofino1 => ns & 0x3_ffff,
            Self::Tofino2 => ns & 0xffff_ffff,
        }
    }
}

/// A switch whose port is at `hop` once it has sent `len` bytes more.
pub fn switch_at(target: Target, program: &Program, hop: &Hop, len: usize) -> Switch {
    let mut switch = program.switch();
    let ok = "the programs have what the harness asks for";
    let has_records = program.tables().any(|t| t.ends_with(".port"));
    if !has_records {
        return switch;
    }
    let id = u128::from(hop.hop_id);
    let speed = u128::from(hop.speed.written().code());
    let tx = u128::from(hop.tx_bytes as u32).wrapping_sub(len as u128) & 0xffff_ffff;
    let port = PORT.into();
    let key = [Key::Exact(u128::from(PORT))];
    match target {
        Target::V1Model => {
            let level = u128::from(hop.load) << 16;
            let now = u128::from(hop.time_ns) & 0xffff_ffff_ffff;
            switch
                .add_entry("port", &key, "port_is", &[id, speed, 0, 0])
                .expect(ok);
            switch
                .write_register("load_level", port, &[level])
                .expect(ok);
            switch.write_register("load_at", port, &[now]).expect(ok);
        }
        _ => {
            switch
                .add_entry("port", &key, "port_is", &[id, speed, 0])
                .expect(ok);
            let lpf = Lpf {
                gain: 0,
                half_life_shift: 15,
                scale_down: 0,
                level: hop.load.into(),
            };
            let found = switch.set_lpf("utilisation", port, &lpf, hop.time_ns);
            // A program of slots alone has no load.
            found
                .or_else(|e| {
                    if program.registers().any(|r| r.ends_with("tx_bytes")) {
                        Ok(())
                    } else {
                        Err(e)
                    }
                })
                .expect(ok);
        }
    }
    switch.write_register("tx_bytes", port, &[tx]).expect(ok);
    switch
}

pub fn metadata(hop: &Hop) -> Metadata {
    Metadata {
        egress_port: PORT,
        enqueue_ns: hop.time_ns.wrapping_sub(hop.delay_ns),
        dequeue_ns: hop.time_ns,
        dequeue_bytes: hop.qlen_bytes,
        ..Metadata::default()
    }
}

/// `packet` through the program's port, as `hop` says it stands.
pub fn stamp(target: Target, name: &str, hop: &Hop, packet: &[u8]) -> Vec<u8> {
    let program = target.program(name, hop.shift);
    let mut switch = switch_at(target, &program, hop, packet.len());
    let mut out = Vec::new();
    let sent = switch.port(packet, &metadata(hop), &mut out);
    assert!(sent, "telemetry drops nothing");
    out
}

/// Every kind of packet that a vector is tried in.
pub fn around(options: &[u8]) -> Vec<Packet> {
    let mut all = Vec::new();
    for ip in [Ip::V4(0), Ip::V4(1), Ip::V4(10), Ip::V6] {
        for vlan in [false, true] {
            all.push(Packet::new(ip.clone(), vlan, options));
        }
    }
    all
}
