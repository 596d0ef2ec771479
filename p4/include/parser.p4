// SPDX-License-Identifier: GPL-2.0
// Finds the telemetry option.
//
// Ethernet, at most one VLAN tag, IPv4 with or without options, or IPv6, and TCP that is not a fragment. Among the TCP
// options each of ours stands at a multiple of four bytes; in front of it may be any mix of NOPs, timestamps, SACK
// blocks, SACK-permitted, MSS and window scale, padded with NOPs in front to four bytes as stacks do. Anything else ends the
// search and the packet passes as it is: an unknown option, an end of options, an option of ours that is not aligned, does
// not fit into the header, or has a length its format does not know.
//
// Tofino 1 matches on 32 bits of parser registers in all, so the data offset is branched on once: a state `leftN`
// knows that N words of options are left, and from there on the parser looks at 16 bits at a time. No counter, no
// loop: each way through is at most ten words long. Words in front of ours go into `before` by what is left behind them, so that
// the deparser puts them back in order.
//
// The includer may have defined FATHOM_SUBTRACT(LIST), FATHOM_DEPOSIT and FATHOM_PARSER_LOCALS: Tofino's checksum unit.
#ifndef FATHOM_PARSER_P4
#define FATHOM_PARSER_P4
#include "headers.p4"
#include "checksum.p4"

#ifdef FATHOM_MPD
#define FATHOM_IF_MPD(CASE) CASE
#else
#define FATHOM_IF_MPD(CASE)
#endif
#ifdef FATHOM_BOTTLENECK
#define FATHOM_IF_BOTTLENECK(CASE) CASE
#else
#define FATHOM_IF_BOTTLENECK(CASE)
#endif
#ifdef FATHOM_STACK
#define FATHOM_IF_STACK(CASE) CASE
#else
#define FATHOM_IF_STACK(CASE)
#endif

