// SPDX-License-Identifier: GPL-2.0

//! The laws once more, in floating point, from the formulas of their papers.
//!
//! Nothing here is taken from the crate but its inputs: a model reads an [`Ack`] and keeps its own
//! state in doubles. Where the crate departs from a paper on purpose (its documentation says
//! where), so does the model.

#![allow(dead_code)]

use laws::{Ack, Coverage, Int, Record, Wrap};
use std::collections::HashMap;

/// The path and the limits, as all models need them.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    pub tau: f64,
    /// Bytes per ns.
    pub host: f64,
    pub mss: f64,
    pub wire: f64,
    pub hops: f64,
    pub min: f64,
    pub max: f64,
    pub start: f64,
}

impl Facts {
    /// HostBw·τ in packets.
    pub fn bdp(&self) -> f64 {
        self.host * self.tau / self.wire
    }
}

/// Rounds, recovery and what DCTCP does where a paper is silent.
#[derive(Clone, Debug)]
pub struct Common {
    pub w: f64,
    prior: Option<f64>,
    ssthresh: Option<f64>,
    round_end: Option<u32>,
    hold: u32,
    timeouts: u32,
    min: f64,
    max: f64,
    /// Slow start ended, or did not, by a hair.
    tie: bool,
}

impl Common {
    fn new(f: &Facts) -> Self {
        Self {
            w: f.start,
            prior: None,
            ssthresh: None,
            round_end: None,
            hold: 0,
            timeouts: 0,
            min: f.min,
            max: f.max,
            tie: false,
        }
    }

    fn set(&mut self, w: f64) {
        let max = if self.hold > 0 {
            self.max.min(self.w)
        } else {
            self.max
        };
        self.w = w.min(max).max(self.min);
    }

    fn round_ended(&mut self, ack: &Ack<'_>) -> bool {
        let ended = match self.round_end {
            None => false,
            Some(end) => (ack.prior_delivered.wrapping_sub(end) as i32) >= 0,
        };
        if ended || self.round_end.is_none() {
            self.round_end = Some(ack.delivered);
        }
        if ended {
            self.hold = self.hold.saturating_sub(1);
        }
        ended
    }

    fn slow_start(&mut self, ack: &Ack<'_>) -> bool {
        let Some(limit) = self.ssthresh else {
            return false;
        };
        let grown = self.w + f64::from(ack.acked);
        self.tie |= (grown - limit).abs() < 2e-3 * limit;
        if grown >= limit {
            self.ssthresh = None;
        }
        self.set(grown.min(limit.max(self.w)));
        true
    }

    fn remember(&mut self) {
        if self.hold == 0 {
            self.prior = Some(self.w);
        }
    }

    fn halve(&mut self) {
        if self.hold > 0 {
            return;
        }
        self.remember();
        self.hold = 2;
        self.w = (self.w / 2.0).max(self.min);
    }

    fn collapse(&mut self) {
        self.remember();
        self.timeouts += 1;
        if self.ssthresh.is_none() {
            self.ssthresh = Some(self.w / 2.0);
        }
        self.w = self.w.min(1f64.max(self.min));
        self.hold = 0;
    }

    fn recovered(&mut self) {
        self.hold = 0;
        self.timeouts = 0;
    }

    fn undo(&mut self) {
        if let Some(prior) = self.prior.take() {
            self.w = self.w.max(prior);
            self.ssthresh = None;
            self.recovered();
        }
    }
}

/// What a test does to a law and its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Loss,
    Timeout,
    Recovered,
    Undo,
}

pub trait Model {
    fn on_ack(&mut self, ack: &Ack<'_>);
    fn on_event(&mut self, event: Event, now: f64);
    fn cwnd(&self) -> f64;
    /// Law and model may differ on which side of a threshold a value lies that is equal to it but
    /// for rounding, and go different ways from there. A model says when it met such a tie.
    fn tie(&self) -> bool {
        false
    }
    /// Takes over the law's window, where the law is an expanding map and any rounding would grow.
    fn resync(&mut self, _w: f64) {}
}

/// PowerTCP's Eq. 7 and its surroundings, for both variants.
#[derive(Clone, Debug)]
struct Power {
    c: Common,
    f: Facts,
    old: f64,
    gamma: f64,
    beta: f64,
    /// Γ_smooth.
    smooth: Option<f64>,
}

impl Power {
    fn new(f: Facts, gamma: f64, flows: f64) -> Self {
        Self {
            c: Common::new(&f),
            old: f.start,
            gamma,
            beta: f.bdp() / flows,
            smooth: None,
            f,
        }
    }

