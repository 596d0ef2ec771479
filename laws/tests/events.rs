// SPDX-License-Identifier: GPL-2.0

//! What every law does alike: before it starts, at losses and timeouts, with marks, when idle, and
//! with a configuration it cannot use.

use laws::base_rtt::BaseRtt;
use laws::math::ONE_PACKET;
use laws::{
    hpcc, poseidon, swift, theta_powertcp, Ack, ConfigError, HopHistory, Hpcc, Int, Law, Path,
    Poseidon, PowerTcp, Record, Swift, ThetaPowerTcp, Wrap,
};

fn path() -> Path {
    Path {
        line_rate: 1_250_000_000,
        base_rtt_ns: 50_000,
        mss: 1448,
        overhead: 90,
        ..Path::default()
    }
}

/// A flow with its counters, to which rounds of clean ACKs can be given.
struct Flow<L: Law> {
    law: L,
    params: L::Params,
    ack: Ack<'static>,
    window: u32,
}

impl<L: Law> Flow<L> {
    fn new(config: &L::Config) -> Self {
        let params = L::prepare(config).expect("valid");
        let mut law = L::default();
        law.start(&params, &path(), 1 << 40);
        let ack = Ack {
            now_ns: 1 << 40,
            rtt_ns: 50_000,
            acked: 1,
            in_flight: 1,
            full_size: true,
            ..Ack::default()
        };
        Self {
            law,
            params,
            ack,
            window: 20,
        }
    }

    fn rounds(&mut self, rounds: u32, change: impl Fn(&mut Ack<'static>)) {
        for _ in 0..rounds * self.window {
            self.ack.now_ns += 2500;
            self.ack.delivered = self.ack.delivered.wrapping_add(1);
            self.ack.prior_delivered = self.ack.delivered.wrapping_sub(self.window);
            let mut ack = self.ack;
            change(&mut ack);
            self.law.on_ack(&self.params, None, &ack);
        }
    }

    fn packets(&self) -> f64 {
        self.law.window().cwnd() as f64 / ONE_PACKET as f64
    }
}

/// Runs `$test::<Law>` for every law.
macro_rules! for_every_law {
    ($($name:ident => $test:ident;)*) => { $(
        #[test]
        fn $name() {
            $test::<Poseidon>();
            $test::<PowerTcp>();
            $test::<ThetaPowerTcp>();
            $test::<Hpcc>();
            $test::<Swift>();
        }
    )* };
}

for_every_law! {
    nothing_happens_before_the_start => before_start;
    a_loss_shrinks_and_an_undo_restores => loss_and_undo;
    timeouts_never_stall_a_flow => timeouts;
    an_idle_flow_restarts_no_faster => idle;
    marks_are_answered_as_dctcp_does => marks;
    an_application_limited_flow_does_not_grow => application_limited;
    a_flow_recovers_from_the_least_window => recovers;
    the_state_is_plain_and_small => plain;
    whole_packets_average_to_the_window => dither;
    a_new_mtu_changes_no_rate => mtu;
    noisy_hosts_do_not_silence_a_flow => noise;
}

/// The kernel delivers the first ACK before it calls `init`; all-zero is valid and does nothing.
fn before_start<L: Law>() {
    let params = L::prepare(&L::Config::default()).expect("valid");
    let mut law = L::default();
    let record = Record {
        inverse_rate: Record::inverse_rate(10_000),
        ..Record::default()
    };
    let ack = Ack {
        now_ns: 5,
        rtt_ns: 50_000,
        acked: 1,
        int: Int::Bottleneck(record),
        ..Ack::default()
    };
    assert!(
        !law.on_ack(&params, Some(&mut HopHistory::default()), &ack),
        "{}",
        L::NAME
    );
    law.on_loss(&params, 1);
    law.on_timeout(&params, 1);
    law.on_recovery_exit(&params);
    law.on_undo(&params);
    law.on_idle_restart(&params, 1);
    law.path_changed(&params, &path());
    assert!(
        !law.started() && law.cwnd() == 0 && law.pacing_rate(&params) == 0,
        "{}",
        L::NAME
    );
}

fn loss_and_undo<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(10, |_| ());
    let before = flow.packets();
    let now = flow.ack.now_ns + 1_000_000;
    flow.law.on_loss(&flow.params, now);
    let cut = flow.packets();
    assert!(
        (cut / before - 0.5).abs() < 0.01,
        "{}: {before} to {cut}",
        L::NAME
    );
    flow.law.on_loss(&flow.params, now + 1000);
    assert_eq!(flow.packets(), cut, "{}: once per recovery", L::NAME);
    flow.law.on_undo(&flow.params);
    assert!(
        (flow.packets() / before - 1.0).abs() < 1e-3,
        "{}: taken back",
        L::NAME
    );
}

