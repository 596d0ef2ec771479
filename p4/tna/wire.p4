// SPDX-License-Identifier: GPL-2.0
// The rest of a Tofino program that only writes telemetry: from port to port like a wire.
struct no_headers_t { }
struct no_metadata_t { }

parser IngressParser(packet_in p, out no_headers_t h, out no_metadata_t m, out ingress_intrinsic_metadata_t im) {
    state start {
        p.extract(im);
        p.advance(PORT_METADATA_SIZE);
        transition accept;
    }
}

control Ingress(inout no_headers_t h, inout no_metadata_t m, in ingress_intrinsic_metadata_t im,
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
    }
}

control IngressDeparser(packet_out p, inout no_headers_t h, in no_metadata_t m,
                        in ingress_intrinsic_metadata_for_deparser_t dm) {
    apply { }
}

parser EgressParser(packet_in p, out headers_t h, out fathom_t m, out egress_intrinsic_metadata_t em) {
    FathomParser() fathom;
    state start {
        FATHOM_CLEAR(m)
        p.extract(em);
        fathom.apply(p, h, m);
        transition accept;
    }
}

control Egress(inout headers_t h, inout fathom_t m, in egress_intrinsic_metadata_t em,
               in egress_intrinsic_metadata_from_parser_t pm,
               inout egress_intrinsic_metadata_for_deparser_t dm,
               inout egress_intrinsic_metadata_for_output_port_t om) {
    FathomInt() telemetry;
    apply {
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
