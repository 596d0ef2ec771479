// SPDX-License-Identifier: GPL-2.0
//! Network namespaces: one per node, entered by threads.

use anyhow::{Context as _, Result};
use nix::sched::{setns, unshare, CloneFlags};
use std::{fs::File, os::fd::AsFd, sync::Arc, thread};

/// A network namespace, kept alive by the open file.
#[derive(Clone)]
pub struct Netns(Arc<File>);

const OF_THIS_THREAD: &str = "/proc/thread-self/ns/net";

impl Netns {
    /// The namespace that this thread is in.
    pub fn current() -> Result<Self> {
        Ok(Self(Arc::new(
            File::open(OF_THIS_THREAD).context(OF_THIS_THREAD)?,
        )))
    }

    /// A new, empty one.
    pub fn new() -> Result<Self> {
        thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("unshare(CLONE_NEWNET)")?;
            Self::current()
        })
        .join()
        .expect("the thread does not panic")
    }

    /// Runs `f` with this thread inside the namespace, and brings the thread back.
    pub fn enter<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        let back = Self::current()?;
        self.join()?;
        let result = f();
        back.join()?;
        Ok(result)
    }

    /// Moves this thread into the namespace for good.
    pub fn join(&self) -> Result<()> {
        setns(self.0.as_fd(), CloneFlags::CLONE_NEWNET).context("setns")
    }

    /// The file that names the namespace to the kernel.
    pub fn file(&self) -> &File {
        &self.0
    }
}
