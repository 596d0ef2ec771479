// SPDX-License-Identifier: GPL-2.0
// CoDel and reverse path marking at an egress port of a v1model switch: wire::codel and wire::rpm, step by step. Call
// FathomRpm at egress, behind FathomResidual and before FathomInt.
#ifndef FATHOM_V1MODEL_RPM_P4
#define FATHOM_V1MODEL_RPM_P4
#include "v1model_int.p4"
#include "rpm.p4"

// ns.
#ifndef FATHOM_CODEL_TARGET
#define FATHOM_CODEL_TARGET 1000000
#endif
#ifndef FATHOM_CODEL_INTERVAL
#define FATHOM_CODEL_INTERVAL 20000000
#endif

control FathomCodel(in standard_metadata_t sm, out bool chosen) {
    register<bit<48>>(FATHOM_PORTS) codel_bad_from;
    register<bit<48>>(FATHOM_PORTS) codel_next;
    register<bit<32>>(FATHOM_PORTS) codel_count;
    register<bit<32>>(FATHOM_PORTS) codel_last_count;
    register<bit<32>>(FATHOM_PORTS) codel_max_packet;
    register<bit<1>>(FATHOM_PORTS)  codel_choosing;
    bit<32> port;
    bit<48> now;
    bit<48> waited;
    bit<32> left;
    bit<48> target;
    bit<48> interval;
    bit<48> spacing;
    bit<48> bad_from;
    bit<48> next;
    bit<48> due;
    bit<32> count;
    bit<32> last_count;
    bit<32> since;
    bit<32> max_packet;
    bit<1>  choosing;

    action codel_is(bit<48> target_ns, bit<48> interval_ns) {
        target = target_ns;
        interval = interval_ns;
    }
    table codel_port {
        key = { sm.egress_port : exact; }
        actions = { codel_is; }
        default_action = codel_is(FATHOM_CODEL_TARGET, FATHOM_CODEL_INTERVAL);
        size = FATHOM_PORTS;
    }
    // The control law: interval / sqrt(count), for as many counts as are worth telling apart. No switch divides.
    action every(bit<48> ns) {
        spacing = ns;
    }
    table codel_law {
        key = { count : range; }
        actions = { every; }
        default_action = every(FATHOM_CODEL_INTERVAL);
        size = 1024;
    }

    apply {
        chosen = false;
        port = (bit<32>)sm.egress_port;
#ifdef FATHOM_CLOCK_NS
        now = sm.egress_global_timestamp;
        waited = (bit<48>)sm.deq_timedelta;
        left = (bit<32>)sm.deq_qdepth * 80;
#else
        now = sm.egress_global_timestamp * 1000;
        waited = (bit<48>)sm.deq_timedelta * 1000;
        left = (bit<32>)sm.deq_qdepth * (FATHOM_CELLS_PER_PACKET * 80);
#endif
        codel_port.apply();
        @atomic {
            codel_bad_from.read(bad_from, port);
            codel_next.read(next, port);
            codel_count.read(count, port);
            codel_last_count.read(last_count, port);
            codel_max_packet.read(max_packet, port);
            codel_choosing.read(choosing, port);
            if (sm.packet_length > max_packet) {
                max_packet = sm.packet_length;
            }
            due = next;
            if (waited < target || left <= max_packet) {
                bad_from = 0;
                choosing = 0;
            } else {
                if (bad_from == 0) {
                    bad_from = now + interval;
                }
                if (now < bad_from) {
                    choosing = 0;
                } else if (choosing == 0) {
                    choosing = 1;
                    chosen = true;
                    // A queue that was bad a short time ago goes on where it stopped.
                    since = count - last_count;
                    count = 1;
                    if (since > 1 && (now |-| next) < (interval << 4)) {
                        count = since;
                    }
                    last_count = count;
                    due = now;
                } else if (now >= next) {
                    count = count |+| 1;
                    chosen = true;
                }
            }
            if (chosen) {
                codel_law.apply();
                next = due + spacing;
            }
            codel_bad_from.write(port, bad_from);
            codel_next.write(port, next);
            codel_count.write(port, count);
            codel_last_count.write(port, last_count);
            codel_max_packet.write(port, max_packet);
            codel_choosing.write(port, choosing);
        }
    }
}

