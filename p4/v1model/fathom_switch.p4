// SPDX-License-Identifier: GPL-2.0
// A small complete router on v1model: longest prefix to a port and two MAC addresses, one hop less; at egress marks and
// telemetry. An example of how the blocks of ../include are called.
#include <core.p4>
#include <v1model.p4>
#include "../include/v1model_int.p4"
#include "../include/v1model_rpm.p4"

parser SwitchParser(packet_in p, out headers_t h, inout fathom_t m, inout standard_metadata_t sm) {
    FathomParser() fathom;
    state start {
        fathom.apply(p, h, m);
        transition accept;
    }
}

control SwitchVerify(inout headers_t h, inout fathom_t m) {
    apply { }
}

control SwitchIngress(inout headers_t h, inout fathom_t m, inout standard_metadata_t sm) {
    HopTaken() hop_taken;
    bool routed;
    action route(bit<9> egress, bit<48> dst, bit<48> src) {
        sm.egress_spec = egress;
        h.eth.dst = dst;
        h.eth.src = src;
        routed = true;
    }
    action drop() {
        mark_to_drop(sm);
    }
    table routes_v4 {
        key = { h.ipv4.dst : lpm; }
        actions = { route; drop; }
        default_action = drop();
        size = 4096;
    }
    table routes_v6 {
        key = { h.ipv6.dst : lpm; }
        actions = { route; drop; }
        default_action = drop();
        size = 4096;
    }
    apply {
        routed = false;
        if (h.ipv4.isValid() && h.ipv4.ttl > 1) {
            routes_v4.apply();
        } else if (h.ipv6.isValid() && h.ipv6.hops > 1) {
            routes_v6.apply();
        } else {
            mark_to_drop(sm);
        }
        if (routed) {
            hop_taken.apply(h.ipv4, h.ipv6);
        }
    }
}

control SwitchEgress(inout headers_t h, inout fathom_t m, inout standard_metadata_t sm) {
    FathomResidual() residual;
    FathomRpm() marks;
    FathomInt() telemetry;
    apply {
        m.ingress_port = (bit<16>)sm.ingress_port;
        residual.apply(h, m);
        marks.apply(h, m, sm);
        if (!m.dropped) {
            telemetry.apply(h, m, sm);
        }
    }
}

control SwitchDeparser(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

V1Switch(SwitchParser(), SwitchVerify(), SwitchIngress(), SwitchEgress(), FathomChecksum(), SwitchDeparser()) main;
