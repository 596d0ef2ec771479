/* SPDX-License-Identifier: GPL-2.0 */
/* Inline functions and macros of the kernel that kapi::qdisc calls, as symbols. */
#include <net/pkt_sched.h>

/* What a TCP segment says of itself; numbers in the host's order, IPv4 addresses in the first four bytes. */
struct fathom_segment {
	u8 src[16], dst[16];
	u32 seq, ack, payload;
	u16 sport, dport;
	u8 ip, ecn, byte12, flags;
};

/* Counters that the qdiscs of a network namespace share. */
struct fathom_shared {
	struct list_head list;
	uintptr_t net;
	u32 users;
	u32 len;
	atomic_t counters[];
};

u64 fathom_now_ns(void);
void *fathom_qdisc_priv(struct Qdisc *sch);
bool fathom_qdisc_is_root(const struct Qdisc *sch);
void fathom_qdisc_lock(struct Qdisc *sch);
void fathom_qdisc_unlock(struct Qdisc *sch);
struct sk_buff *fathom_qdisc_peek(struct Qdisc *sch);
void fathom_qdisc_sent(struct Qdisc *sch, const struct sk_buff *skb);
int fathom_qdisc_drop(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
unsigned int fathom_skb_len(const struct sk_buff *skb);
u64 *fathom_skb_cb(struct sk_buff *skb);
struct sk_buff *fathom_skb_next(struct sk_buff *skb);
void fathom_skb_set_next(struct sk_buff *skb, struct sk_buff *next);
void fathom_skb_free(struct sk_buff *skb);
void fathom_skb_consume(struct sk_buff *skb);
bool fathom_skb_is_gso(const struct sk_buff *skb);
struct sk_buff *fathom_skb_segment(struct sk_buff *skb);
bool fathom_skb_set_ce(struct sk_buff *skb);
u8 *fathom_skb_tcp(struct sk_buff *skb, u32 *len, bool *partial);
bool fathom_skb_segment_of(const struct sk_buff *skb, struct fathom_segment *seg);
uintptr_t fathom_qdisc_net(const struct Qdisc *sch);
void *fathom_alloc(size_t len);
void fathom_free(void *memory);
struct fathom_shared *fathom_shared_get(uintptr_t net, u32 len, bool *other);
void fathom_shared_put(struct fathom_shared *shared);
const void *fathom_nla_data(const struct nlattr *nla);
int fathom_nla_len(const struct nlattr *nla);
struct nlattr *fathom_nla_nest(struct sk_buff *skb, int type);
void fathom_nla_nest_end(struct sk_buff *skb, struct nlattr *nest);
void fathom_nla_nest_cancel(struct sk_buff *skb, struct nlattr *nest);
