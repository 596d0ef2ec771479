// SPDX-License-Identifier: GPL-2.0
// mpd: the larger delay, one hop more.
#ifndef FATHOM_MPD_P4
#define FATHOM_MPD_P4
#include "headers.p4"

// `own` is this port's delay in the high 12 bits and the option's own hop count in the low 4: with equal low bits the
// maximum of two words is that of their delays, which is one operation of 16 bits. The includer defines
// FATHOM_MAX(A, B) as its architecture has it.
control MpdWrite(inout mpd_h mpd, in bit<16> own) {
    apply {
        mpd.forward = FATHOM_MAX(mpd.forward, own);
        // The count stops at fifteen, so this never carries into the delay.
        if (mpd.forward[3:0] != 15) {
            mpd.forward = mpd.forward + 1;
        }
    }
}

#endif
