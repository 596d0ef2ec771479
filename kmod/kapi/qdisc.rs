// SPDX-License-Identifier: GPL-2.0
//! `struct Qdisc_ops` as a trait: a queueing discipline at the root of a device.
//!
//! C headers: `include/net/sch_generic.h`, `include/net/pkt_sched.h`. An implementation says when a
//! packet may leave; packets are owned values ([`Packet`]), queues of them are [`List`]s, and the
//! watchdog that wakes the device, the counters that `tc -s` shows, GSO and the life cycle are done here.

use super::bindings;
use core::{ffi::CStr, marker::PhantomData, mem::MaybeUninit, ptr, ptr::NonNull};
use kernel::{error::to_result, prelude::*, types::Opaque};

/// A packet, owned: dropping it frees it.
pub struct Packet(NonNull<bindings::sk_buff>);

// SAFETY: a packet that is owned alone may be handled by any CPU; that is what queues are for.
unsafe impl Send for Packet {}

impl Packet {
    /// Takes ownership of `skb`.
    ///
    /// # Safety
    ///
    /// `skb` is valid, nobody else uses it, and it is on no list.
    unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        Self(skb)
    }

    /// Gives up ownership.
    fn into_raw(self) -> NonNull<bindings::sk_buff> {
        core::mem::ManuallyDrop::new(self).0
    }

    /// What it counts for in a queue, bytes.
    pub fn len(&self) -> u32 {
        // SAFETY: the packet is valid and ours.
        unsafe { bindings::fathom_skb_len(self.0.as_ptr()) }
    }

    /// Two numbers of the queue's own, kept with the packet while it is queued.
    pub fn notes(&mut self) -> &mut [u64; 2] {
        // SAFETY: the packet is ours while it is queued, and so is its control block, of which the
        // helper has checked size and alignment for two u64.
        unsafe { &mut *bindings::fathom_skb_cb(self.0.as_ptr()).cast() }
    }

    /// Its TCP header with all options, writable. None when it is not TCP over IPv4 or IPv6, is a
    /// fragment, or is not whole.
    pub fn tcp(&mut self) -> Option<Tcp<'_>> {
        let (mut len, mut partial) = (0, false);
        // SAFETY: the packet is ours; the helper checks every length before it reads.
        let header = unsafe { bindings::fathom_skb_tcp(self.0.as_ptr(), &mut len, &mut partial) };
        let header = NonNull::new(header)?;
        // SAFETY: the helper made `len` bytes at `header` linear and private to this packet, which is
        // borrowed for as long as the slice.
        let header = unsafe { core::slice::from_raw_parts_mut(header.as_ptr(), len as usize) };
        Some(Tcp { header, partial })
    }

    /// What its TCP header says; none where [`tcp`](Self::tcp) has none. Copies nothing.
    pub fn segment(&self) -> Option<Segment> {
        let mut segment = MaybeUninit::<bindings::fathom_segment>::zeroed();
        // SAFETY: the packet is ours; the helper checks every length before it reads. A segment is of
        // integers, so all-zero is one.
        unsafe {
            bindings::fathom_skb_segment_of(self.0.as_ptr(), segment.as_mut_ptr())
                .then(|| Segment(segment.assume_init()))
        }
    }

    /// Marks it as having met congestion (CE). False when its sender does not speak ECN.
    pub fn set_ce(&mut self) -> bool {
        // SAFETY: the packet is ours; the kernel makes its header writable first.
        unsafe { bindings::fathom_skb_set_ce(self.0.as_ptr()) }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        // SAFETY: the packet is ours, and this is its end.
        unsafe { bindings::fathom_skb_free(self.0.as_ptr()) }
    }
}

/// The TCP header of a packet.
pub struct Tcp<'a> {
    /// From the source port to the end of the options.
    pub header: &'a mut [u8],
    /// The checksum field covers the pseudo-header alone: the rest is added when the packet leaves.
    pub partial: bool,
}

/// What the headers of a TCP segment say: addresses, ports, numbers, flags, in the host's byte order.
pub struct Segment(bindings::fathom_segment);

impl core::ops::Deref for Segment {
    type Target = bindings::fathom_segment;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A queue of packets, first in first out, linked through the packets themselves.
///
/// # Invariants
///
/// `head` is null or the first of a chain of owned packets that ends at `tail`, whose next is null.
pub struct List {
    head: *mut bindings::sk_buff,
    tail: *mut bindings::sk_buff,
    len: u32,
}

// SAFETY: it owns its packets, which are `Send`.
unsafe impl Send for List {}

impl List {
    /// An empty one.
    pub const fn new() -> Self {
        // INVARIANT: empty.
        Self {
            head: ptr::null_mut(),
            tail: ptr::null_mut(),
            len: 0,
        }
    }

