// SPDX-License-Identifier: GPL-2.0
// stack: a record per hop, into the first slot that is empty.
#ifndef FATHOM_STACK_P4
#define FATHOM_STACK_P4
#include "headers.p4"

#define FATHOM_WRITE_SLOT(I) \
        h.slot[I].hop_speed = record.slot_hop_speed; \
        h.slot[I].tx_high = record.slot_tx_high; \
        h.slot[I].tx_low_ts_high = record.slot_tx_low_ts_high; \
        h.slot[I].ts_low = record.slot_ts_low; \
        h.slot[I].qlen = record.qlen; \
        written = true;

control StackWrite(inout headers_t h, in record_t record, out bool written) {
    action write0() { FATHOM_WRITE_SLOT(0) }
    action write1() { FATHOM_WRITE_SLOT(1) }
    action write2() { FATHOM_WRITE_SLOT(2) }
    action write3() { FATHOM_WRITE_SLOT(3) }
    // The first byte of an empty slot is zero. None empty: the stack is full, and passes as it is.
    table first_empty {
        key = {
            h.slot[0].isValid() : ternary;
            h.slot[1].isValid() : ternary;
            h.slot[2].isValid() : ternary;
            h.slot[3].isValid() : ternary;
            h.slot[0].hop_speed : ternary;
            h.slot[1].hop_speed : ternary;
            h.slot[2].hop_speed : ternary;
            h.slot[3].hop_speed : ternary;
        }
        actions = { write0; write1; write2; write3; NoAction; }
        const default_action = NoAction();
        const entries = {
            (true, _, _, _, 0, _, _, _) : write0();
            (true, true, _, _, _, 0, _, _) : write1();
            (true, true, true, _, _, _, 0, _) : write2();
            (true, true, true, true, _, _, _, 0) : write3();
        }
        size = 4;
    }
    apply {
        written = false;
        first_empty.apply();
    }
}

#endif
