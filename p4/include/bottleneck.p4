// SPDX-License-Identifier: GPL-2.0
// bottleneck: the record of the most congested hop, replaced by one with a larger key.
#ifndef FATHOM_BOTTLENECK_P4
#define FATHOM_BOTTLENECK_P4
#include "headers.p4"

control BottleneckWrite(inout bottleneck_h b, in record_t record) {
    bit<16> worse;
    bit<8> count;
    action write() {
        b.hop = record.hop;
        b.key = record.key;
        b.qlen = record.qlen;
        b.tx_high = record.tx_high;
        b.tx_low_ts_high = record.tx_low_ts_high;
        b.ts_low = record.ts_low;
    }
    apply {
        count = b.count_speed & 0xf0;
        // Not zero when ours is larger; equal keys do not replace.
        worse = record.key |-| b.key;
        if (worse != 0 || count == 0) {
            write();
            b.count_speed = count | record.speed;
        }
        if (count != 0xf0) {
            b.count_speed = b.count_speed + 0x10;
        }
    }
}

#endif
