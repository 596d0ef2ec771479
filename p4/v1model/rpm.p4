// SPDX-License-Identifier: GPL-2.0
// CoDel with forward or reverse path marking on a v1model switch, and nothing else: packets go from port to port as
// `forward` says.
#define FATHOM_NO_INT
#include <core.p4>
#include <v1model.p4>
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
    action to(bit<9> egress) {
        sm.egress_spec = egress;
    }
    action drop() {
        mark_to_drop(sm);
    }
    table forward {
        key = { sm.ingress_port : exact; }
        actions = { to; drop; }
        default_action = drop();
        size = FATHOM_PORTS;
    }
    apply {
        forward.apply();
    }
}

control SwitchEgress(inout headers_t h, inout fathom_t m, inout standard_metadata_t sm) {
    FathomResidual() residual;
    FathomRpm() marks;
    apply {
        m.ingress_port = (bit<16>)sm.ingress_port;
        residual.apply(h, m);
        marks.apply(h, m, sm);
    }
}

control SwitchDeparser(packet_out p, in headers_t h) {
    apply {
        p.emit(h);
    }
}

V1Switch(SwitchParser(), SwitchVerify(), SwitchIngress(), SwitchEgress(), FathomChecksum(), SwitchDeparser()) main;
