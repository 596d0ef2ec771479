// SPDX-License-Identifier: GPL-2.0
// The words of the TCP header that a switch may change, in order, 16 bits at a time.
//
// A checksum is updated without the payload: subtract these words and the old checksum from nothing, which leaves the
// sum of all else (the residual), and add the new words to it. That is RFC 1624, equation 3, and what wire::Delta does.
// Tofino subtracts in its parser and adds in its deparser; v1model does both with csum16.
#ifndef FATHOM_CHECKSUM_P4
#define FATHOM_CHECKSUM_P4

#define FATHOM_FLAGS_WORDS h.tcp.offset, h.tcp.flags
#define FATHOM_MPD_WORDS h.mpd.forward
#define FATHOM_BOTTLENECK_WORDS \
    h.bottleneck.hop, h.bottleneck.count_speed, h.bottleneck.key, h.bottleneck.qlen, \
    h.bottleneck.tx_high, h.bottleneck.tx_low_ts_high, h.bottleneck.ts_low
#define FATHOM_SLOT_WORDS \
    h.slot.hop_speed, h.slot.tx_high, h.slot.tx_low_ts_high, h.slot.ts_low, h.slot.qlen

#endif
