// SPDX-License-Identifier: GPL-2.0
//! A character device that takes commands as text and gives bytes.
//!
//! The kernel's own `miscdevice` reads and writes through iterators that assert, and an assertion is a
//! panic symbol; its ioctls would need `unsafe` in user space. Plain read() and write() need neither.
//!
//! C header: `include/linux/miscdevice.h`.

use core::marker::PhantomData;
use kernel::{
    bindings,
    error::to_result,
    prelude::*,
    types::Opaque,
    uaccess::{UserPtr, UserSlice, UserSliceWriter},
};

/// What a device does. All of it runs in the context of the calling process and may sleep.
pub trait Device: 'static {
    /// Its name under `/dev`.
    const NAME: &'static CStr;

    /// May the calling process open it?
    ///
    /// # Errors
    ///
    /// What open() then fails with.
    fn open() -> Result;

    /// Does what it is told.
    ///
    /// # Errors
    ///
    /// What write() then fails with.
    fn write(command: &[u8]) -> Result;

    /// Gives what follows the first `at` bytes; nothing = end of file.
    ///
    /// # Errors
    ///
    /// What read() then fails with.
    fn read(at: u64, to: &mut UserSliceWriter) -> Result;
}

/// The longest command, bytes.
pub const MAX_COMMAND: usize = 64;

/// The registration of a device. Goes when it is dropped; an open file keeps the module.
pub struct Registration<D> {
    device: Pin<KBox<Opaque<bindings::miscdevice>>>,
    _of: PhantomData<D>,
}

// SAFETY: misc_deregister() may be called from any thread.
unsafe impl<D> Send for Registration<D> {}
// SAFETY: a shared reference can do nothing.
unsafe impl<D> Sync for Registration<D> {}

/// The file operations of one device, which live as long as the module.
struct Operations<D>(PhantomData<D>);

impl<D: Device> Operations<D> {
    unsafe extern "C" fn open(_inode: *mut bindings::inode, _file: *mut bindings::file) -> i32 {
        match D::open() {
            Ok(()) => 0,
            Err(e) => e.to_errno(),
        }
    }

    unsafe extern "C" fn write(
        _file: *mut bindings::file,
        from: *const u8,
        len: usize,
        _at: *mut i64,
    ) -> isize {
        let mut command = [0; MAX_COMMAND];
        let Some(command) = command.get_mut(..len) else {
            return EINVAL.to_errno() as isize;
        };
        let read = UserSlice::new(UserPtr::from_addr(from as usize), len)
            .reader()
            .read_slice(command);
        match read.and_then(|()| D::write(command)) {
            Ok(()) => len as isize,
            Err(e) => e.to_errno() as isize,
        }
    }

    unsafe extern "C" fn read(
        _file: *mut bindings::file,
        to: *mut u8,
        len: usize,
        at: *mut i64,
    ) -> isize {
        // SAFETY: the kernel passes the file's position, locked for this call.
        let position = unsafe { &mut *at };
        let mut writer = UserSlice::new(UserPtr::from_addr(to as usize), len).writer();
        match D::read(*position as u64, &mut writer) {
            Ok(()) => {
                let copied = len.saturating_sub(writer.len());
                *position = position.saturating_add(copied as i64);
                copied as isize
            }
            Err(e) => e.to_errno() as isize,
        }
    }
}

impl<D: Device> Registration<D> {
    /// Registers the device.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what `misc_register()` says.
    pub fn new(module: &'static ThisModule) -> Result<Self> {
        // SAFETY: all-zero is valid for both structures: null pointers, no callbacks, numbers.
        let mut device: bindings::miscdevice = unsafe { core::mem::zeroed() };
        // SAFETY: as above.
        let mut operations: bindings::file_operations = unsafe { core::mem::zeroed() };
        operations.owner = module.as_ptr();
        operations.open = Some(Operations::<D>::open);
        operations.write = Some(Operations::<D>::write);
        operations.read = Some(Operations::<D>::read);
        device.minor = bindings::MISC_DYNAMIC_MINOR as i32;
        device.name = D::NAME.as_ptr().cast();
        // The operations outlive the registration; a module has one device, once.
        let operations = KBox::new(operations, GFP_KERNEL)?;
        device.fops = KBox::into_raw(operations);
        let device = KBox::pin(Opaque::new(device), GFP_KERNEL)?;
        let registration = Self {
            device,
            _of: PhantomData,
        };
        // SAFETY: filled in above, pinned, and deregistered before it is freed.
        match to_result(unsafe { bindings::misc_register(registration.device.get()) }) {
            Ok(()) => Ok(registration),
            Err(e) => {
                registration.free();
                core::mem::forget(registration);
                Err(e)
            }
        }
    }
}

impl<D> Registration<D> {
    fn free(&self) {
        // SAFETY: `new` put the box there and nobody uses it now: not yet registered, or no more.
        unsafe { drop(KBox::from_raw((*self.device.get()).fops.cast_mut())) };
    }
}

impl<D> Drop for Registration<D> {
    fn drop(&mut self) {
        // SAFETY: registered by `new`. An open file would have kept the module and so this.
        unsafe { bindings::misc_deregister(self.device.get()) };
        self.free();
    }
}
