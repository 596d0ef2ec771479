// SPDX-License-Identifier: GPL-2.0
//! A packet-level simulator: the laws of `laws/` and the option of `wire/`, over store-and-forward switches.
//!
//! It believes that what a law does can be seen in a model that has everything the law can notice and
//! nothing else: queues, links that are busy for as long as a frame takes, wires, TCP's ACK clock and its
//! recovery. There are no CPUs, no interrupts, no offloads. Time is counted in picoseconds and every number
//! that decides what happens next is an integer, so that a run is the same on every machine.
//!
//! Data flows: a scenario becomes a [`sim::Setup`] ([`engine`]), which says what there is; [`sim::Sim`] runs it; [`agenda`] says what is next;
//! [`port`], [`sender`] and [`receiver`] say what it does.

#![forbid(unsafe_code)]

pub mod agenda;
pub mod cc;
pub mod discipline;
pub mod engine;
pub mod fault;
pub mod histogram;
pub mod packet;
pub mod port;
pub mod program;
pub mod receiver;
pub mod rng;
pub mod sender;
pub mod sim;
pub mod time;

pub use sim::{FlowSpec, Setup, Sim, Work};
