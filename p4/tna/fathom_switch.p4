// SPDX-License-Identifier: GPL-2.0
// A small complete router on Tofino: longest prefix to a port and two MAC addresses, one hop less; at egress marks and
// telemetry. An example of how the blocks of ../include are called. Marks and telemetry do not depend on each other and
// share the stages; so a packet that CoDel drops still counts as sent, unlike in the software twins.
#include "../include/tna_arch.p4"
#include "../include/tna_int.p4"
#include "../include/tna_rpm.p4"

// Where a packet came in, carried from ingress to egress.
header bridge_h {
    bit<7>   pad;
    PortId_t ingress_port;
}

struct ingress_headers_t {
    bridge_h   bridge;
    ethernet_h eth;
    vlan_h     vlan;
    ipv4_h     ipv4;
    ipv6_h     ipv6;
}

struct ingress_metadata_t {
    bool routed;
}

parser IngressParser(packet_in p, out ingress_headers_t h, out ingress_metadata_t m,
                     out ingress_intrinsic_metadata_t im) {
    state start {
        m.routed = false;
        p.extract(im);
        p.advance(PORT_METADATA_SIZE);
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
    state ipv4 {
        p.extract(h.ipv4);
        transition accept;
    }
    state ipv6 {
        p.extract(h.ipv6);
        transition accept;
    }
}

control Ingress(inout ingress_headers_t h, inout ingress_metadata_t m, in ingress_intrinsic_metadata_t im,
                in ingress_intrinsic_metadata_from_parser_t pm,
                inout ingress_intrinsic_metadata_for_deparser_t dm,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    HopTaken() hop_taken;
    action route(PortId_t egress, bit<48> dst, bit<48> src) {
        tm.ucast_egress_port = egress;
        h.eth.dst = dst;
        h.eth.src = src;
        m.routed = true;
    }
    action drop() {
        dm.drop_ctl = 1;
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
        if (pm.parser_err != PARSER_ERROR_OK) {
            drop();
        } else if (h.ipv4.isValid() && h.ipv4.ttl > 1) {
            routes_v4.apply();
        } else if (h.ipv6.isValid() && h.ipv6.hops > 1) {
            routes_v6.apply();
        } else {
            drop();
        }
        if (m.routed) {
            hop_taken.apply(h.ipv4, h.ipv6);
        }
        h.bridge.setValid();
        h.bridge.pad = 0;
        h.bridge.ingress_port = im.ingress_port;
    }
}

control IngressDeparser(packet_out p, inout ingress_headers_t h, in ingress_metadata_t m,
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
    FathomInt() telemetry;
    apply {
        marks.apply(h, m, em, pm, dm);
        telemetry.apply(h, m, em, pm);
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
