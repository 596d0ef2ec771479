// SPDX-License-Identifier: GPL-2.0
// tna/int.p4 with one format: the maximum per-hop delay.
#define FATHOM_MPD
#include "../include/tna_arch.p4"
#include "../include/tna_int.p4"
#include "wire.p4"
