// SPDX-License-Identifier: GPL-2.0

//! What has to hold for any bytes whatsoever. Driven by a fuzzer (`fuzz/`) and by a plain test.

use wire::option::find_last;
use wire::storage::State;
use wire::{find, parse, Format, Hello, Hop, Parsed, Speed, Storage};

/// Bytes to be taken off the front; zeroes when there are none left.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn number(&mut self, bytes: usize) -> u64 {
        let take = self.take(bytes);
        take.iter().fold(0, |n, &b| n << 8 | u64::from(b))
    }

    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = tail;
        head
    }
}

fn sum(bytes: &[u8]) -> u16 {
    let word = |w: &[u8]| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// A hop on arbitrary options: within the option, or not at all; the checksum stays right.
fn stamp(hop: &Hop, options: &[u8]) {
    let mut after = options.to_vec();
    let found = find(options);
    let mut all = [0xfd; wire::MAX_OPTIONS];
    all[..options.len()].copy_from_slice(options);
    let last = find_last(&all, options.len());
    assert!(last.is_err() || last == found, "two ways, one answer");
    if let Ok(found) = found {
        assert!(found.at % 4 == 0 && found.at + found.len <= options.len());
    }
    match hop.stamp(&mut after) {
        Err(_) => assert_eq!(after, options, "what is not written stays as it is"),
        Ok(delta) => {
            let found = found.expect("only what is found is written");
            let body = found.at + 4..found.at + found.len;
            for (i, (old, new)) in options.iter().zip(&after).enumerate() {
                assert!(
                    old == new || body.contains(&i),
                    "byte {i} is not the option's"
                );
            }
            assert_eq!(find(&after), Ok(found));
            // A segment of ports, options and a byte: neither of its sums is zero.
            let segment = |options: &[u8]| [&[0x12, 0x34], options].concat();
            let check = !sum(&segment(options));
            assert_eq!(delta.apply(check), !sum(&segment(&after)));
        }
    }
}

/// Parsing arbitrary bytes: the same answer whatever lies behind the option.
fn parse_alone(bytes: &[u8]) {
    let parsed = parse(bytes);
    if parsed.is_ok() {
        let len = usize::from(bytes[1]);
        let mut other = bytes[..len].to_vec();
        assert_eq!(parse(&other), parsed, "needs nothing behind the option");
        other.extend([0xff; 48]);
        assert_eq!(parse(&other), parsed, "reads nothing behind the option");
        for cut in 0..len {
            assert!(
                parse(&bytes[..cut]).is_err(),
                "{cut} bytes of {len} are no option"
            );
        }
    }
}

/// A connection on which anything may arrive.
fn connection(source: &mut Source<'_>) {
    let wants = Format::from_code(source.number(1) as u8 % 3 + 1).unwrap_or(Format::Mpd);
    let hello = Hello::new(wants, source.number(1) as u8, source.number(1) as u8);
    let mut storage = Storage::default();
    if source.number(1) & 1 == 0 {
        storage.accepted(&hello, true);
    } else {
        let answer = parse(source.take(8));
        let answer = match &answer {
            Ok(Parsed::Hello(answer)) => Some(answer),
            _ => None,
        };
        storage.answered(&hello, answer, true);
    }
    while !source.0.is_empty() {
        let len = source.number(1) as usize % 41;
        let options = source.take(len);
        let ack = source.number(1) as u32;
        let parsed = find(options).and_then(|f| parse(&options[f.at..]));
        let good = parsed.is_ok();
        let before = storage;
        storage.segment(parsed, ack, Some(source.number(1) as u8));
        let on = matches!(State::from_code(storage.head.state), State::On);
        assert!(
            !on || good || before.head.state == storage.head.state,
            "only an option switches on"
        );
        assert_eq!(storage.head.format, before.head.format);
        if let Some(sample) = storage.head.take(ack) {
            assert!(good && on, "a sample comes with its segment");
            assert_eq!(sample.ack, ack);
            assert!(sample.decode(storage.head.shift).is_some());
        }
        assert_eq!(storage.head.take(ack), None, "a sample is taken once");
        let flags = source.number(1);
        let (payload, room) = (flags & 1 == 1, flags as usize / 2 % 41);
        if let Some(out) = storage.write(payload, room) {
            assert!(on && out.as_slice().len() <= room);
            assert!(parse(out.as_slice()).is_ok(), "what is written can be read");
        }
    }
}

/// Everything, on `data`.
pub fn run(data: &[u8]) {
    let mut source = Source(data);
    let hop = Hop {
        delay_ns: source.number(8),
        qlen_bytes: source.number(4) as u32,
        tx_bytes: source.number(8),
        time_ns: source.number(8),
        load: source.number(1) as u8,
        speed: Speed::from_code(source.number(1) as u8),
        hop_id: source.number(1) as u8,
        shift: source.number(1) as u8,
    };
    let rest = source.0;
    stamp(&hop, &rest[..rest.len().min(40)]);
    parse_alone(rest);
    connection(&mut source);
}
