// SPDX-License-Identifier: GPL-2.0
//! Loading and unloading of kernel modules.

use nix::kmod::{delete_module, finit_module, DeleteModuleFlags, ModuleInitFlags};
use std::{
    ffi::CString,
    fs::{self, File},
    io,
    path::PathBuf,
};

/// Loads one of the project's modules from the initramfs, and first those that it needs.
pub fn load(name: &str, params: &str) -> io::Result<()> {
    let path = PathBuf::from(plan::MODULE_DIR).join(format!("{name}.ko"));
    for needed in plan::depends(&fs::read(&path)?) {
        match load(&needed, "") {
            Err(e) if e.raw_os_error() != Some(libc::EEXIST) => return Err(e),
            _ => {}
        }
    }
    let file = File::open(path)?;
    let params = CString::new(params)?;
    finit_module(file, &params, ModuleInitFlags::empty()).map_err(io::Error::from)
}

/// Is it one of the project's modules?
pub fn is_ours(name: &str) -> bool {
    PathBuf::from(plan::MODULE_DIR)
        .join(format!("{name}.ko"))
        .exists()
}

/// Unloads a module; fails at once when it is in use.
pub fn unload(name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    delete_module(&name, DeleteModuleFlags::O_NONBLOCK).map_err(io::Error::from)
}
