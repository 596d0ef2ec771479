/* SPDX-License-Identifier: GPL-2.0 */
/* The socket-storage map that tcp_int holds, and the log of samples taken from it. */
#include <linux/types.h>

struct sock;

/* What a law was given on one ACK, as wire::bind::Seen lays it out. */
struct fathom_seen {
	u64 time_ns;
	u32 ack;
	u16 local_port;
	u16 remote_port;
	u8 sample[40];
};

bool fathom_may_bind(void);
int fathom_map_bind(int fd, u32 value_size, bool replace);
int fathom_map_unbind(void);
u32 fathom_map_id(void);

void *fathom_int_storage(const struct sock *sk);

int fathom_log_size(u32 records);
u32 fathom_log_read(struct fathom_seen *to, u32 records);
u32 fathom_log_lost(void);
extern bool fathom_int_logging;
void fathom_int_seen(const struct sock *sk, u32 ack, const u8 *sample);