fn timeouts<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(10, |_| ());
    let before = flow.packets();
    for i in 1..=10u64 {
        flow.law
            .on_timeout(&flow.params, flow.ack.now_ns + i * 10_000_000);
        assert!(
            flow.law.cwnd() > 0 && flow.law.pacing_rate(&flow.params) > 0,
            "{}",
            L::NAME
        );
    }
    let least = flow.packets();
    assert!(
        least <= 1.0,
        "{}: {least} packets after ten timeouts",
        L::NAME
    );
    flow.ack.now_ns += 200_000_000;
    flow.law.on_recovery_exit(&flow.params);
    flow.rounds(100, |_| ());
    let after = flow.packets();
    assert!(
        after > before * 0.4,
        "{}: {before} before, {after} a hundred rounds later",
        L::NAME
    );
}

fn idle<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(20, |_| ());
    let before = flow.packets();
    flow.law
        .on_idle_restart(&flow.params, flow.ack.now_ns + 1_000_000_000);
    let after = flow.packets();
    assert!(
        after <= before && after >= 1.0,
        "{}: {before} to {after}",
        L::NAME
    );
}

/// RFC 8257: all packets marked for long is half the window per round; a few marks are a little.
fn marks<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(40, |_| ());
    let before = flow.packets();
    flow.rounds(3, |ack| ack.ce = 1);
    let few = flow.packets();
    assert!(few < before, "{}: {before} to {few}", L::NAME);
    flow.rounds(60, |ack| ack.ce = 1);
    let (high, mut low) = (flow.packets(), f64::MAX);
    for _ in 0..flow.window {
        flow.rounds(1, |ack| ack.ce = 1);
        low = low.min(flow.packets());
    }
    assert!(
        low < before / 4.0,
        "{}: lasting marks leave {high} of {before}",
        L::NAME
    );
}

fn application_limited<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(1, |ack| ack.app_limited = true);
    let before = flow.packets();
    flow.rounds(30, |ack| ack.app_limited = true);
    assert!(
        flow.packets() <= before,
        "{}: {before} to {}",
        L::NAME,
        flow.packets()
    );
}

/// From the least window, clean ACKs bring a flow back, however the ACKs come.
fn recovers<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(5, |_| ());
    // A terrible RTT for long, and timeouts.
    flow.rounds(50, |ack| ack.rtt_ns = 50_000_000);
    for i in 1..=10u64 {
        flow.law
            .on_timeout(&flow.params, flow.ack.now_ns + i * 10_000_000);
    }
    flow.ack.now_ns += 500_000_000;
    let low = flow.packets();
    assert!(low <= 1.0, "{}: {low}", L::NAME);
    // One packet per round, as so small a window would have.
    flow.window = 1;
    flow.rounds(2000, |_| ());
    assert!(
        flow.packets() > 5.0,
        "{}: {low} to {}",
        L::NAME,
        flow.packets()
    );
}

fn plain<L: Law>() {
    assert!(
        size_of::<L>() <= 96,
        "{}: {} bytes",
        L::NAME,
        size_of::<L>()
    );
    assert!(align_of::<L>() <= 8 && L::NAME.len() <= 15);
    assert!(size_of::<HopHistory>() <= 256);
}

