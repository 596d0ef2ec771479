// SPDX-License-Identifier: GPL-2.0
//! `fathom_cc`: what the congestion controls share. Parameters per network namespace, the speeds of
//! devices, and the record of decisions behind `/dev/fathom_trace`. It believes nothing about congestion.

use kernel::prelude::*;

mod kapi;

module! {
    type: Module,
    name: "fathom_cc",
    authors: ["The Fathom authors"],
    description: "what Fathom's congestion controls share: parameters, device speeds, decisions",
    license: "GPL",
}

struct Module {
    _common: kapi::common::Common,
}

impl kernel::Module for Module {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _common: kapi::common::Common::start()?,
        })
    }
}