    /// Eq. 7.
    fn eq_7(&self) -> f64 {
        let power = self.smooth.unwrap_or(1.0);
        self.gamma * (self.old / power + self.beta) + (1.0 - self.gamma) * self.c.w
    }

    fn waits(&self, ack: &Ack<'_>) -> bool {
        f64::from(ack.in_flight) > self.c.w * 1.125 + 2.0
    }

    fn set(&mut self, w: f64, ack: &Ack<'_>) {
        let most = if ack.app_limited || self.waits(ack) {
            self.c.w
        } else {
            (2.0 * self.f.bdp() + 4.0).min(self.f.max)
        };
        self.c.set(w.min(most));
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Loss => self.c.halve(),
            Event::Timeout => self.c.collapse(),
            Event::Recovered => return self.c.recovered(),
            Event::Undo => self.c.undo(),
        }
        self.old = self.c.w;
    }
}

const POWER_LEAST: f64 = 1.0 / 16.0;
const POWER_MOST: f64 = 127.0;

/// θ-PowerTCP, Algorithm 2.
pub struct Theta {
    p: Power,
    prev: Option<(f64, f64)>,
    measured: bool,
}

impl Theta {
    pub fn new(f: Facts, gamma: f64, flows: f64) -> Self {
        Self {
            p: Power::new(f, gamma, flows),
            prev: None,
            measured: false,
        }
    }

    /// NORMPOWER, with the gradient per time of sending.
    fn norm_power(&mut self, ack: &Ack<'_>) {
        if ack.rtt_ns == 0 {
            return;
        }
        let tau = self.p.f.tau;
        let rtt = f64::from(ack.rtt_ns).min(32.0 * tau);
        let t = ack.now_ns as f64;
        let power = match (self.prev, self.p.smooth) {
            (Some((prev_rtt, prev_t)), Some(smooth)) => {
                let dt = t - prev_t;
                let ds = dt - (rtt - prev_rtt);
                let theta = (rtt + prev_rtt) / 2.0;
                if ds < tau {
                    // Γ_norm Δs = (dθ/ds + 1) θ/τ Δs = Δt θ/τ.
                    (smooth * (tau - ds) + dt * theta / tau) / tau
                } else {
                    dt / ds * (rtt / tau)
                }
            }
            _ => rtt / tau,
        };
        self.p.smooth = Some(power.clamp(POWER_LEAST, POWER_MOST));
        self.prev = Some((rtt, t));
        self.measured = true;
    }
}

impl Model for Theta {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if !self.p.c.round_ended(ack) {
            self.norm_power(ack);
            self.p.c.slow_start(ack);
            return;
        }
        if !self.measured {
            self.prev = None;
            self.norm_power(ack);
        }
        if !self.p.c.slow_start(ack) && self.p.smooth.is_some() {
            let now = self.p.c.w;
            let w = self.p.eq_7();
            self.p.set(w, ack);
            self.p.old = now;
        }
        self.measured = false;
        let rtt = f64::from(ack.rtt_ns).min(32.0 * self.p.f.tau);
        self.prev = (ack.rtt_ns != 0).then_some((rtt, ack.now_ns as f64));
    }

    fn on_event(&mut self, event: Event, _now: f64) {
        self.p.event(event);
    }

    fn tie(&self) -> bool {
        self.p.c.tie
    }

    fn cwnd(&self) -> f64 {
        self.p.c.w
    }
}

/// Records of hops, by whatever identifies them on the wire.
#[derive(Default)]
struct Hops {
    last: HashMap<u32, (Record, u64)>,
}

/// What a hop did between two records, in bytes and ns.
struct Span {
    dt: f64,
    dtx: f64,
    q: f64,
    q0: f64,
    /// Bytes per ns.
    b: f64,
}

