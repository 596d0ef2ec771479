// SPDX-License-Identifier: GPL-2.0
//! A module whose Rust does one thing wrong, to prove that KASAN's checks are in Rust code as in C. The only
//! `unsafe` outside of kmod/kapi, and wrong on purpose. Never loaded but in the debug kernel of the lab.

use kernel::prelude::*;

module! {
    type: Fault,
    name: "fault_rust",
    authors: ["The Fathom authors"],
    description: "does one thing wrong, to be caught",
    license: "GPL",
    params: {
        fault: u32 {
            default: 0,
            description: "what to do wrong: 0 nothing, 1 read freed memory, 2 write past an allocation",
        },
    },
}

struct Fault;

impl kernel::Module for Fault {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let fault = *module_parameters::fault.value();
        let mut numbers = KVec::<u64>::with_capacity(8, GFP_KERNEL)?;
        numbers.push(u64::from(fault), GFP_KERNEL)?;
        let at = numbers.as_mut_ptr();
        match fault {
            1 => {
                drop(numbers);
                // SAFETY: None: this is the fault.
                pr_info!("{}\n", unsafe { core::ptr::read_volatile(at) });
            }
            2 => {
                // SAFETY: None: this is the fault. The index depends on the parameter.
                unsafe { core::ptr::write_volatile(at.add(4 * fault as usize), 1) };
            }
            _ => {}
        }
        Ok(Self)
    }
}
