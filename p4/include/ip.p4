// SPDX-License-Identifier: GPL-2.0
// Changes to IP headers: congestion experienced, one hop less. The IPv4 checksum follows by RFC 1624, equation 3,
// without the options; a step of one or two, or of 0x100, needs no more than a case for the carry.
#ifndef FATHOM_IP_P4
#define FATHOM_IP_P4
#include "headers.p4"

// The packet speaks ECN; the caller has looked.
control MarkCe(inout headers_t h) {
    apply {
        if (h.ipv4.isValid()) {
            // ECT(0) to CE adds one to the first word, ECT(1) two; the checksum goes down by as much.
            if (h.ipv4.tos[1:0] == 2) {
                if (h.ipv4.csum == 0) {
                    h.ipv4.csum = 0xfffe;
                } else {
                    h.ipv4.csum = h.ipv4.csum - 1;
                }
            } else if (h.ipv4.tos[1:0] == 1) {
                if (h.ipv4.csum == 0) {
                    h.ipv4.csum = 0xfffd;
                } else if (h.ipv4.csum == 1) {
                    h.ipv4.csum = 0xfffe;
                } else {
                    h.ipv4.csum = h.ipv4.csum - 2;
                }
            }
            h.ipv4.tos = h.ipv4.tos | 3;
        } else if (h.ipv6.isValid()) {
            h.ipv6.class = h.ipv6.class | 3;
        }
    }
}

// The caller has seen that the TTL or hop limit is at least 2.
control HopTaken(inout ipv4_h ipv4, inout ipv6_h ipv6) {
    apply {
        if (ipv4.isValid()) {
            ipv4.ttl = ipv4.ttl - 1;
            if (ipv4.csum < 0xfeff) {
                ipv4.csum = ipv4.csum + 0x100;
            } else {
                ipv4.csum = ipv4.csum + 0x101;
            }
        } else if (ipv6.isValid()) {
            ipv6.hops = ipv6.hops - 1;
        }
    }
}

#endif
