// SPDX-License-Identifier: GPL-2.0
/* What all congestion controls share, once, in the module fathom_cc: parameters that each network
 * namespace can change, the speeds of devices, and a record of decisions for who wants to see them. It is
 * C because nothing of what it needs (pernet, sysctl, netdevice notifiers, kfifo) has a Rust form.
 */
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/kfifo.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <net/dst.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>
#include <net/sock.h>
#include "cc_helpers.h"

/* --- parameters, per network namespace ------------------------------------------------------------
 * A change makes a new version of the settings; connections that begin later use it, those in progress
 * keep the one they have. One lock for all of it: changes are rare.
 */
static DEFINE_MUTEX(fathom_params_lock);

/* One more holder, unless there is none any more. Version 0 is always there. */
bool fathom_params_hold(struct fathom_params *p, u32 version)
{
	return !version || atomic_inc_not_zero(&p->holders[version]);
}
EXPORT_SYMBOL_GPL(fathom_params_hold);

void fathom_params_drop(struct fathom_params *p, u32 version)
{
	/* A full barrier: what was read of the settings was read before. */
	if (version)
		atomic_dec_return(&p->holders[version]);
}
EXPORT_SYMBOL_GPL(fathom_params_drop);

/* A connection begins: it holds what its namespace has at present. */
u32 fathom_params_begin(struct fathom_params *p, const struct sock *sk)
{
	const struct fathom_net_params *np = net_generic(sock_net(sk), p->id);
	int tries;

	/* A change may come between the look and the hold; a hundred of them will not. */
	for (tries = 0; tries < 100; tries++) {
		u32 version = READ_ONCE(np->version);

		if (!fathom_params_hold(p, version))
			continue;
		if (READ_ONCE(np->version) == version)
			return version;
		fathom_params_drop(p, version);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(fathom_params_begin);

/* A version that nobody holds becomes these values, held by the namespace: its number, or an error. */
static int fathom_params_make(struct fathom_params *p, const u32 *values, const void *owner)
{
	u32 version, free = 0, own = 0;
	int ret;

	for (version = FATHOM_VERSIONS - 1; version; version--) {
		if (!atomic_read_acquire(&p->holders[version]))
			free = version;
		else if (p->owners[version] == owner)
			own++;
	}
	if (!free || own >= FATHOM_OWN_VERSIONS)
		return -ENOSPC;
	ret = p->make(values, free);
	if (ret)
		return ret;
	p->owners[free] = owner;
	atomic_set_release(&p->holders[free], 1);
	return free;
}

static int fathom_param(const struct ctl_table *ctl, int write, void *buffer, size_t *lenp,
			loff_t *ppos)
{
	struct fathom_net_params *np = ctl->extra1;
	u32 at = (u32 *)ctl->data - np->values;
	u32 values[FATHOM_MAX_PARAMS];
	struct ctl_table one = {
		.procname = ctl->procname,
		.data = &values[at],
		.maxlen = sizeof(u32),
		.mode = ctl->mode,
	};
	int ret;

	mutex_lock(&fathom_params_lock);
	memcpy(values, np->values, sizeof(values));
	ret = proc_douintvec(&one, write, buffer, lenp, ppos);
	if (!ret && write && values[at] != np->values[at]) {
		ret = fathom_params_make(np->params, values, np);
		if (ret >= 0) {
			u32 old = np->version;

			memcpy(np->values, values, sizeof(values));
			WRITE_ONCE(np->version, ret);
			fathom_params_drop(np->params, old);
			ret = 0;
		}
	}
	mutex_unlock(&fathom_params_lock);
	return ret;
}

/* The first namespace has what the module was loaded with, every other what the first has at the time. */
int fathom_params_net_init(struct fathom_params *p, struct net *net)
{
	struct fathom_net_params *np = net_generic(net, p->id);
	const char *name = p->names;
	u32 i;

	np->params = p;
	np->table = kcalloc(p->count, sizeof(*np->table), GFP_KERNEL_ACCOUNT);
	if (!np->table)
		return -ENOMEM;
	for (i = 0; i < p->count; i++, name += strlen(name) + 1) {
		np->table[i].procname = name;
		np->table[i].data = &np->values[i];
		np->table[i].maxlen = sizeof(u32);
		np->table[i].mode = 0644;
		np->table[i].proc_handler = fathom_param;
		np->table[i].extra1 = np;
	}
	mutex_lock(&fathom_params_lock);
	if (net_eq(net, &init_net)) {
		memcpy(np->values, p->loaded, sizeof(np->values));
	} else {
		const struct fathom_net_params *first = net_generic(&init_net, p->id);

		memcpy(np->values, first->values, sizeof(np->values));
		np->version = first->version;
		fathom_params_hold(p, np->version);
	}
	mutex_unlock(&fathom_params_lock);
	np->header = register_net_sysctl_sz(net, p->path, np->table, p->count);
	if (!np->header) {
		fathom_params_drop(p, np->version);
		kfree(np->table);
		return -ENOMEM;
	}
	return 0;
}
EXPORT_SYMBOL_GPL(fathom_params_net_init);

void fathom_params_net_exit(struct fathom_params *p, struct net *net)
{
	struct fathom_net_params *np = net_generic(net, p->id);
	u32 old = np->version;

	unregister_net_sysctl_table(np->header);
	kfree(np->table);
	/* A socket of the kernel that connects on its namespace's last day gets version 0. */
	WRITE_ONCE(np->version, 0);
	fathom_params_drop(p, old);
}
EXPORT_SYMBOL_GPL(fathom_params_net_exit);

int fathom_pernet_register(struct pernet_operations *ops) { return register_pernet_subsys(ops); }
EXPORT_SYMBOL_GPL(fathom_pernet_register);

void fathom_pernet_unregister(struct pernet_operations *ops) { unregister_pernet_subsys(ops); }
EXPORT_SYMBOL_GPL(fathom_pernet_unregister);

/* --- speeds of devices --------------------------------------------------------------------------------
 * A driver may sleep when it is asked for its speed, and a connection begins in softirq. So it is asked
 * when a device appears, comes up or changes, and the answer is kept in sets of eight. A device that finds
 * its set full has no known speed.
 */
#define FATHOM_SETS 64
#define FATHOM_WAYS 8
struct fathom_speed {
	const struct net_device *dev;
	u32 mbps;
};
static struct fathom_speed fathom_speeds[FATHOM_SETS][FATHOM_WAYS];
static DEFINE_SPINLOCK(fathom_speeds_lock);

static struct fathom_speed *fathom_set(const struct net_device *dev)
{
	return fathom_speeds[hash_ptr(dev, ilog2(FATHOM_SETS))];
}

/* 0 mbps: forget it. */
static void fathom_set_speed(const struct net_device *dev, u32 mbps)
{
	struct fathom_speed *set = fathom_set(dev), *to = NULL;
	int i;

	spin_lock_bh(&fathom_speeds_lock);
	for (i = 0; i < FATHOM_WAYS; i++) {
		if (set[i].dev == dev) {
			to = &set[i];
			break;
		}
		if (!set[i].dev && mbps && !to)
			to = &set[i];
	}
	if (to) {
		WRITE_ONCE(to->mbps, mbps);
		smp_wmb(); /* pairs with fathom_route_mbps(): a device found has its own speed */
		WRITE_ONCE(to->dev, mbps ? dev : NULL);
	}
	spin_unlock_bh(&fathom_speeds_lock);
}

static int fathom_device_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *dev = netdev_notifier_info_to_dev(ptr);
	struct ethtool_link_ksettings link;
	u32 mbps = 0;

	switch (event) {
	case NETDEV_REGISTER:
	case NETDEV_UP:
	case NETDEV_CHANGE:
		if (!netif_get_link_ksettings(dev, &link) && link.base.speed != SPEED_UNKNOWN)
			mbps = link.base.speed;
		break;
	case NETDEV_UNREGISTER:
		break;
	default:
		return NOTIFY_DONE;
	}
	fathom_set_speed(dev, mbps);
	return NOTIFY_DONE;
}

static struct notifier_block fathom_devices = { .notifier_call = fathom_device_event };

u32 fathom_route_mbps(const struct sock *sk)
{
	const struct dst_entry *dst;
	u32 mbps = 0;

	rcu_read_lock();
	dst = rcu_dereference(sk->sk_dst_cache);
	if (dst) {
		const struct net_device *dev = dst_dev_rcu(dst);
		const struct fathom_speed *set = fathom_set(dev);
		int i;

		for (i = 0; i < FATHOM_WAYS; i++)
			if (READ_ONCE(set[i].dev) == dev) {
				smp_rmb(); /* pairs with fathom_set_speed() */
				mbps = READ_ONCE(set[i].mbps);
				break;
			}
	}
	rcu_read_unlock();
	return mbps;
}
EXPORT_SYMBOL_GPL(fathom_route_mbps);

/* --- decisions ------------------------------------------------------------------------------------------
 * A ring per CPU, there while /dev/fathom_trace is open and not otherwise. On its CPU only one context
 * writes at a time, as bottom halves are off; one process reads. A full ring drops what is new and counts
 * it in the next record that fits.
 */
#define FATHOM_RING 2048
struct fathom_ring {
	DECLARE_KFIFO_PTR(fifo, struct fathom_decision);
	u32 lost;
};
static struct fathom_ring __percpu *fathom_rings;
static struct mutex fathom_trace_lock = __MUTEX_INITIALIZER(fathom_trace_lock);
bool fathom_tracing;
EXPORT_SYMBOL_GPL(fathom_tracing);

void fathom_trace(const struct sock *sk, const u8 *rest)
{
	struct fathom_decision d = {
		.time_ns = ktime_get_ns(),
		.local_port = sk->sk_num,
		.remote_port = ntohs(sk->sk_dport),
	};
	struct fathom_ring *ring;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) {
		memcpy(d.local, &sk->sk_v6_rcv_saddr, sizeof(d.local));
		memcpy(d.remote, &sk->sk_v6_daddr, sizeof(d.remote));
	} else
#endif
	{
		struct in6_addr a;

		ipv6_addr_set_v4mapped(sk->sk_rcv_saddr, &a);
		memcpy(d.local, &a, sizeof(d.local));
		ipv6_addr_set_v4mapped(sk->sk_daddr, &a);
		memcpy(d.remote, &a, sizeof(d.remote));
	}
	memcpy(d.rest, rest, sizeof(d.rest));
	/* Bottom halves off is an RCU read section, too: the rings outlive it. */
	local_bh_disable();
	if (smp_load_acquire(&fathom_tracing)) {
		ring = this_cpu_ptr(fathom_rings);
		d.lost = ring->lost;
		/* A CPU that came up after the device was opened has no room. */
		if (kfifo_initialized(&ring->fifo) && kfifo_put(&ring->fifo, d))
			ring->lost = 0;
		else
			ring->lost++;
	}
	local_bh_enable();
}
EXPORT_SYMBOL_GPL(fathom_trace);

