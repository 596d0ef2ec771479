// SPDX-License-Identifier: GPL-2.0
//! A module that can panic, to prove that `scripts/check-panic` finds it. Never loaded.

use kernel::prelude::*;

module! {
    type: Panics,
    name: "panics",
    authors: ["The Fathom authors"],
    description: "indexes past the end of an array when told to; built only to be refused",
    license: "GPL",
    params: {
        index: u32 {
            default: 0,
            description: "which element to print",
        },
    },
}

struct Panics;

impl kernel::Module for Panics {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let elements = [1, 2, 3];
        pr_info!("{}\n", elements[*module_parameters::index.value() as usize]);
        Ok(Self)
    }
}
