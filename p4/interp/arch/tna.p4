// SPDX-License-Identifier: GPL-2.0
// Tofino 1: clocks of 18 bits at the queues. Our own text.
#ifndef _TNA_P4_
#define _TNA_P4_
#define QUEUE_ID_WIDTH 5
#define MIRROR_TYPE_WIDTH 3
#define TSTAMP_WIDTH 18
#include <tna_common.p4>
const bit<32> PORT_METADATA_SIZE = 64;
#endif
