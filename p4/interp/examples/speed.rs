// SPDX-License-Identifier: GPL-2.0

//! Packets a second through each program, on one core: `cargo run --release -p fathom-p4 --example speed`.

use p4::{load_with, Key, Metadata};
use std::path::Path;
use std::time::{Duration, Instant};

/// A data segment with timestamps and a bottleneck option; checksums do not matter here.
fn packet() -> Vec<u8> {
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    p.extend([
        0x45, 2, 0x05, 0xdc, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    p.extend([
        0x9c, 0x40, 0x14, 0x51, 0, 0, 0, 1, 0, 0, 0, 2, 0xc0, 0x10, 0x10, 0, 0, 0, 0, 0,
    ]);
    p.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    p.extend([0xfd, 16, 0xfa, 0x72, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    p
}

/// Time on a processor: the machine may have other work. Where the kernel does not tell, the clock on the wall.
fn busy(since: Instant) -> f64 {
    let said = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = said.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    ns.map_or_else(|| since.elapsed().as_secs_f64(), |ns| ns as f64 / 1e9)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let packet = packet();
    for file in [
        "v1model/int.p4",
        "v1model/rpm.p4",
        "v1model/fathom_switch.p4",
        "tna/int.p4",
        "tna/rpm.p4",
        "tna/fathom_switch.p4",
    ] {
        let begun = Instant::now();
        let program = load_with(&dir.join(file), &[], &[])?;
        let read = begun.elapsed();
        let mut switch = program.switch();
        if program.tables().any(|t| t.ends_with(".routes_v4")) {
            let key = [Key::Lpm(0x0a00_0000, 24)];
            switch.add_entry("routes_v4", &key, "route", &[1, 2, 3])?;
        }
        let mut out = Vec::new();
        let (mut count, mut now) = (0u64, 1_000_000u64);
        let begun = Instant::now();
        let before = busy(begun);
        while begun.elapsed() < Duration::from_secs(1) {
            for _ in 0..1000 {
                now += 300;
                let metadata = Metadata {
                    egress_port: 1,
                    enqueue_ns: now - 9_000,
                    dequeue_ns: now,
                    dequeue_bytes: 30_000,
                    length: 1500,
                    ..Metadata::default()
                };
                out.clear();
                switch.port(&packet, &metadata, &mut out);
            }
            count += 1000;
        }
        let rate = count as f64 / (busy(begun) - before).max(1e-9);
        println!(
            "{file:28} read in {:4} ms, {:6.0} thousand packets a second",
            read.as_millis(),
            rate / 1000.0
        );
    }
    Ok(())
}
