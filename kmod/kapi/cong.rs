// SPDX-License-Identifier: GPL-2.0
//! `struct tcp_congestion_ops` as a trait.
//!
//! C header: `include/net/tcp.h`. A congestion control implements [`CongestionControl`] for a type of
//! its own and keeps a [`Registration`] of it in its module; the rest is done here.
//!
//! ```ignore
//! struct Mine;
//! #[vtable]
//! impl CongestionControl for Mine {
//!     type State = MyState;
//!     type Parameters = MyParameters;
//!     const NAME: &'static str = "mine";
//!     fn cong_control(call: Call<'_, Self>, ack: u32, rs: &RateSample) { ... }
//!     fn ssthresh(call: Call<'_, Self>) -> u32 { ... }
//!     fn undo_cwnd(call: Call<'_, Self>) -> u32 { ... }
//! }
//! ```

use super::{
    bindings,
    plain::{Fits, Plain, PrivArea},
    settings::{Held, Parametric},
    sock::{AckSample, CaState, Event, RateSample, Sock},
};
use core::{marker::PhantomData, ptr};
use kernel::{
    error::{to_result, VTABLE_DEFAULT_ERROR},
    prelude::*,
    types::Opaque,
};

/// What a callback is about.
pub struct Call<'a, T: CongestionControl> {
    /// The socket.
    pub sk: &'a Sock<'a>,
    /// Its private area. It is zero, not initialised, until `init` has run, and `cong_control` can run
    /// before `init`.
    pub ca: &'a mut T::State,
    /// The parameters that the connection began with.
    pub settings: &'a SettingsOf<T>,
}

/// What the parameters of `T` come to.
pub type SettingsOf<T> = <<T as CongestionControl>::Parameters as Parametric>::Settings;

/// A state has room for the version of the settings that its socket holds.
pub trait Holds {
    /// The version.
    fn held(&self) -> &Held;
    /// The version.
    fn held_mut(&mut self) -> &mut Held;
}

