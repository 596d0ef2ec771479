// SPDX-License-Identifier: GPL-2.0

//! The reference compiler and its switch, when they are on PATH. What was not checked for want of them is said.

mod common;
use std::path::PathBuf;
use std::process::Command;

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&path).map(|d| d.join(name));
    all.find(|p| p.is_file())
}

/// What came of a check: done, or why not.
type Skipped = Result<(), String>;
type Check = (&'static str, fn() -> Skipped);

fn needed(name: &str) -> Result<PathBuf, String> {
    on_path(name).ok_or_else(|| format!("{name} is not on PATH"))
}

fn main() {
    let checks: [Check; 3] = [
        (
            "p4test_takes_the_v1model_programs",
            p4test_takes_the_v1model_programs,
        ),
        ("p4c_takes_all_programs", p4c_takes_all_programs),
        ("simple_switch_agrees", simple_switch_agrees),
    ];
    let (mut passed, mut skipped) = (0, 0);
    for (name, check) in checks {
        // A check that fails panics, and the whole of it fails.
        match check() {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Err(why) => {
                skipped += 1;
                println!("test {name} ... SKIP: {why}");
            }
        }
    }
    println!("test result: ok. {passed} passed; 0 failed; {skipped} ignored");
}

const V1MODEL: [&str; 3] = [
    "v1model/int.p4",
    "v1model/rpm.p4",
    "v1model/fathom_switch.p4",
];
const TNA: [&str; 5] = [
    "tna/int.p4",
    "tna/mpd.p4",
    "tna/bottleneck.p4",
    "tna/rpm.p4",
    "tna/fathom_switch.p4",
];

/// Type checks by the reference front end.
fn p4test_takes_the_v1model_programs() -> Skipped {
    let p4test = needed("p4test")?;
    for file in V1MODEL {
        let path = common::p4_dir().join(file);
        let out = Command::new(&p4test).arg(&path).output().expect("it runs");
        assert!(
            out.status.success(),
            "{file}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(())
}

/// Compiled for BMv2 and for Tofino.
fn p4c_takes_all_programs() -> Skipped {
    let p4c = needed("p4c")?;
    let mut without = Vec::new();
    let dir = std::env::temp_dir().join(format!("fathom-p4c-{}", std::process::id()));
    let all = V1MODEL
        .iter()
        .map(|f| ("bmv2", "v1model", f))
        .chain(TNA.iter().map(|f| ("tofino", "tna", f)));
    for (target, arch, file) in all {
        let path = common::p4_dir().join(file);
        let out = Command::new(&p4c)
            .args(["--target", target, "--arch", arch, "-o"])
            .arg(&dir)
            .arg(&path)
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        if target == "tofino" && !out.status.success() && said.contains("target") {
            without.push(file);
            continue;
        }
        assert!(out.status.success(), "{file}: {said}");
    }
    let _ = std::fs::remove_dir_all(dir);
    if without.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "this p4c has no Tofino backend; not compiled: {without:?}"
        ))
    }
}

fn pcap(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        out.extend(word.to_le_bytes());
    }
    for packet in packets {
        for word in [0, 0, packet.len() as u32, packet.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        out.extend(packet);
    }
    out
}

fn packets_of(pcap: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = pcap.get(24..).unwrap_or(&[]);
    while let Some(head) = rest.get(..16) {
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        let Some(packet) = rest.get(16..16 + len) else {
            break;
        };
        out.push(packet.to_vec());
        rest = &rest[16 + len..];
    }
    out
}

/// A process that ends with its owner.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The vectors through `simple_switch`, from file to file. Its clock is its own, so of an option that is written only what
/// does not depend on it is compared; what must pass unchanged must be equal.
fn simple_switch_agrees() -> Skipped {
    let (p4c, switch, cli) = (
        needed("p4c")?,
        needed("simple_switch")?,
        needed("simple_switch_CLI")?,
    );
    let dir = std::env::temp_dir().join(format!("fathom-bmv2-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let json = dir.join("int.json");
    let compiled = Command::new(p4c)
        .args(["--target", "bmv2", "--arch", "v1model", "-o"])
        .arg(&dir)
        .arg(common::p4_dir().join("v1model/int.p4"))
        .status()
        .expect("it runs");
    assert!(compiled.success());
    let text = include_str!("../../../wire/vectors.txt");
    let hops: Vec<_> = common::runner::vectors(text)
        .into_iter()
        .filter(|v| v.verb == "hop")
        .collect();
    let packets: Vec<common::Packet> = hops
        .iter()
        .flat_map(|v| common::around(&v.bytes("options")).into_iter())
        .collect();
    let bytes: Vec<Vec<u8>> = packets.iter().map(common::Packet::bytes).collect();
    std::fs::write(dir.join("p0_in.pcap"), pcap(&bytes)).expect("a file");
    std::fs::write(dir.join("p1_in.pcap"), pcap(&[])).expect("a file");
    let thrift = "19390";
    let interface = |n: usize| format!("{n}@{}", dir.join(format!("p{n}")).display());
    let child = Command::new(switch)
        .args([
            "--use-files",
            "5",
            "--thrift-port",
            thrift,
            "-i",
            &interface(0),
            "-i",
            &interface(1),
        ])
        .arg(&json)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it runs");
    let _running = Ended(child);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let mut control = Command::new(cli)
        .args(["--thrift-port", thrift])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it runs");
    let entry = b"table_add SwitchIngress.forward SwitchIngress.to 0 => 1\n";
    std::io::Write::write_all(control.stdin.as_mut().expect("a pipe"), entry).expect("it listens");
    assert!(control.wait().expect("it ends").success());
    let mut out = Vec::new();
    for _ in 0..60 {
        std::thread::sleep(std::time::Duration::from_millis(500));
        out = packets_of(&std::fs::read(dir.join("p1_out.pcap")).unwrap_or_default());
        if out.len() >= bytes.len() {
            break;
        }
    }
    assert_eq!(out.len(), bytes.len(), "every packet comes out");
    let kinds = common::around(&[]).len();
    for (i, (got, sent)) in out.iter().zip(&bytes).enumerate() {
        let (v, packet) = (&hops[i / kinds], &packets[i]);
        let at = packet.tcp_at();
        if v.answer.starts_with("error") {
            assert_eq!(got, sent, "{}", v.name);
            continue;
        }
        assert!(
            common::checksums_valid(got, packet.ip_at(), at),
            "{}",
            v.name
        );
        let options = &got[at + 20..at + 20 + packet.options.len()];
        let (now, before) = (
            wire::find(options).expect(&v.name),
            wire::find(&packet.options).expect(&v.name),
        );
        assert_eq!(now, before, "{}", v.name);
        let body = |o: &[u8]| o[now.at + 4..now.at + now.len].to_vec();
        let (new, old) = (body(options), body(&packet.options));
        match now.exid {
            0xfa70 => assert_eq!(new[1] & 15, ((old[1] & 15) + 1).min(15), "{}", v.name),
            0xfa72 => assert_eq!(new[1] >> 4, ((old[1] >> 4) + 1).min(15), "{}", v.name),
            _ => assert_ne!(new, old, "{}", v.name),
        }
    }
    let _ = std::fs::remove_dir_all(dir);
    Ok(())
}