    /// How many packets.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Puts a packet last.
    pub fn push(&mut self, packet: Packet) {
        let skb = packet.into_raw().as_ptr();
        // SAFETY: `skb` was an owned packet until just now.
        unsafe { bindings::fathom_skb_set_next(skb, ptr::null_mut()) };
        if self.head.is_null() {
            self.head = skb;
        } else {
            // SAFETY: `tail` is an owned packet by the invariant.
            unsafe { bindings::fathom_skb_set_next(self.tail, skb) };
        }
        // INVARIANT: `skb` is last and its next is null.
        self.tail = skb;
        self.len = self.len.wrapping_add(1);
    }

    /// Takes the first packet.
    pub fn pop(&mut self) -> Option<Packet> {
        let skb = NonNull::new(self.head)?;
        // SAFETY: the head is an owned packet by the invariant.
        self.head = unsafe { bindings::fathom_skb_next(skb.as_ptr()) };
        // SAFETY: as above.
        unsafe { bindings::fathom_skb_set_next(skb.as_ptr(), ptr::null_mut()) };
        self.len = self.len.wrapping_sub(1);
        // SAFETY: it is off the list, and the list owned it.
        Some(unsafe { Packet::from_raw(skb) })
    }

    /// Looks at the notes of the first packet.
    pub fn first_notes(&self) -> Option<[u64; 2]> {
        let skb = NonNull::new(self.head)?;
        // SAFETY: the head is an owned packet by the invariant; see `Packet::notes`.
        Some(unsafe { *bindings::fathom_skb_cb(skb.as_ptr()).cast::<[u64; 2]>() })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// What a queue says when the device asks for a packet.
pub enum Next {
    /// Send this one.
    Send(Packet),
    /// Nothing before this time, ns of the monotonic clock.
    At(u64),
    /// Nothing.
    Idle,
}

/// Why a configuration is refused; shown by `tc`.
pub struct Refusal {
    /// For people.
    pub why: &'static CStr,
    /// For programs.
    pub error: Error,
}

impl Refusal {
    /// A value is wrong.
    pub const fn invalid(why: &'static CStr) -> Self {
        Self { why, error: EINVAL }
    }

    /// There is no memory.
    pub const fn no_memory() -> Self {
        Self {
            why: c"not enough memory",
            error: ENOMEM,
        }
    }
}

/// The network namespace of a discipline's device, which outlives the discipline. Can be compared, no more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Namespace(usize);

impl Namespace {
    /// Tells it from others.
    pub(super) fn number(self) -> usize {
        self.0
    }
}

/// A queueing discipline. Functions that take `self` run under its lock and must not sleep; none may
/// panic.
pub trait Discipline: Sized + Send + 'static {
    /// Its name in `tc`, at most 15 characters.
    const NAME: &'static str;

    /// Its parameters.
    type Settings: Copy;

    /// New parameters and the memory that they need.
    type Plan;

    /// Its parameters.
    fn settings(&self) -> Self::Settings;

    /// Makes a plan from netlink attributes, on top of the parameters it has if there is one already.
    /// May sleep.
    ///
    /// # Errors
    ///
    /// The reason, for the user; nothing has changed then.
    fn plan(
        now: Option<Self::Settings>,
        options: &[u8],
        at: Namespace,
    ) -> core::result::Result<Self::Plan, Refusal>;

    /// Builds it.
    fn new(plan: Self::Plan) -> Self;

    /// Changes its parameters; packets stay. What it no longer needs it leaves in the plan, to be freed
    /// without the lock.
    fn change(&mut self, plan: &mut Self::Plan);

    /// How many packets it holds.
    fn held(&self) -> u32;

    /// How many packets it has dropped that it had accepted before.
    fn lost(&self) -> u64;

    /// Takes a packet, or gives it back to be dropped.
    ///
    /// # Errors
    ///
    /// The packet, when there is no room for it.
    fn enqueue(&mut self, now_ns: u64, packet: Packet) -> core::result::Result<(), Packet>;

    /// The device is ready for a packet.
    fn dequeue(&mut self, now_ns: u64) -> Next;

    /// Bytes waiting, as `tc -s` shows them.
    fn backlog(&self, now_ns: u64) -> u32;

    /// Drops all packets.
    fn reset(&mut self);

    /// Its parameters as netlink attributes: calls `put` with kind and bytes.
    fn dump(&self, put: &mut dyn FnMut(u16, &[u8]));

    /// Its own statistics, written into `out` in their documented order.
    fn stats(&self, out: &mut [u64; STATS]);
}

/// How many statistics a discipline may have.
pub const STATS: usize = 16;

/// What the private area of the qdisc holds. Zeroed by the kernel before `init`.
#[repr(C)]
struct Private<T> {
    watchdog: bindings::qdisc_watchdog,
    /// `inner` is initialised.
    ready: bool,
    inner: MaybeUninit<T>,
}

/// A registered discipline; gone again when this is dropped.
///
/// # Invariants
///
/// `ops` is registered from [`new`](Self::new) until `drop`, and does not move.
pub struct Registration<T> {
    ops: Pin<KBox<Opaque<bindings::Qdisc_ops>>>,
    _of: PhantomData<T>,
}

// SAFETY: the ops are the kernel's once registered; unregister_qdisc() may be called from any thread.
unsafe impl<T> Send for Registration<T> {}
// SAFETY: there is nothing to do with a shared reference.
unsafe impl<T> Sync for Registration<T> {}

impl<T: Discipline> Registration<T> {
    /// Registers `T`.
    ///
    /// # Errors
    ///
    /// `ENOMEM`; `EEXIST` when the name is taken. Nothing is left behind then.
    pub fn new(module: &'static ThisModule) -> Result<Self> {
        const {
            assert!(
                T::NAME.len() < bindings::IFNAMSIZ as usize,
                "name longer than 15"
            );
            assert!(core::mem::align_of::<Private<T>>() <= 64, "over-aligned");
        }
        let mut id = [0; bindings::IFNAMSIZ as usize];
        for (to, from) in id.iter_mut().zip(T::NAME.bytes()) {
            *to = from;
        }
        let ops = bindings::Qdisc_ops {
            id,
            priv_size: core::mem::size_of::<Private<T>>() as c_int,
            enqueue: Some(enqueue::<T>),
            dequeue: Some(dequeue::<T>),
            peek: Some(bindings::fathom_qdisc_peek),
            init: Some(init::<T>),
            reset: Some(reset::<T>),
            destroy: Some(destroy::<T>),
            change: Some(change::<T>),
            dump: Some(dump::<T>),
            dump_stats: Some(dump_stats::<T>),
            owner: module.as_ptr().cast(),
            // SAFETY: what is left are pointers and integers, all valid when zero.
            ..unsafe { core::mem::zeroed() }
        };
        let ops = KBox::pin(Opaque::new(ops), GFP_KERNEL)?;
        // SAFETY: `ops` is pinned and lives until `drop` has unregistered it.
        to_result(unsafe { bindings::register_qdisc(ops.get()) })?;
        // INVARIANT: registered just now.
        Ok(Self {
            ops,
            _of: PhantomData,
        })
    }
}

impl<T> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: registered by the type invariant. Each qdisc in use holds a reference to the module, so
        // none is left.
        unsafe { bindings::unregister_qdisc(self.ops.get()) }
    }
}