/// A TCP congestion control.
///
/// Every function but [`get_info`](Self::get_info) runs under the socket's lock, in process or softirq
/// context, and must neither sleep nor panic.
///
/// Only the three functions without a default are required; of the others, those that an
/// implementation leaves out are absent from the `tcp_congestion_ops`, as the kernel expects.
#[vtable]
pub trait CongestionControl: Sized + 'static {
    /// What the socket's private area holds.
    type State: Plain + Holds;

    /// Its parameters.
    type Parameters: Parametric;

    /// The name by which it is selected; 1 to 15 characters.
    const NAME: &'static str;

    /// May every user select it, not only the administrator? (`TCP_CONG_NON_RESTRICTED`)
    const NON_RESTRICTED: bool = false;

    /// Does it need ECN on its packets? (`TCP_CONG_NEEDS_ECN`)
    const NEEDS_ECN: bool = false;

    /// The ACK with number `ack` was processed: set window and pacing rate.
    fn cong_control(call: Call<'_, Self>, ack: u32, rs: &RateSample);

    /// The slow start threshold after a loss, packets.
    fn ssthresh(call: Call<'_, Self>) -> u32;

    /// The window after a loss that turned out to be none, packets.
    fn undo_cwnd(call: Call<'_, Self>) -> u32;

    /// TCP is about to change the state of its loss recovery.
    fn set_state(_call: Call<'_, Self>, _new: CaState) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// An event of the congestion window.
    fn cwnd_event(_call: Call<'_, Self>, _event: Event) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The first packet is sent after all earlier ones were acknowledged.
    fn cwnd_event_tx_start(_call: Call<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Packets were acknowledged; comes before [`cong_control`](Self::cong_control) of the same ACK.
    fn pkts_acked(_call: Call<'_, Self>, _sample: &AckSample) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The least number of segments in a TSO burst.
    fn min_tso_segs(_call: Call<'_, Self>) -> u32 {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// How many windows the send buffer should hold.
    fn sndbuf_expand(_call: Call<'_, Self>) -> u32 {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// What `ss -i` shows. Runs **without** the socket's lock, on a copy of the state.
    fn get_info(_ca: &Self::State, _settings: &SettingsOf<Self>) -> Option<Info> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The connection is established, or this congestion control was just chosen for it.
    fn init(_call: Call<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The connection ends, or another congestion control was chosen for it.
    fn release(_call: Call<'_, Self>) {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

/// What inet_diag can carry for a congestion control; we use the form that `ss` prints as
/// `bbr:(bw:…,mrtt:…,pacing_gain:…,cwnd_gain:…)`.
#[derive(Clone, Copy)]
pub struct Info {
    /// Rate, bytes a second.
    pub bw_bytes_per_s: u64,
    /// Base RTT, microseconds.
    pub min_rtt_us: u32,
    /// Shown as `pacing_gain`; 256 is 1.0.
    pub pacing_gain: u32,
    /// Shown as `cwnd_gain`; 256 is 1.0.
    pub cwnd_gain: u32,
}

/// A registered congestion control; gone again when this is dropped.
///
/// # Invariants
///
/// `ops` is registered with the kernel from [`new`](Self::new) until `drop`, and does not move.
pub struct Registration<T> {
    ops: Pin<KBox<Opaque<bindings::tcp_congestion_ops>>>,
    _of: PhantomData<T>,
}

// SAFETY: the ops are the kernel's once registered; we only hand the pointer back in `drop`, and
// tcp_unregister_congestion_control() may be called from any thread.
unsafe impl<T> Send for Registration<T> {}
// SAFETY: there is nothing to do with a shared reference.
unsafe impl<T> Sync for Registration<T> {}

impl<T: CongestionControl> Registration<T> {
    /// Registers `T`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EEXIST` when the name is taken. Nothing is left behind then.
    pub fn new(module: &'static ThisModule) -> Result<Self> {
        let mut ops = ops::<T>();
        ops.owner = module.as_ptr().cast();
        let ops = KBox::pin(Opaque::new(ops), GFP_KERNEL)?;
        // SAFETY: `ops` is pinned and lives until `drop` has unregistered it; all callbacks are valid
        // for as long as the module is, which `owner` keeps alive while a socket uses it.
        to_result(unsafe { bindings::tcp_register_congestion_control(ops.get()) })?;
        // INVARIANT: registered just now.
        Ok(Self {
            ops,
            _of: PhantomData,
        })
    }
}

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: registered by the type invariant. The kernel waits for the readers of its list, and
        // the module's reference count says that no socket is left.
        unsafe { bindings::tcp_unregister_congestion_control(self.ops.get()) }
    }
}

/// The C structure of `T`, with a callback for each function that `T` has, and none for the others.
fn ops<T: CongestionControl>() -> bindings::tcp_congestion_ops {
    const { Fits::<T::State>::CHECK };
    const {
        assert!(!T::NAME.is_empty(), "a congestion control needs a name");
        assert!(
            T::NAME.len() < bindings::TCP_CA_NAME_MAX as usize,
            "name longer than 15"
        );
    }
    let mut name = [0; bindings::TCP_CA_NAME_MAX as usize];
    for (to, from) in name.iter_mut().zip(T::NAME.bytes()) {
        *to = from;
    }
    let restricted = if T::NON_RESTRICTED {
        bindings::FATHOM_CONG_NON_RESTRICTED
    } else {
        0
    };
    let ecn = if T::NEEDS_ECN {
        bindings::FATHOM_CONG_NEEDS_ECN
    } else {
        0
    };
    bindings::tcp_congestion_ops {
        cong_avoid: None,
        cong_control: Some(cong_control::<T>),
        ssthresh: Some(ssthresh::<T>),
        undo_cwnd: Some(undo_cwnd::<T>),
        set_state: if T::HAS_SET_STATE {
            Some(set_state::<T>)
        } else {
            None
        },
        cwnd_event: if T::HAS_CWND_EVENT {
            Some(cwnd_event::<T>)
        } else {
            None
        },
        cwnd_event_tx_start: if T::HAS_CWND_EVENT_TX_START {
            Some(tx_start::<T>)
        } else {
            None
        },
        in_ack_event: None,
        pkts_acked: if T::HAS_PKTS_ACKED {
            Some(pkts_acked::<T>)
        } else {
            None
        },
        min_tso_segs: if T::HAS_MIN_TSO_SEGS {
            Some(min_tso_segs::<T>)
        } else {
            None
        },
        sndbuf_expand: if T::HAS_SNDBUF_EXPAND {
            Some(sndbuf_expand::<T>)
        } else {
            None
        },
        get_info: if T::HAS_GET_INFO {
            Some(get_info::<T>)
        } else {
            None
        },
        init: Some(init::<T>),
        release: Some(release::<T>),
        name,
        flags: restricted | ecn,
        // SAFETY: what is left are a module pointer, a list head and integers, all valid when zero;
        // tcp_register_congestion_control() fills list and key.
        ..unsafe { core::mem::zeroed() }
    }
}

/// Makes the views of a callback and runs `f` on them.
///
/// # Safety
///
/// `sk` is the argument of a callback of `T`'s `tcp_congestion_ops` that runs under the socket's lock.
#[inline(always)]
unsafe fn with<T: CongestionControl, R>(
    sk: *mut bindings::sock,
    f: impl FnOnce(Call<'_, T>) -> R,
) -> R {
    // SAFETY: the caller's promise; the view ends with this function.
    let sk = unsafe { Sock::new(sk) };
    // SAFETY: the area belongs to the socket's congestion control, which is `T`; it fits and is
    // aligned (`Fits::CHECK`), holds zeroes or what `T` wrote (`Plain`), and nobody else has a
    // reference to it while the lock is ours. `Sock` reads other fields only, through a raw pointer.
    let ca = unsafe { &mut *sk.area().cast::<T::State>() };
    // SAFETY: the socket holds the version until `release` lets go of it, after its callback.
    let settings = unsafe { &*T::Parameters::versions().of(ca.held()) };
    f(Call {
        sk: &sk,
        ca,
        settings,
    })
}

// The trampolines. Each is called by the TCP stack with the socket's lock held, on a socket whose
// congestion control is `T`: that is what `with` asks for.

unsafe extern "C" fn cong_control<T: CongestionControl>(
    sk: *mut bindings::sock,
    ack: u32,
    _flag: c_int,
    rs: *const bindings::rate_sample,
) {
    // SAFETY: `rs` is valid for the callback.
    let rs = unsafe { RateSample::from_raw(rs) };
    // SAFETY: called by TCP, see above.
    unsafe { with::<T, _>(sk, |call| T::cong_control(call, ack, rs)) }
}

unsafe extern "C" fn ssthresh<T: CongestionControl>(sk: *mut bindings::sock) -> u32 {
    // SAFETY: called by TCP, see above.
    unsafe { with::<T, _>(sk, T::ssthresh) }
}

unsafe extern "C" fn undo_cwnd<T: CongestionControl>(sk: *mut bindings::sock) -> u32 {
    // SAFETY: called by TCP, see above.
    unsafe { with::<T, _>(sk, T::undo_cwnd) }
}

unsafe extern "C" fn set_state<T: CongestionControl>(sk: *mut bindings::sock, new: u8) {
    // SAFETY: called by TCP, see above.
    unsafe { with::<T, _>(sk, |call| T::set_state(call, CaState::from_raw(new))) }
}

unsafe extern "C" fn cwnd_event<T: CongestionControl>(
    sk: *mut bindings::sock,
    event: bindings::tcp_ca_event,
) {
    if let Some(event) = Event::from_raw(event) {
        // SAFETY: called by TCP, see above.
        unsafe { with::<T, _>(sk, |call| T::cwnd_event(call, event)) }
    }
}

unsafe extern "C" fn tx_start<T: CongestionControl>(sk: *mut bindings::sock) {
    // SAFETY: called by TCP, see above.
    unsafe { with::<T, _>(sk, T::cwnd_event_tx_start) }
}

unsafe extern "C" fn pkts_acked<T: CongestionControl>(
    sk: *mut bindings::sock,
    sample: *const bindings::ack_sample,
) {
    // SAFETY: `sample` is valid for the callback.
    let sample = unsafe { AckSample::from_raw(sample) };
    // SAFETY: called by TCP, see above.
    unsafe { with::<T, _>(sk, |call| T::pkts_acked(call, sample)) }
}

unsafe extern "C" fn min_tso_segs<T: CongestionControl>(sk: *mut bindings::sock) -> u32 {
    // SAFETY: called by TCP, see above.
    unsafe { with::<T, _>(sk, T::min_tso_segs) }
}

unsafe extern "C" fn sndbuf_expand<T: CongestionControl>(sk: *mut bindings::sock) -> u32 {
    // SAFETY: called by TCP, see above.
    unsafe { with::<T, _>(sk, T::sndbuf_expand) }
}

unsafe extern "C" fn init<T: CongestionControl>(sk: *mut bindings::sock) {
    // SAFETY: called by TCP, see above. The kernel calls this once before each `release`.
    unsafe {
        with::<T, _>(sk, |call| {
            T::Parameters::versions().hold_current(call.sk, call.ca.held_mut());
        });
        if T::HAS_INIT {
            with::<T, _>(sk, T::init);
        }
    }
}

unsafe extern "C" fn release<T: CongestionControl>(sk: *mut bindings::sock) {
    // SAFETY: called by TCP, see above.
    unsafe {
        if T::HAS_RELEASE {
            with::<T, _>(sk, T::release);
        }
        with::<T, _>(sk, |call| {
            T::Parameters::versions().let_go(call.ca.held_mut())
        });
    }
}

unsafe extern "C" fn get_info<T: CongestionControl>(
    sk: *mut bindings::sock,
    ext: u32,
    attr: *mut c_int,
    info: *mut bindings::tcp_cc_info,
) -> usize {
    // As tcp_bbr does: the request for VEGASINFO stands for "whatever you have".
    let asked =
        (1 << (bindings::INET_DIAG_BBRINFO - 1)) | (1 << (bindings::INET_DIAG_VEGASINFO - 1));
    if ext & asked == 0 {
        return 0;
    }
    // SAFETY: `sk` is a live socket whose congestion control is `T` (inet_diag holds a reference and
    // the RCU read lock).
    let sk = unsafe { Sock::new(sk) };
    // SAFETY: the area is readable. An ACK may write it meanwhile on another CPU: the copy is volatile,
    // word by word, and any mix of old and new bytes is a valid state (`Plain`).
    let area = unsafe { ptr::read_volatile(sk.area().cast::<PrivArea>()) };
    // SAFETY: a state fits into the area and is not aligned more strictly (`Fits`); it is not dropped.
    let ca = unsafe { &*(&raw const area).cast::<T::State>() };
    let look = |settings: &SettingsOf<T>| T::get_info(ca, settings);
    let Some(Some(shown)) = T::Parameters::versions().look(ca.held(), look) else {
        return 0;
    };
    let bbr = bindings::tcp_bbr_info {
        bbr_bw_lo: shown.bw_bytes_per_s as u32,
        bbr_bw_hi: (shown.bw_bytes_per_s >> 32) as u32,
        bbr_min_rtt: shown.min_rtt_us,
        bbr_pacing_gain: shown.pacing_gain,
        bbr_cwnd_gain: shown.cwnd_gain,
    };
    // SAFETY: both point to storage of the caller, valid for this call.
    unsafe {
        *attr = bindings::INET_DIAG_BBRINFO as c_int;
        (&raw mut (*info).bbr).write(bbr);
    }
    core::mem::size_of::<bindings::tcp_bbr_info>()
}
