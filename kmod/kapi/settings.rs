// SPDX-License-Identifier: GPL-2.0
//! The parameters of a congestion control: set when its module is loaded, changed per network namespace
//! at run time (`/proc/sys/net/fathom/NAME/`), and never under a connection that has begun.
//!
//! What the parameters come to, the *settings*, exists in versions. A change makes a new one; a
//! connection holds the one that it began with, by its number, in its private area. A version that nobody
//! holds is free for the next change. Version 0 is what the module was loaded with and stays.
//!
//! C: `cc_helpers.c`, in the module `fathom_cc`.

use super::{bindings, param, sock::Sock};
use crate::laws::ConfigError;
use core::{cell::UnsafeCell, ffi::CStr, marker::PhantomData, mem::MaybeUninit};
use kernel::{error::to_result, prelude::*};

/// Versions that can be held at a time; a power of two.
const VERSIONS: usize = bindings::FATHOM_VERSIONS as usize;

/// What a congestion control says of its parameters.
pub trait Parametric: Sized + 'static {
    /// What they come to.
    type Settings: Copy + Send + Sync + 'static;
    /// Where their sysctls are, below `/proc/sys`.
    const DIRECTORY: &'static CStr;
    /// Their names, each ended by a zero byte.
    const NAMES: &'static str;
    /// How many.
    const COUNT: usize;

    /// What these values, in the order of the names, come to.
    ///
    /// # Errors
    ///
    /// Names the first one that is out of bounds.
    fn settings(values: &[u32; MAX_PARAMS]) -> Result<Self::Settings, ConfigError>;

    /// Where the versions are: a `static` of the module.
    fn versions() -> &'static Versions<Self>;
}

/// The most parameters that a congestion control can have.
pub const MAX_PARAMS: usize = bindings::FATHOM_MAX_PARAMS as usize;

/// The number of the version that a socket holds; zero in a new one. Only this file makes others, and it
/// cannot be copied.
#[repr(transparent)]
pub struct Held(u8);

/// All versions of the settings of one congestion control.
///
/// # Invariants
///
/// From [`Registration::new`] on, the settings of version 0 and of every version that has holders are
/// initialised and do not change. What has none is written under the lock of `cc_helpers.c` alone.
pub struct Versions<T: Parametric> {
    all: [UnsafeCell<MaybeUninit<T::Settings>>; VERSIONS],
    params: UnsafeCell<MaybeUninit<bindings::fathom_params>>,
    pernet: UnsafeCell<MaybeUninit<bindings::pernet_operations>>,
}

// SAFETY: settings are shared and sent as `Settings` allows; the rest is C's, under its locks.
unsafe impl<T: Parametric> Sync for Versions<T> {}

impl<T: Parametric> Versions<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            all: [const { UnsafeCell::new(MaybeUninit::uninit()) }; VERSIONS],
            params: UnsafeCell::new(MaybeUninit::uninit()),
            pernet: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Where the settings are that a socket holds. A `Held` is zero, or its version has a holder: the
    /// one who has it. By the type's invariant they are then initialised and do not change, until it lets
    /// go.
    #[inline(always)]
    pub(super) fn of(&self, held: &Held) -> *const T::Settings {
        // The mask says to the compiler that it is one of them.
        self.all[usize::from(held.0) & (VERSIONS - 1)].get().cast()
    }

    /// As C knows it.
    #[inline(always)]
    fn params(&self) -> *mut bindings::fathom_params {
        self.params.get().cast()
    }

    /// Lets a connection that begins hold what its namespace has at present.
    pub(super) fn hold_current(&self, sk: &Sock<'_>, held: &mut Held) {
        // SAFETY: initialised before any socket; the socket is live.
        held.0 = unsafe { bindings::fathom_params_begin(self.params(), sk.as_raw()) } as u8;
    }

    /// The connection ends.
    pub(super) fn let_go(&self, held: &mut Held) {
        // SAFETY: initialised before any socket; a version that the socket holds.
        unsafe { bindings::fathom_params_drop(self.params(), held.0.into()) }
        held.0 = 0;
    }

    /// Runs `f` on the settings of a version that may have gone meanwhile.
    pub(super) fn look<R>(&self, held: &Held, f: impl FnOnce(&T::Settings) -> R) -> Option<R> {
        let version = u32::from(held.0) & (VERSIONS as u32 - 1);
        // SAFETY: initialised before any socket; one of the versions.
        if !unsafe { bindings::fathom_params_hold(self.params(), version) } {
            return None;
        }
        // SAFETY: held just now, and until below.
        let result = f(unsafe { &*self.of(held) });
        // SAFETY: held above.
        unsafe { bindings::fathom_params_drop(self.params(), version) }
        Some(result)
    }
}

/// The versions in use: version 0 made, and the sysctls of all namespaces there. Gone when dropped.
pub struct Registration<T: Parametric>(PhantomData<T>);

impl<T: Parametric> Registration<T> {
    /// Checks the values that the module was loaded with and makes its sysctls. To be called once.
    ///
    /// # Errors
    ///
    /// `EINVAL` when a value is out of bounds, and the log says which; `ENOMEM`.
    pub fn new(loaded: &[u32; MAX_PARAMS]) -> Result<Self> {
        const { assert!(T::COUNT <= MAX_PARAMS) };
        let versions = T::versions();
        let settings = T::settings(loaded).map_err(param::refuse)?;
        // SAFETY: the module is being loaded, nobody else looks yet.
        let pernet = unsafe {
            (*versions.all[0].get()).write(settings);
            let params = (*versions.params.get()).write(bindings::fathom_params {
                path: T::DIRECTORY.as_ptr().cast(),
                names: T::NAMES.as_ptr().cast(),
                count: T::COUNT as u32,
                loaded: *loaded,
                make: Some(make::<T>),
                ..core::mem::zeroed()
            });
            (*versions.pernet.get()).write(bindings::pernet_operations {
                init: Some(net_init::<T>),
                exit: Some(net_exit::<T>),
                id: &raw mut params.id,
                size: core::mem::size_of::<bindings::fathom_net_params>(),
                ..core::mem::zeroed()
            })
        };
        // SAFETY: both live in a static; the callbacks are valid for as long as the module is, and
        // `drop` unregisters them.
        to_result(unsafe { bindings::fathom_pernet_register(pernet) })?;
        Ok(Self(PhantomData))
    }
}

impl<T: Parametric> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: registered in `new`.
        unsafe { bindings::fathom_pernet_unregister(T::versions().pernet.get().cast()) }
    }
}

// The callbacks of `cc_helpers.c`.

unsafe extern "C" fn net_init<T: Parametric>(net: *mut bindings::net) -> c_int {
    // SAFETY: called by pernet, which `Registration::new` gave initialised parameters.
    unsafe { bindings::fathom_params_net_init(T::versions().params(), net) }
}

unsafe extern "C" fn net_exit<T: Parametric>(net: *mut bindings::net) {
    // SAFETY: as in `net_init`.
    unsafe { bindings::fathom_params_net_exit(T::versions().params(), net) }
}

unsafe extern "C" fn make<T: Parametric>(values: *const u32, version: u32) -> c_int {
    // SAFETY: an array of this length of the caller.
    let values = unsafe { &*values.cast::<[u32; MAX_PARAMS]>() };
    let Ok(settings) = T::settings(values) else {
        return EINVAL.to_errno();
    };
    let to = T::versions().of(&Held(version as u8)).cast_mut();
    // SAFETY: nobody holds this version, so nobody reads it, and C's lock keeps others from writing.
    unsafe { to.write(settings) };
    0
}