/// The private area.
///
/// # Safety
///
/// `sch` is the argument of a callback of `T`'s `Qdisc_ops`.
unsafe fn private<T>(sch: *mut bindings::Qdisc) -> *mut Private<T> {
    // SAFETY: the kernel allocated `priv_size` zeroed bytes behind the qdisc, aligned to a cache line.
    unsafe { bindings::fathom_qdisc_priv(sch).cast() }
}

/// The discipline of a qdisc.
///
/// # Safety
///
/// As for [`private`], after a successful `init`, and under the qdisc's lock for as long as `'a`.
unsafe fn inner<'a, T>(sch: *mut bindings::Qdisc) -> &'a mut T {
    // SAFETY: `init` succeeded, so `inner` is initialised; the lock makes the reference the only one.
    unsafe { (*private::<T>(sch)).inner.assume_init_mut() }
}

/// The bytes of the options attribute; empty when there is none.
///
/// # Safety
///
/// `arg` is null or a valid attribute for `'a`.
unsafe fn options<'a>(arg: *mut bindings::nlattr) -> &'a [u8] {
    if arg.is_null() {
        return &[];
    }
    // SAFETY: netlink has checked that the attribute lies within its message.
    unsafe {
        let len = usize::try_from(bindings::fathom_nla_len(arg)).unwrap_or(0);
        core::slice::from_raw_parts(bindings::fathom_nla_data(arg).cast(), len)
    }
}

