// SPDX-License-Identifier: GPL-2.0
// The architecture of the Tofino that is compiled for: the compiler says which, or -D FATHOM_TOFINO2 does.
#ifndef FATHOM_TNA_ARCH_P4
#define FATHOM_TNA_ARCH_P4
#include <core.p4>
#if defined(__TARGET_TOFINO__) && __TARGET_TOFINO__ == 2 && !defined(FATHOM_TOFINO2)
#define FATHOM_TOFINO2
#endif
#ifdef FATHOM_TOFINO2
#include <t2na.p4>
#else
#include <tna.p4>
#endif
#endif