control FathomRpm(inout headers_t h, inout fathom_t m, inout standard_metadata_t sm) {
    FathomCodel() codel;
    MarkCe() mark_ce;
    // Marks that wait for an ACK, by flow.
    register<bit<8>>(1 << FATHOM_RPM_BITS) rpm_marks;
    fathom_mode_t mode;
    bit<2>  ecn;
    bit<32> forward_slot;
    bit<32> reverse_slot;
    bit<8>  marks;
    bool    chosen;
    bool    counted;

    action mark_off()     { mode = FATHOM_OFF; }
    action mark_forward() { mode = FATHOM_FORWARD; }
    action mark_reverse() { mode = FATHOM_REVERSE; }
    table marking {
        key = { sm.egress_port : exact; }
        actions = { mark_off; mark_forward; mark_reverse; }
        default_action = mark_reverse();
        size = FATHOM_PORTS;
    }

    apply {
        marking.apply();
        codel.apply(sm, chosen);
        counted = false;
        m.dropped = false;
        ecn = 0;
        forward_slot = 0;
        reverse_slot = 0;
        if (h.ipv4.isValid()) {
            ecn = h.ipv4.tos[1:0];
        } else if (h.ipv6.isValid()) {
            ecn = h.ipv6.class[1:0];
        }
#ifdef FATHOM_RPM_PER_PORT
        // One counter for all flows of a port: the data's egress port is where its ACKs come in.
        forward_slot = (bit<32>)sm.egress_port;
        reverse_slot = (bit<32>)m.ingress_port;
#else
        if (h.tcp.isValid() && h.ipv4.isValid()) {
            hash(forward_slot, HashAlgorithm.crc32, 32w0, FATHOM_FLOW_V4, 32w1 << FATHOM_RPM_BITS);
            hash(reverse_slot, HashAlgorithm.crc32, 32w0, FATHOM_BACK_V4, 32w1 << FATHOM_RPM_BITS);
        } else if (h.tcp.isValid()) {
            hash(forward_slot, HashAlgorithm.crc32, 32w0, FATHOM_FLOW_V6, 32w1 << FATHOM_RPM_BITS);
            hash(reverse_slot, HashAlgorithm.crc32, 32w0, FATHOM_BACK_V6, 32w1 << FATHOM_RPM_BITS);
        }
#endif
        if (chosen && mode != FATHOM_OFF) {
            if (mode == FATHOM_REVERSE && h.tcp.isValid() && ecn != 0) {
                @atomic {
                    rpm_marks.read(marks, forward_slot);
                    if (marks < FATHOM_RPM_MAX) {
                        rpm_marks.write(forward_slot, marks + 1);
                        counted = true;
                    }
                }
            }
            if (!counted) {
                if (ecn != 0) {
                    mark_ce.apply(h);
                } else {
                    m.dropped = true;
                    mark_to_drop(sm);
                }
            }
        }
        if (!m.dropped && mode == FATHOM_REVERSE && h.tcp.isValid()
            && (h.tcp.flags & FATHOM_CARRY_MASK) == FATHOM_CARRY && (h.tcp.offset & 1) == 0) {
            @atomic {
                rpm_marks.read(marks, reverse_slot);
                if (marks != 0) {
                    rpm_marks.write(reverse_slot, marks - 1);
                    h.tcp.flags = h.tcp.flags | FATHOM_ECE;
                    if (!h.mpd.isValid() && !h.bottleneck.isValid() && !h.slot.isValid()) {
                        m.update_flags = true;
                    }
                }
            }
        }
    }
}

#endif
