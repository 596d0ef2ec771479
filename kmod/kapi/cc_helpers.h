/* SPDX-License-Identifier: GPL-2.0 */
/* What the module fathom_cc does for all congestion controls. */
#include <linux/atomic.h>
#include <linux/types.h>
#include <net/net_namespace.h>

struct sock;
struct ctl_table;
struct ctl_table_header;

#define FATHOM_MAX_PARAMS 32
#define FATHOM_VERSIONS 64 /* a power of two */
#define FATHOM_OWN_VERSIONS 8 /* that one namespace may make, so that none can use up all */

/* The parameters of one congestion control; lives in its module. */
struct fathom_params {
	const char *path;  /* of the sysctls, "net/fathom/NAME" */
	const char *names; /* each ended by a zero byte */
	u32 count;
	u32 loaded[FATHOM_MAX_PARAMS]; /* as the module was loaded; version 0 is made of these */
	/* Makes these values the given version, which nobody holds: 0, or an error. */
	int (*make)(const u32 *values, u32 version);
	unsigned int id;
	atomic_t holders[FATHOM_VERSIONS]; /* connections and namespaces */
	const void *owners[FATHOM_VERSIONS]; /* the namespace that made it */
};

/* The same in one network namespace. */
struct fathom_net_params {
	struct fathom_params *params;
	struct ctl_table *table;
	struct ctl_table_header *header;
	u32 version; /* for connections that begin now */
	u32 values[FATHOM_MAX_PARAMS];
};

int fathom_params_net_init(struct fathom_params *p, struct net *net);
void fathom_params_net_exit(struct fathom_params *p, struct net *net);
u32 fathom_params_begin(struct fathom_params *p, const struct sock *sk);
bool fathom_params_hold(struct fathom_params *p, u32 version);
void fathom_params_drop(struct fathom_params *p, u32 version);
int fathom_pernet_register(struct pernet_operations *ops);
void fathom_pernet_unregister(struct pernet_operations *ops);

/* Mbit/s of the device that a socket's packets leave by; 0 = not known. */
u32 fathom_route_mbps(const struct sock *sk);

/* One decision of a law, as wire::trace::Decision lays it out. */
struct fathom_decision {
	u64 time_ns;
	u8 local[16];
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u32 lost;
	u8 rest[80];
};

extern bool fathom_tracing;
void fathom_trace(const struct sock *sk, const u8 *rest);

int fathom_cc_start(void);
void fathom_cc_stop(void);
