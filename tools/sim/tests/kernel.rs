// SPDX-License-Identifier: GPL-2.0
//! What the simulator's TCP takes from Linux, one behaviour at a time. Each was found by running a scenario on the
//! simulator and on the kernel, and shows in `docs/agreement.md` when it is taken away.

use fathom_sim::cc::{dctcp, Ecn, Spec};
use fathom_sim::packet::{flag, Kind, Packet};
use fathom_sim::receiver::{Answer, Receiver};
use fathom_sim::sender::{AckIn, CaState, Cut, Next, Sender, TcpConfig};
use laws::{theta_powertcp, Path};

const MS: u64 = 1_000_000;

fn path() -> Path {
    Path {
        line_rate: 1_250_000_000,
        base_rtt_ns: 0,
        handshake_rtt_ns: 20_000,
        clock_ns: 1000,
        mss: 1448,
        overhead: 90,
        hops: 0,
    }
}

fn sender(spec: &Spec, tcp: &TcpConfig) -> Sender {
    let mut sender = Sender::new(
        spec.control(),
        path(),
        Cut::new(1448, u64::MAX),
        tcp,
        true,
        0,
    );
    sender.write(1 << 20, 0, tcp);
    sender
}

fn ack(ack: u32, ece: bool) -> AckIn<'static> {
    AckIn {
        ack,
        sack: &[],
        dsack: false,
        ece,
        circuit: false,
        telemetry: None,
    }
}

/// Sends all that may be sent at `now_ns`: how many, and when the next may be.
fn send(sender: &mut Sender, now_ns: u64, tcp: &TcpConfig) -> (u32, Option<u64>) {
    let mut sent = 0;
    loop {
        match sender.next(now_ns, tcp) {
            Next::Send(_) => {
                sender.left_host();
                sent += 1;
            }
            Next::At(at) => return (sent, Some(at)),
            Next::Wait => return (sent, None),
        }
    }
}

#[test]
fn a_timer_ends_on_the_tick_after() {
    let tcp = TcpConfig::default();
    assert_eq!(tcp.wheel(0, 3), 4 * MS);
    assert_eq!(tcp.wheel(MS - 1, 3), 4 * MS);
    assert_eq!(tcp.wheel(MS, 3), 5 * MS);
    assert_eq!(tcp.wheel(0, 62), 63 * MS);
    // From 63 ticks on a place of the wheel is 8 of them, from 504 on 64.
    assert_eq!(tcp.wheel(0, 63), 64 * MS);
    assert_eq!(tcp.wheel(0, 200), 208 * MS);
    assert_eq!(tcp.wheel(5 * MS, 1000), 1024 * MS);
}

#[test]
fn a_timeout_is_a_whole_number_of_ticks() {
    // 2 ms and a round trip of 20 us are three ticks; a probe is two round trips and 2 ms, as many.
    let tcp = TcpConfig {
        min_rto_ns: 2 * MS,
        ..TcpConfig::default()
    };
    let mut s = sender(&Spec::Dctcp(dctcp::Config::default()), &tcp);
    let start = 10 * MS + 300_000;
    send(&mut s, start, &tcp);
    assert_eq!(s.due_ns, 14 * MS);
    let (_, probe) = s.on_timer(14 * MS, &tcp);
    assert!(probe.is_some());
    assert_eq!(s.due_ns, 18 * MS);
    s.on_timer(18 * MS, &tcp);
    assert_eq!(s.counters.timeouts, 1);
    assert_eq!(s.due_ns, 25 * MS, "six ticks, and one");
}

#[test]
fn an_ack_is_held_back_for_less_than_the_least_timeout() {
    for (min_rto_ns, due) in [(200 * MS, 41 * MS), (2 * MS, 2 * MS)] {
        let tcp = TcpConfig {
            min_rto_ns,
            quick_acks: 0,
            ..TcpConfig::default()
        };
        let mut r = Receiver::new(&tcp, Ecn::None);
        assert_eq!(r.on_data(&data(0, 0), 0, 500_000, &tcp), Answer::Later);
        assert_eq!(r.due_ns, due);
    }
}

