// SPDX-License-Identifier: GPL-2.0
// tna/int.p4 with one format: the record of the most congested hop.
#define FATHOM_BOTTLENECK
#include "../include/tna_arch.p4"
#include "../include/tna_int.p4"
#include "wire.p4"
