// SPDX-License-Identifier: GPL-2.0

//! The fixed-point arithmetic against references: exact integers where there are any, double
//! precision (whose own error of 2^-52 is far below any bound here) otherwise.

use laws::math::*;
use laws::Record;
use proptest::prelude::*;

const LOG_ONE: f64 = (1u64 << LOG_SHIFT) as f64;

fn log2_error(x: u64) -> f64 {
    (f64::from(log2(x)) / LOG_ONE - (x as f64).log2()).abs()
}

/// Steps through a domain: every value in an optimised build, every 61st otherwise.
fn stride() -> u64 {
    if cfg!(debug_assertions) {
        61
    } else {
        1
    }
}

#[test]
fn log2_of_every_mantissa() {
    // log2 uses the top 32 bits of a number. All 2^23 mantissas of 24 bits, and their neighbours
    // in the 32-bit ones; the exponent adds a whole number and no error.
    let mut worst = 0f64;
    let mut m = 1u64 << 23;
    while m < 1 << 24 {
        worst = worst.max(log2_error(m)).max(log2_error((m << 8) | 0xff));
        m += stride();
    }
    println!("log2: worst absolute error 2^{:.2}", worst.log2());
    assert!(worst < (-21f64).exp2(), "2^{}", worst.log2());
}

#[test]
fn log2_of_all_small_numbers_and_powers() {
    assert_eq!(log2(0), log2(1));
    assert!(log2(1) < 32, "log2(1) is {}", log2(1));
    for x in 1..70_000u64 {
        assert!(log2_error(x) < (-21f64).exp2(), "log2({x})");
        if x > 1 {
            let relative = log2_error(x) / (x as f64).log2();
            assert!(
                relative < (-16f64).exp2(),
                "log2({x}): relative error 2^{}",
                relative.log2()
            );
        }
    }
    for bit in 0..64 {
        assert!(log2_error(1 << bit) < (-21f64).exp2());
        assert!(log2_error(u64::MAX >> bit) < (-21f64).exp2());
    }
    assert!(log2(u64::MAX) > log2(u64::MAX >> 1));
}

#[test]
fn log2_never_decreases() {
    // A law compares two logarithms: rounding must not turn a larger number into a smaller one by
    // more than the error it states.
    let mut last = 0;
    for x in (1u64 << 31..1 << 32).step_by(4099) {
        let y = log2(x);
        assert!(y + 32 >= last, "log2({x}) = {y} after {last}");
        last = y.max(last);
    }
}

#[test]
fn exp2_of_every_fraction() {
    // Every fraction of one octave, in the octaves where the result has 31 bits and more.
    let mut worst = 0f64;
    for whole in [-7i64, -1, 0, 5, 30] {
        let mut f = 0i64;
        while f < 1 << LOG_SHIFT {
            let x = (whole << LOG_SHIFT) + f;
            let exact = (x as f64 / LOG_ONE).exp2();
            let error = (exp2(x) as f64 / 4294967296.0 / exact - 1.0).abs();
            worst = worst.max(error);
            f += stride() as i64;
        }
    }
    println!("exp2: worst relative error 2^{:.2}", worst.log2());
    assert!(worst < (-24f64).exp2(), "2^{}", worst.log2());
}

#[test]
fn exp2_ratio_is_exp2() {
    for x in (-(8i64 << LOG_SHIFT) + 1..8 << LOG_SHIFT).step_by(4099) {
        let (ratio, exact) = (exp2_ratio(x), exp2(x) >> 12);
        assert!(
            ratio.abs_diff(exact) <= 1,
            "exp2_ratio({x}) = {ratio}, not {exact}"
        );
    }
}

#[test]
fn exp2_at_its_ends() {
    for whole in -32i64..31 {
        for f in [
            0i64,
            1,
            1 << 20,
            (1 << 21) - 1,
            1 << 21,
            (1 << LOG_SHIFT) - 1,
        ] {
            let x = (whole << LOG_SHIFT) + f;
            let exact = (x as f64 / LOG_ONE).exp2() * 4294967296.0;
            let got = exp2(x) as f64;
            assert!(
                (got - exact).abs() <= exact * (-24f64).exp2() + 1.0,
                "exp2({x}) = {got}, {exact}"
            );
        }
    }
    assert!(
        exp2(0).abs_diff(1 << 32) <= 256,
        "2^0 within its error: {}",
        exp2(0)
    );
    assert!(exp2(i64::MIN) >= 1);
    assert_eq!(exp2(i64::MAX), exp2((31 << LOG_SHIFT) - 1));
}

