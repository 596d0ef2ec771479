// SPDX-License-Identifier: GPL-2.0
// bottleneck: the record of the most congested hop, replaced by one with a larger key.
#ifndef FATHOM_BOTTLENECK_P4
#define FATHOM_BOTTLENECK_P4
#include "headers.p4"

control BottleneckWrite(inout bottleneck_h b, in record_t record) {
    // The count with this hop, beside the speed that stood there or beside ours: both before it is known which
    // of them is written, so that the last step is one write.
    bit<8>  kept;
    bit<8>  fresh;
    bit<16> worse;
    action replace() {
        b.hop = record.hop;
        b.count_speed = fresh;
        b.key = record.key;
        b.qlen = record.qlen;
        b.tx_high = record.tx_high;
        b.tx_low_ts_high = record.tx_low_ts_high;
        b.ts_low = record.ts_low;
    }
    action keep() {
        b.count_speed = kept;
    }
    apply {
        // The count stops at fifteen.
        if (b.count_speed[7:4] != 15) {
            kept = b.count_speed + 0x10;
        } else {
            kept = b.count_speed;
        }
        fresh = kept & 0xf0;
        fresh = fresh | record.speed;
        // Not zero when ours is larger; equal keys do not replace.
        worse = record.key |-| b.key;
        if (worse != 0 || b.count_speed[7:4] == 0) {
            replace();
        } else {
            keep();
        }
    }
}

#endif
