// SPDX-License-Identifier: GPL-2.0

//! `vectors.txt`: it is what the cases below give, all of it runs, and what a hop does in it is what
//! the model of bits says. `FATHOM_BLESS=1 cargo test -p fathom-wire --test vectors` writes it anew.

mod model;
mod runner;

use runner::{answer, hex, unhex, vectors, Vector};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use wire::mpd::{EchoWord, Missing, Word};
use wire::{bottleneck, stack, Hello, Hop, Speed};

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors.txt")
}

fn stored() -> String {
    std::fs::read_to_string(file()).expect("vectors.txt")
}

const HEAD: &str = "\
# SPDX-License-Identifier: GPL-2.0
# Test vectors of the in-band telemetry option: what docs/wire.md says, byte for byte.
# A line is: VERB NAME KEY=VALUE... => ANSWER. Bytes are hex, numbers decimal; words of 16 bits
# (forward, echo, exid, check) are hex. `error=...` of a hop: the packet passes unchanged.
#
#   speed     link speed of a code
#   emit      what a sender writes on data
#   parse     one option; the bytes may end before or behind it
#   find      the TCP options of a segment
#   hop       the TCP options of a packet and the TCP checksum, before and after a hop
#   echo      what a receiver sends back for the options it received since its last ACK
#   sample    what a sender's control law is told of an option
#   syn       the option of a SYN
#   answer    what a listener answers to a SYN
#   agree     what a client takes from a SYN-ACK
#   checksum  bytes at an offset in the TCP header change
#   load      the load of a port after packets at TIME ns that take BUSY/256 ns
";

/// Collects lines.
struct Cases {
    text: String,
    names: HashSet<String>,
}

/// A port that is neither idle nor full.
const PORT: Hop = Hop {
    delay_ns: 10_000,
    qlen_bytes: 12_500,
    tx_bytes: 1_000_000,
    time_ns: 5_000_000,
    load: 200,
    speed: Speed::OTHER,
    hop_id: 7,
    shift: 6,
};

impl Cases {
    fn title(&mut self, title: &str) {
        self.text += &format!("\n# {title}\n");
    }

    fn add(&mut self, verb: &str, name: &str, inputs: &str) {
        assert!(
            self.names.insert(format!("{verb} {name}")),
            "{verb} {name} twice"
        );
        let v = Vector::read(&format!("{verb} {name} {inputs} => ?"));
        self.text += &format!("{verb} {name} {inputs} => {}\n", answer(&v));
    }

    fn hop(&mut self, name: &str, options: &[u8], mbps: u32, hop: &Hop) {
        self.add(
            "hop",
            name,
            &format!(
                "options={} check=1c46 delay_ns={} qlen_bytes={} tx_bytes={} time_ns={} load={} \
                 mbps={mbps} hop_id={} shift={}",
                hex(options),
                hop.delay_ns,
                hop.qlen_bytes,
                hop.tx_bytes,
                hop.time_ns,
                hop.load,
                hop.hop_id,
                hop.shift
            ),
        );
    }

    fn parse(&mut self, name: &str, option: &[u8]) {
        self.add("parse", name, &format!("option={}", hex(option)));
    }

    fn find(&mut self, name: &str, options: &[u8]) {
        self.add("find", name, &format!("options={}", hex(options)));
    }
}

fn mpd(forward: u16, echo: u16) -> Vec<u8> {
    wire::mpd::emit(Word(forward), EchoWord(echo)).to_vec()
}

fn record(count: u8, key: u16, port: &Hop) -> bottleneck::Body {
    let mut body = bottleneck::Body::default().hop(port).with_count(count);
    body.0[2..4].copy_from_slice(&key.to_be_bytes());
    body
}

fn forward(count: u8, key: u16, port: &Hop) -> Vec<u8> {
    let body = record(count, key, port);
    [&[0xfd, 16, 0xfa, 0x72][..], &body.0].concat()
}

fn stacked(slots: usize, used: usize, id: u8) -> Vec<u8> {
    let mut bytes = [
        &[0xfd, 4 + 8 * slots as u8, 0xfa, id][..],
        &vec![0; 8 * slots],
    ]
    .concat();
    for i in 0..used {
        let port = Hop {
            hop_id: i as u8 + 1,
            speed: Speed::from_mbps(25_000),
            ..PORT
        };
        bytes[4 + 8 * i..12 + 8 * i].copy_from_slice(&stack::Slot::of(&port).0);
    }
    bytes
}