impl Hops {
    fn take(&mut self, key: u32, r: &Record, wrap: Wrap, now: u64) -> Option<Span> {
        if r.inverse_rate == 0 {
            return None;
        }
        let known = self.last.get(&key).copied();
        let dt = |l: &Record| r.ts_ns.wrapping_sub(l.ts_ns) & wrap.ts_mask;
        let span = known.and_then(|(l, seen)| {
            let same = l.hop_id == r.hop_id && l.inverse_rate == r.inverse_rate;
            let period = f64::from(wrap.ts_mask >> 1);
            let fresh = (now - seen) as f64 <= period && f64::from(dt(&l)) <= period;
            (same && fresh && dt(&l) != 0).then(|| Span {
                dt: f64::from(dt(&l)),
                dtx: f64::from(r.tx_bytes.wrapping_sub(l.tx_bytes) & wrap.tx_mask),
                q: f64::from(r.qlen_bytes),
                q0: f64::from(l.qlen_bytes),
                b: f64::from(1u32 << 24) / f64::from(r.inverse_rate),
            })
        });
        let repeated = known.is_some_and(|(l, _)| {
            l.hop_id == r.hop_id && l.inverse_rate == r.inverse_rate && dt(&l) == 0
        });
        if !repeated {
            self.last.insert(key, (*r, now));
        }
        span
    }