fn dither<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(7, |_| ());
    let exact = flow.law.cwnd() as f64 / ONE_PACKET as f64;
    let sum: u64 = (0..10_000u32)
        .map(|d| u64::from(flow.law.cwnd_packets_at(d)))
        .sum();
    let mean = sum as f64 / 10_000.0;
    // θ-PowerTCP is paced at its exact rate and rounds its window up; the others keep it on average.
    let expected = match L::NAME {
        "theta_powertcp" => exact.ceil(),
        _ => exact,
    };
    assert!(
        (mean - expected.max(2.0)).abs() < 0.01,
        "{}: {mean} for {exact}",
        L::NAME
    );
    assert_eq!(
        f64::from(flow.law.cwnd_packets()),
        exact.ceil().max(2.0),
        "{}",
        L::NAME
    );
}

/// A smaller packet is a smaller pacing rate for the same window, and nothing else.
fn mtu<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(3, |_| ());
    let (cwnd, rate) = (flow.law.cwnd(), flow.law.pacing_rate(&flow.params) as f64);
    flow.law
        .path_changed(&flow.params, &Path { mss: 724, ..path() });
    assert_eq!(flow.law.cwnd(), cwnd, "{}", L::NAME);
    let ratio = flow.law.pacing_rate(&flow.params) as f64 / rate;
    assert!((0.45..1.01).contains(&ratio), "{}: {ratio}", L::NAME);
}

/// Round trips of 100 ms by the hosts' own doing, for thousands of ACKs: the flow still sends often enough
/// to learn that they are over.
fn noise<L: Law>() {
    let mut flow = Flow::<L>::new(&L::Config::default());
    flow.rounds(200, |ack| ack.rtt_ns = 100_000_000);
    let packets = flow.law.pacing_rate(&flow.params) as f64 / 1448.0;
    assert!(packets >= 64.0, "{}: {packets} a second", L::NAME);
}

fn error_of<L: Law>(config: &L::Config) -> ConfigError {
    match L::prepare(config) {
        Ok(_) => panic!("{} takes what it should refuse", L::NAME),
        Err(error) => error,
    }
}

/// An error names the field, the value and the bounds, as a user would want to read it.
#[test]
fn configuration_errors_say_what_is_wrong() {
    let error = error_of::<ThetaPowerTcp>(&theta_powertcp::Config {
        gamma_percent: 101,
        ..Default::default()
    });
    assert_eq!(
        error.to_string(),
        "gamma_percent is 101, and must be from 1 to 100"
    );
    let error = error_of::<Poseidon>(&poseidon::Config {
        m_thousandths: 2000,
        ..Default::default()
    });
    assert_eq!(
        error.to_string(),
        "m_thousandths is 2000, and must be from 1 to 1999"
    );
    let error = error_of::<Poseidon>(&poseidon::Config {
        max_rate_mbps: 100,
        min_rate_mbps: 80,
        ..Default::default()
    });
    assert_eq!((error.field, error.max), ("min_rate_mbps", 50));
    let error = error_of::<Hpcc>(&hpcc::Config {
        eta_percent: 100,
        ..Default::default()
    });
    assert_eq!((error.field, error.min, error.max), ("eta_percent", 50, 99));
    let error = error_of::<Swift>(&swift::Config {
        fs_min_millipackets: 1000,
        fs_max_millipackets: 1000,
        ..Default::default()
    });
    assert_eq!((error.field, error.min), ("fs_max_millipackets", 1126));
    let mut config = hpcc::Config::default();
    config.vai.ai_cap = 0;
    assert_eq!(error_of::<Hpcc>(&config).field, "vai_ai_cap");
}

