// SPDX-License-Identifier: GPL-2.0
//! What a kernel's log says when something is wrong.

/// Words of the kernel's own checks: warnings, oopses, KASAN, UBSAN, lockdep, RCU, object life, leaks.
const BAD: &[&str] = &[
    "WARNING:",
    "BUG:",
    "BUG ", // SLUB's report names the cache: "BUG kmalloc-64 (Not tainted): Poison overwritten"
    "Oops",
    "Kernel panic",
    "Call Trace",
    "Segfault with no mm", // UML's form of an oops
    "leaked",
    "KASAN",
    "UBSAN",
    "ODEBUG",
    "INFO: trying to register",
    "INFO: task",
    "INFO: rcu",
    "self-detected stall",
    "suspicious RCU usage",
    "unreferenced object",
    "refcount_t",
    "DEBUG_LOCKS_WARN_ON",
];

/// Kernels announce their checks at boot; that is no complaint.
const GOOD: &[&str] = &[
    "KernelAddressSanitizer initialized",
    "KASAN: initialized",
    "kasan: ",
];

/// The lines of a log that complain.
pub fn complaints(log: &str) -> Vec<&str> {
    log.lines()
        .filter(|line| BAD.iter().any(|bad| line.contains(bad)))
        .filter(|line| !GOOD.iter().any(|good| line.contains(good)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_found_and_chatter_is_not() {
        let log = "\
[    0.0] KernelAddressSanitizer initialized (generic)
[    0.1] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
ok 3 data_intact
[    1.0] BUG: KASAN: slab-use-after-free in tcp_ack+0x1/0x2
[    1.1] WARNING: possible circular locking dependency detected
[    1.2] WARNING: suspicious RCU usage
[    1.3] BUG kmalloc-64 (Not tainted): Poison overwritten
unreferenced object 0x60001000 (size 64):
# 12 of 12 arrived";
        assert_eq!(complaints(log).len(), 5);
    }
}
