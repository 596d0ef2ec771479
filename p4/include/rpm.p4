// SPDX-License-Identifier: GPL-2.0
// Reverse path marking: what both architectures agree on. The algorithm is wire::rpm's.
#ifndef FATHOM_RPM_P4
#define FATHOM_RPM_P4
#include "headers.p4"
#include "ip.p4"

// Places of the table: 2^bits. A flow's place is the low bits of CRC-32 over these, in network order.
#ifdef FATHOM_RPM_PER_PORT
#undef FATHOM_RPM_BITS
#define FATHOM_RPM_BITS 9
#endif
#ifndef FATHOM_RPM_BITS
#define FATHOM_RPM_BITS 16
#endif
#define FATHOM_FLOW_V4 { h.ipv4.src, h.ipv4.dst, h.ipv4.proto, h.tcp.sport, h.tcp.dport }
#define FATHOM_FLOW_V6 { h.ipv6.src, h.ipv6.dst, h.ipv6.next_header, h.tcp.sport, h.tcp.dport }
// The other direction of the same connection.
#define FATHOM_BACK_V4 { h.ipv4.dst, h.ipv4.src, h.ipv4.proto, h.tcp.dport, h.tcp.sport }
#define FATHOM_BACK_V6 { h.ipv6.dst, h.ipv6.src, h.ipv6.next_header, h.tcp.dport, h.tcp.sport }

// A counter goes no higher. When it is full nobody takes the marks away: the ACKs do not cross this switch, and
// the flow is marked forward.
#define FATHOM_RPM_MAX 15

// TCP flags.
#define FATHOM_ECE 0x40
// ACK, without SYN and RST: what may carry a mark. AE, the lowest bit of the byte before, belongs to AccECN, where ECE
// means something else.
#define FATHOM_CARRY_MASK 0x16
#define FATHOM_CARRY 0x10

// What becomes of a packet that CoDel chose.
typedef bit<2> fathom_mode_t;
const fathom_mode_t FATHOM_OFF     = 0;
const fathom_mode_t FATHOM_FORWARD = 1;
const fathom_mode_t FATHOM_REVERSE = 2;

#endif