fn options(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// The same port with a link whose speed has a code.
const PORT_25: Hop = Hop {
    speed: Speed::from_mbps(25_000),
    ..PORT
};

fn wrapped(tx_bytes: u64, time_ns: u64) -> Hop {
    Hop {
        tx_bytes,
        time_ns,
        ..PORT
    }
}

fn queue(qlen_bytes: u32) -> Hop {
    Hop { qlen_bytes, ..PORT }
}

/// Options as they stand in segments.
fn ts() -> Vec<u8> {
    unhex("0101080a0000000100000002")
}

fn sack1() -> Vec<u8> {
    unhex("0101050a0000000100000002")
}

fn sack2() -> Vec<u8> {
    unhex("0101051200000001000000020000000300000004")
}

fn syn() -> Vec<u8> {
    unhex("020405b40402080a00000001000000000103030a")
}

fn mpd_some() -> Vec<u8> {
    mpd(0x0633, 0x1230)
}

fn first() -> Vec<u8> {
    bottleneck::emit_forward().to_vec()
}

fn echo() -> Vec<u8> {
    bottleneck::emit_echo(&record(3, 412, &PORT_25), Missing::NONE).to_vec()
}

fn empty() -> Vec<u8> {
    stacked(3, 0, 0x74)
}

fn hole() -> Vec<u8> {
    let mut hole = stacked(3, 3, 0x74);
    hole[12..20].fill(0);
    hole
}

fn speeds_and_emit(c: &mut Cases) {
    c.title("The sixteen speeds.");
    for code in 0..16 {
        c.add("speed", &format!("code-{code}"), &format!("code={code}"));
    }

    c.title("What a sender writes on data, with and without timestamps beside it.");
    for format in ["mpd", "bottleneck", "stack"] {
        for timestamps in [1, 0] {
            let name = format!("{format}-timestamps-{timestamps}");
            c.add(
                "emit",
                &name,
                &format!("format={format} timestamps={timestamps}"),
            );
        }
    }
}

fn good_options(c: &mut Cases) {
    c.title("Each option: least, some, most.");
    c.parse("mpd-empty", &mpd(0, 0x000f));
    c.parse("mpd-some", &mpd(0x0633, 0x1230));
    c.parse("mpd-most", &mpd(0xffff, 0xffff));
    c.parse("mpd-idle-hop", &mpd(0x0001, 0x0000));
    c.parse("bottleneck-empty", &bottleneck::emit_forward());
    c.parse("bottleneck-some", &forward(3, 412, &PORT_25));
    c.parse(
        "bottleneck-most",
        &[&[0xfd, 16, 0xfa, 0x72][..], &[0xff; 12]].concat(),
    );
    c.parse("bottleneck-echo", &echo());
    for slots in 1..=4 {
        for used in 0..=slots {
            c.parse(
                &format!("stack-{used}-of-{slots}"),
                &stacked(slots, used, 0x74),
            );
        }
        c.parse(&format!("stack-echo-{slots}"), &stacked(slots, slots, 0x75));
    }
    c.parse(
        "stack-most",
        &[&[0xfd, 36, 0xfa, 0x74][..], &[0xff; 32]].concat(),
    );
    c.parse("hello", &Hello::new(wire::Format::Bottleneck, 7, 6).emit());
    c.parse("hello-reserved-bits", &unhex("fd08fa7f1627ffff"));

    c.title("Bytes behind the option do not count.");
    c.parse(
        "mpd-and-more",
        &[mpd(0x0633, 0x1230), vec![0xff; 9]].concat(),
    );
    c.parse(
        "stack-and-more",
        &[stacked(1, 1, 0x74), vec![0xff; 9]].concat(),
    );
}

fn broken_options(c: &mut Cases) {
    c.title("Every truncation.");
    for (name, option) in [
        ("mpd", mpd(0x0633, 0x1230)),
        ("bottleneck", forward(3, 412, &PORT_25)),
        ("bottleneck-echo", echo()),
        ("stack", stacked(3, 2, 0x74)),
        ("stack-echo", stacked(2, 2, 0x75)),
        ("hello", Hello::new(wire::Format::Mpd, 1, 6).emit().to_vec()),
    ] {
        for cut in 0..option.len() {
            c.parse(&format!("{name}-cut-{cut}"), &option[..cut]);
        }
    }

    c.title("Every wrong length, with enough bytes behind it.");
    for (name, exid, good) in [
        ("mpd", 0x70, &[8][..]),
        ("bottleneck", 0x72, &[16]),
        ("bottleneck-echo", 0x73, &[16]),
        ("stack", 0x74, &[12, 20, 28, 36]),
        ("stack-echo", 0x75, &[12, 20, 28, 36]),
        ("hello", 0x7f, &[8]),
    ] {
        for len in (0u8..=40).filter(|l| !good.contains(l)) {
            let option = [&[0xfd, len, 0xfa, exid][..], &[0; 40]].concat();
            c.parse(&format!("{name}-len-{len}"), &option);
        }
        let option = [&[0xfd, 255, 0xfa, exid][..], &[0; 36]].concat();
        c.parse(&format!("{name}-len-255"), &option);
    }

    c.title("Not ours: another experiment, another kind.");
    for exid in [
        0x0000u16, 0xeb9f, 0xfa6f, 0xfa71, 0xfa76, 0xfa7e, 0xfa80, 0x70fa, 0xf990,
    ] {
        let [high, low] = exid.to_be_bytes();
        c.parse(
            &format!("exid-{exid:04x}"),
            &[0xfd, 8, high, low, 0, 0, 0, 0x0f],
        );
    }
    for kind in [0u8, 1, 2, 5, 8, 30, 34, 252, 254, 255] {
        c.parse(
            &format!("kind-{kind}"),
            &[kind, 8, 0xfa, 0x70, 0, 0, 0, 0x0f],
        );
    }

    c.title("Contradictions.");
    c.parse("mpd-delay-without-hop", &mpd(0x0630, 0x000f));
    c.parse("bottleneck-record-without-hop", &forward(0, 412, &PORT_25));
    c.parse(
        "bottleneck-timestamp-without-hop",
        &unhex("fd10fa72000000000000000000000001"),
    );
    c.parse(
        "bottleneck-echo-without-sample",
        &unhex("fd10fa7307f7019c009c003d094c4b40"),
    );
    c.parse("stack-hole", &hole());
    c.parse("stack-echo-empty", &stacked(1, 0, 0x75));
    c.parse("stack-echo-half", &stacked(2, 1, 0x75));
    c.parse("hello-version-0", &unhex("fd08fa7f06110000"));
    c.parse("hello-no-format", &unhex("fd08fa7f16070000"));
    c.parse("hello-unknown-format", &unhex("fd08fa7f16870000"));
    c.parse(
        "hello-wants-what-it-does-not-take",
        &unhex("fd08fa7f16120000"),
    );
}

fn lists(c: &mut Cases) {
    c.title("Among other options.");
    c.find("nothing", &[]);
    c.find("alone", &mpd_some());
    c.find("behind-timestamps", &options(&[&ts(), &mpd_some()]));
    c.find(
        "behind-timestamps-and-sack",
        &options(&[&ts(), &sack1(), &mpd_some()]),
    );
    c.find(
        "behind-two-sack-blocks",
        &options(&[&ts(), &sack2(), &mpd_some()]),
    );
    c.find("before-timestamps", &options(&[&mpd_some(), &ts()]));
    c.find(
        "on-a-syn",
        &options(&[&syn(), &Hello::new(wire::Format::Mpd, 1, 6).emit()]),
    );
    c.find("behind-nops", &options(&[&[1, 1, 1, 1], &mpd_some()]));
    c.find("behind-32-nops", &options(&[&[1; 32], &mpd_some()]));
    c.find(
        "behind-another-experiment",
        &options(&[&unhex("fd04eb9f"), &mpd_some()]),
    );
    c.find(
        "behind-an-unknown-kind",
        &options(&[&unhex("1e08000000000000"), &mpd_some()]),
    );
    c.find("behind-the-end", &options(&[&[0, 0, 0, 0], &mpd_some()]));
    c.find("timestamps-alone", &ts());
    for nops in 1..4 {
        c.find(
            &format!("misaligned-by-{nops}"),
            &options(&[&vec![1; nops], &mpd_some()]),
        );
    }
    c.find(
        "two-the-first-counts",
        &options(&[&mpd_some(), &mpd(0x0011, 0x000f)]),
    );
    c.find(
        "other-option-too-long",
        &options(&[&unhex("1e28000000000000"), &mpd_some()]),
    );
    c.find(
        "other-option-of-length-0",
        &options(&[&unhex("1e000000"), &mpd_some()]),
    );
    c.find(
        "other-option-of-length-1",
        &options(&[&unhex("1e010000"), &mpd_some()]),
    );
    c.find("kind-without-length", &options(&[&[1, 1, 1], &[0xfd]]));
    for cut in 0..20 {
        let list = options(&[&ts(), &mpd_some()]);
        c.find(&format!("cut-{cut}"), &list[..cut]);
    }
}

fn mpd_hops(c: &mut Cases) {
    c.title("mpd: a hop takes the larger delay and counts itself.");
    let at = |delay_ns| Hop { delay_ns, ..PORT };
    c.hop("mpd-first", &mpd(0, 0x000f), 25_000, &at(10_000));
    c.hop("mpd-larger", &mpd(0x0631, 0x000f), 25_000, &at(10_000));
    c.hop("mpd-smaller", &mpd(0x9c31, 0x000f), 25_000, &at(10_000));
    c.hop("mpd-equal", &mpd(0x09c1, 0x000f), 25_000, &at(10_000));
    c.hop("mpd-no-delay", &mpd(0, 0x000f), 25_000, &at(0));
    c.hop("mpd-63-ns", &mpd(0, 0x000f), 25_000, &at(63));
    c.hop("mpd-64-ns", &mpd(0, 0x000f), 25_000, &at(64));
    c.hop("mpd-most", &mpd(1, 0x000f), 25_000, &at(4095 * 64 + 63));
    c.hop("mpd-saturates", &mpd(1, 0x000f), 25_000, &at(4096 * 64));
    c.hop("mpd-saturates-far", &mpd(1, 0x000f), 25_000, &at(u64::MAX));
    c.hop("mpd-14-hops", &mpd(0x100e, 0x000f), 25_000, &at(10_000));
    c.hop("mpd-15-hops", &mpd(0x100f, 0x000f), 25_000, &at(10_000));
    c.hop(
        "mpd-15-hops-larger",
        &mpd(0x010f, 0x000f),
        25_000,
        &at(1_000_000),
    );
    c.hop("mpd-all-ones", &mpd(0xffff, 0xffff), 25_000, &at(u64::MAX));
    c.hop(
        "mpd-delay-without-hop",
        &mpd(0x0630, 0x000f),
        25_000,
        &at(10),
    );
    for shift in [0u8, 8, 10, 15] {
        let hop = Hop { shift, ..PORT };
        c.hop(&format!("mpd-shift-{shift}"), &mpd(0, 0x000f), 25_000, &hop);
    }
}

fn bottleneck_hops(c: &mut Cases) {
    c.title("bottleneck: the first hop writes, then whoever has a larger key.");
    c.hop("bottleneck-first", &first(), 25_000, &PORT);
    let idle = Hop {
        delay_ns: 0,
        qlen_bytes: 0,
        load: 0,
        ..PORT
    };
    c.hop("bottleneck-first-idle", &first(), 25_000, &idle);
    c.hop(
        "bottleneck-smaller-key",
        &forward(2, 5000, &PORT_25),
        100_000,
        &PORT,
    );
    c.hop(
        "bottleneck-equal-key",
        &forward(2, 412, &PORT_25),
        100_000,
        &Hop { hop_id: 9, ..PORT },
    );
    c.hop(
        "bottleneck-larger-key",
        &forward(2, 411, &PORT_25),
        100_000,
        &Hop { hop_id: 9, ..PORT },
    );
    let busy = Hop {
        delay_ns: 63,
        load: 255,
        ..PORT
    };
    c.hop(
        "bottleneck-load-below-delay",
        &forward(1, 257, &PORT_25),
        25_000,
        &busy,
    );
    c.hop(
        "bottleneck-load-above-load",
        &forward(1, 254, &PORT_25),
        25_000,
        &busy,
    );
    let short = Hop {
        delay_ns: 64,
        load: 255,
        ..PORT
    };
    c.hop(
        "bottleneck-64-ns-above-load",
        &forward(1, 255, &PORT_25),
        25_000,
        &short,
    );
    let most = |delay_ns| Hop { delay_ns, ..PORT };
    c.hop(
        "bottleneck-key-most",
        &first(),
        25_000,
        &most(65_279 * 64 + 63),
    );
    c.hop(
        "bottleneck-key-saturates",
        &first(),
        25_000,
        &most(65_280 * 64),
    );
    c.hop(
        "bottleneck-key-saturates-far",
        &first(),
        25_000,
        &most(u64::MAX),
    );
    c.hop(
        "bottleneck-key-most-stays",
        &forward(1, 65_535, &PORT_25),
        25_000,
        &most(u64::MAX),
    );
    c.hop(
        "bottleneck-14-hops",
        &forward(14, 5000, &PORT_25),
        25_000,
        &PORT,
    );
    c.hop(
        "bottleneck-15-hops",
        &forward(15, 5000, &PORT_25),
        25_000,
        &PORT,
    );
    c.hop(
        "bottleneck-15-hops-larger",
        &forward(15, 300, &PORT_25),
        25_000,
        &PORT,
    );
    c.hop(
        "bottleneck-counters-most",
        &first(),
        25_000,
        &wrapped((1 << 30) - 1, (1 << 24) - 1),
    );
    c.hop(
        "bottleneck-counters-wrap",
        &first(),
        25_000,
        &wrapped(1 << 30, 1 << 24),
    );
    c.hop(
        "bottleneck-counters-far",
        &first(),
        25_000,
        &wrapped(u64::MAX, u64::MAX),
    );
    c.hop("bottleneck-qlen-79", &first(), 25_000, &queue(79));
    c.hop("bottleneck-qlen-80", &first(), 25_000, &queue(80));
    c.hop(
        "bottleneck-qlen-most",
        &first(),
        25_000,
        &queue(65_535 * 80 + 79),
    );
    c.hop(
        "bottleneck-qlen-saturates",
        &first(),
        25_000,
        &queue(65_536 * 80),
    );
    c.hop(
        "bottleneck-qlen-saturates-far",
        &first(),
        25_000,
        &queue(u32::MAX),
    );
    for mbps in wire::speed::MBPS
        .into_iter()
        .skip(1)
        .take(14)
        .chain([15_000])
    {
        c.hop(&format!("bottleneck-speed-{mbps}"), &first(), mbps, &PORT);
    }
}

fn stack_hops(c: &mut Cases) {
    c.title("stack: a hop takes the first empty slot.");
    for slots in 1..=4 {
        for used in 0..=slots {
            let hop = Hop { hop_id: 9, ..PORT };
            let name = format!("stack-{used}-of-{slots}");
            c.hop(&name, &stacked(slots, used, 0x74), 25_000, &hop);
        }
    }
    c.hop(
        "stack-hop-id-low-bits",
        &empty(),
        25_000,
        &Hop {
            hop_id: 0xa5,
            ..PORT
        },
    );
    c.hop(
        "stack-hop-id-0",
        &empty(),
        25_000,
        &Hop { hop_id: 0, ..PORT },
    );
    c.hop("stack-speed-other", &empty(), 15_000, &PORT);
    c.hop(
        "stack-counters-most",
        &empty(),
        25_000,
        &wrapped((1 << 27) - 1, (1 << 24) - 1),
    );
    c.hop(
        "stack-counters-wrap",
        &empty(),
        25_000,
        &wrapped(1 << 27, 1 << 24),
    );
    c.hop(
        "stack-counters-far",
        &empty(),
        25_000,
        &wrapped(u64::MAX, u64::MAX),
    );
    c.hop("stack-units", &empty(), 25_000, &wrapped(127, 15));
    c.hop("stack-qlen-saturates", &empty(), 25_000, &queue(u32::MAX));
    c.hop("stack-hole", &hole(), 25_000, &PORT);
}

fn hops_among_options(c: &mut Cases) {
    c.title("Where a hop finds the option, and what it leaves alone.");
    let three = [
        ("mpd", mpd(0x0631, 0x1230)),
        ("bottleneck", forward(1, 300, &PORT_25)),
        ("stack", stacked(2, 1, 0x74)),
    ];
    for (name, option) in &three {
        for (where_, list) in [
            ("timestamps-before", options(&[&ts(), option])),
            ("timestamps-behind", options(&[option, &ts()])),
            ("nops-before", options(&[&[1, 1, 1, 1], option])),
            ("nops-behind", options(&[option, &[1, 1, 1, 1]])),
            ("sack-before", options(&[&sack1(), option])),
            ("mss-before", options(&[&unhex("020405b4"), option])),
            (
                "window-scale-before",
                options(&[&unhex("0103030a"), option]),
            ),
            ("end-behind", options(&[option, &[0, 0, 0, 0]])),
        ] {
            c.hop(&format!("{name}-{where_}"), &list, 25_000, &PORT);
        }
        c.hop(
            &format!("{name}-misaligned"),
            &options(&[&[1, 1], option, &[1, 1]]),
            25_000,
            &PORT,
        );
        c.hop(
            &format!("{name}-behind-the-end"),
            &options(&[&[0; 4], option]),
            25_000,
            &PORT,
        );
        for cut in (4..option.len()).step_by(4) {
            c.hop(&format!("{name}-cut-{cut}"), &option[..cut], 25_000, &PORT);
        }
        for len in [4, 6, 12, 18, 24, 40] {
            let mut wrong = [&option[..], &[1; 40]].concat();
            wrong.truncate(40);
            if usize::from(wrong[1]) != len && !(*name == "stack" && len == 12) {
                wrong[1] = len as u8;
                c.hop(&format!("{name}-len-{len}"), &wrong, 25_000, &PORT);
            }
        }
    }
    c.hop("nothing", &ts(), 25_000, &PORT);
    c.hop("no-options", &[], 25_000, &PORT);
    c.hop("bottleneck-echo", &echo(), 25_000, &PORT);
    c.hop("stack-echo", &stacked(2, 2, 0x75), 25_000, &PORT);
    c.hop(
        "hello",
        &Hello::new(wire::Format::Mpd, 1, 6).emit(),
        25_000,
        &PORT,
    );
    c.hop(
        "another-experiment",
        &unhex("fd08eb9f00000000"),
        25_000,
        &PORT,
    );
    c.hop("another-kind", &unhex("fe08fa7000000000"), 25_000, &PORT);
}

fn echoes(c: &mut Cases) {
    c.title("What a receiver sends back; initial TTLs are 64, 128 and 255.");
    let mut back = |name: &str, received: &[&[u8]], ttl: &str, extra: u8| {
        let received: Vec<String> = received.iter().map(|o| hex(o)).collect();
        let inputs = format!(
            "received={} ttl={ttl} extra_hops={extra}",
            received.join(",")
        );
        c.add("echo", name, &inputs);
    };
    let three_hops = mpd(0x0633, 0x000f);
    back("mpd-full", &[&three_hops], "61", 0);
    back("mpd-full-ttl-128", &[&three_hops], "125", 0);
    back("mpd-full-ttl-255", &[&three_hops], "252", 0);
    back("mpd-one-missing", &[&three_hops], "60", 0);
    back("mpd-thirteen-missing", &[&three_hops], "48", 0);
    back("mpd-many-missing", &[&three_hops], "1", 0);
    back("mpd-more-than-the-path", &[&three_hops], "64", 0);
    back("mpd-own-port-counted", &[&three_hops], "61", 1);
    back("mpd-ttl-unknown", &[&three_hops], "unknown", 0);
    back("mpd-15-hops-of-15", &[&mpd(0x063f, 0x000f)], "49", 0);
    back("mpd-15-hops-of-16", &[&mpd(0x063f, 0x000f)], "48", 0);
    back("mpd-no-hop", &[&mpd(0, 0x1230)], "61", 0);
    back(
        "mpd-two-packets",
        &[&mpd(0x0633, 0x000f), &mpd(0x0423, 0x000f)],
        "61",
        0,
    );
    back(
        "mpd-two-packets-worst-coverage",
        &[&mpd(0x0632, 0x000f), &mpd(0x0423, 0x000f)],
        "61",
        0,
    );
    back(
        "mpd-one-without-hops",
        &[&mpd(0x0633, 0x000f), &mpd(0, 0x000f)],
        "61",
        0,
    );
    back("mpd-malformed", &[&mpd(0x0630, 0x000f)], "61", 0);
    let three_hops = forward(3, 412, &PORT_25);
    back("bottleneck-full", &[&three_hops], "61", 0);
    back("bottleneck-one-missing", &[&three_hops], "60", 0);
    back("bottleneck-ttl-unknown", &[&three_hops], "unknown", 0);
    back(
        "bottleneck-newest",
        &[&three_hops, &forward(3, 300, &PORT)],
        "61",
        0,
    );
    back("bottleneck-no-hop", &[&first()], "61", 0);
    back("stack-used-slots-only", &[&stacked(3, 2, 0x74)], "62", 0);
    back("stack-full", &[&stacked(3, 3, 0x74)], "60", 0);
    back(
        "stack-newest",
        &[&stacked(3, 3, 0x74), &stacked(3, 2, 0x74)],
        "62",
        0,
    );
    back("stack-no-hop", &[&empty()], "62", 0);
}

fn samples(c: &mut Cases) {
    c.title("What a sender's control law is told.");
    let mut sample = |name: &str, option: &[u8], shift: u8| {
        c.add(
            "sample",
            name,
            &format!("option={} shift={shift}", hex(option)),
        );
    };
    sample("mpd", &mpd(0x0212, 0x0630), 6);
    sample("mpd-shift-8", &mpd(0x0212, 0x0630), 8);
    sample("mpd-shift-15-most", &mpd(0xffff, 0xfff0), 15);
    sample("mpd-idle", &mpd(0x0002, 0x0000), 6);
    sample("mpd-partial", &mpd(0x0212, 0x0632), 6);
    sample("mpd-coverage-unknown", &mpd(0x0212, 0x063e), 6);
    sample("mpd-no-sample", &mpd(0x0212, 0x000f), 6);
    sample("mpd-no-sample-any-delay", &mpd(0x0212, 0xffff), 6);
    sample("bottleneck", &echo(), 6);
    sample(
        "bottleneck-most",
        &unhex("fd10fa73ffeeffffffffffffffffffff"),
        6,
    );
    sample("bottleneck-forward-is-none", &forward(3, 412, &PORT_25), 6);
    sample("stack", &stacked(3, 3, 0x75), 6);
    sample(
        "stack-most",
        &[&[0xfd, 12, 0xfa, 0x75][..], &[0xff; 8]].concat(),
        6,
    );
    sample("stack-forward-is-none", &stacked(3, 3, 0x74), 6);
}

fn handshakes(c: &mut Cases) {
    c.title("The handshake. takes: 1 = mpd, 2 = bottleneck, 4 = stack.");
    for (wants, takes, shift) in [("mpd", 1, 6), ("bottleneck", 7, 6), ("stack", 6, 8)] {
        let inputs = format!("wants={wants} takes={takes} shift={shift}");
        c.add("syn", &format!("{wants}-{takes}"), &inputs);
    }
    for (name, syn, mine) in [
        ("same", "fd08fa7f16110000", "wants=mpd takes=1 shift=6"),
        (
            "the-clients-wish",
            "fd08fa7f16270000",
            "wants=mpd takes=7 shift=6",
        ),
        (
            "the-listeners-wish",
            "fd08fa7f16270000",
            "wants=mpd takes=5 shift=6",
        ),
        (
            "what-both-take",
            "fd08fa7f16150000",
            "wants=bottleneck takes=6 shift=6",
        ),
        (
            "any-that-both-take",
            "fd08fa7f16170000",
            "wants=stack takes=6 shift=7",
        ),
        (
            "nothing-in-common",
            "fd08fa7f16110000",
            "wants=bottleneck takes=6 shift=6",
        ),
        (
            "another-mpd-unit",
            "fd08fa7f18110000",
            "wants=mpd takes=1 shift=6",
        ),
        (
            "another-unit-does-not-matter",
            "fd08fa7f18220000",
            "wants=bottleneck takes=2 shift=6",
        ),
        (
            "a-later-version",
            "fd08fa7f26110000",
            "wants=mpd takes=1 shift=6",
        ),
        ("malformed", "fd08fa7f06110000", "wants=mpd takes=1 shift=6"),
        ("no-hello", "fd08fa700000000f", "wants=mpd takes=1 shift=6"),
    ] {
        c.add("answer", name, &format!("syn={syn} {mine}"));
    }
    for (name, synack, offered) in [
        ("same", "fd08fa7f16110000", "wants=mpd takes=1 shift=6"),
        (
            "second-choice",
            "fd08fa7f16110000",
            "wants=bottleneck takes=3 shift=6",
        ),
        (
            "not-offered",
            "fd08fa7f16340000",
            "wants=mpd takes=1 shift=6",
        ),
        (
            "more-than-one",
            "fd08fa7f16130000",
            "wants=mpd takes=3 shift=6",
        ),
        (
            "another-mpd-unit",
            "fd08fa7f17110000",
            "wants=mpd takes=1 shift=6",
        ),
        (
            "a-later-version",
            "fd08fa7f26110000",
            "wants=mpd takes=1 shift=6",
        ),
        ("malformed", "fd08fa7f06110000", "wants=mpd takes=1 shift=6"),
    ] {
        c.add("agree", name, &format!("synack={synack} {offered}"));
    }
}

fn sums_and_loads(c: &mut Cases) {
    c.title("The TCP checksum, RFC 1624.");
    for (name, offset, check, old, new) in [
        ("rfc-1624", 20, "dd2f", "5555", "3285"),
        ("nothing", 20, "1c46", "1234", "1234"),
        ("zero-to-ones", 20, "1c46", "0000", "ffff"),
        ("ones-to-zero", 20, "1c46", "ffff", "0000"),
        ("carry", 20, "0000", "ffff", "0001"),
        ("odd-offset", 21, "1c46", "1234", "5678"),
        ("one-byte", 20, "1c46", "12", "34"),
        ("one-byte-odd-offset", 21, "1c46", "12", "34"),
        (
            "eight-bytes",
            24,
            "1c46",
            "0000000000000000",
            "97003d0904c4b09c",
        ),
        (
            "eight-bytes-odd-offset",
            25,
            "1c46",
            "0000000000000000",
            "97003d0904c4b09c",
        ),
    ] {
        let inputs = format!("offset={offset} check={check} old={old} new={new}");
        c.add("checksum", name, &inputs);
    }

    c.title("The load of a port in 1/256; the level halves in 32768 ns.");
    let packets = |n: u64, gap: u64, busy: u64| {
        let packet = |i| format!("{}:{}", i * gap, busy * 256);
        (0..n).map(packet).collect::<Vec<_>>().join(",")
    };
    c.add("load", "one-packet", "packets=1000:307200");
    c.add(
        "load",
        "full",
        &format!("packets={}", packets(120, 1200, 1200)),
    );
    c.add(
        "load",
        "half",
        &format!("packets={}", packets(120, 2400, 1200)),
    );
    c.add(
        "load",
        "idle-for-a-half-life",
        "packets=0:16777216,32768:0,65536:0",
    );
    c.add(
        "load",
        "idle-for-long",
        "packets=0:16777216,18446744073709551615:0",
    );
    c.add("load", "clock-goes-back", "packets=50000:8388608,0:0");
    c.add("load", "slow-link", "packets=0:4294967295,32768:0");
}

fn generate() -> String {
    let mut c = Cases {
        text: HEAD.into(),
        names: HashSet::new(),
    };
    for cases in [
        speeds_and_emit,
        good_options,
        broken_options,
        lists,
        mpd_hops,
        bottleneck_hops,
        stack_hops,
        hops_among_options,
        echoes,
        samples,
        handshakes,
        sums_and_loads,
    ] {
        cases(&mut c);
    }
    c.text
}

#[test]
fn the_file_is_what_the_cases_give() {
    let text = generate();
    if std::env::var_os("FATHOM_BLESS").is_some() {
        std::fs::write(file(), &text).expect("vectors.txt");
    }
    let stored = stored();
    for (number, (have, want)) in stored.lines().zip(text.lines()).enumerate() {
        assert_eq!(have, want, "vectors.txt:{}", number + 1);
    }
    assert_eq!(
        stored.len(),
        text.len(),
        "vectors.txt has lines too many or too few"
    );
}

#[test]
fn every_vector_runs() {
    let all = vectors(&stored());
    for v in &all {
        assert_eq!(answer(v), v.answer, "{} {}", v.verb, v.name);
    }
    assert!(all.len() > 500, "only {} vectors", all.len());
}

/// The hops of the file, answered by the model of bits and a whole checksum.
#[test]
fn the_model_agrees_on_every_hop() {
    let mut stamped = 0;
    for v in vectors(&stored()).iter().filter(|v| v.verb == "hop") {
        let before = v.bytes("options");
        let port = model::Port {
            delay_ns: v.number("delay_ns"),
            qlen_bytes: v.number("qlen_bytes"),
            tx_bytes: v.number("tx_bytes"),
            time_ns: v.number("time_ns"),
            load: v.number("load"),
            speed: match wire::speed::MBPS
                .iter()
                .position(|&m| u64::from(m) == v.number("mbps"))
            {
                Some(code) => code as u64,
                None => 15,
            },
            hop_id: v.number("hop_id"),
            shift: v.number("shift") as u32,
        };
        let Some(answer) = v.answer.strip_prefix("options=") else {
            continue;
        };
        let (options, check) = answer.split_once(" check=").expect("a checksum");
        let after = unhex(options);
        let at = (0..before.len()).step_by(4).find(|&at| before[at] == 0xfd);
        let at = at.expect("an option");
        let end = at + usize::from(before[at + 1]);
        let want = model::hop(&before[at..end], &port).expect("the model writes too");
        assert_eq!(hex(&after[at..end]), hex(&want), "{}", v.name);
        assert_eq!(
            (&after[..at], &after[end..]),
            (&before[..at], &before[end..])
        );
        // A word before the options with which the checksum is the one given: what that wants, less
        // what the options sum to.
        let given = u16::from_str_radix(v.text("check"), 16).expect("hex");
        let word = u32::from(!given) + u32::from(model::checksum(&before));
        let word = ((word & 0xffff) + (word >> 16)) as u16;
        let sum = |o: &[u8]| model::checksum(&[&word.to_be_bytes()[..], o].concat());
        assert_eq!(sum(&before), given);
        assert_eq!(format!("{:04x}", sum(&after)), check, "{}", v.name);
        stamped += 1;
    }
    assert!(stamped > 80, "only {stamped} hops write");
}

/// By hand, from the diagrams.
#[test]
fn a_few_by_hand() {
    let all = vectors(&stored());
    let answer = |verb: &str, name: &str| {
        let found = all.iter().find(|v| v.verb == verb && v.name == name);
        found
            .unwrap_or_else(|| panic!("no {verb} {name}"))
            .answer
            .clone()
    };
    // 10000 ns are 156 = 0x9c units of 64 ns; one hop.
    assert!(answer("hop", "mpd-first").starts_with("options=fd08fa7009c1000f "));
    // Hop 7, one hop at 25G (code 7), key 256 + 156 = 0x19c, 156 = 0x9c cells, 15625 = 0x3d09 units
    // of 64 bytes, 5000000 = 0x4c4b40 ns.
    assert!(
        answer("hop", "bottleneck-first").starts_with("options=fd10fa720717019c009c003d094c4b40 ")
    );
    // Hop 9, code 7, 7812 = 0x01e84 units of 128 bytes, 312500 = 0x4c4b4 units of 16 ns.
    assert!(answer("hop", "stack-0-of-1").starts_with("options=fd0cfa749701e844c4b4009c "));
    assert_eq!(answer("hop", "stack-1-of-1"), "error=full");
    assert_eq!(answer("echo", "mpd-one-missing"), "echo=0631");
    assert_eq!(answer("echo", "mpd-no-hop"), "echo=000f");
    assert_eq!(
        answer("echo", "bottleneck-full"),
        "option=fd10fa730707019c009c003d094c4b40"
    );
    assert_eq!(answer("checksum", "rfc-1624"), "check=0000");
    assert_eq!(answer("speed", "code-13"), "mbps=800000");
}