    fn spans(&mut self, ack: &Ack<'_>) -> Vec<Span> {
        match ack.int {
            Int::Bottleneck(r) => self
                .take(r.hop_id, &r, Wrap::BOTTLENECK, ack.now_ns)
                .into_iter()
                .collect(),
            Int::Stack(records, wrap) => records
                .iter()
                .enumerate()
                .filter_map(|(i, r)| self.take(i as u32, r, wrap, ack.now_ns))
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// PowerTCP, Algorithm 1.
pub struct PowerTcp {
    p: Power,
    theta: Theta,
    hops: Hops,
    int_now: bool,
    int_last: bool,
    measured: bool,
    /// The window after the first of the two filters that make it w_old.
    stage: f64,
    ties: bool,
}

impl PowerTcp {
    pub fn new(f: Facts, gamma: f64, flows: f64) -> Self {
        Self {
            p: Power::new(f, gamma, flows),
            theta: Theta::new(f, gamma, flows),
            hops: Hops::default(),
            int_now: false,
            int_last: false,
            measured: false,
            stage: f.start,
            ties: false,
        }
    }

    /// NORMPOWER: the largest *normalised* power, and the Δt of its hop.
    fn norm_power(&mut self, ack: &Ack<'_>, waits: bool) -> Option<(f64, f64)> {
        let tau = self.p.f.tau;
        let powers = self.hops.spans(ack).into_iter().map(|s| {
            let mut lambda = ((s.q - s.q0) / s.dt + s.dtx / s.dt).max(0.0);
            if waits {
                lambda = s.b;
            }
            let v = s.q + s.b * tau;
            (lambda * v / (s.b * s.b * tau), s.dt)
        });
        powers.fold(None, |most: Option<(f64, f64)>, p| match most {
            Some(m) => {
                // A voltage has 16 fractional bits.
                self.ties |= (m.0 - p.0).abs() < 4e-5 * m.0 && m.1 != p.1;
                Some(if m.0 > p.0 { m } else { p })
            }
            None => Some(p),
        })
    }

    fn end_round(&mut self, ack: &Ack<'_>) -> bool {
        let ended = self.p.c.round_ended(ack);
        if ended {
            self.int_last = self.int_now;
            self.int_now = false;
            if !self.int_last {
                self.p.old = self.p.c.w;
                self.p.smooth = None;
                self.theta.prev = None;
                // In θ-PowerTCP the flag says something else and is left as it was.
                self.theta.measured = false;
            }
        }
        ended
    }
}

impl Model for PowerTcp {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let w = self.p.c.w;
        self.ties |= (f64::from(ack.in_flight) - w * 1.125 - 2.0).abs() < 1e-3 * w;
        let waits = self.p.waits(ack);
        let measured = self.norm_power(ack, waits);
        if measured.is_none() && !(self.int_now || self.int_last) {
            std::mem::swap(&mut self.theta.p, &mut self.p);
            self.theta.on_ack(ack);
            std::mem::swap(&mut self.theta.p, &mut self.p);
            return;
        }
        if !(self.int_now || self.int_last) {
            self.p.smooth = None;
        }
        let ended = self.end_round(ack);
        let Some((power, dt)) = measured else {
            self.p.c.slow_start(ack);
            return;
        };
        if ended && self.measured && !waits {
            self.measured = false;
            self.int_now = true;
            return;
        }
        self.int_now = true;
        self.measured = true;
        if waits {
            self.p.smooth = None;
        }
        let power = power.min(POWER_MOST);
        let tau = self.p.f.tau;
        match self.p.smooth {
            Some(smooth) if dt < tau => {
                // Line 24, for the power and twice for the window it is of.
                let filter = |old: f64, new: f64| (old * (tau - dt) + new * dt) / tau;
                self.p.smooth = Some(filter(smooth, power).max(POWER_LEAST));
                self.p.old = filter(self.p.old, self.stage);
                self.stage = filter(self.stage, self.p.c.w);
            }
            _ => {
                self.p.smooth = Some(power.max(POWER_LEAST));
                self.p.old = self.p.c.w;
                self.stage = self.p.c.w;
            }
        }
        if self.p.c.slow_start(ack) {
            return;
        }
        if waits {
            self.p.old = f64::from(ack.in_flight);
        }
        let w = self.p.eq_7();
        self.p.set(w, ack);
        if waits {
            self.p.old = self.p.c.w;
            self.stage = self.p.c.w;
        }
    }

    fn on_event(&mut self, event: Event, _now: f64) {
        self.p.event(event);
        if event != Event::Recovered {
            self.stage = self.p.c.w;
        }
    }

    fn cwnd(&self) -> f64 {
        self.p.c.w
    }

    fn tie(&self) -> bool {
        self.ties || self.p.c.tie
    }
}

/// Poseidon, Algorithms 1 and 2, Eq. 3 and 4.
pub struct Poseidon {
    c: Common,
    tau: f64,
    pub p: f64,
    pub k: f64,
    pub m: f64,
    /// Bytes per ns.
    pub min_rate: f64,
    pub max_rate: f64,
    pub min_md: f64,
    pub max_mi: f64,
    pub threshold: u32,
    wire: f64,
    rtt: f64,
    last_decrease: f64,
    full: [bool; 2],
    part: [bool; 2],
    ties: bool,
}

impl Poseidon {
    #[allow(clippy::too_many_arguments)]
    pub fn new(f: Facts, p: f64, k: f64, m: f64, min_rate: f64, max_rate: f64) -> Self {
        let mut c = Common::new(&f);
        // What the host's link carries while nobody tolerates a longer delay.
        c.max = c
            .max
            .min((max_rate * (f.tau + 0.75 * p + k) / f.wire).max(2.0));
        Self {
            c,
            tau: f.tau,
            p,
            k,
            m,
            min_rate,
            max_rate,
            min_md: 0.5,
            max_mi: 10.0,
            threshold: 5,
            wire: f.wire,
            rtt: 0.0,
            last_decrease: f64::NEG_INFINITY,
            full: [false; 2],
            part: [false; 2],
            ties: false,
        }
    }

    /// Eq. 3.
    pub fn target(&self, rate: f64) -> f64 {
        let rate = rate.clamp(self.min_rate, self.max_rate);
        let alpha = self.max_rate.ln() - self.min_rate.ln();
        self.p * (self.max_rate.ln() - rate.ln()) / alpha + self.k
    }

    /// Eq. 4.
    pub fn update(&self, target: f64, delay: f64) -> f64 {
        let alpha = self.max_rate.ln() - self.min_rate.ln();
        ((target - delay) / self.p * alpha * self.m).exp()
    }

    fn decrease(&mut self, factor: f64, now: f64) {
        let before = self.c.w;
        self.c.set(self.c.w * factor);
        if self.c.w < before {
            self.last_decrease = now;
        }
    }

    fn may_decrease(&mut self, now: f64) -> bool {
        now - self.last_decrease > self.rtt
    }

    /// The delay to react to, §4.1.
    fn delay(&mut self, ack: &Ack<'_>) -> Option<f64> {
        let queueing = (f64::from(ack.rtt_ns) - self.tau).max(0.0);
        match ack.int {
            Int::Mpd(mpd) if mpd.coverage == Coverage::Full => {
                self.full[0] = true;
                Some(f64::from(mpd.forward_ns))
            }
            Int::Mpd(mpd) => {
                self.part[0] = true;
                let (forward, backward) = (f64::from(mpd.forward_ns), f64::from(mpd.backward_ns));
                let rest = if ack.rtt_ns == 0 {
                    0.0
                } else {
                    queueing - forward - backward
                };
                Some(forward.max(rest))
            }
            _ if self.full[0] || self.full[1] || self.part[0] || self.part[1] => None,
            _ => (ack.rtt_ns != 0).then_some(queueing),
        }
    }
}

impl Model for Poseidon {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.rtt_ns != 0 {
            self.rtt = f64::from(ack.rtt_ns);
        }
        if self.c.round_ended(ack) {
            self.full = [false, self.full[0]];
            self.part = [false, self.part[0]];
            self.c.timeouts = 0;
        }
        if self.rtt == 0.0 {
            return;
        }
        let Some(mpd) = self.delay(ack) else { return };
        let mpt = self.target(self.c.w * self.wire / self.rtt);
        let ratio = self.update(mpt, mpd);
        self.ties |= (mpt - mpd).abs() < 1e-5 * self.p;
        if mpd <= mpt {
            if !ack.app_limited {
                let ratio = ratio.min(self.max_mi);
                let w = self.c.w;
                self.c
                    .set(w * (1.0 + (ratio - 1.0) / w * f64::from(ack.acked)));
            }
        } else if self.may_decrease(ack.now_ns as f64) {
            self.decrease(ratio.max(self.min_md), ack.now_ns as f64);
        }
    }

    fn on_event(&mut self, event: Event, now: f64) {
        match event {
            Event::Loss => {
                self.c.timeouts = 0;
                if self.may_decrease(now) {
                    self.c.remember();
                    self.decrease(self.min_md, now);
                }
            }
            Event::Timeout => {
                if self.c.timeouts == 0 {
                    self.c.remember();
                }
                self.c.timeouts += 1;
                if self.c.timeouts >= self.threshold {
                    self.decrease(0.0, now);
                } else if self.may_decrease(now) {
                    self.decrease(self.min_md, now);
                }
            }
            Event::Recovered => self.c.recovered(),
            Event::Undo => self.c.undo(),
        }
    }

    fn cwnd(&self) -> f64 {
        self.c.w
    }

    /// A window below a packet grows by U − 1 at an ACK, many times itself in a history whose ACKs
    /// do not wait for the window: an expanding map.
    fn resync(&mut self, w: f64) {
        if self.c.w < 1.0 {
            self.c.w = w;
        }
    }

    fn tie(&self) -> bool {
        self.ties || self.c.tie
    }
}

/// Variable AI, Algorithms 1 and 2 of that paper, in the unit of the law.
#[derive(Clone, Copy, Debug)]
pub struct VariableAi {
    pub token_threshold: f64,
    pub ai_div: f64,
    pub bank_cap: f64,
    pub ai_cap: f64,
    pub dampener_constant: f64,
    pub congestion: f64,
    pub bank: f64,
    pub dampener: f64,
}

impl VariableAi {
    pub fn new(token_threshold: f64, ai_div: f64) -> Self {
        Self {
            token_threshold,
            ai_div,
            bank_cap: 1000.0,
            ai_cap: 100.0,
            dampener_constant: 8.0,
            congestion: 0.0,
            bank: 0.0,
            dampener: 0.0,
        }
    }

