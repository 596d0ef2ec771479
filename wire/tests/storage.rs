// SPDX-License-Identifier: GPL-2.0

//! Two sockets, their handshake, and what each finds in its storage.

use wire::mpd::{Missing, Word};
use wire::storage::{State, VERSION};
use wire::{find, parse, Format, Hello, Hop, Parsed, Reason, Speed, Storage, Telemetry};

const PORT: Hop = Hop {
    delay_ns: 10_000,
    qlen_bytes: 12_480,
    tx_bytes: 1_024_000,
    time_ns: 5_000_000,
    load: 0,
    speed: Speed::OTHER,
    hop_id: 7,
    shift: 6,
};

/// A client and a server that agreed on `format`.
fn pair(format: Format) -> (Storage, Storage) {
    let (mut client, mut server) = (Storage::default(), Storage::default());
    let (syn, mine) = (Hello::new(format, 7, 6), Hello::new(Format::Mpd, 7, 6));
    client.offer(&syn);
    let answer = mine.answer(&syn).expect("an answer");
    assert!(client.answered(&syn, Some(&answer), true));
    server.accepted(&answer, true);
    (client, server)
}

/// A segment from one to the other, through `hops`, with the TTL that leaves; false when it bore no
/// option.
fn send(from: &mut Storage, to: &mut Storage, payload: bool, ack: u32, hops: &[Hop]) -> bool {
    let Some(out) = from.write(payload, 28) else {
        to.segment(Err(Reason::ABSENT), ack, Some(64 - hops.len() as u8));
        return false;
    };
    let mut options = out.as_slice().to_vec();
    for hop in hops {
        hop.stamp(&mut options).ok();
    }
    let parsed = find(&options).and_then(|f| parse(&options[f.at..]));
    to.segment(parsed, ack, Some(64 - hops.len() as u8));
    true
}

fn telemetry(storage: &mut Storage, ack: u32) -> Option<Telemetry> {
    let sample = storage.head.take(ack)?;
    sample.decode(storage.head.shift)
}

#[test]
fn an_ack_brings_back_the_largest_delay() {
    let (mut client, mut server) = pair(Format::Mpd);
    let quiet = Hop {
        delay_ns: 640,
        ..PORT
    };
    send(&mut client, &mut server, true, 1, &[quiet, PORT, quiet]);
    send(&mut client, &mut server, true, 1, &[quiet, quiet, quiet]);
    send(&mut server, &mut client, false, 100, &[quiet, quiet]);
    assert_eq!(
        telemetry(&mut client, 100),
        Some(Telemetry::Mpd {
            forward_ns: 9_984,
            backward_ns: 640,
            missing: Missing::NONE,
        })
    );
    assert_eq!(client.head.take(100), None, "a sample is taken once");
    send(&mut server, &mut client, false, 100, &[quiet, quiet]);
    assert_eq!(client.head.take(100), None, "an echo is sent once");
}

#[test]
fn a_hop_without_int_shows_as_missing() {
    let (mut client, mut server) = pair(Format::Mpd);
    let out = client.write(true, 28).expect("an option");
    let mut options = out.as_slice().to_vec();
    PORT.stamp(&mut options).expect("a stamp");
    server.segment(parse(&options), 1, Some(62));
    send(&mut server, &mut client, false, 100, &[]);
    let Some(Telemetry::Mpd { missing, .. }) = telemetry(&mut client, 100) else {
        panic!("no sample");
    };
    assert_eq!(missing.code(), 1);
}

#[test]
fn records_come_back_as_their_hops_wrote_them() {
    for format in [Format::Bottleneck, Format::Stack] {
        let (mut client, mut server) = pair(format);
        let near = Hop {
            delay_ns: 0,
            hop_id: 1,
            speed: Speed::from_mbps(25_000),
            ..PORT
        };
        let far = Hop {
            hop_id: 2,
            speed: Speed::from_mbps(10_000),
            ..PORT
        };
        send(&mut client, &mut server, true, 1, &[near, far]);
        send(&mut server, &mut client, false, 100, &[PORT, PORT]);
        match telemetry(&mut client, 100) {
            Some(Telemetry::Bottleneck(record, missing)) => {
                assert_eq!((record.hop_id, record.speed.mbps()), (2, 10_000));
                assert_eq!((record.qlen_bytes, record.tx_bytes), (12_480, 1_024_000));
                assert_eq!((record.ts_ns, missing), (5_000_000, Missing::NONE));
            }
            Some(Telemetry::Stack(records, 2)) => {
                assert_eq!((records[0].hop_id, records[1].hop_id), (1, 2));
                assert_eq!(records[1].speed.mbps(), 10_000);
                assert_eq!(records[1].ts_ns, 5_000_000);
            }
            other => panic!("{format:?}: {other:?}"),
        }
    }
}

