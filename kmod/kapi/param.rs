// SPDX-License-Identifier: GPL-2.0
//! Module parameters with bounds.
//!
//! `module!` parses integers; what a value may be is said in the laws, once, and a value outside is
//! refused when the module is loaded, with a line in the kernel log that names the parameter, the value
//! and the bounds.

use crate::laws::ConfigError;
use kernel::prelude::*;

/// The module of a law: its name, its description, and its parameters, each with its default and what
/// it is. Makes `module!`, a `Values` with a field per parameter, and the congestion control `Cc`, which
/// needs an `impl Tenant` to be complete.
macro_rules! law_module {
    (
        name: $name:tt,
        sysctls: $directory:tt,
        description: $about:tt,
        params: { $( $param:ident: $default:tt, $what:tt; )+ }
    ) => {
        kernel::prelude::module! {
            type: Module,
            name: $name,
            authors: ["The Fathom authors"],
            description: $about,
            license: "GPL",
            alias: [$name],
            params: { $( $param: u32 { default: $default, description: $what, }, )+ },
        }

        /// The value of each parameter.
        #[derive(Clone, Copy)]
        pub(crate) struct Values {
            $( $param: u32, )+
        }

        /// The congestion control.
        pub(crate) struct Cc;

        impl crate::kapi::settings::Parametric for Cc {
            type Settings = crate::law_cc::Settings<<Cc as crate::law_cc::Tenant>::Law>;
            const DIRECTORY: &'static core::ffi::CStr = $directory;
            const NAMES: &'static str = concat!($( stringify!($param), "\0" ),+);
            const COUNT: usize = [$( stringify!($param) ),+].len();

            #[inline(never)]
            fn settings(
                values: &[u32; crate::kapi::settings::MAX_PARAMS],
            ) -> Result<Self::Settings, crate::laws::ConfigError> {
                let [$( $param, )+ ..] = *values;
                <Cc as crate::law_cc::Tenant>::settings(&Values { $( $param, )+ })
            }

            fn versions() -> &'static crate::kapi::settings::Versions<Self> {
                static VERSIONS: crate::kapi::settings::Versions<Cc> =
                    crate::kapi::settings::Versions::new();
                &VERSIONS
            }
        }

        // In this order they go: nobody can choose it any more when its parameters go.
        struct Module {
            _congestion_control: crate::kapi::cong::Registration<crate::law_cc::LawCc<Cc>>,
            _parameters: crate::kapi::settings::Registration<Cc>,
        }

        impl kernel::Module for Module {
            #[link_section = ".init.text"]
            fn init(module: &'static ThisModule) -> Result<Self> {
                let mut loaded = [0; crate::kapi::settings::MAX_PARAMS];
                let given = [$( *module_parameters::$param.value() ),+];
                for (to, value) in loaded.iter_mut().zip(given) {
                    *to = value;
                }
                let _parameters = crate::kapi::settings::Registration::new(&loaded)?;
                Ok(Self {
                    _congestion_control: crate::kapi::cong::Registration::new(module)?,
                    _parameters,
                })
            }
        }
    };
}

/// Says in the log what is wrong with a parameter.
pub fn refuse(e: ConfigError) -> Error {
    pr_err!(
        "parameter {}={} is out of range, expected {} to {}\n",
        e.field,
        e.value,
        e.min,
        e.max
    );
    EINVAL
}

/// `host_mbps` as bytes a second; 0 stays 0, "not given".
///
/// # Errors
///
/// Beyond 10 Tbit/s.
#[inline]
pub fn line_rate(host_mbps: u32) -> Result<u64, ConfigError> {
    let mbps = ConfigError::check("host_mbps", host_mbps, 0, 10_000_000)?;
    Ok(u64::from(mbps).saturating_mul(125_000))
}

/// `base_rtt_us` in nanoseconds; 0 stays 0, "learn it".
///
/// # Errors
///
/// Beyond one second.
#[inline]
pub fn base_rtt_ns(base_rtt_us: u32) -> Result<u32, ConfigError> {
    let us = ConfigError::check("base_rtt_us", base_rtt_us, 0, 1_000_000)?;
    Ok(us.saturating_mul(1000))
}

/// A parameter that is 0 or 1.
///
/// # Errors
///
/// When it is neither.
#[inline]
pub fn flag(name: &'static str, value: u32) -> Result<bool, ConfigError> {
    Ok(ConfigError::check(name, value, 0, 1)? != 0)
}
