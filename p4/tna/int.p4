// SPDX-License-Identifier: GPL-2.0
// Telemetry on a Tofino, all three formats, and nothing else: packets go from port to port as `forward` says.
#include "../include/tna_arch.p4"
#include "../include/tna_int.p4"
#include "wire.p4"
