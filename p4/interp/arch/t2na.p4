// SPDX-License-Identifier: GPL-2.0
// Tofino 2: clocks of 32 bits at the queues. Our own text.
#ifndef _T2NA_P4_
#define _T2NA_P4_
#define QUEUE_ID_WIDTH 7
#define MIRROR_TYPE_WIDTH 4
#define TSTAMP_WIDTH 32
#include <tna_common.p4>
const bit<32> PORT_METADATA_SIZE = 192;
#endif