#[test]
fn data_both_ways_takes_turns() {
    let (mut client, mut server) = pair(Format::Bottleneck);
    let mut echoes = 0;
    for round in 0..8 {
        send(&mut client, &mut server, true, round, &[PORT]);
        echoes += u32::from(telemetry(&mut server, round).is_some());
        send(&mut server, &mut client, true, round, &[PORT]);
        echoes += u32::from(telemetry(&mut client, round).is_some());
    }
    assert!((6..=8).contains(&echoes), "{echoes} echoes in 16 segments");
    assert_eq!(client.counters.written, 8);
}

#[test]
fn a_server_waits_for_the_clients_first_option() {
    let (mut client, mut server) = pair(Format::Mpd);
    assert_eq!(server.write(true, 28), None);
    server.segment(Err(Reason::ABSENT), 1, None);
    assert_eq!(State::from_code(server.head.state), State::Answered);
    send(&mut client, &mut server, false, 1, &[]);
    assert!(server.head.is_on() && server.write(true, 28).is_some());
}

#[test]
fn who_is_not_answered_stays_silent() {
    let mut client = Storage::default();
    let syn = Hello::new(Format::Mpd, 1, 6);
    client.offer(&syn);
    assert!(!client.answered(&syn, None, true));
    assert_eq!(client.write(true, 40), None);
    let option = wire::mpd::emit(Word(0x0631), wire::mpd::EchoWord(0x0630));
    client.segment(parse(&option), 1, None);
    assert_eq!(client.head.take(1), None);
    assert_eq!(client.counters.reasons[Reason::UNEXPECTED.index()], 1);
}

#[test]
fn a_sample_is_fresh_or_not_there() {
    let (mut client, mut server) = pair(Format::Mpd);
    let mut back = |client: &mut Storage, ack| {
        send(client, &mut server, true, 1, &[PORT]);
        send(&mut server, client, false, ack, &[]);
    };
    back(&mut client, 100);
    client.segment(Err(Reason::ABSENT), 200, None);
    assert_eq!(
        client.head.take(200),
        None,
        "an ACK without an option has no sample"
    );
    back(&mut client, 300);
    assert_eq!(
        client.head.take(400),
        None,
        "one of an earlier ACK is stale"
    );
    assert_eq!(client.head.take(300), None, "and dropped");
    back(&mut client, 500);
    assert_eq!(
        client.head.take(450),
        None,
        "one of a later ACK is not this one's"
    );
    assert!(client.head.take(500).is_some(), "and waits");
    back(&mut client, u32::MAX);
    assert_eq!(client.head.take(5), None, "numbers wrap");
    back(&mut client, 600);
    client.head.generation = 1;
    assert_eq!(client.head.take(600), None, "a writer is at work");
    client.head.generation = 2;
    client.head.version = VERSION + 1;
    assert_eq!(client.head.take(600), None, "another version");
}

#[test]
fn another_format_than_the_one_agreed_upon_is_not_believed() {
    let (mut client, _) = pair(Format::Mpd);
    for option in [
        "fd10fa730707019c009c003d094c4b40",
        "fd0cfa751701e844c4b4009c",
        "fd08fa7f16110000",
    ] {
        let bytes: Vec<u8> = (0..option.len())
            .step_by(2)
            .map(|i| u8::from_str_radix(&option[i..i + 2], 16).expect("hex"))
            .collect();
        client.segment(parse(&bytes), 1, None);
        assert_eq!(client.head.take(1), None);
    }
    assert_eq!(client.counters.reasons[Reason::UNEXPECTED.index()], 3);
    assert_eq!(
        (client.head.absent_run, client.counters.malformed()),
        (3, 0)
    );
}

#[test]
fn what_is_malformed_is_counted_by_its_reason() {
    let (mut client, _) = pair(Format::Mpd);
    let bad: [&[u8]; 3] = [
        &[0xfd, 8, 0xfa, 0x70, 0, 0],
        &[0xfd, 9, 0xfa, 0x70, 0, 0, 0, 0, 0],
        &[0xfd, 8, 0xfa, 0x70, 0x06, 0x30, 0, 0],
    ];
    for bytes in bad {
        client.segment(parse(bytes), 1, None);
    }
    assert_eq!(client.counters.malformed(), 3);
    assert_eq!(client.counters.reasons, [0, 1, 1, 1, 0, 0, 0, 0]);
}

