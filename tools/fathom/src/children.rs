// SPDX-License-Identifier: GPL-2.0
//! Kernels and machines that run for us, and end with us: on Ctrl-C too, which does not reach the lab's
//! kernel by itself, as that starts a session of its own.

use nix::{
    sys::signal::{kill, Signal},
    unistd::Pid,
};
use std::{
    process::{Child, Command},
    sync::{Mutex, Once, PoisonError},
};

static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// A process that is ended when this is dropped.
pub struct Guarded(pub Child);

/// Starts `command`; it ends when the result is dropped or this program is interrupted.
pub fn start(command: &mut Command) -> std::io::Result<Guarded> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Without a handler an interrupt would still end us, only less cleanly.
        ctrlc::set_handler(|| {
            for &pid in running().iter() {
                kill(pid, Signal::SIGKILL).ok();
            }
            std::process::exit(130);
        })
        .ok();
    });
    let child = command.spawn()?;
    running().push(pid(&child));
    Ok(Guarded(child))
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // From here on the number may belong to another process.
        running().retain(|&other| other != pid(&self.0));
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn running() -> std::sync::MutexGuard<'static, Vec<Pid>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}