parser FathomParser(packet_in p, inout headers_t h, inout fathom_t m) {
    FATHOM_PARSER_LOCALS

    state start {
        p.extract(h.eth);
        transition select(h.eth.type) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            ETHERTYPE_VLAN: vlan;
            default: accept;
        }
    }
    state vlan {
        p.extract(h.vlan);
        transition select(h.vlan.type) {
            ETHERTYPE_IPV4: ipv4;
            ETHERTYPE_IPV6: ipv6;
            default: accept;
        }
    }
    // No fragment: offset 0 and no more to come.
    state ipv4 {
        p.extract(h.ipv4);
        transition select(h.ipv4.ver_ihl, h.ipv4.frag, h.ipv4.proto) {
            (0x45, 0 &&& 0x3fff, PROTOCOL_TCP): tcp;
            (0x46, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options1;
            (0x47, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options2;
            (0x48, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options3;
            (0x49, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options4;
            (0x4a, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options5;
            (0x4b, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options6;
            (0x4c, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options7;
            (0x4d, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options8;
            (0x4e, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options9;
            (0x4f, 0 &&& 0x3fff, PROTOCOL_TCP): ipv4_options10;
            default: accept;
        }
    }
    state ipv4_options10 {
        p.extract(h.ipv4_options[0]);
        transition ipv4_options9;
    }
    state ipv4_options9 {
        p.extract(h.ipv4_options[1]);
        transition ipv4_options8;
    }
    state ipv4_options8 {
        p.extract(h.ipv4_options[2]);
        transition ipv4_options7;
    }
    state ipv4_options7 {
        p.extract(h.ipv4_options[3]);
        transition ipv4_options6;
    }
    state ipv4_options6 {
        p.extract(h.ipv4_options[4]);
        transition ipv4_options5;
    }
    state ipv4_options5 {
        p.extract(h.ipv4_options[5]);
        transition ipv4_options4;
    }
    state ipv4_options4 {
        p.extract(h.ipv4_options[6]);
        transition ipv4_options3;
    }
    state ipv4_options3 {
        p.extract(h.ipv4_options[7]);
        transition ipv4_options2;
    }
    state ipv4_options2 {
        p.extract(h.ipv4_options[8]);
        transition ipv4_options1;
    }
    state ipv4_options1 {
        p.extract(h.ipv4_options[9]);
        transition tcp;
    }
    state ipv6 {
        p.extract(h.ipv6);
        transition select(h.ipv6.version, h.ipv6.next_header) {
            (6, PROTOCOL_TCP): tcp;
            default: accept;
        }
    }
    state tcp {
        p.extract(h.tcp);
        FATHOM_SUBTRACT({ h.tcp.csum })
        FATHOM_SUBTRACT({ FATHOM_FLAGS_WORDS })
#if defined(FATHOM_MPD) || defined(FATHOM_RECORDS)
        transition select(h.tcp.offset) {
            0xf0 &&& 0xf0: left10;
            0xe0 &&& 0xf0: left9;
            0xd0 &&& 0xf0: left8;
            0xc0 &&& 0xf0: left7;
            0xb0 &&& 0xf0: left6;
            0xa0 &&& 0xf0: left5;
            0x90 &&& 0xf0: left4;
            0x80 &&& 0xf0: left3;
            0x70 &&& 0xf0: left2;
            default: tcp_done;
        }
#else
        transition tcp_done;
#endif
    }

#if defined(FATHOM_MPD) || defined(FATHOM_RECORDS)
    state left10 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            FATHOM_IF_BOTTLENECK(0xfd10: bottleneck_id;)
            FATHOM_IF_STACK(0xfd0c: stack1_id;)
            FATHOM_IF_STACK(0xfd14: stack2_id;)
            FATHOM_IF_STACK(0xfd1c: stack3_id;)
            FATHOM_IF_STACK(0xfd24: stack4_id;)
            0x0101: pair10;
            0x0402: pair10;
            0x0103: scale10;
            0x0204: skip1_10;
            default: tcp_done;
        }
    }
    state pair10 {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            0x0101: skip1_10;
            0x0402: skip1_10;
            0x080a: skip3_10;
            0x050a: skip3_10;
            0x0512: skip5_10;
            0x051a: skip7_10;
            default: tcp_done;
        }
    }
    state scale10 {
        transition select(p.lookahead<bit<24>>()[7:0]) {
            0x03: skip1_10;
            default: tcp_done;
        }
    }
    state skip1_10 {
        p.extract(h.before[0]);
        transition left9;
    }
    state skip3_10 {
        p.extract(h.before[0]);
        p.extract(h.before[1]);
        p.extract(h.before[2]);
        transition left7;
    }
    state skip5_10 {
        p.extract(h.before[0]);
        p.extract(h.before[1]);
        p.extract(h.before[2]);
        p.extract(h.before[3]);
        p.extract(h.before[4]);
        transition left5;
    }
    state skip7_10 {
        p.extract(h.before[0]);
        p.extract(h.before[1]);
        p.extract(h.before[2]);
        p.extract(h.before[3]);
        p.extract(h.before[4]);
        p.extract(h.before[5]);
        p.extract(h.before[6]);
        transition left3;
    }
    state left9 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            FATHOM_IF_BOTTLENECK(0xfd10: bottleneck_id;)
            FATHOM_IF_STACK(0xfd0c: stack1_id;)
            FATHOM_IF_STACK(0xfd14: stack2_id;)
            FATHOM_IF_STACK(0xfd1c: stack3_id;)
            FATHOM_IF_STACK(0xfd24: stack4_id;)
            0x0101: pair9;
            0x0402: pair9;
            0x0103: scale9;
            0x0204: skip1_9;
            default: tcp_done;
        }
    }
    state pair9 {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            0x0101: skip1_9;
            0x0402: skip1_9;
            0x080a: skip3_9;
            0x050a: skip3_9;
            0x0512: skip5_9;
            0x051a: skip7_9;
            default: tcp_done;
        }
    }
    state scale9 {
        transition select(p.lookahead<bit<24>>()[7:0]) {
            0x03: skip1_9;
            default: tcp_done;
        }
    }
    state skip1_9 {
        p.extract(h.before[1]);
        transition left8;
    }
    state skip3_9 {
        p.extract(h.before[1]);
        p.extract(h.before[2]);
        p.extract(h.before[3]);
        transition left6;
    }
    state skip5_9 {
        p.extract(h.before[1]);
        p.extract(h.before[2]);
        p.extract(h.before[3]);
        p.extract(h.before[4]);
        p.extract(h.before[5]);
        transition left4;
    }
    state skip7_9 {
        p.extract(h.before[1]);
        p.extract(h.before[2]);
        p.extract(h.before[3]);
        p.extract(h.before[4]);
        p.extract(h.before[5]);
        p.extract(h.before[6]);
        p.extract(h.before[7]);
        transition left2;
    }
    state left8 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            FATHOM_IF_BOTTLENECK(0xfd10: bottleneck_id;)
            FATHOM_IF_STACK(0xfd0c: stack1_id;)
            FATHOM_IF_STACK(0xfd14: stack2_id;)
            FATHOM_IF_STACK(0xfd1c: stack3_id;)
            0x0101: pair8;
            0x0402: pair8;
            0x0103: scale8;
            0x0204: skip1_8;
            default: tcp_done;
        }
    }
    state pair8 {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            0x0101: skip1_8;
            0x0402: skip1_8;
            0x080a: skip3_8;
            0x050a: skip3_8;
            0x0512: skip5_8;
            default: tcp_done;
        }
    }
    state scale8 {
        transition select(p.lookahead<bit<24>>()[7:0]) {
            0x03: skip1_8;
            default: tcp_done;
        }
    }
    state skip1_8 {
        p.extract(h.before[2]);
        transition left7;
    }
    state skip3_8 {
        p.extract(h.before[2]);
        p.extract(h.before[3]);
        p.extract(h.before[4]);
        transition left5;
    }
    state skip5_8 {
        p.extract(h.before[2]);
        p.extract(h.before[3]);
        p.extract(h.before[4]);
        p.extract(h.before[5]);
        p.extract(h.before[6]);
        transition left3;
    }
    state left7 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            FATHOM_IF_BOTTLENECK(0xfd10: bottleneck_id;)
            FATHOM_IF_STACK(0xfd0c: stack1_id;)
            FATHOM_IF_STACK(0xfd14: stack2_id;)
            FATHOM_IF_STACK(0xfd1c: stack3_id;)
            0x0101: pair7;
            0x0402: pair7;
            0x0103: scale7;
            0x0204: skip1_7;
            default: tcp_done;
        }
    }
    state pair7 {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            0x0101: skip1_7;
            0x0402: skip1_7;
            0x080a: skip3_7;
            0x050a: skip3_7;
            0x0512: skip5_7;
            default: tcp_done;
        }
    }
    state scale7 {
        transition select(p.lookahead<bit<24>>()[7:0]) {
            0x03: skip1_7;
            default: tcp_done;
        }
    }
    state skip1_7 {
        p.extract(h.before[3]);
        transition left6;
    }
    state skip3_7 {
        p.extract(h.before[3]);
        p.extract(h.before[4]);
        p.extract(h.before[5]);
        transition left4;
    }
    state skip5_7 {
        p.extract(h.before[3]);
        p.extract(h.before[4]);
        p.extract(h.before[5]);
        p.extract(h.before[6]);
        p.extract(h.before[7]);
        transition left2;
    }
    state left6 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            FATHOM_IF_BOTTLENECK(0xfd10: bottleneck_id;)
            FATHOM_IF_STACK(0xfd0c: stack1_id;)
            FATHOM_IF_STACK(0xfd14: stack2_id;)
            0x0101: pair6;
            0x0402: pair6;
            0x0103: scale6;
            0x0204: skip1_6;
            default: tcp_done;
        }
    }
    state pair6 {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            0x0101: skip1_6;
            0x0402: skip1_6;
            0x080a: skip3_6;
            0x050a: skip3_6;
            default: tcp_done;
        }
    }
    state scale6 {
        transition select(p.lookahead<bit<24>>()[7:0]) {
            0x03: skip1_6;
            default: tcp_done;
        }
    }
    state skip1_6 {
        p.extract(h.before[4]);
        transition left5;
    }
    state skip3_6 {
        p.extract(h.before[4]);
        p.extract(h.before[5]);
        p.extract(h.before[6]);
        transition left3;
    }
    state left5 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            FATHOM_IF_BOTTLENECK(0xfd10: bottleneck_id;)
            FATHOM_IF_STACK(0xfd0c: stack1_id;)
            FATHOM_IF_STACK(0xfd14: stack2_id;)
            0x0101: pair5;
            0x0402: pair5;
            0x0103: scale5;
            0x0204: skip1_5;
            default: tcp_done;
        }
    }
    state pair5 {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            0x0101: skip1_5;
            0x0402: skip1_5;
            0x080a: skip3_5;
            0x050a: skip3_5;
            default: tcp_done;
        }
    }
    state scale5 {
        transition select(p.lookahead<bit<24>>()[7:0]) {
            0x03: skip1_5;
            default: tcp_done;
        }
    }
    state skip1_5 {
        p.extract(h.before[5]);
        transition left4;
    }
    state skip3_5 {
        p.extract(h.before[5]);
        p.extract(h.before[6]);
        p.extract(h.before[7]);
        transition left2;
    }
    state left4 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            FATHOM_IF_BOTTLENECK(0xfd10: bottleneck_id;)
            FATHOM_IF_STACK(0xfd0c: stack1_id;)
            0x0101: pair4;
            0x0402: pair4;
            0x0103: scale4;
            0x0204: skip1_4;
            default: tcp_done;
        }
    }
    state pair4 {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            0x0101: skip1_4;
            0x0402: skip1_4;
            default: tcp_done;
        }
    }
    state scale4 {
        transition select(p.lookahead<bit<24>>()[7:0]) {
            0x03: skip1_4;
            default: tcp_done;
        }
    }
    state skip1_4 {
        p.extract(h.before[6]);
        transition left3;
    }
    state left3 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            FATHOM_IF_STACK(0xfd0c: stack1_id;)
            0x0101: pair3;
            0x0402: pair3;
            0x0103: scale3;
            0x0204: skip1_3;
            default: tcp_done;
        }
    }
    state pair3 {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            0x0101: skip1_3;
            0x0402: skip1_3;
            default: tcp_done;
        }
    }
    state scale3 {
        transition select(p.lookahead<bit<24>>()[7:0]) {
            0x03: skip1_3;
            default: tcp_done;
        }
    }
    state skip1_3 {
        p.extract(h.before[7]);
        transition left2;
    }
    state left2 {
        transition select(p.lookahead<bit<16>>()) {
            FATHOM_IF_MPD(0xfd08: mpd_id;)
            default: tcp_done;
        }
    }
