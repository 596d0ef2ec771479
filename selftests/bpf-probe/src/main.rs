// SPDX-License-Identifier: GPL-2.0
//! See Cargo.toml.
#![no_std]
#![no_main]

/// Answers whatever it is given with a number of `wire/` that the compiler cannot know beforehand.
#[no_mangle]
#[link_section = "xdp"]
pub extern "C" fn probe(context: usize) -> u32 {
    u32::from(wire::hop::path_hops(context as u8))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