/// The defaults of all laws are valid.
#[test]
fn defaults_are_valid() {
    assert!(Poseidon::prepare(&poseidon::Config::default()).is_ok());
    assert!(Poseidon::prepare(&poseidon::Config::published()).is_ok());
    assert!(PowerTcp::prepare(&theta_powertcp::Config::default()).is_ok());
    assert!(Hpcc::prepare(&hpcc::Config::default()).is_ok());
    assert!(Swift::prepare(&swift::Config::default()).is_ok());
    assert!(Swift::prepare(&swift::Config::published()).is_ok());
}

// ---- Hops ----

fn record(id: u32, qlen: u32, tx: u32, ts: u32) -> Record {
    Record {
        hop_id: id,
        qlen_bytes: qlen,
        tx_bytes: tx & Wrap::BOTTLENECK.tx_mask,
        ts_ns: ts & Wrap::BOTTLENECK.ts_mask,
        inverse_rate: Record::inverse_rate(10_000),
    }
}

#[test]
fn counters_wrap() {
    let mut hops = HopHistory::default();
    assert!(
        hops.bottleneck(&record(1, 0, 0xffff_ff00, 0xffff_ffff), 0)
            .is_none(),
        "the first"
    );
    // 1 us and 1000 bytes later, over both wraps.
    let interval = hops
        .bottleneck(&record(1, 80, 0xffff_ff00u32.wrapping_add(1000), 999), 1000)
        .unwrap();
    assert_eq!((interval.dt_ns.get(), interval.tx_bytes), (1000, 1000));
    assert_eq!((interval.prev_qlen_bytes, interval.qlen_bytes), (0, 80));
}

#[test]
fn each_hop_is_compared_with_itself() {
    let mut hops = HopHistory::default();
    assert!(hops.bottleneck(&record(1, 0, 0, 0), 0).is_none());
    assert!(
        hops.bottleneck(&record(2, 0, 5000, 100), 100).is_none(),
        "another hop"
    );
    let one = hops.bottleneck(&record(1, 0, 700, 600), 600).unwrap();
    assert_eq!((one.dt_ns.get(), one.tx_bytes), (600, 700));
    let two = hops.bottleneck(&record(2, 0, 6000, 900), 900).unwrap();
    assert_eq!((two.dt_ns.get(), two.tx_bytes), (800, 1000));
    // Ten hops where eight can be remembered: no harm, only fewer answers.
    for round in 0..5u32 {
        for id in 0..10 {
            hops.bottleneck(&record(id, 0, round * 1000, 10_000 + round * 1000), 20_000);
        }
    }
}

#[test]
fn what_cannot_be_compared_gives_no_answer() {
    let fresh = || {
        let mut hops = HopHistory::default();
        hops.bottleneck(&record(1, 0, 0, 0), 0);
        hops
    };
    let mut hops = fresh();
    assert!(
        hops.bottleneck(&record(1, 0, 0, 0), 10).is_none(),
        "the same instant"
    );
    assert!(
        hops.bottleneck(&record(1, 0, 100, 50), 60).is_some(),
        "which keeps the first"
    );
    assert!(
        fresh()
            .bottleneck(&record(1, 0, 100, 50), 9_000_000)
            .is_none(),
        "9 ms later by our clock"
    );
    assert!(
        fresh()
            .bottleneck(&record(1, 0, 100, 9_000_000), 50)
            .is_none(),
        "or by the hop's"
    );
    let faster = Record {
        inverse_rate: Record::inverse_rate(40_000),
        ..record(1, 0, 100, 50)
    };
    assert!(
        fresh().bottleneck(&faster, 50).is_none(),
        "the link changed its rate"
    );
    let unknown = Record {
        inverse_rate: 0,
        ..record(1, 0, 100, 50)
    };
    let mut hops = fresh();
    assert!(
        hops.bottleneck(&unknown, 50).is_none(),
        "a record that says nothing"
    );
    assert!(
        hops.bottleneck(&record(1, 0, 200, 80), 80).is_some(),
        "and does not replace one"
    );
}

// ---- The base RTT ----

fn learner(clock_ns: u16) -> BaseRtt {
    BaseRtt::new(&Path {
        clock_ns,
        ..Path {
            base_rtt_ns: 0,
            ..path()
        }
    })
}