#endif

    // The length fits the header: now whose option it is.
#ifdef FATHOM_MPD
    state mpd_id {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            EXID_MPD: mpd;
            default: tcp_done;
        }
    }
    state mpd {
        p.extract(h.option);
        p.extract(h.mpd);
        FATHOM_SUBTRACT({ FATHOM_MPD_WORDS })
        transition tcp_done;
    }
#endif
#ifdef FATHOM_BOTTLENECK
    state bottleneck_id {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            EXID_BOTTLENECK: bottleneck;
            default: tcp_done;
        }
    }
    state bottleneck {
        p.extract(h.option);
        p.extract(h.bottleneck);
        FATHOM_SUBTRACT({ FATHOM_BOTTLENECK_WORDS })
        transition tcp_done;
    }
#endif
#ifdef FATHOM_STACK
    state stack1_id {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            EXID_STACK: stack1;
            default: tcp_done;
        }
    }
    state stack2_id {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            EXID_STACK: stack2;
            default: tcp_done;
        }
    }
    state stack3_id {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            EXID_STACK: stack3;
            default: tcp_done;
        }
    }
    state stack4_id {
        transition select(p.lookahead<bit<32>>()[15:0]) {
            EXID_STACK: stack4;
            default: tcp_done;
        }
    }
    state stack4 {
        p.extract(h.option);
        transition slots4;
    }
    state stack3 {
        p.extract(h.option);
        transition slots3;
    }
    state stack2 {
        p.extract(h.option);
        transition slots2;
    }
    state stack1 {
        p.extract(h.option);
        transition slots1;
    }
    // The first byte of an empty slot is zero. When no slot is empty the stack is full, and passes as it is.
    state slots4 {
        transition select(p.lookahead<bit<8>>()) {
            0: slot;
            default: used4;
        }
    }
    state used4 {
        p.extract(h.used[0]);
        transition slots3;
    }
    state slots3 {
        transition select(p.lookahead<bit<8>>()) {
            0: slot;
            default: used3;
        }
    }
    state used3 {
        p.extract(h.used[1]);
        transition slots2;
    }
    state slots2 {
        transition select(p.lookahead<bit<8>>()) {
            0: slot;
            default: used2;
        }
    }
    state used2 {
        p.extract(h.used[2]);
        transition slots1;
    }
    state slots1 {
        transition select(p.lookahead<bit<8>>()) {
            0: slot;
            default: used1;
        }
    }
    state used1 {
        p.extract(h.used[3]);
        transition tcp_done;
    }
    state slot {
        p.extract(h.slot);
        FATHOM_SUBTRACT({ FATHOM_SLOT_WORDS })
        transition tcp_done;
    }
#endif

    // Nothing is extracted behind this.
    state tcp_done {
        FATHOM_DEPOSIT
        transition accept;
    }
}

#endif
