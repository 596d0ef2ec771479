// SPDX-License-Identifier: GPL-2.0
// CoDel with forward or reverse path marking on a Tofino, and nothing else: packets go from port to port as `forward`
// says. Both directions of a flow must leave through one pipe: each has registers of its own.
#define FATHOM_NO_INT
#include "../include/tna_arch.p4"
#include "../include/tna_int.p4"
#include "../include/tna_rpm.p4"

// Where a packet came in, carried from ingress to egress.
header bridge_h {
    bit<7>   pad;
    PortId_t ingress_port;
}

struct ingress_headers_t {
    bridge_h bridge;
}

struct no_metadata_t { }

parser IngressParser(packet_in p, out ingress_headers_t h, out no_metadata_t m,
                     out ingress_intrinsic_metadata_t im) {
    state start {
        p.extract(im);
        p.advance(PORT_METADATA_SIZE);
        transition accept;
    }
}

control Ingress(inout ingress_headers_t h, inout no_metadata_t m, in ingress_intrinsic_metadata_t im,
                in ingress_intrinsic_metadata_from_parser_t pm,
                inout ingress_intrinsic_metadata_for_deparser_t dm,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    action to(PortId_t egress) {
        tm.ucast_egress_port = egress;
    }
    action drop() {
        dm.drop_ctl = 1;
    }
    table forward {
        key = { im.ingress_port : exact; }
        actions = { to; drop; }
        default_action = drop();
        size = FATHOM_PORTS;
    }
    apply {
        forward.apply();
        h.bridge.setValid();
        h.bridge.pad = 0;
        h.bridge.ingress_port = im.ingress_port;
    }
}

control IngressDeparser(packet_out p, inout ingress_headers_t h, in no_metadata_t m,
                        in ingress_intrinsic_metadata_for_deparser_t dm) {
    apply {
        p.emit(h);
    }
}

parser EgressParser(packet_in p, out headers_t h, out fathom_t m, out egress_intrinsic_metadata_t em) {
    FathomParser() fathom;
    state start {
        FATHOM_CLEAR(m)
        p.extract(em);
        m.ingress_port = p.lookahead<bit<16>>();
        p.advance(16);
        fathom.apply(p, h, m);
        transition accept;
    }
}

control Egress(inout headers_t h, inout fathom_t m, in egress_intrinsic_metadata_t em,
               in egress_intrinsic_metadata_from_parser_t pm,
               inout egress_intrinsic_metadata_for_deparser_t dm,
               inout egress_intrinsic_metadata_for_output_port_t om) {
    FathomRpm() marks;
    apply {
        marks.apply(h, m, em, pm, dm);
    }
}

control EgressDeparser(packet_out p, inout headers_t h, in fathom_t m,
                       in egress_intrinsic_metadata_for_deparser_t dm) {
    FathomChecksum() checksum;
    apply {
        checksum.apply(h, m);
        p.emit(h);
    }
}

Pipeline(IngressParser(), Ingress(), IngressDeparser(), EgressParser(), Egress(), EgressDeparser()) pipe;
Switch(pipe) main;