#[test]
fn only_full_size_packets_teach_the_base_rtt() {
    let mut base = BaseRtt::new(&Path {
        handshake_rtt_ns: 20_000,
        base_rtt_ns: 0,
        ..path()
    });
    assert!(!base.known());
    // The handshake, and two packets on the wire at 10 Gbit/s.
    assert_eq!(base.tau_ns(), 20_000 + 2 * 1230);
    base.on_sample(15_000, false);
    assert_eq!(base.tau_ns(), 22_460, "a small segment");
    base.on_sample(23_000, true);
    assert!(
        base.known() && base.tau_ns() == 23_000,
        "a full one, though larger"
    );
    base.on_sample(25_000, true);
    assert_eq!(base.tau_ns(), 23_000);
    base.on_sample(22_000, true);
    assert_eq!(base.tau_ns(), 22_000);
    base.on_sample(18_000, false);
    assert_eq!(base.tau_ns(), 22_000);
}

#[test]
fn a_coarse_clock_errs_on_the_high_side() {
    let mut base = learner(1000);
    base.on_sample(21_000, true);
    assert_eq!(base.tau_ns(), 22_000);
}

#[test]
fn a_given_base_rtt_stays() {
    let mut base = BaseRtt::new(&path());
    assert!(base.known());
    base.on_sample(1000, true);
    for _ in 0..10_000 {
        assert!(!base.on_round(1000, false));
    }
    assert_eq!(base.tau_ns(), 50_000);
}

/// Rounds with a sample each; how many of them drained.
fn rounds(base: &mut BaseRtt, count: u32, rtt: impl Fn(bool) -> u32) -> u32 {
    (0..count)
        .filter(|_| {
            let draining = base.draining();
            base.on_sample(rtt(draining), true);
            base.on_round(100_000, false);
            draining
        })
        .count() as u32
}

#[test]
fn a_queue_answers_to_a_drain_and_a_longer_path_does_not() {
    // A queue of 5 us that goes when the flow holds back: τ stays.
    let mut base = learner(0);
    base.on_sample(20_000, true);
    let drained = rounds(
        &mut base,
        3000,
        |draining| if draining { 21_500 } else { 25_000 },
    );
    assert!(drained > 4, "it looks now and then");
    assert_eq!(base.tau_ns(), 20_000);
    // A path that is 5 us longer whatever the flow does: τ follows.
    let drained = rounds(&mut base, 3000, |_| 25_000);
    assert!(drained > 4);
    assert_eq!(base.tau_ns(), 25_000);
    // And back at once.
    base.on_sample(20_000, true);
    assert_eq!(base.tau_ns(), 20_000);
}

#[test]
fn drains_cost_little() {
    let mut base = learner(0);
    base.on_sample(20_000, true);
    rounds(
        &mut base,
        1000,
        |draining| if draining { 21_500 } else { 25_000 },
    );
    let drained = rounds(
        &mut base,
        10_000,
        |draining| if draining { 21_500 } else { 25_000 },
    );
    assert!(drained <= 10, "{drained} rounds of 10000");
    // A flow that sees its minimum all the time never drains.
    let drained = rounds(&mut base, 10_000, |_| 20_000);
    assert_eq!(drained, 0);
}

#[test]
fn drains_are_joined() {
    let (mut a, mut b) = (learner(0), learner(0));
    for base in [&mut a, &mut b] {
        base.on_sample(20_000, true);
    }
    // `b` has waited for long; `a` begins.
    rounds(&mut b, 9, |_| 25_000);
    assert!(!b.draining());
    b.on_sample(22_000, true);
    b.on_round(100_000, false);
    assert!(
        b.draining(),
        "an RTT that falls by an eighth is another's drain"
    );
    // One that has just looked does not.
    rounds(&mut a, 2, |_| 25_000);
    a.on_sample(22_000, true);
    a.on_round(100_000, false);
    assert!(!a.draining());
}
