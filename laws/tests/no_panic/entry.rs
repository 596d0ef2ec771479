// SPDX-License-Identifier: GPL-2.0

//! Every entry point of one law, as a kernel module would compile it: the sources by path, overflow
//! checks on. `law="name"` chooses the law; `law="panics"` is a sample that must be found out.
#![no_std]
#![allow(missing_docs)]

#[path = "../../src/lib.rs"]
mod laws;

#[cfg(law = "panics")]
#[no_mangle]
pub extern "C" fn sample(values: &[u64; 4], index: usize, by: u64) -> u64 {
    values[index] + values[0] / by
}

#[cfg(not(law = "panics"))]
mod entry {
    use super::laws::*;

    #[cfg(law = "poseidon")]
    type L = Poseidon;
    #[cfg(law = "powertcp")]
    type L = PowerTcp;
    #[cfg(law = "theta_powertcp")]
    type L = ThetaPowerTcp;
    #[cfg(law = "hpcc")]
    type L = Hpcc;
    #[cfg(law = "swift")]
    type L = Swift;

    type P = <L as Law>::Params;

    #[no_mangle]
    pub extern "C" fn prepare(config: &<L as Law>::Config, params: &mut P, out: &mut ConfigError) -> bool {
        match L::prepare(config) {
            Ok(p) => *params = p,
            Err(e) => {
                *out = e;
                return false;
            }
        }
        true
    }
    #[no_mangle]
    pub extern "C" fn start(law: &mut L, p: &P, path: &Path, now_ns: u64) {
        law.start(p, path, now_ns);
    }
    #[no_mangle]
    pub extern "C" fn path_changed(law: &mut L, p: &P, path: &Path) {
        law.path_changed(p, path);
    }
    #[no_mangle]
    pub fn on_ack(law: &mut L, p: &P, hops: Option<&mut HopHistory>, ack: &Ack<'_>) -> bool {
        law.on_ack(p, hops, ack)
    }
    #[no_mangle]
    pub extern "C" fn on_loss(law: &mut L, p: &P, now_ns: u64) {
        law.on_loss(p, now_ns);
    }
    #[no_mangle]
    pub extern "C" fn on_timeout(law: &mut L, p: &P, now_ns: u64) {
        law.on_timeout(p, now_ns);
    }
    #[no_mangle]
    pub extern "C" fn on_recovery_exit(law: &mut L, p: &P) {
        law.on_recovery_exit(p);
    }
    #[no_mangle]
    pub extern "C" fn on_undo(law: &mut L, p: &P) {
        law.on_undo(p);
    }
    #[no_mangle]
    pub extern "C" fn on_idle_restart(law: &mut L, p: &P, now_ns: u64) {
        law.on_idle_restart(p, now_ns);
    }
    #[no_mangle]
    pub extern "C" fn outputs(law: &L, p: &P, delivered: u32, out: &mut [u64; 4]) {
        *out = [
            law.cwnd(),
            law.pacing_rate(p),
            u64::from(law.cwnd_packets_at(delivered)),
            u64::from(law.ssthresh()),
        ];
    }
}
