// SPDX-License-Identifier: GPL-2.0
/* Inline functions and macros of the kernel that kapi::qdisc calls, as symbols: Rust sees no inline C.
 * Nothing is decided here. What each asks of its caller is what the kernel's own function asks.
 */
#include <linux/skbuff.h>
#include <net/gso.h>
#include <net/inet_ecn.h>
#include <net/netlink.h>
#include <net/sch_generic.h>
#include "qdisc_helpers.h"

u64 fathom_now_ns(void) { return ktime_get_ns(); }

void *fathom_qdisc_priv(struct Qdisc *sch) { return qdisc_priv(sch); }

bool fathom_qdisc_is_root(const struct Qdisc *sch) { return sch->parent == TC_H_ROOT; }

void fathom_qdisc_lock(struct Qdisc *sch) { sch_tree_lock(sch); }

void fathom_qdisc_unlock(struct Qdisc *sch) { sch_tree_unlock(sch); }

struct sk_buff *fathom_qdisc_peek(struct Qdisc *sch) { return qdisc_peek_dequeued(sch); }

void fathom_qdisc_sent(struct Qdisc *sch, const struct sk_buff *skb) { qdisc_bstats_update(sch, skb); }

int fathom_qdisc_drop(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	return qdisc_drop(skb, sch, to_free);
}

unsigned int fathom_skb_len(const struct sk_buff *skb) { return qdisc_pkt_len(skb); }

u64 *fathom_skb_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(offsetof(struct qdisc_skb_cb, data) % sizeof(u64));
	qdisc_cb_private_validate(skb, 2 * sizeof(u64));
	return (u64 *)qdisc_skb_cb(skb)->data;
}

struct sk_buff *fathom_skb_next(struct sk_buff *skb) { return skb->next; }

void fathom_skb_set_next(struct sk_buff *skb, struct sk_buff *next) { skb->next = next; }

void fathom_skb_free(struct sk_buff *skb) { kfree_skb(skb); }

void fathom_skb_consume(struct sk_buff *skb) { consume_skb(skb); }

bool fathom_skb_is_gso(const struct sk_buff *skb) { return skb_is_gso(skb); }

/* A list of single packets, linked by next; NULL when it cannot be done. */
struct sk_buff *fathom_skb_segment(struct sk_buff *skb)
{
	struct sk_buff *segs = skb_gso_segment(skb, netif_skb_features(skb) & ~NETIF_F_GSO_MASK);
	struct sk_buff *seg;

	if (IS_ERR_OR_NULL(segs))
		return NULL;
	for (seg = segs; seg; seg = seg->next) {
		qdisc_skb_cb(seg)->pkt_len = seg->len;
		qdisc_skb_cb(seg)->pkt_segs = 1;
	}
	return segs;
}

bool fathom_skb_set_ce(struct sk_buff *skb) { return INET_ECN_set_ce(skb); }

const void *fathom_nla_data(const struct nlattr *nla) { return nla_data(nla); }

int fathom_nla_len(const struct nlattr *nla) { return nla_len(nla); }

struct nlattr *fathom_nla_nest(struct sk_buff *skb, int type) { return nla_nest_start(skb, type); }

void fathom_nla_nest_end(struct sk_buff *skb, struct nlattr *nest) { nla_nest_end(skb, nest); }

void fathom_nla_nest_cancel(struct sk_buff *skb, struct nlattr *nest) { nla_nest_cancel(skb, nest); }
