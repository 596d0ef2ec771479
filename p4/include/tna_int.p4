// SPDX-License-Identifier: GPL-2.0
// Telemetry at an egress port of a Tofino. FathomParser in the egress parser, FathomInt at egress, FathomChecksum in
// the egress deparser; include this behind <tna.p4> or <t2na.p4>.
//
// What the compiler wants, and why the code looks as it does: slices of intrinsic metadata that are not whole bytes go
// through the hash unit (@in_hash); checksums are residuals; each step below that depends on the one before costs a
// stage, so whatever can be known early is computed early. The chain is in docs/p4.md.
#ifndef FATHOM_TNA_INT_P4
#define FATHOM_TNA_INT_P4

#define FATHOM_MAX(A, B) max(A, B)
#define FATHOM_PARSER_LOCALS Checksum() tcp_checksum;
#define FATHOM_SUBTRACT(LIST) tcp_checksum.subtract(LIST);
#define FATHOM_DEPOSIT tcp_checksum.subtract_all_and_deposit(m.tcp_residual);
#include "headers.p4"
#include "checksum.p4"
#include "parser.p4"
#include "mpd.p4"
#include "bottleneck.p4"
#include "stack.p4"

#ifndef FATHOM_PORTS
#define FATHOM_PORTS 512
#endif

#if !defined(FATHOM_TOFINO2) && FATHOM_MPD_SHIFT < 6
#error FATHOM_MPD_SHIFT below 6: the 12 bits of an mpd word would not hold the 18 bits of deq_timedelta of Tofino 1
#endif

// Zeroes, for the parser: Tofino's metadata has what the last packet left there.
#define FATHOM_CLEAR(M) \
        M.tcp_residual = 0; \
        M.update_flags = false; \
        M.dropped = false; \
        M.ingress_port = 0; \
        M.own = 0; \
        M.record.hop = 0; \
        M.record.speed = 0; \
        M.record.key = 0; \
        M.record.qlen = 0; \
        M.record.tx_high = 0; \
        M.record.tx_low_ts_high = 0; \
        M.record.ts_low = 0; \
        M.record.slot_hop_speed = 0; \
        M.record.slot_tx_high = 0; \
        M.record.slot_tx_low_ts_high = 0; \
        M.record.slot_ts_low = 0;