/// The namespace of a qdisc's device.
///
/// # Safety
///
/// As for [`private`].
unsafe fn namespace(sch: *mut bindings::Qdisc) -> Namespace {
    // SAFETY: a qdisc has a device, and that a namespace.
    Namespace(unsafe { bindings::fathom_qdisc_net(sch) })
}

/// Tells the user why.
///
/// # Safety
///
/// `extack` is null or valid.
unsafe fn refuse(extack: *mut bindings::netlink_ext_ack, why: &Refusal) -> c_int {
    if !extack.is_null() {
        // SAFETY: the caller's promise; the text is static.
        unsafe { (*extack)._msg = why.why.as_ptr().cast() };
    }
    why.error.to_errno()
}

unsafe extern "C" fn init<T: Discipline>(
    sch: *mut bindings::Qdisc,
    arg: *mut bindings::nlattr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: `sch` is a new qdisc of ours, used by nobody yet; arguments as the kernel gives them.
    unsafe {
        let private = private::<T>(sch);
        // First, because `destroy` is called whatever happens here.
        bindings::qdisc_watchdog_init(&raw mut (*private).watchdog, sch);
        if !bindings::fathom_qdisc_is_root(sch) {
            return refuse(
                extack,
                &Refusal::invalid(c"this discipline can only be the root of a device"),
            );
        }
        match T::plan(None, options(arg), namespace(sch)) {
            Ok(plan) => {
                (*private).inner.write(T::new(plan));
                (*private).ready = true;
                0
            }
            Err(why) => refuse(extack, &why),
        }
    }
}

unsafe extern "C" fn destroy<T: Discipline>(sch: *mut bindings::Qdisc) {
    // SAFETY: nobody uses the qdisc any more; the watchdog was set up first thing in `init`.
    unsafe {
        let private = private::<T>(sch);
        bindings::qdisc_watchdog_cancel(&raw mut (*private).watchdog);
        if core::mem::replace(&mut (*private).ready, false) {
            (*private).inner.assume_init_drop();
        }
    }
}

unsafe extern "C" fn change<T: Discipline>(
    sch: *mut bindings::Qdisc,
    arg: *mut bindings::nlattr,
    extack: *mut bindings::netlink_ext_ack,
) -> c_int {
    // SAFETY: called on an initialised qdisc under RTNL, so that no other change comes between; the tree
    // lock keeps the data path out. What may sleep, making the plan and freeing what is left of it, is
    // done without that lock.
    unsafe {
        bindings::fathom_qdisc_lock(sch);
        let now = inner::<T>(sch).settings();
        bindings::fathom_qdisc_unlock(sch);
        match T::plan(Some(now), options(arg), namespace(sch)) {
            Ok(mut plan) => {
                bindings::fathom_qdisc_lock(sch);
                inner::<T>(sch).change(&mut plan);
                bindings::fathom_qdisc_unlock(sch);
                drop(plan);
                0
            }
            Err(why) => refuse(extack, &why),
        }
    }
}

/// What a discipline holds and has lost, to account for the difference afterwards.
struct Before {
    held: u32,
    lost: u64,
}

impl Before {
    fn of<T: Discipline>(discipline: &T) -> Self {
        Self {
            held: discipline.held(),
            lost: discipline.lost(),
        }
    }

    /// Puts the counters that the kernel shows right. By differences, because the kernel counts what it
    /// put back into the queue there too.
    ///
    /// # Safety
    ///
    /// As for [`inner`].
    unsafe fn account<T: Discipline>(self, sch: *mut bindings::Qdisc, discipline: &T, now_ns: u64) {
        let held = discipline.held().wrapping_sub(self.held);
        let lost = discipline.lost().wrapping_sub(self.lost);
        // SAFETY: under the qdisc's lock.
        unsafe {
            (*sch).q.qlen = (*sch).q.qlen.wrapping_add(held);
            (*sch).qstats.drops = (*sch).qstats.drops.wrapping_add(lost as u32);
            (*sch).qstats.backlog = discipline.backlog(now_ns);
        }
    }
}