#[test]
fn an_echo_waits_for_room() {
    let (mut client, mut server) = pair(Format::Bottleneck);
    send(&mut client, &mut server, true, 1, &[PORT]);
    assert_eq!(server.write(false, 15), None, "SACK blocks took it");
    assert_eq!(server.counters.reasons[Reason::NO_ROOM.index()], 1);
    let out = server.write(false, 16).expect("it is still there");
    assert!(matches!(
        parse(out.as_slice()),
        Ok(Parsed::BottleneckEcho(_))
    ));
}

#[test]
fn an_echo_is_a_word_an_xdp_program_can_keep() {
    let mut echo = wire::Echo::default();
    for word in [0x0631, 0x0721, 0x0441] {
        let parsed = Parsed::Mpd(Word(word), wire::mpd::EchoWord::NONE);
        echo.merge(&parsed, Some(1));
    }
    assert_eq!(echo.mpd().0, 0x0720);
}

/// Linux puts timestamps first, then SACK blocks, then what eBPF asked for.
#[test]
fn the_option_is_found_where_linux_puts_it() {
    let ours = wire::mpd::emit(Word::EMPTY, wire::mpd::EchoWord::NONE);
    for timestamps in [false, true] {
        for blocks in 0..=3 {
            let mut options = vec![];
            if timestamps {
                options.extend([1, 1, 8, 10]);
                options.extend(ours); // a value that looks like an option is none
            }
            if blocks > 0 {
                options.extend([1, 1, 5, 2 + 8 * blocks]);
                options.extend([0xfd; 8].repeat(blocks.into()));
            }
            let at = options.len();
            options.extend(ours);
            if options.len() > 40 {
                continue;
            }
            let mut all = [0; 40];
            all[..options.len()].copy_from_slice(&options);
            let found = wire::option::find_last(&all, options.len());
            assert_eq!(found, find(&options));
            assert_eq!(found.map(|found| found.at), Ok(at));
            assert!(
                wire::option::find_last(&all, at).is_err(),
                "not beyond the end"
            );
        }
    }
}

/// A window needs some samples, an echo goes at once, and the first segments all bear an option.
#[test]
fn options_at_intervals() {
    let (mut client, mut server) = pair(Format::Mpd);
    assert_eq!(client.next_len(true, 0, 10_000), 8, "the first");
    assert_eq!(
        client.next_len(false, 0, 10_000),
        8,
        "an ACK, too: the peer waits for one"
    );
    send(&mut client, &mut server, true, 1, &[PORT]);
    client.tag(0);
    assert_eq!(
        client.next_len(true, 1448, 10_000),
        8,
        "until the peer's first is here"
    );
    assert_eq!(server.next_len(false, 0, 10_000), 8, "an echo");
    send(&mut server, &mut client, false, 100, &[]);
    server.tag(0);
    assert_eq!(server.next_len(false, 0, 10_000), 0, "nothing to say");
    assert_eq!(client.next_len(true, 9_999, 10_000), 0);
    assert_eq!(client.next_len(true, 10_000, 10_000), 8);
    assert_eq!(
        client.next_len(true, 0u32.wrapping_sub(1448), 10_000),
        8,
        "sent again"
    );
    assert_eq!(client.next_len(false, 20_000, 10_000), 0, "an ACK");
}

#[test]
fn acks_without_a_sample_wait_for_one_at_most_a_round_trip() {
    let mut hold = wire::Hold::NONE;
    assert_eq!(hold.ack(false, 1, 0, 1, 0), Some((1, 0)), "none ever came");
    assert_eq!(hold.ack(true, 1, 0, 100, 90), Some((1, 0)));
    assert_eq!(hold.ack(false, 2, 1, 102, 92), None);
    assert_eq!(hold.ack(false, 1, 1, 103, 99), None, "sent before it came");
    assert_eq!(
        hold.ack(true, 3, 1, 106, 99),
        Some((6, 3)),
        "with those that waited"
    );
    assert_eq!(hold.ack(false, 1, 0, 107, 105), None);
    assert_eq!(
        hold.ack(false, 1, 0, 108, 106),
        Some((2, 0)),
        "a round trip without"
    );
    assert_eq!(
        hold.ack(false, 1, 0, 109, 107),
        Some((1, 0)),
        "and no more waiting"
    );
    assert_eq!(hold.ack(true, 1, 0, u32::MAX, 110), Some((1, 0)));
    assert_eq!(hold.ack(false, 1, 0, 0, u32::MAX - 1), None, "counts wrap");
}
