// SPDX-License-Identifier: GPL-2.0
/* Inline functions and macros of the kernel that kapi::qdisc and kapi::shared call, as symbols: Rust sees no
 * inline C. Nothing is decided here. What each asks of its caller is what the kernel's own function asks.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/gso.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
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

/* Where the TCP header of an IPv4 or IPv6 packet is that is no fragment and whose headers are whole, and what
 * the IP header says; -1 for any other. IPv6 with extension headers is another.
 */
static int find_tcp(const struct sk_buff *skb, struct fathom_segment *seg, struct tcphdr **tcp,
		    struct tcphdr *copy)
{
	int at = skb_network_offset(skb);

	switch (skb_protocol(skb, true)) {
	case htons(ETH_P_IP): {
		struct iphdr copy, *ip = skb_header_pointer(skb, at, sizeof(copy), &copy);

		if (!ip || ip->version != 4 || ip->ihl < 5 || ip->protocol != IPPROTO_TCP ||
		    ip_is_fragment(ip))
			return -1;
		if (seg) {
			memcpy(seg->src, &ip->saddr, 4);
			memcpy(seg->dst, &ip->daddr, 4);
			seg->ip = 4;
			seg->ecn = ip->tos & INET_ECN_MASK;
		}
		at += ip->ihl * 4;
		break;
	}
	case htons(ETH_P_IPV6): {
		struct ipv6hdr copy, *ip = skb_header_pointer(skb, at, sizeof(copy), &copy);

		if (!ip || ip->version != 6 || ip->nexthdr != IPPROTO_TCP)
			return -1;
		if (seg) {
			memcpy(seg->src, &ip->saddr, 16);
			memcpy(seg->dst, &ip->daddr, 16);
			seg->ip = 6;
			seg->ecn = ipv6_get_dsfield(ip) & INET_ECN_MASK;
		}
		at += sizeof(*ip);
		break;
	}
	default:
		return -1;
	}
	*tcp = skb_header_pointer(skb, at, sizeof(*copy), copy);
	if (!*tcp || (*tcp)->doff < 5 || at + (*tcp)->doff * 4 > skb->len)
		return -1;
	return at;
}

/* The TCP header with its options, writable; NULL where there is none. partial: its checksum is still to be made. */
u8 *fathom_skb_tcp(struct sk_buff *skb, u32 *len, bool *partial)
{
	struct tcphdr copy, *tcp;
	int at = find_tcp(skb, NULL, &tcp, &copy);

	if (at < 0)
		return NULL;
	*len = tcp->doff * 4;
	if (skb_ensure_writable(skb, at + *len))
		return NULL;
	*partial = skb->ip_summed == CHECKSUM_PARTIAL;
	return skb->data + at;
}

/* What a TCP segment says of itself; false where there is none. Changes nothing, copies nothing. */
bool fathom_skb_segment_of(const struct sk_buff *skb, struct fathom_segment *seg)
{
	struct tcphdr copy, *tcp;
	int at = find_tcp(skb, seg, &tcp, &copy);

	if (at < 0)
		return false;
	seg->seq = ntohl(tcp->seq);
	seg->ack = ntohl(tcp->ack_seq);
	seg->sport = ntohs(tcp->source);
	seg->dport = ntohs(tcp->dest);
	seg->byte12 = ((const u8 *)tcp)[12];
	seg->flags = ((const u8 *)tcp)[13];
	seg->payload = skb->len - at - tcp->doff * 4;
	return true;
}

/* Tells namespaces apart, no more: nothing is read there. */
uintptr_t fathom_qdisc_net(const struct Qdisc *sch) { return (uintptr_t)dev_net(qdisc_dev(sch)); }

void *fathom_alloc(size_t len) { return kvzalloc(len, GFP_KERNEL); }

void fathom_free(void *memory) { kvfree(memory); }

static LIST_HEAD(shared_list);
static DEFINE_MUTEX(shared_mutex);

/* The len counters of a namespace, new ones where it has none; NULL without memory, or when it has another
 * number of them, which other says.
 */
struct fathom_shared *fathom_shared_get(uintptr_t net, u32 len, bool *other)
{
	struct fathom_shared *shared;

	guard(mutex)(&shared_mutex);
	list_for_each_entry(shared, &shared_list, list) {
		if (shared->net != net)
			continue;
		*other = shared->len != len;
		if (*other)
			return NULL;
		shared->users++;
		return shared;
	}
	shared = kvzalloc(struct_size(shared, counters, len), GFP_KERNEL);
	if (!shared)
		return NULL;
	shared->net = net;
	shared->len = len;
	shared->users = 1;
	list_add(&shared->list, &shared_list);
	return shared;
}

void fathom_shared_put(struct fathom_shared *shared)
{
	guard(mutex)(&shared_mutex);
	if (--shared->users)
		return;
	list_del(&shared->list);
	kvfree(shared);
}

const void *fathom_nla_data(const struct nlattr *nla) { return nla_data(nla); }

int fathom_nla_len(const struct nlattr *nla) { return nla_len(nla); }

struct nlattr *fathom_nla_nest(struct sk_buff *skb, int type) { return nla_nest_start(skb, type); }

void fathom_nla_nest_end(struct sk_buff *skb, struct nlattr *nest) { nla_nest_end(skb, nest); }

void fathom_nla_nest_cancel(struct sk_buff *skb, struct nlattr *nest) { nla_nest_cancel(skb, nest); }
