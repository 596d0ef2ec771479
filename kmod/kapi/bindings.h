/* SPDX-License-Identifier: GPL-2.0 */
/* What kapi needs of the kernel beyond the kernel's own Rust bindings. Read by bindgen alone. */
#include <net/tcp.h>
#include <linux/inet_diag.h>
#include <net/pkt_sched.h>
#include <net/gen_stats.h>
#include <net/netlink.h>
#include "qdisc_helpers.h"
#include "storage_helpers.h"
#include "cc_helpers.h"

/* bindgen does not evaluate BIT(). */
const u32 FATHOM_CONG_NON_RESTRICTED = TCP_CONG_NON_RESTRICTED;
const u32 FATHOM_CONG_NEEDS_ECN = TCP_CONG_NEEDS_ECN;
const u8 FATHOM_ECN_ANY = TCP_ECN_MODE_ANY;
const u8 FATHOM_ECN_ACCURATE = TCP_ECN_MODE_ACCECN;
