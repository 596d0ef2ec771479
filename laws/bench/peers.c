// SPDX-License-Identifier: GPL-2.0

/*
 * The arithmetic that CUBIC and DCTCP do per ACK, for comparison with the laws: what the kernel's
 * bictcp_update() and dctcp's in_ack_event/ssthresh path compute, written anew from RFC 9438 and RFC
 * 8257 and without the kernel around it.
 *
 * peers LAW COUNT: LAW is cubic, dctcp or none.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define keep(x) __asm__ volatile("" : : "r"(x) : "memory")

/* ---- CUBIC: W(t) = C (t - K)^3 + W_max, time in 1/1024 s, C = 0.4 ---- */

struct cubic {
	uint32_t cnt, last_max, last_cwnd, last_time, epoch, origin, k, delay_min, acked, tcp_cwnd;
};

/* Integer cube root by bits: once per epoch. */
static uint32_t cube_root(uint64_t a)
{
	uint64_t y = 0;
	int s;

	for (s = 63; s >= 0; s -= 3) {
		y <<= 1;
		uint64_t b = 3 * y * (y + 1) + 1;

		if ((a >> s) >= b) {
			a -= b << s;
			y++;
		}
	}
	return (uint32_t)y;
}

static __attribute__((noinline)) void cubic_update(struct cubic *c, uint32_t cwnd, uint32_t acked,
						   uint32_t now)
{
	uint64_t offset;
	uint32_t target, t, delta;

	c->acked += acked;
	/* The same window within a 32nd of a second gives the same answer. */
	if (c->last_cwnd == cwnd && (int32_t)(now - c->last_time) <= 1000 / 32)
		return;
	/* Within a millisecond only the Reno-friendly part moves. */
	if (c->epoch && now == c->last_time)
		goto friendly;
	c->last_cwnd = cwnd;
	c->last_time = now;
	if (!c->epoch) {
		c->epoch = now;
		c->acked = acked;
		c->tcp_cwnd = cwnd;
		if (c->last_max <= cwnd) {
			c->k = 0;
			c->origin = cwnd;
		} else {
			/* (W_max - cwnd)/C in units of 2^-30 s^3. */
			c->k = cube_root((uint64_t)(c->last_max - cwnd) * 2684354560ULL);
			c->origin = c->last_max;
		}
	}
	t = (uint32_t)(((uint64_t)(now - c->epoch + c->delay_min) << 10) / 1000);
	offset = t < c->k ? c->k - t : t - c->k;
	/* C (offset/1024)^3 = 410/1024 offset^3 / 2^30. */
	delta = (uint32_t)((410 * offset * offset * offset) >> 40);
	target = t < c->k ? c->origin - delta : c->origin + delta;
	c->cnt = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
	if (c->last_max == 0 && c->cnt > 20)
		c->cnt = 20;
friendly:
	/* Reno with beta 717/1024 grows by 8/15 of this. */
	delta = (cwnd * 15) >> 3;
	while (delta && c->acked > delta) {
		c->acked -= delta;
		c->tcp_cwnd++;
	}
	if (c->tcp_cwnd > cwnd) {
		uint32_t most = cwnd / (c->tcp_cwnd - cwnd);

		if (c->cnt > most)
			c->cnt = most;
	}
	if (c->cnt < 2)
		c->cnt = 2;
}

/* ---- DCTCP: alpha = (1 - g) alpha + g F once per window, g = 1/16 ---- */

struct dctcp {
	uint32_t old_delivered, old_delivered_ce, next_seq, alpha;
};

static __attribute__((noinline)) void dctcp_update(struct dctcp *d, uint32_t delivered,
						   uint32_t delivered_ce, uint32_t una, uint32_t nxt)
{
	if ((int32_t)(una - d->next_seq) < 0)
		return;
	uint32_t ce = delivered_ce - d->old_delivered_ce;
	uint32_t alpha = d->alpha;
	uint32_t fade = alpha >> 4;

	alpha -= fade ? fade : (alpha ? 1 : 0);
	if (ce) {
		uint32_t all = delivered - d->old_delivered;

		alpha += (ce << (10 - 4)) / (all ? all : 1);
		if (alpha > 1024)
			alpha = 1024;
	}
	d->alpha = alpha;
	d->next_seq = nxt;
	d->old_delivered = delivered;
	d->old_delivered_ce = delivered_ce;
}

static __attribute__((noinline)) void nothing(void *a, uint32_t b, uint32_t c, uint32_t d)
{
	keep(a);
	keep(b);
	keep(c);
	keep(d);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: peers cubic|dctcp|none COUNT\n");
		return 2;
	}
	uint32_t count = (uint32_t)strtoul(argv[2], NULL, 10);
	struct cubic cubic = { .last_max = 40, .delay_min = 1 };
	struct dctcp dctcp = { .alpha = 1024 };
	uint32_t cwnd = 24, grown = 0;

	for (uint32_t i = 0; i < count; i++) {
		/* 1230 ns a packet, the clock in ms; every 16th packet marked. */
		uint32_t now = (uint32_t)((uint64_t)i * 1230 / 1000000);

		if (!strcmp(argv[1], "cubic")) {
			cubic_update(&cubic, cwnd, 1, now + 1);
			if (++grown >= cubic.cnt) {
				grown = 0;
				cwnd = cwnd < 200 ? cwnd + 1 : 24;
			}
		} else if (!strcmp(argv[1], "dctcp")) {
			dctcp_update(&dctcp, i, i >> 4, i * 1448, (i + 24) * 1448);
			cwnd = 24 - ((24 * dctcp.alpha) >> 11);
		} else {
			nothing(&cubic, cwnd, i, now);
		}
		keep(cwnd);
	}
	printf("%u %u\n", cwnd, dctcp.alpha);
	return 0;
}