#[test]
fn inverse_sqrt_of_every_window() {
    // Every 24-bit mantissa in both parities of the exponent, and the ends.
    let mut worst = 0f64;
    let error = |x: u64| {
        let exact = 1.0 / (x as f64 / ONE_PACKET as f64).sqrt();
        (inverse_sqrt(x) as f64 / 4294967296.0 / exact - 1.0).abs()
    };
    let mut m = 1u64 << 23;
    while m < 1 << 25 {
        worst = worst.max(error(m));
        m += stride();
    }
    for shift in 0..28 {
        worst = worst
            .max(error(1024 << shift))
            .max(error((2047 << shift) + 1));
    }
    println!("inverse_sqrt: worst relative error 2^{:.2}", worst.log2());
    assert!(worst < (-15f64).exp2(), "2^{}", worst.log2());
    assert!(inverse_sqrt(0) > 0);
}

#[test]
fn reciprocal_over_its_range() {
    assert_eq!(reciprocal(0), 1 << RECIPROCAL_SHIFT);
    let mut worst = 0f64;
    for d in (1000u32..1 << 30).step_by(9973) {
        let exact = (1u64 << RECIPROCAL_SHIFT) as f64 / f64::from(d);
        worst = worst.max((reciprocal(d) as f64 / exact - 1.0).abs());
        assert!(u64::from(d) * reciprocal(d) <= 1 << RECIPROCAL_SHIFT);
    }
    println!("reciprocal: worst relative error 2^{:.2}", worst.log2());
    assert!(worst < (-26f64).exp2() * 1.01);
}

#[test]
fn inverse_rate_of_real_links() {
    for mbps in [
        100u32, 1000, 2500, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000,
    ] {
        let exact = 8000.0 / f64::from(mbps);
        let got = f64::from(Record::inverse_rate(mbps)) / f64::from(1u32 << 24);
        assert!(
            (got / exact - 1.0).abs() < (-16f64).exp2(),
            "{mbps} Mbit/s: {got} for {exact}"
        );
    }
    assert_eq!(Record::inverse_rate(0), 0);
    assert_eq!(
        Record::inverse_rate(1),
        0,
        "too slow to be represented is unknown, not wrong"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn mul_shift_is_exact(a: u64, b: u64, shift in 0u32..128) {
        let exact = (u128::from(a) * u128::from(b)) >> shift;
        prop_assert_eq!(mul_shift(a, b, shift), u64::try_from(exact).unwrap_or(u64::MAX));
    }

    #[test]
    fn mul_div_is_exact(a: u64, b: u64, c: u64, small: bool, s in 0u32..64) {
        // Divisors of all magnitudes, not only the large ones a uniform choice gives.
        let c = if small { c >> s } else { c };
        let expected = (u128::from(a) * u128::from(b))
            .checked_div(u128::from(c))
            .map_or(u64::MAX, |q| u64::try_from(q).unwrap_or(u64::MAX));
        prop_assert_eq!(mul_div(a, b, c), expected);
    }

    #[test]
    fn log2_is_right_everywhere(x in 1u64.., s in 0u32..64) {
        let x = (x >> s).max(1);
        prop_assert!(log2_error(x) < (-21f64).exp2());
    }

    #[test]
    fn exp2_inverts_log2(x in 1u64..1 << 60) {
        // 2^(log2 x - 30) in Q32 is x * 4.
        let back = exp2(i64::from(log2(x)) - (30 << LOG_SHIFT)) as f64;
        let expected = x as f64 * 4.0;
        prop_assert!((back - expected).abs() <= expected * (-20f64).exp2() + 1.0);
    }

    #[test]
    fn rate_is_right(cwnd in 1u64..=MAX_CWND, bytes in 1u16.., tau in 1000u32..1 << 30) {
        let exact = cwnd as f64 / ONE_PACKET as f64 * f64::from(bytes) * 1e9 / f64::from(tau);
        let got = rate(cwnd, bytes, reciprocal(tau)) as f64;
        prop_assert!((got - exact).abs() <= exact * (-20f64).exp2() + 1.0, "{} for {}", got, exact);
    }
}
