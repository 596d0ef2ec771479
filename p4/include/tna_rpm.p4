// SPDX-License-Identifier: GPL-2.0
// CoDel and reverse path marking at an egress port of a Tofino. FathomRpm at egress; include this behind tna_int.p4.
//
// A register can be touched once by a packet, and what one stage learns an earlier one cannot use. So CoDel is turned
// around: of an interval of I ns, the n-th packet is due when the queue has been bad for D(n) = I + I/sqrt(1) + ... +
// I/sqrt(n-1), which depends on nothing but how long it has been bad. A table of ranges turns that time into n, and a
// register counts how many were chosen: whenever fewer than n, this packet is. Where it differs from wire::codel: the
// schedule begins when the queue became bad and not with the first packet an interval later, a queue that becomes bad again
// begins anew, and times are in steps of 4096 ns.
#ifndef FATHOM_TNA_RPM_P4
#define FATHOM_TNA_RPM_P4
#include "tna_int.p4"
#include "rpm.p4"

typedef bit<FATHOM_RPM_BITS> fathom_slot_t;

control FathomRpm(inout headers_t h, inout fathom_t m, in egress_intrinsic_metadata_t em,
                  in egress_intrinsic_metadata_from_parser_t pm,
                  inout egress_intrinsic_metadata_for_deparser_t dm) {
    MarkCe() mark_ce;
    fathom_mode_t mode;
    bit<2>  ecn;
    bit<1>  bad;
    bit<32> now;
    bit<32> elapsed;
    bit<16> due;
    bit<8>  chosen;
    bit<8>  counted;
    bit<8>  taken;
    fathom_slot_t forward_slot;
    fathom_slot_t reverse_slot;

    action mark_off()     { mode = FATHOM_OFF; }
    action mark_forward() { mode = FATHOM_FORWARD; }
    action mark_reverse() { mode = FATHOM_REVERSE; }
    table marking {
        key = { em.egress_port : exact; }
        actions = { mark_off; mark_forward; mark_reverse; }
        default_action = mark_reverse();
        size = FATHOM_PORTS;
    }

    // The target, and that more than a packet is left: an entry (port, waited from .. to, cells from .. to). Tofino 1
    // tells a delay in ns up to 262 us; Tofino 2 here in units of 64 ns up to 67 ms.
    action queue_bad() { bad = 1; }
    table codel_queue {
        key = {
            em.egress_port   : exact;
#ifdef FATHOM_TOFINO2
            em.deq_timedelta[25:6] : range @name("waited");
#else
            em.deq_timedelta : range @name("waited");
#endif
            em.deq_qdepth    : range;
        }
        actions = { queue_bad; NoAction; }
        const default_action = NoAction();
        size = FATHOM_PORTS;
    }

    // Since when the queue is bad; 0 = it is good.
    Register<bit<32>, PortId_t>(FATHOM_PORTS, 0) codel_since;
    RegisterAction<bit<32>, PortId_t, bit<32>>(codel_since) is_bad = {
        void apply(inout bit<32> since, out bit<32> for_ns) {
            for_ns = 0;
            if (since == 0) {
                since = now;
            } else {
                for_ns = now - since;
            }
        }
    };
    RegisterAction<bit<32>, PortId_t, bit<32>>(codel_since) is_good = {
        void apply(inout bit<32> since, out bit<32> for_ns) {
            since = 0;
            for_ns = 0;
        }
    };

    // The control law: how many packets are due.
    action are_due(bit<16> n) { due = n; }
    table codel_law {
        key = { elapsed[31:12] : range @name("elapsed"); }
        actions = { are_due; }
        default_action = are_due(0);
        size = 512;
    }

    Register<bit<16>, PortId_t>(FATHOM_PORTS, 0) codel_chosen;
    RegisterAction<bit<16>, PortId_t, bit<8>>(codel_chosen) choose = {
        void apply(inout bit<16> count, out bit<8> now_one) {
            now_one = 0;
            if (count < due) {
                count = count + 1;
                now_one = 1;
            }
        }
    };
    RegisterAction<bit<16>, PortId_t, bit<8>>(codel_chosen) choose_none = {
        void apply(inout bit<16> count, out bit<8> now_one) {
            count = 0;
            now_one = 0;
        }
    };

    // Marks that wait for an ACK, by flow.
    Hash<fathom_slot_t>(HashAlgorithm_t.CRC32) forward_v4;
    Hash<fathom_slot_t>(HashAlgorithm_t.CRC32) forward_v6;
    Hash<fathom_slot_t>(HashAlgorithm_t.CRC32) reverse_v4;
    Hash<fathom_slot_t>(HashAlgorithm_t.CRC32) reverse_v6;
    Register<bit<8>, fathom_slot_t>(1 << FATHOM_RPM_BITS, 0) rpm_marks;
    RegisterAction<bit<8>, fathom_slot_t, bit<8>>(rpm_marks) count_mark = {
        void apply(inout bit<8> marks, out bit<8> done) {
            done = 0;
            if (marks < FATHOM_RPM_MAX) {
                marks = marks + 1;
                done = 1;
            }
        }
    };
    RegisterAction<bit<8>, fathom_slot_t, bit<8>>(rpm_marks) take_mark = {
        void apply(inout bit<8> marks, out bit<8> done) {
            done = 0;
            if (marks != 0) {
                marks = marks - 1;
                done = 1;
            }
        }
    };

    apply {
        ecn = 0;
        bad = 0;
        elapsed = 0;
        due = 0;
        chosen = 0;
        counted = 0;
        taken = 0;
        forward_slot = 0;
        reverse_slot = 0;
        now = pm.global_tstamp[31:0];
        if (h.ipv4.isValid()) {
            ecn = h.ipv4.tos[1:0];
        } else if (h.ipv6.isValid()) {
            ecn = h.ipv6.class[1:0];
        }
#ifdef FATHOM_RPM_PER_PORT
        // One counter for all flows of a port: the data's egress port is where its ACKs come in.
        forward_slot = (fathom_slot_t)em.egress_port;
        reverse_slot = (fathom_slot_t)m.ingress_port;
#else
        if (h.ipv4.isValid()) {
            forward_slot = forward_v4.get(FATHOM_FLOW_V4);
            reverse_slot = reverse_v4.get(FATHOM_BACK_V4);
        } else {
            forward_slot = forward_v6.get(FATHOM_FLOW_V6);
            reverse_slot = reverse_v6.get(FATHOM_BACK_V6);
        }
#endif
        marking.apply();
        codel_queue.apply();

        if (bad == 1) {
            elapsed = is_bad.execute(em.egress_port);
        } else {
            is_good.execute(em.egress_port);
        }
        codel_law.apply();
        if (due != 0) {
            chosen = choose.execute(em.egress_port);
        } else {
            choose_none.execute(em.egress_port);
        }

        // A chosen packet is counted and takes no mark along: the next ACK does.
        if (mode == FATHOM_REVERSE && h.tcp.isValid()) {
            if (chosen == 1 && ecn != 0) {
                counted = count_mark.execute(forward_slot);
            } else if ((h.tcp.flags & FATHOM_CARRY_MASK) == FATHOM_CARRY && (h.tcp.offset & 1) == 0) {
                taken = take_mark.execute(reverse_slot);
            }
        }
        if (taken == 1) {
            h.tcp.flags = h.tcp.flags | FATHOM_ECE;
            if (!h.mpd.isValid() && !h.bottleneck.isValid() && !h.slot.isValid()) {
                m.update_flags = true;
            }
        }
        if (chosen == 1 && counted == 0 && mode != FATHOM_OFF) {
            if (ecn != 0) {
                mark_ce.apply(h);
            } else {
                m.dropped = true;
                dm.drop_ctl = 1;
            }
        }
    }
}

#endif