    /// Algorithm 1. Tokens are whole, the dampener is kept in sixteenths.
    pub fn on_round(&mut self, base: f64, quiet: bool) {
        let measured = std::mem::take(&mut self.congestion);
        if measured > self.token_threshold {
            self.bank = ((measured / self.ai_div).floor() + self.bank).min(self.bank_cap);
            let ratio = (measured + base) / (self.token_threshold + base);
            // Sixteen bits of sixteenths; beyond 800 not even a full bank has a token left.
            self.dampener = (self.dampener + (ratio * 16.0).floor() / 16.0).min(65535.0 / 16.0);
        } else if self.bank == 0.0 {
            self.dampener = if quiet {
                0.0
            } else {
                (self.dampener - 1.0).max(0.0)
            };
        }
    }

    /// Algorithm 2.
    pub fn tokens(&mut self, spend: bool) -> f64 {
        if self.bank == 0.0 {
            return 1.0;
        }
        let tokens = self.ai_cap.min(self.bank);
        if spend {
            self.bank = (self.bank - tokens).max(0.0);
        }
        let divisor = (self.dampener.floor() / self.dampener_constant).floor() + 1.0;
        (tokens / divisor).floor().max(1.0)
    }
}

/// HPCC, Algorithm 1.
pub struct Hpcc {
    c: Common,
    f: Facts,
    hops: Hops,
    wc: f64,
    u: Option<f64>,
    inc_stage: u32,
    eta: f64,
    max_stage: u32,
    ai: f64,
    int: [bool; 2],
    pub vai: Option<VariableAi>,
    pub sampling: u32,
    acks: u32,
    congested: bool,
    ties: bool,
}

impl Hpcc {
    pub fn new(f: Facts, eta: f64, max_stage: u32, ai: f64) -> Self {
        Self {
            c: Common::new(&f),
            hops: Hops::default(),
            wc: f.start,
            u: None,
            inc_stage: 0,
            eta,
            max_stage,
            ai,
            int: [false; 2],
            vai: None,
            sampling: 0,
            acks: 0,
            congested: false,
            ties: false,
            f,
        }
    }