unsafe extern "C" fn enqueue<T: Discipline>(
    skb: *mut bindings::sk_buff,
    sch: *mut bindings::Qdisc,
    to_free: *mut *mut bindings::sk_buff,
) -> c_int {
    // SAFETY: called under the qdisc's lock on an initialised qdisc, with a packet that is now ours.
    unsafe {
        let now = bindings::fathom_now_ns();
        let discipline = inner::<T>(sch);
        let before = Before::of(discipline);
        let mut chain = skb;
        let gso = bindings::fathom_skb_is_gso(skb);
        if gso {
            // A port sends packets, not bursts: what is larger is cut here.
            chain = bindings::fathom_skb_segment(skb);
            if chain.is_null() {
                return bindings::fathom_qdisc_drop(skb, sch, to_free);
            }
        } else {
            bindings::fathom_skb_set_next(skb, ptr::null_mut());
        }
        let mut result = bindings::NET_XMIT_DROP as c_int;
        while let Some(one) = NonNull::new(chain) {
            chain = bindings::fathom_skb_next(one.as_ptr());
            bindings::fathom_skb_set_next(one.as_ptr(), ptr::null_mut());
            match discipline.enqueue(now, Packet::from_raw(one)) {
                Ok(()) => result = bindings::NET_XMIT_SUCCESS as c_int,
                Err(packet) => {
                    bindings::fathom_qdisc_drop(packet.into_raw().as_ptr(), sch, to_free);
                }
            }
        }
        if gso {
            bindings::fathom_skb_consume(skb);
        }
        before.account(sch, discipline, now);
        result
    }
}

unsafe extern "C" fn dequeue<T: Discipline>(sch: *mut bindings::Qdisc) -> *mut bindings::sk_buff {
    // SAFETY: called under the qdisc's lock on an initialised qdisc.
    unsafe {
        let now = bindings::fathom_now_ns();
        let discipline = inner::<T>(sch);
        let before = Before::of(discipline);
        let next = discipline.dequeue(now);
        before.account(sch, discipline, now);
        match next {
            Next::Send(packet) => {
                let skb = packet.into_raw().as_ptr();
                bindings::fathom_qdisc_sent(sch, skb);
                skb
            }
            Next::At(at) => {
                let watchdog = &raw mut (*private::<T>(sch)).watchdog;
                bindings::qdisc_watchdog_schedule_range_ns(watchdog, at, 0);
                ptr::null_mut()
            }
            Next::Idle => ptr::null_mut(),
        }
    }
}

unsafe extern "C" fn reset<T: Discipline>(sch: *mut bindings::Qdisc) {
    // SAFETY: called under the qdisc's lock, or when nobody uses the qdisc; `ready` tells whether `init`
    // succeeded.
    unsafe {
        let private = private::<T>(sch);
        if (*private).ready {
            inner::<T>(sch).reset();
        }
        bindings::qdisc_watchdog_cancel(&raw mut (*private).watchdog);
        (*sch).q.qlen = 0;
        (*sch).qstats.backlog = 0;
    }
}

unsafe extern "C" fn dump<T: Discipline>(
    sch: *mut bindings::Qdisc,
    skb: *mut bindings::sk_buff,
) -> c_int {
    // SAFETY: called on an initialised qdisc under RTNL, with a netlink message to append to; the tree
    // lock keeps the data path out.
    unsafe {
        let nest = bindings::fathom_nla_nest(skb, bindings::TCA_OPTIONS as c_int);
        if nest.is_null() {
            return EMSGSIZE.to_errno();
        }
        let mut failed = false;
        bindings::fathom_qdisc_lock(sch);
        inner::<T>(sch).dump(&mut |kind, value| {
            let (len, from) = (value.len() as c_int, value.as_ptr().cast());
            failed |= bindings::nla_put(skb, c_int::from(kind), len, from) != 0;
        });
        bindings::fathom_qdisc_unlock(sch);
        if failed {
            bindings::fathom_nla_nest_cancel(skb, nest);
            return EMSGSIZE.to_errno();
        }
        bindings::fathom_nla_nest_end(skb, nest);
        (*skb).len as c_int
    }
}

unsafe extern "C" fn dump_stats<T: Discipline>(
    sch: *mut bindings::Qdisc,
    to: *mut bindings::gnet_dump,
) -> c_int {
    let mut stats = [0; STATS];
    // SAFETY: called on an initialised qdisc under RTNL; the tree lock keeps the data path out.
    unsafe {
        bindings::fathom_qdisc_lock(sch);
        inner::<T>(sch).stats(&mut stats);
        bindings::fathom_qdisc_unlock(sch);
        let bytes = core::mem::size_of_val(&stats) as c_int;
        bindings::gnet_stats_copy_app(to, stats.as_mut_ptr().cast(), bytes)
    }
}
