// SPDX-License-Identifier: GPL-2.0

//! Variable Additive Increase (Snyder and Lebeck, *Fast Convergence to Fairness*, §IV-A).
//!
//! It believes that a flow which joins at line rate is what makes both queues and unfairness: a
//! queue longer than a BDP therefore says that shares are unequal, and a larger additive increase,
//! for a while, makes them equal sooner. Congestion earns tokens, an increase spends them, and a
//! dampener keeps the queue that the increase itself makes from earning more.
//!
//! Written once for every law with an additive increase: the law says what its congestion is (a
//! queue in bytes, a delay in ns) and multiplies its increase by [`VariableAi::tokens`].

use super::law::ConfigError;

/// Fractional bits of the dampener: it moves by ratios of a congestion to its threshold.
const DAMPENER_SHIFT: u32 = 4;

/// What an operator may set. Congestion is in the unit of the law: bytes or ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// 1 = on.
    pub enabled: u32,
    /// Token_Thresh: a congestion above this earns tokens. 1 to 2^30.
    pub token_threshold: u32,
    /// AI_DIV: congestion per token. 1 to 2^30.
    pub ai_div: u32,
    /// Bank_Cap: tokens that can be kept. 1 to 65535.
    pub bank_cap: u32,
    /// AI_Cap: tokens that one increase can spend. 1 to 65535.
    pub ai_cap: u32,
    /// Dampener_Constant: the dampener that halves the tokens. 1 to 1000.
    pub dampener_constant: u32,
}

impl Config {
    /// The paper's numbers for HPCC: the least BDP (50 KB) and a token per kilobyte of queue.
    #[must_use]
    pub const fn hpcc() -> Self {
        Self {
            enabled: 0,
            token_threshold: 50_000,
            ai_div: 1000,
            bank_cap: 1000,
            ai_cap: 100,
            dampener_constant: 8,
        }
    }

    /// The paper's numbers for Swift: the time of the least BDP beyond the target (4 us) and a
    /// token per 30 ns of queueing.
    #[must_use]
    pub const fn swift() -> Self {
        Self {
            enabled: 0,
            token_threshold: 4000,
            ai_div: 30,
            bank_cap: 1000,
            ai_cap: 100,
            dampener_constant: 8,
        }
    }

    /// Checks it.
    ///
    /// # Errors
    /// Names the first field that is out of bounds.
    pub fn prepare(&self) -> Result<Params, ConfigError> {
        let check = ConfigError::check;
        Ok(Params {
            enabled: check("vai", self.enabled, 0, 1)? != 0,
            token_threshold: check("vai_token_threshold", self.token_threshold, 1, 1 << 30)?,
            ai_div: check("vai_ai_div", self.ai_div, 1, 1 << 30)?,
            bank_cap: check("vai_bank_cap", self.bank_cap, 1, 65535)? as u16,
            ai_cap: check("vai_ai_cap", self.ai_cap, 1, 65535)? as u16,
            dampener_constant: check("vai_dampener_constant", self.dampener_constant, 1, 1000)?,
        })
    }
}

/// A checked [`Config`].
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Whether the mechanism is on.
    pub enabled: bool,
    token_threshold: u32,
    ai_div: u32,
    bank_cap: u16,
    ai_cap: u16,
    dampener_constant: u32,
}

/// The mechanism's state.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct VariableAi {
    /// Measured Congestion: the most seen in this round.
    congestion: u32,
    /// AI_Bank.
    bank: u16,
    /// Q4.
    dampener: u16,
}

impl VariableAi {
    /// An ACK saw this much congestion, beyond what the law tolerates.
    #[inline]
    pub fn observe(&mut self, congestion: u32) {
        self.congestion = self.congestion.max(congestion);
    }

    /// The end of a round (Algorithm 1). `base` is what the law tolerates: the congestion proper is
    /// `base` more than what was observed, and so is the threshold; tokens are for the excess.
    /// `quiet`: no ACK of the round called for a decrease.
    pub fn on_round(&mut self, params: &Params, base: u32, quiet: bool) {
        let congestion = self.congestion;
        self.congestion = 0;
        if congestion > params.token_threshold {
            let tokens = congestion
                .checked_div(params.ai_div)
                .unwrap_or(0)
                .min(u16::MAX as u32);
            self.bank = self.bank.saturating_add(tokens as u16).min(params.bank_cap);
            let whole = u64::from(congestion).wrapping_add(u64::from(base)) << DAMPENER_SHIFT;
            let threshold = u64::from(params.token_threshold).wrapping_add(u64::from(base));
            let ratio = whole
                .checked_div(threshold)
                .unwrap_or(0)
                .min(u16::MAX as u64);
            self.dampener = self.dampener.saturating_add(ratio as u16);
        } else if self.bank == 0 {
            self.dampener = if quiet {
                0
            } else {
                self.dampener.saturating_sub(1 << DAMPENER_SHIFT)
            };
        }
    }

    /// By how much to multiply the additive increase (Algorithm 2), at least 1. `spend`: the
    /// increase goes into the law's reference, so that the tokens are gone.
    #[inline]
    pub fn tokens(&mut self, params: &Params, spend: bool) -> u32 {
        if !params.enabled || self.bank == 0 {
            return 1;
        }
        let tokens = self.bank.min(params.ai_cap);
        if spend {
            self.bank = self.bank.saturating_sub(tokens);
        }
        let dampener = u32::from(self.dampener) >> DAMPENER_SHIFT;
        let divisor = dampener
            .checked_div(params.dampener_constant)
            .unwrap_or(0)
            .saturating_add(1);
        u32::from(tokens).checked_div(divisor).unwrap_or(1).max(1)
    }
}