    /// MeasureInflight.
    fn measure(&mut self, ack: &Ack<'_>) -> Option<(f64, f64, f64)> {
        let t = self.f.tau;
        let mut most: Option<(f64, f64, f64)> = None;
        for s in self.hops.spans(ack) {
            let tx_rate = s.dtx / s.dt;
            let u = s.q.min(s.q0) / (s.b * t) + tx_rate / s.b;
            most = Some(match most {
                Some((m, dt, q)) => {
                    self.ties |= (m - u).abs() < 4e-5 * m.max(1.0) && dt != s.dt;
                    if u >= m {
                        (u, s.dt, q.max(s.q))
                    } else {
                        (m, dt, q.max(s.q))
                    }
                }
                None => (u, s.dt, s.q),
            });
        }
        most
    }

    fn follow(&mut self) {
        self.wc = self.c.w;
        self.inc_stage = 0;
    }
}

impl Model for Hpcc {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let mut measured = self.measure(ack);
        let ended = self.c.round_ended(ack);
        if ended {
            self.int = [false, self.int[0]];
            let quiet = !std::mem::take(&mut self.congested);
            if let Some(vai) = &mut self.vai {
                vai.on_round(0.0, quiet);
            }
        }
        if measured.is_some() {
            self.int[0] = true;
        } else if !(self.int[0] || self.int[1]) && ack.rtt_ns != 0 {
            // As full as η when the RTT is 9/8 of the base.
            let u = (f64::from(ack.rtt_ns) / self.f.tau).min(32.0) / 1.125 * self.eta;
            measured = Some((u, f64::INFINITY, 0.0));
        }
        if self.c.slow_start(ack) {
            self.follow();
            return;
        }
        let Some((u, dt, queue)) = measured else {
            return;
        };
        let u = u.clamp(1.0 / 64.0, 127.0);
        let t = self.f.tau;
        let u = match self.u {
            Some(old) if dt < t => (1.0 - dt / t) * old + dt / t * u,
            _ => u,
        };
        self.u = Some(u);
        self.ties |= (u - self.eta).abs() < 1e-4;
        // ComputeWind.
        let over = u >= self.eta;
        let mut due = ended;
        let mut ai = self.ai;
        if self.vai.is_some() || self.sampling != 0 {
            self.congested |= over;
            if self.sampling != 0 && over {
                self.acks += ack.acked;
                due = self.acks >= self.sampling;
                if due {
                    self.acks -= self.sampling;
                }
            }
            if let Some(vai) = &mut self.vai {
                vai.congestion = vai.congestion.max(queue);
                ai *= vai.tokens(due);
            }
        }
        let multiplicative = over || self.inc_stage >= self.max_stage;
        let w = if multiplicative {
            self.wc / (u / self.eta) + ai
        } else {
            self.wc + ai
        };
        let most = if ack.app_limited {
            self.c.w
        } else {
            self.f.bdp() + 4.0
        };
        self.c.set(w.min(most));
        if due {
            self.wc = self.c.w;
            self.inc_stage = if multiplicative {
                0
            } else {
                self.inc_stage + 1
            };
        }
    }

    fn on_event(&mut self, event: Event, _now: f64) {
        match event {
            Event::Loss => self.c.halve(),
            Event::Timeout => self.c.collapse(),
            Event::Recovered => return self.c.recovered(),
            Event::Undo => self.c.undo(),
        }
        self.follow();
    }

    fn cwnd(&self) -> f64 {
        self.c.w
    }

    fn tie(&self) -> bool {
        self.ties || self.c.tie
    }
}

/// Swift, Algorithm 1 and §3.5.
pub struct Swift {
    c: Common,
    f: Facts,
    pub base_target: f64,
    pub hop: f64,
    pub fs_range: f64,
    pub fs_min: f64,
    pub fs_max: f64,
    pub ai: f64,
    pub beta: f64,
    pub max_mdf: f64,
    rtt: f64,
    last_decrease: f64,
    reference: f64,
    pub vai: Option<VariableAi>,
    pub sampling: u32,
    acks: u32,
    congested: bool,
    ties: bool,
}