static void fathom_rings_free(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		kfifo_free(&per_cpu_ptr(fathom_rings, cpu)->fifo);
	free_percpu(fathom_rings);
	fathom_rings = NULL;
}

static int fathom_trace_open(struct inode *inode, struct file *file)
{
	int cpu, ret = 0;

	/* It shows the connections of all namespaces. */
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	mutex_lock(&fathom_trace_lock);
	if (fathom_rings) {
		ret = -EBUSY;
		goto out;
	}
	fathom_rings = alloc_percpu(struct fathom_ring);
	if (!fathom_rings) {
		ret = -ENOMEM;
		goto out;
	}
	for_each_possible_cpu(cpu)
		INIT_KFIFO(per_cpu_ptr(fathom_rings, cpu)->fifo);
	for_each_online_cpu(cpu) {
		ret = kfifo_alloc(&per_cpu_ptr(fathom_rings, cpu)->fifo, FATHOM_RING, GFP_KERNEL);
		if (ret) {
			fathom_rings_free();
			goto out;
		}
	}
	smp_store_release(&fathom_tracing, true);
out:
	mutex_unlock(&fathom_trace_lock);
	return ret;
}

static int fathom_trace_release(struct inode *inode, struct file *file)
{
	mutex_lock(&fathom_trace_lock);
	WRITE_ONCE(fathom_tracing, false);
	synchronize_rcu();
	fathom_rings_free();
	mutex_unlock(&fathom_trace_lock);
	return 0;
}

