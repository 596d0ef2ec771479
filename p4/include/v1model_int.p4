// SPDX-License-Identifier: GPL-2.0
// Telemetry at an egress port of a v1model switch. Call FathomResidual and FathomInt at egress;
// FathomChecksum is the package's ComputeChecksum.
//
// v1model has no units. With FATHOM_CLOCK_NS its clock counts ns and its queue cells of 80 bytes, as the
// interpreter beside these files does; without, microseconds and packets, as BMv2 does.
#ifndef FATHOM_V1MODEL_INT_P4
#define FATHOM_V1MODEL_INT_P4

#define FATHOM_MAX(A, B) (A < B ? B : A)
#define FATHOM_PARSER_LOCALS
#define FATHOM_SUBTRACT(LIST)
#define FATHOM_DEPOSIT
#include "headers.p4"
#include "checksum.p4"
#include "parser.p4"
#include "mpd.p4"
#include "bottleneck.p4"
#include "stack.p4"

// Ports of a switch; egress_port has nine bits.
#ifndef FATHOM_PORTS
#define FATHOM_PORTS 512
#endif

// A full packet of BMv2's queue, in cells of 80 bytes.
#define FATHOM_CELLS_PER_PACKET 19

// Remembers the TCP checksum without the words that may change. Before the first change.
control FathomResidual(inout headers_t h, inout fathom_t m) {
    apply {
#ifdef FATHOM_MPD
        if (h.mpd.isValid()) {
            hash(m.tcp_residual, HashAlgorithm.csum16, 16w0,
                 { h.tcp.csum, FATHOM_FLAGS_WORDS, FATHOM_MPD_WORDS }, 32w0x10000);
        } else
#endif
#ifdef FATHOM_BOTTLENECK
        if (h.bottleneck.isValid()) {
            hash(m.tcp_residual, HashAlgorithm.csum16, 16w0,
                 { h.tcp.csum, FATHOM_FLAGS_WORDS, FATHOM_BOTTLENECK_WORDS }, 32w0x10000);
        } else
#endif
#ifdef FATHOM_STACK
        if (h.slot.isValid()) {
            hash(m.tcp_residual, HashAlgorithm.csum16, 16w0,
                 { h.tcp.csum, FATHOM_FLAGS_WORDS, FATHOM_SLOT_WORDS }, 32w0x10000);
        } else
#endif
        if (h.tcp.isValid()) {
            hash(m.tcp_residual, HashAlgorithm.csum16, 16w0, { h.tcp.csum, FATHOM_FLAGS_WORDS }, 32w0x10000);
        }
    }
}

// Puts the new words back: the package's checksum control as it is, or called from yours.
control FathomChecksum(inout headers_t h, inout fathom_t m) {
    apply {
#ifdef FATHOM_MPD
        update_checksum(h.mpd.isValid(), { FATHOM_FLAGS_WORDS, FATHOM_MPD_WORDS, m.tcp_residual },
                        h.tcp.csum, HashAlgorithm.csum16);
#endif
#ifdef FATHOM_BOTTLENECK
        update_checksum(h.bottleneck.isValid(), { FATHOM_FLAGS_WORDS, FATHOM_BOTTLENECK_WORDS, m.tcp_residual },
                        h.tcp.csum, HashAlgorithm.csum16);
#endif
#ifdef FATHOM_STACK
        update_checksum(h.slot.isValid(), { FATHOM_FLAGS_WORDS, FATHOM_SLOT_WORDS, m.tcp_residual },
                        h.tcp.csum, HashAlgorithm.csum16);
#endif
        update_checksum(m.update_flags, { FATHOM_FLAGS_WORDS, m.tcp_residual }, h.tcp.csum, HashAlgorithm.csum16);
    }
}

