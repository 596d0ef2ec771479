// SPDX-License-Identifier: GPL-2.0
/* A TCG plugin: how often each block of the guest kernel's code ran, and how many instructions it has.
 * At the end it writes a line "address instructions runs" per block, in hexadecimal, to the file that is
 * its argument. One virtual CPU. The declarations are those of QEMU's plugin interface, version 2, as far
 * as they are used here.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*cb)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int, void *), int flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t, void *),
				    void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

__attribute__((visibility("default"))) int qemu_plugin_version = 2;

/* The kernel's text and its modules. */
#define KERNEL 0xffffffff80000000u

struct block {
	uint64_t address, runs;
	uint32_t instructions;
	struct block *next;
};
#define BUCKETS (1u << 16)
static struct block *blocks[BUCKETS];
static const char *out;

static void run(unsigned int cpu, void *data)
{
	(void)cpu;
	((struct block *)data)->runs++;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	uint32_t n = qemu_plugin_tb_n_insns(tb);
	struct block **at = &blocks[(address >> 1) % BUCKETS], *b;

	(void)id;
	if (address < KERNEL)
		return;
	/* Code is translated anew now and then: the same block goes on counting. */
	for (b = *at; b; b = b->next)
		if (b->address == address && b->instructions == n)
			break;
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (!b)
			abort();
		b->address = address;
		b->instructions = n;
		b->next = *at;
		*at = b;
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, run, 0, b);
}

static void end(qemu_plugin_id_t id, void *data)
{
	FILE *file = fopen(out, "w");
	uint32_t i;

	(void)id, (void)data;
	if (!file) {
		perror(out);
		return;
	}
	for (i = 0; i < BUCKETS; i++)
		for (const struct block *b = blocks[i]; b; b = b->next)
			if (b->runs)
				fprintf(file, "%llx %x %llx\n", (unsigned long long)b->address,
					b->instructions, (unsigned long long)b->runs);
	fclose(file);
}

__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const void *info,
							       int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "blocks: expected one argument, out=FILE\n");
		return 1;
	}
	out = strdup(argv[0] + 4);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, end, NULL);
	return 0;
}
