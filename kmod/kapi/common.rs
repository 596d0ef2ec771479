// SPDX-License-Identifier: GPL-2.0
//! What the module `fathom_cc` does for all congestion controls: C, in `cc_helpers.c`. Here it begins
//! and ends.

use super::bindings;
use kernel::{error::to_result, prelude::*};

/// At work until dropped.
pub struct Common(());

impl Common {
    /// Begins. To be called once.
    ///
    /// # Errors
    ///
    /// Those of misc_register() and of register_netdevice_notifier(); nothing is left behind then.
    pub fn start() -> Result<Self> {
        // SAFETY: called from the module's init, in process context.
        to_result(unsafe { bindings::fathom_cc_start() })?;
        Ok(Self(()))
    }
}

impl Drop for Common {
    fn drop(&mut self) {
        // SAFETY: it was started. Modules that use it depend on this one, and so are gone; an open
        // device keeps this module, too.
        unsafe { bindings::fathom_cc_stop() }
    }
}
