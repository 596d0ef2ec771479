// SPDX-License-Identifier: GPL-2.0
// stack: a record per hop, into the slot that the parser found empty.
#ifndef FATHOM_STACK_P4
#define FATHOM_STACK_P4
#include "headers.p4"

control StackWrite(inout slot_h slot, in record_t record) {
    apply {
        slot.hop_speed = record.slot_hop_speed;
        slot.tx_high = record.slot_tx_high;
        slot.tx_low_ts_high = record.slot_tx_low_ts_high;
        slot.ts_low = record.slot_ts_low;
        slot.qlen = record.qlen;
    }
}

#endif