fn data(seq: u32, flags: u8) -> Packet {
    Packet {
        seq,
        flags,
        size: 1514,
        kind: Kind::Data,
        ..Packet::NONE
    }
}

#[test]
fn marks_that_change_are_acknowledged_at_once() {
    let tcp = TcpConfig {
        quick_acks: 0,
        ..TcpConfig::default()
    };
    let mut r = Receiver::new(&tcp, Ecn::Each);
    let mut segment = |seq, flags| {
        let before = r.take_marks(&data(seq, flags));
        if before {
            r.ack(3, &mut [(0, 0); 4]);
            r.turn_marks();
        }
        let answer = r.on_data(&data(seq, flags), 0, 0, &tcp);
        if answer == Answer::Now {
            r.ack(3, &mut [(0, 0); 4]);
        }
        (before, answer)
    };
    assert_eq!(segment(0, 0), (false, Answer::Later));
    // The one before is acknowledged as unmarked, this one as marked.
    assert_eq!(segment(1, flag::CE), (true, Answer::Now));
    assert_eq!(segment(2, flag::CE), (false, Answer::Later));
    assert_eq!(segment(3, flag::CE), (false, Answer::Now));
    assert_eq!(segment(4, 0), (false, Answer::Now));
    // Who has reduced its window may wait for this very ACK.
    assert_eq!(segment(5, flag::CWR), (false, Answer::Now));
}

#[test]
fn marks_are_answered_until_a_segment_beyond_is_acknowledged() {
    let tcp = TcpConfig::default();
    let mut s = sender(&Spec::Dctcp(dctcp::Config::default()), &tcp);
    assert_eq!(send(&mut s, 0, &tcp).0, 10);
    s.on_ack(30_000, &ack(2, true), &tcp);
    assert_eq!(s.state(), CaState::Cwr);
    send(&mut s, 30_000, &tcp);
    // Ten segments were in flight when the mark came back.
    s.on_ack(60_000, &ack(10, false), &tcp);
    assert_eq!(s.state(), CaState::Cwr);
    send(&mut s, 60_000, &tcp);
    s.on_ack(90_000, &ack(11, false), &tcp);
    assert_eq!(s.state(), CaState::Open);
}

#[test]
fn the_tenth_segment_is_paced() {
    let tcp = TcpConfig::default();
    let spec = Spec::theta_powertcp(&theta_powertcp::Config::default()).unwrap();
    let mut s = sender(&spec, &tcp);
    let (sent, next) = send(&mut s, 0, &tcp);
    assert_eq!(sent, 10);
    assert!(next.is_some_and(|at| at > 0), "the eleventh waits");
}

#[test]
fn no_window_grows_in_its_first_round() {
    // The first write finds nothing to send: what it sends counts as all that the application had. The hop says
    // of itself that it is all but idle.
    let tcp = TcpConfig::default();
    let spec = Spec::powertcp(&theta_powertcp::Config::default()).unwrap();
    let mut s = sender(&spec, &tcp);
    let first = s.cwnd();
    let (mut now, mut seq) = (0, 0);
    for round in 0..8 {
        let (sent, _) = send(&mut s, now, &tcp);
        now += 22_000;
        for _ in 0..sent {
            (seq, now) = (seq + 1, now + 1000);
            let hop = wire::bottleneck::Record {
                tx_bytes: seq * 100,
                ts_ns: now as u32,
                speed: wire::Speed::from_mbps(10_000),
                ..wire::bottleneck::Record::default()
            };
            let mut input = ack(seq, false);
            input.telemetry = Some(wire::Telemetry::Bottleneck(hop, wire::mpd::Missing::NONE));
            s.on_ack(now, &input, &tcp);
        }
        if round == 0 {
            assert!(s.cwnd() <= first, "{} from {first}", s.cwnd());
        }
    }
    assert!(s.cwnd() > first, "{} from {first}", s.cwnd());
}