control FathomInt(inout headers_t h, inout fathom_t m, in egress_intrinsic_metadata_t em,
                  in egress_intrinsic_metadata_from_parser_t pm) {
#ifdef FATHOM_MPD
    MpdWrite() mpd_write;
#endif
#ifdef FATHOM_BOTTLENECK
    BottleneckWrite() bottleneck_write;
    Lpf<bit<32>, PortId_t>(FATHOM_PORTS) utilisation;
    bit<32> load_in;
    bit<16> load;
    bit<16> delay_key;
#endif
#ifdef FATHOM_STACK
    StackWrite() stack_write;
#endif
    // The delay in 64 ns.
    bit<16> wait;

    // --- the delay ---
    // The hop count of the option stands under it, so that one `max` serves for both.
#ifdef FATHOM_TOFINO2
    action measured_mpd() {
        @in_hash { m.own = em.deq_timedelta[FATHOM_MPD_SHIFT + 11:FATHOM_MPD_SHIFT] ++ h.mpd.forward[3:0]; }
    }
    action saturated_mpd() {
        @in_hash { m.own = 12w0xfff ++ h.mpd.forward[3:0]; }
    }
    table mpd_delay {
        key = { em.deq_timedelta : ternary; }
        actions = { measured_mpd; saturated_mpd; }
        const default_action = saturated_mpd();
        const entries = {
            0 &&& (32w0xffffffff << (FATHOM_MPD_SHIFT + 12)) : measured_mpd();
        }
        size = 1;
    }
    action measured() {
        @in_hash { wait = em.deq_timedelta[21:6]; }
    }
    action saturated() {
        wait = 0xffff;
    }
    table delay {
        key = { em.deq_timedelta : ternary; }
        actions = { measured; saturated; }
        const default_action = saturated();
        const entries = {
            0 &&& 0xffc00000 : measured();
        }
        size = 1;
    }
#else
    action measured() {
        @in_hash { m.own = (bit<12>)em.deq_timedelta[17:FATHOM_MPD_SHIFT] ++ h.mpd.forward[3:0]; }
        @in_hash { wait = 4w0 ++ em.deq_timedelta[17:6]; }
    }
    action saturated() {
        @in_hash { m.own = 12w0xfff ++ h.mpd.forward[3:0]; }
        wait = 0xfff;
    }
    // deq_timedelta wraps at 262 us. A queue that takes longer than that to drain is told by its depth: an entry
    // (port, depth from .. to) with `saturated`. Without entries the delay is what the clock says.
    table delay {
        key = {
            em.egress_port : exact;
            em.deq_qdepth  : range;
        }
        actions = { measured; saturated; }
        const default_action = measured();
        size = FATHOM_PORTS;
    }
#endif

#ifdef FATHOM_RECORDS
    // --- what the port sent ---
    bit<16> length;
    bit<32> tx;
    Register<bit<32>, PortId_t>(FATHOM_PORTS, 0) tx_bytes;
    RegisterAction<bit<32>, PortId_t, bit<32>>(tx_bytes) count_tx = {
        void apply(inout bit<32> value, out bit<32> total) {
            value = value + (bit<32>)length;
            total = value;
        }
    };
    // What the operator says of a port: its hop id, its speed as a code of wire::speed (1 to 15, never 0), and what its
    // link adds to a packet.
    action port_is(bit<8> hop, bit<8> speed, bit<16> overhead) {
        m.record.hop = hop;
        m.record.speed = speed;
        length = em.pkt_length + overhead;
    }
    table port {
        key = { em.egress_port : exact; }
        actions = { port_is; }
        // A speed that no law uses, and Ethernet's overhead.
        default_action = port_is(0, 15, 24);
        size = FATHOM_PORTS;
    }

    // --- the queue, in cells of 80 bytes ---
#ifdef FATHOM_TOFINO2
    // Cells have 176 bytes: 2.1875 times 80, rounded down, is 0.6 % less than the truth.
    bit<16> eighth;
    bit<16> sixteenth;
    action cells() {
        @in_hash { m.record.qlen = em.deq_qdepth[14:0] ++ 1w0; }
        @in_hash { eighth = 3w0 ++ em.deq_qdepth[15:3]; }
        @in_hash { sixteenth = 4w0 ++ em.deq_qdepth[15:4]; }
    }
    action cells_eighth() {
        m.record.qlen = m.record.qlen |+| eighth;
    }
    action cells_sixteenth() {
        m.record.qlen = m.record.qlen |+| sixteenth;
    }
    action cells_most() {
        m.record.qlen = 0xffff;
    }
#else
    action cells() {
        @in_hash { m.record.qlen = em.deq_qdepth[15:0]; }
    }
    action cells_most() {
        m.record.qlen = 0xffff;
    }
#endif
#endif

    // --- bytes and time as the formats cut them ---
#ifdef FATHOM_BOTTLENECK
    action weigh() {
        load_in = (bit<32>)em.pkt_length;
    }
    action record_tx() {
        @in_hash { m.record.tx_high = tx[29:14]; }
    }
    action record_tx_ts() {
        @in_hash { m.record.tx_low_ts_high = tx[13:6] ++ pm.global_tstamp[23:16]; }
    }
    action record_ts() {
        m.record.ts_low = pm.global_tstamp[15:0];
    }
#endif
#ifdef FATHOM_STACK
    action slot_hop() {
        @in_hash { m.record.slot_hop_speed = m.record.hop[3:0] ++ m.record.speed[3:0]; }
    }
    action slot_tx() {
        @in_hash { m.record.slot_tx_high = tx[26:19]; }
    }
    action slot_tx_ts() {
        @in_hash { m.record.slot_tx_low_ts_high = tx[18:7] ++ pm.global_tstamp[23:20]; }
    }
    action slot_ts() {
        @in_hash { m.record.slot_ts_low = pm.global_tstamp[19:4]; }
    }
#endif

    apply {
        delay.apply();
#ifdef FATHOM_RECORDS
        // Every packet counts, with or without the option.
        port.apply();
        tx = count_tx.execute(em.egress_port);
#ifdef FATHOM_TOFINO2
        if (em.deq_qdepth[18:15] == 0) {
            cells();
            cells_eighth();
            cells_sixteenth();
        } else {
            cells_most();
        }
#else
        if (em.deq_qdepth[18:16] == 0) {
            cells();
        } else {
            cells_most();
        }
#endif
#endif
#ifdef FATHOM_BOTTLENECK
        weigh();
        load = (bit<16>)utilisation.execute(load_in, em.egress_port);
        // Any delay beats any load.
        delay_key = wait |+| 256;
        load = min(load, 16w255);
        if (wait == 0) {
            m.record.key = load;
        } else {
            m.record.key = delay_key;
        }
        record_tx();
        record_tx_ts();
        record_ts();
#endif
#ifdef FATHOM_STACK
        slot_hop();
        slot_tx();
        slot_tx_ts();
        slot_ts();
#endif

#ifdef FATHOM_MPD
        if (h.mpd.isValid()) {
#ifdef FATHOM_TOFINO2
            mpd_delay.apply();
#endif
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

// In the egress deparser, before the headers are emitted.
control FathomChecksum(inout headers_t h, in fathom_t m) {
    Checksum() mpd_checksum;
    Checksum() bottleneck_checksum;
    Checksum() slot_checksum;
    Checksum() flags_checksum;
    apply {
        // At most one of these holds.
        if (h.mpd.isValid()) {
            h.tcp.csum = mpd_checksum.update({ FATHOM_FLAGS_WORDS, FATHOM_MPD_WORDS, m.tcp_residual });
        }
        if (h.bottleneck.isValid()) {
            h.tcp.csum = bottleneck_checksum.update({ FATHOM_FLAGS_WORDS, FATHOM_BOTTLENECK_WORDS, m.tcp_residual });
        }
        if (h.slot.isValid()) {
            h.tcp.csum = slot_checksum.update({ FATHOM_FLAGS_WORDS, FATHOM_SLOT_WORDS, m.tcp_residual });
        }
        if (m.update_flags) {
            h.tcp.csum = flags_checksum.update({ FATHOM_FLAGS_WORDS, m.tcp_residual });
        }
    }
}

#endif
