// SPDX-License-Identifier: GPL-2.0
/* What kapi::int_map and kapi::storage need of C: inline functions of the BPF headers, RCU's macros and
 * a kfifo. The map is one for the whole machine, as sockets of every network namespace can be looked up
 * in it. Whoever looks up does so under rcu_read_lock(); a map that was taken away is let go only after
 * every such reader is done.
 */
#include <linux/bpf.h>
#include <linux/bpf_local_storage.h>
#include <linux/capability.h>
#include <linux/kfifo.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <net/inet_sock.h>
#include <net/sock.h>
#include "storage_helpers.h"

static struct bpf_map __rcu *fathom_map;
static DEFINE_MUTEX(fathom_lock);

bool fathom_may_bind(void) { return capable(CAP_NET_ADMIN); }

static void fathom_map_swap(struct bpf_map *map)
{
	struct bpf_map *old = rcu_replace_pointer(fathom_map, map, lockdep_is_held(&fathom_lock));

	if (old) {
		synchronize_rcu();
		bpf_map_put(old);
	}
}

/* The fd is one of the calling process. Its map's id, or an error. */
int fathom_map_bind(int fd, u32 value_size, bool replace)
{
	struct bpf_map *map = bpf_map_get(fd);
	int ret;

	if (IS_ERR(map))
		return PTR_ERR(map);
	if (map->map_type != BPF_MAP_TYPE_SK_STORAGE) {
		ret = -EMEDIUMTYPE;
		goto put;
	}
	if (map->value_size != value_size) {
		ret = -EPROTO;
		goto put;
	}
	mutex_lock(&fathom_lock);
	if (!replace && rcu_access_pointer(fathom_map)) {
		mutex_unlock(&fathom_lock);
		ret = -EBUSY;
		goto put;
	}
	ret = map->id;
	fathom_map_swap(map);
	mutex_unlock(&fathom_lock);
	return ret;
put:
	bpf_map_put(map);
	return ret;
}

int fathom_map_unbind(void)
{
	int ret = -ENOENT;

	mutex_lock(&fathom_lock);
	if (rcu_access_pointer(fathom_map)) {
		fathom_map_swap(NULL);
		ret = 0;
	}
	mutex_unlock(&fathom_lock);
	return ret;
}

u32 fathom_map_id(void)
{
	struct bpf_map *map;
	u32 id = 0;

	rcu_read_lock();
	map = rcu_dereference(fathom_map);
	if (map)
		id = map->id;
	rcu_read_unlock();
	return id;
}

/* The record of a socket, or NULL; under rcu_read_lock(), and no longer. */
void *fathom_int_storage(const struct sock *sk)
{
	struct bpf_local_storage_data *data;
	struct bpf_local_storage *storage = rcu_dereference(sk->sk_bpf_storage);
	struct bpf_map *map = rcu_dereference(fathom_map);

	if (!map || !storage)
		return NULL;
	/* `false`, a constant: the other branch calls a function that is not exported. */
	data = bpf_local_storage_lookup(storage, (struct bpf_local_storage_map *)map, false);
	return data ? data->data : NULL;
}
EXPORT_SYMBOL_GPL(fathom_int_storage);

static DECLARE_KFIFO_PTR(fathom_log, struct fathom_seen);
static DEFINE_SPINLOCK(fathom_log_lock);
static struct fathom_seen *fathom_room;
static u32 fathom_lost;
bool fathom_int_logging;
EXPORT_SYMBOL_GPL(fathom_int_logging);

/* Makes room for so many records, a power of two, or for none. What was there is gone. */
int fathom_log_size(u32 records)
{
	struct fathom_seen *room = NULL, *old;

	if (records) {
		room = kvmalloc_array(records, sizeof(*room), GFP_KERNEL);
		if (!room)
			return -ENOMEM;
	}
	mutex_lock(&fathom_lock);
	spin_lock_bh(&fathom_log_lock);
	old = fathom_room;
	fathom_room = room;
	if (room)
		kfifo_init(&fathom_log, room, records * sizeof(*room));
	fathom_lost = 0;
	WRITE_ONCE(fathom_int_logging, records != 0);
	spin_unlock_bh(&fathom_log_lock);
	mutex_unlock(&fathom_lock);
	kvfree(old);
	return 0;
}

u32 fathom_log_read(struct fathom_seen *to, u32 records)
{
	u32 n = 0;

	spin_lock_bh(&fathom_log_lock);
	if (fathom_room)
		n = kfifo_out(&fathom_log, to, records);
	spin_unlock_bh(&fathom_log_lock);
	return n;
}

u32 fathom_log_lost(void) { return READ_ONCE(fathom_lost); }

/* A full log keeps what it has: a gap at the end can be seen by whoever counts, one inside cannot. */
void fathom_int_seen(const struct sock *sk, u32 ack, const u8 *sample)
{
	struct fathom_seen seen = {
		.time_ns = ktime_get_ns(),
		.ack = ack,
		.local_port = sk->sk_num,
		.remote_port = ntohs(sk->sk_dport),
	};

	memcpy(seen.sample, sample, sizeof(seen.sample));
	spin_lock_bh(&fathom_log_lock);
	if (fathom_room && !kfifo_put(&fathom_log, seen))
		fathom_lost++;
	spin_unlock_bh(&fathom_log_lock);
}
EXPORT_SYMBOL_GPL(fathom_int_seen);

MODULE_IMPORT_NS("BPF_INTERNAL");