impl Swift {
    pub fn new(f: Facts, base_target: f64) -> Self {
        Self {
            c: Common::new(&f),
            base_target,
            hop: 1000.0,
            fs_range: 100_000.0,
            fs_min: 0.1,
            fs_max: 100.0,
            ai: 1.0,
            beta: 0.8,
            max_mdf: 0.5,
            rtt: 0.0,
            last_decrease: f64::NEG_INFINITY,
            reference: f.start,
            vai: None,
            sampling: 0,
            acks: 0,
            congested: false,
            ties: false,
            f,
        }
    }

    pub fn target(&self) -> f64 {
        let alpha = self.fs_range / (1.0 / self.fs_min.sqrt() - 1.0 / self.fs_max.sqrt());
        let beta = -alpha / self.fs_max.sqrt();
        let scaled = if self.fs_range == 0.0 {
            0.0
        } else {
            (alpha / self.c.w.sqrt() + beta).min(self.fs_range).max(0.0)
        };
        self.base_target + self.f.hops * self.hop + scaled
    }

    fn shrink(&mut self, w: f64, now: f64) {
        let before = self.c.w;
        self.c.set(w);
        if self.c.w < before {
            self.last_decrease = now;
        }
        self.reference = self.c.w;
    }

    fn may_decrease(&self, now: f64) -> bool {
        now - self.last_decrease >= self.rtt
    }
}

impl Model for Swift {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        if ack.rtt_ns != 0 {
            self.rtt = f64::from(ack.rtt_ns);
        }
        let ended = self.c.round_ended(ack);
        if ended {
            let quiet = !std::mem::take(&mut self.congested);
            let target = self.target();
            if let Some(vai) = &mut self.vai {
                vai.on_round(target.floor(), quiet);
            }
            self.c.timeouts = 0;
        }
        if ack.rtt_ns == 0 {
            return;
        }
        let (delay, target, now) = (self.rtt, self.target(), ack.now_ns as f64);
        // A target is a whole number of ns in the law.
        self.ties |= (delay - target).abs() < 20.0;
        let factor = (1.0 - self.beta * (delay - target) / delay).max(1.0 - self.max_mdf);
        let w = self.c.w;
        if self.vai.is_none() && self.sampling == 0 {
            if delay < target {
                if !ack.app_limited {
                    let acked = f64::from(ack.acked);
                    self.c.set(if w >= 1.0 {
                        w + self.ai / w * acked
                    } else {
                        w + self.ai * acked
                    });
                }
            } else if self.may_decrease(now) {
                self.shrink(w * factor, now);
            }
            return;
        }
        // With a reference, and an additive increase in any case.
        let over = delay >= target;
        let mut due = ended;
        if over {
            self.congested = true;
            if self.sampling != 0 {
                self.acks += ack.acked;
                due = self.acks >= self.sampling;
                if due {
                    self.acks -= self.sampling;
                }
            }
        }
        let mut ai = self.ai;
        if let Some(vai) = &mut self.vai {
            vai.congestion = vai.congestion.max((delay - target.floor()).max(0.0));
            ai *= vai.tokens(due);
        }
        let next = self.reference * if over { factor } else { 1.0 } + ai;
        self.c.set(if ack.app_limited { next.min(w) } else { next });
        if due {
            self.reference = self.c.w;
        }
    }

    fn on_event(&mut self, event: Event, now: f64) {
        let w = self.c.w;
        match event {
            Event::Loss => {
                self.c.timeouts = 0;
                if self.may_decrease(now) {
                    self.c.remember();
                    self.shrink(w * (1.0 - self.max_mdf), now);
                }
            }
            Event::Timeout => {
                if self.c.timeouts == 0 {
                    self.c.remember();
                }
                self.c.timeouts += 1;
                if self.c.timeouts >= 5 {
                    self.shrink(0.0, now);
                } else if self.may_decrease(now) {
                    self.shrink(w * (1.0 - self.max_mdf), now);
                }
            }
            Event::Recovered => self.c.recovered(),
            Event::Undo => {
                self.c.undo();
                self.reference = self.c.w;
            }
        }
    }

    fn cwnd(&self) -> f64 {
        self.c.w
    }

    fn tie(&self) -> bool {
        self.ties || self.c.tie
    }
}
