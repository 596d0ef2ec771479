// SPDX-License-Identifier: GPL-2.0
//! Where the products of the build are: read from `build/paths`, which `make` writes.

use anyhow::{Context as _, Result};
use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

/// The products of the build.
pub struct Paths {
    build: PathBuf,
    entries: HashMap<String, String>,
    debug: bool,
}

impl Paths {
    /// Finds them: `$FATHOM_BUILD`, or the build directory that this program lies in.
    pub fn find() -> Result<Self> {
        let build = match std::env::var_os("FATHOM_BUILD") {
            Some(dir) => PathBuf::from(dir),
            None => {
                let exe = std::env::current_exe().context("where is this program?")?;
                exe.ancestors()
                    .find(|dir| dir.join("paths").is_file())
                    .map(Path::to_owned)
                    .context("the build's products are not here; run `make modules lab vm` first, or set FATHOM_BUILD")?
            }
        };
        let file = build.join("paths");
        let text = fs::read_to_string(&file).with_context(|| {
            format!("{}: run `make setup` in the checkout first", file.display())
        })?;
        let entries = text
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        Ok(Self {
            build,
            entries,
            debug: false,
        })
    }

    /// The same with the debug kernel as the lab's.
    pub fn with_debug_kernel(self) -> Self {
        Self {
            debug: true,
            ..self
        }
    }

    /// Whether the lab's kernel is the debug kernel.
    pub fn debug(&self) -> bool {
        self.debug
    }

    fn entry(&self, name: &str) -> Result<&str> {
        self.entries
            .get(name)
            .map(String::as_str)
            .with_context(|| format!("{} is not in build/paths", name))
    }

    /// The lab's kernel, a program.
    pub fn lab_kernel(&self) -> Result<PathBuf> {
        let tree = if self.debug { "LAB_DEBUG" } else { "LAB" };
        Ok(Path::new(self.entry(tree)?).join("linux"))
    }

    /// The stock kernel's image.
    pub fn stock_kernel(&self) -> Result<PathBuf> {
        Ok(Path::new(self.entry("LINUX")?)
            .join("root/usr/lib/modules")
            .join(self.entry("KABI")?)
            .join("vmlinuz"))
    }

    /// The project's modules for the lab.
    pub fn lab_modules(&self) -> PathBuf {
        let tree = if self.debug { "lab-debug" } else { "lab" };
        self.build.join(tree).join("kmod")
    }

    /// The modules that do something wrong, for the debug kernel.
    pub fn fault_modules(&self) -> PathBuf {
        self.build.join("fault-module")
    }

    /// The root of the VM's initramfs.
    pub fn vm_root(&self) -> PathBuf {
        self.build.join("vm")
    }

    /// The program that is init in the lab and the VM.
    pub fn init(&self) -> PathBuf {
        self.build.join("bin/fathom-init")
    }

    /// The eBPF programs.
    pub fn bpf(&self) -> PathBuf {
        self.build.join("bin").join(int::OBJECT)
    }

    /// The script that runs a command of the sysroot.
    pub fn enter(&self) -> Result<PathBuf> {
        Ok(Path::new(self.entry("TOP")?).join("scripts/enter"))
    }

    /// The project's scenario files.
    pub fn scenarios(&self) -> Result<PathBuf> {
        Ok(Path::new(self.entry("TOP")?).join("scenarios"))
    }

    /// A new directory for one run; gone when dropped. What a run that was killed left behind goes too.
    pub fn run_dir(&self) -> Result<tempfile::TempDir> {
        let at = self.build.join("run");
        fs::create_dir_all(&at).with_context(|| at.display().to_string())?;
        for old in fs::read_dir(&at)
            .with_context(|| at.display().to_string())?
            .flatten()
        {
            let name = old.file_name().to_string_lossy().into_owned();
            let pid = name
                .strip_prefix("run-")
                .and_then(|n| n.split('-').next()?.parse::<u32>().ok());
            if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                fs::remove_dir_all(old.path()).ok();
            }
        }
        tempfile::Builder::new()
            .prefix(&format!("run-{}-", std::process::id()))
            .tempdir_in(&at)
            .context("directory for the run")
    }
}