/* Whole records, as many as there are and fit; 0 when there is none at present. */
static ssize_t fathom_trace_read(struct file *file, char __user *to, size_t len, loff_t *ppos)
{
	ssize_t done = 0;
	int cpu, ret = 0;

	mutex_lock(&fathom_trace_lock);
	for_each_possible_cpu(cpu) {
		struct fathom_ring *ring = per_cpu_ptr(fathom_rings, cpu);
		size_t room = (len - done) / sizeof(struct fathom_decision);
		unsigned int copied = 0;

		if (!kfifo_initialized(&ring->fifo))
			continue;
		ret = kfifo_to_user(&ring->fifo, to + done,
				    room * sizeof(struct fathom_decision), &copied);
		if (ret)
			break;
		done += copied;
	}
	mutex_unlock(&fathom_trace_lock);
	return ret && !done ? ret : done;
}

static const struct file_operations fathom_trace_ops = {
	.owner = THIS_MODULE,
	.open = fathom_trace_open,
	.release = fathom_trace_release,
	.read = fathom_trace_read,
};

static struct miscdevice fathom_trace_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "fathom_trace",
	.mode = 0600,
	.fops = &fathom_trace_ops,
};

int fathom_cc_start(void)
{
	int ret = misc_register(&fathom_trace_device);

	if (ret)
		return ret;
	/* Tells of every device that there is, and then of every change. */
	ret = register_netdevice_notifier(&fathom_devices);
	if (ret)
		misc_deregister(&fathom_trace_device);
	return ret;
}

void fathom_cc_stop(void)
{
	unregister_netdevice_notifier(&fathom_devices);
	misc_deregister(&fathom_trace_device);
}
