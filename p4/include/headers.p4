// SPDX-License-Identifier: GPL-2.0
// Headers of a packet from Ethernet to the telemetry option, and what the blocks of this folder share.
//
// Fields are cut so that Tofino's checksum units see whole 16-bit words: the version and IHL are one byte, and so
// are the data offset and the bits beside it. What the bits of the option mean: docs/wire.md.
#ifndef FATHOM_HEADERS_P4
#define FATHOM_HEADERS_P4

// Which formats a program updates; all of them unless it says which.
#if !defined(FATHOM_MPD) && !defined(FATHOM_BOTTLENECK) && !defined(FATHOM_STACK) && !defined(FATHOM_NO_INT)
#define FATHOM_MPD
#define FATHOM_BOTTLENECK
#define FATHOM_STACK
#endif
#ifdef FATHOM_NO_INT
#undef FATHOM_MPD
#undef FATHOM_BOTTLENECK
#undef FATHOM_STACK
#endif
#if defined(FATHOM_BOTTLENECK) || defined(FATHOM_STACK)
#define FATHOM_RECORDS
#endif

// Unit of an mpd delay, a power of two of ns; the same in the whole fabric (wire::mpd::DEFAULT_SHIFT).
#ifndef FATHOM_MPD_SHIFT
#define FATHOM_MPD_SHIFT 6
#endif

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_IPV6 = 0x86dd;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<8>  PROTOCOL_TCP   = 6;

// Experiment ids of the option; hops write into the even ones.
const bit<16> EXID_MPD        = 0xfa70;
const bit<16> EXID_BOTTLENECK = 0xfa72;
const bit<16> EXID_STACK      = 0xfa74;

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header vlan_h {
    bit<16> tci;
    bit<16> type;
}

header ipv4_h {
    bit<8>  ver_ihl;
    bit<8>  tos;
    bit<16> len;
    bit<16> id;
    bit<16> frag;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> csum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_h {
    bit<4>   version;
    bit<8>   class;
    bit<20>  label;
    bit<16>  len;
    bit<8>   next_header;
    bit<8>   hops;
    bit<128> src;
    bit<128> dst;
}

header tcp_h {
    bit<16> sport;
    bit<16> dport;
    bit<32> seq;
    bit<32> ack;
    bit<8>  offset;
    bit<8>  flags;
    bit<16> window;
    bit<16> csum;
    bit<16> urgent;
}

// Four bytes of IP options, or of TCP options in front of ours.
header word_h {
    bit<32> word;
}

// Kind, length, experiment id.
header option_h {
    bit<16> kind_len;
    bit<16> exid;
}

header mpd_h {
    bit<16> forward;
    bit<16> echo;
}

header bottleneck_h {
    bit<8>  hop;
    bit<8>  count_speed;
    bit<16> key;
    bit<16> qlen;
    bit<16> tx_high;
    bit<16> tx_low_ts_high;
    bit<16> ts_low;
}

header slot_h {
    bit<8>  hop_speed;
    bit<8>  tx_high;
    bit<16> tx_low_ts_high;
    bit<16> ts_low;
    bit<16> qlen;
}

// A stack's slots that earlier hops wrote are `used`, the first empty one is `slot`: the parser tells them apart.
struct headers_t {
    ethernet_h   eth;
    vlan_h       vlan;
    ipv4_h       ipv4;
    word_h[10]   ipv4_options;
    ipv6_h       ipv6;
    tcp_h        tcp;
    word_h[8]    before;
    option_h     option;
    mpd_h        mpd;
    bottleneck_h bottleneck;
    slot_h[4]    used;
    slot_h       slot;
}

// What the port would write: the two forms of one record.
struct record_t {
    bit<8>  hop;
    bit<8>  speed;
    bit<16> key;
    bit<16> qlen;
    bit<16> tx_high;
    bit<16> tx_low_ts_high;
    bit<16> ts_low;
    bit<8>  slot_hop_speed;
    bit<8>  slot_tx_high;
    bit<16> slot_tx_low_ts_high;
    bit<16> slot_ts_low;
}

struct fathom_t {
    // The TCP checksum without the words that may change (residual method).
    bit<16>  tcp_residual;
    // TCP flags changed and there is no option: with one, the checksum is updated anyway.
    bool     update_flags;
    // CoDel drops this packet.
    bool     dropped;
    // Where the packet came in, for marks that are kept by port.
    bit<16>  ingress_port;
    // The word of an mpd option as this port would have it.
    bit<16>  own;
    record_t record;
}

#endif