#ifdef FATHOM_RECORDS
// The load of a port in 1/256, as wire::Load has it: a level in Q8 ns that each packet raises by its time on the wire
// and that halves in 2^15 ns.
control FathomLoad(in bit<32> port, in bit<48> now, in bit<64> busy, out bit<16> load) {
    register<bit<64>>(FATHOM_PORTS) load_level;
    register<bit<48>>(FATHOM_PORTS) load_at;
    bit<64> level;
    bit<48> last;
    bit<48> gap;
    apply {
        @atomic {
            load_level.read(level, port);
            load_at.read(last, port);
            // A clock that went back has not moved.
            gap = now |-| last;
            if (gap[47:15] > 40) {
                level = 0;
            } else {
                level = level >> gap[22:15];
                level = level - ((level * (bit<64>)gap[14:0]) >> 16);
            }
            level = level + busy;
            if (level > 0x1000000) {
                level = 0x1000000;
            }
            load_level.write(port, level);
            load_at.write(port, now);
        }
        load = (bit<16>)(level >> 16);
        if (load > 255) {
            load = 255;
        }
    }
}
#endif

control FathomInt(inout headers_t h, inout fathom_t m, in standard_metadata_t sm) {
    MpdWrite() mpd_write;
    BottleneckWrite() bottleneck_write;
    StackWrite() stack_write;
    bit<48> now;
    bit<64> wait;
    bit<32> qlen;

#ifdef FATHOM_RECORDS
    FathomLoad() port_load;
    register<bit<32>>(FATHOM_PORTS) tx_bytes;
    bit<32> tx;
    bit<32> length;
    bit<32> byte_time;
    bit<16> load;

    // What the operator says of a port: its hop id, its speed as a code of wire::speed (1 to 15, never 0), what its link
    // adds to a packet, and how long a byte takes, ns in Q24.
    action port_is(bit<8> hop, bit<8> speed, bit<8> overhead, bit<32> ns_per_byte) {
        m.record.hop = hop;
        m.record.speed = speed;
        m.record.slot_hop_speed = hop[3:0] ++ speed[3:0];
        length = sm.packet_length + (bit<32>)overhead;
        byte_time = ns_per_byte;
    }
    table port {
        key = { sm.egress_port : exact; }
        actions = { port_is; }
        // A speed that no law uses, Ethernet's overhead, no load.
        default_action = port_is(0, 15, 24, 0);
        size = FATHOM_PORTS;
    }
#endif

    apply {
#ifdef FATHOM_CLOCK_NS
        now = sm.egress_global_timestamp;
        wait = (bit<64>)sm.deq_timedelta;
        qlen = (bit<32>)sm.deq_qdepth;
#else
        now = sm.egress_global_timestamp * 1000;
        wait = (bit<64>)sm.deq_timedelta * 1000;
        qlen = (bit<32>)sm.deq_qdepth * FATHOM_CELLS_PER_PACKET;
#endif

#ifdef FATHOM_RECORDS
        // Every packet counts, with or without the option.
        port.apply();
        @atomic {
            tx_bytes.read(tx, (bit<32>)sm.egress_port);
            tx = tx + length;
            tx_bytes.write((bit<32>)sm.egress_port, tx);
        }
        port_load.apply((bit<32>)sm.egress_port, now, ((bit<64>)length * (bit<64>)byte_time) >> 16, load);
        if (qlen > 0xffff) {
            qlen = 0xffff;
        }
        // A delay of 64 ns or more beats any load; the key saturates.
        m.record.key = load;
        if (wait[63:6] != 0) {
            m.record.key = 0xffff;
            if (wait[63:22] == 0) {
                m.record.key = wait[21:6] |+| 256;
            }
        }
        m.record.qlen = qlen[15:0];
        m.record.tx_high = tx[29:14];
        m.record.tx_low_ts_high = tx[13:6] ++ now[23:16];
        m.record.ts_low = now[15:0];
        m.record.slot_tx_high = tx[26:19];
        m.record.slot_tx_low_ts_high = tx[18:7] ++ now[23:20];
        m.record.slot_ts_low = now[19:4];
#endif

#ifdef FATHOM_MPD
        if (h.mpd.isValid()) {
            wait = wait >> FATHOM_MPD_SHIFT;
            if (wait > 0xfff) {
                wait = 0xfff;
            }
            m.own = wait[11:0] ++ h.mpd.forward[3:0];
            mpd_write.apply(h.mpd, m.own);
        }
#endif
#ifdef FATHOM_BOTTLENECK
        if (h.bottleneck.isValid()) {
            bottleneck_write.apply(h.bottleneck, m.record);
        }
#endif
#ifdef FATHOM_STACK
        if (h.slot.isValid()) {
            stack_write.apply(h.slot, m.record);
        }
#endif
    }
}

#endif
