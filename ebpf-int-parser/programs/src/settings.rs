// SPDX-License-Identifier: GPL-2.0
//! What the loader tells the programs when it loads them, and what they count for it. The loader
//! compiles this file too.

/// Set before the programs are loaded, and constant from then on: the verifier drops what they rule
/// out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The format that connections from here ask for (`wire::Format`).
    pub wants: u8,
    /// All formats that are taken, by `wire::Format::bit`.
    pub takes: u8,
    /// Unit of an mpd delay as a power of two of ns.
    pub shift: u8,
    /// INT hops on the way to here that do not decrement the TTL.
    pub extra_hops: u8,
    /// Options per window of data, as a power of two.
    pub per_window_shift: u8,
    /// 1 = tc parses, and sock_ops only writes.
    pub tc_feeds: u8,
    /// 1 = XDP takes the forward part off.
    pub xdp: u8,
    /// Zero.
    pub reserved: u8,
}

impl Settings {
    /// Sixteen options a window: more than any law's reaction time, and a window of up to sixteen
    /// packets has one in each.
    pub const PER_WINDOW_SHIFT: u8 = 4;

    /// mpd wanted, everything taken.
    pub const DEFAULT: Self = Self {
        wants: 1,
        takes: 7,
        shift: 6,
        extra_hops: 0,
        per_window_shift: Self::PER_WINDOW_SHIFT,
        tc_feeds: 0,
        xdp: 0,
        reserved: 0,
    };
}

/// What happened on all connections together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Count {
    /// SYNs that offered.
    Offered = 0,
    /// SYN-ACKs that answered.
    Answered = 1,
    /// Connections that agreed on a format, on either side.
    Agreed = 2,
    /// Connections whose offer was not answered.
    Unanswered = 3,
    /// SYNs out of scope.
    OutOfScope = 4,
    /// Socket storage that could not be had.
    NoStorage = 5,
    /// Segments whose option was malformed.
    Malformed = 6,
    /// Segments that had no room for theirs.
    NoRoom = 7,
    /// Packets whose forward part XDP took off.
    XdpTaken = 8,
    /// Packets that tc put into a socket's storage.
    TcTaken = 9,
    /// Packets that a fault was done to.
    Faults = 10,
    /// Data packets as GRO left them.
    Skbs = 11,
    /// Segments in these.
    Segments = 12,
}

/// What `int_fault` does to the option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// Nothing.
    None = 0,
    /// Removes that of the handshake, as a careful middlebox.
    StripHello = 1,
    /// Removes every one.
    StripAll = 2,
    /// Sets every bit behind the experiment id.
    AllOnes = 3,
    /// Anything behind the experiment id.
    Random = 4,
    /// Any length.
    Length = 5,
    /// Anything from the experiment id on.
    Scramble = 6,
}

impl Count {
    /// How many there are.
    pub const COUNT: usize = 13;
    /// Their names, in order.
    pub const NAMES: [&'static str; Self::COUNT] = [
        "offered",
        "answered",
        "agreed",
        "unanswered",
        "out_of_scope",
        "no_storage",
        "malformed",
        "no_room",
        "xdp_taken",
        "tc_taken",
        "faults",
        "skbs",
        "segments",
    ];
}

/// A connection as XDP sees it: the receiver is this host. IPv4 addresses are mapped into IPv6.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowKey {
    /// The peer's address.
    pub remote: [u32; 4],
    /// This host's.
    pub local: [u32; 4],
    /// The peer's port, network order.
    pub remote_port: u16,
    /// This host's, network order.
    pub local_port: u16,
}
