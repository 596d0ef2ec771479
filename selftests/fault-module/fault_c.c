// SPDX-License-Identifier: GPL-2.0
/*
 * A module that does one thing wrong, chosen by its parameter, to prove that the debug kernel of the lab sees
 * it and that a run of `fathom selftest --debug` then fails. Never loaded elsewhere.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>

static char *fault = "";
module_param(fault, charp, 0);
MODULE_PARM_DESC(fault, "what to do wrong");

/* The compiler must not know what they hold. */
static volatile int five = 5, forty = 40;

static void use_after_free(void)
{
	volatile char *p = kmalloc(100, GFP_KERNEL);

	if (!p)
		return;
	kfree((void *)p);
	p[five] = 1;
}

static DEFINE_SPINLOCK(a);
static DEFINE_SPINLOCK(b);

static void lock_inversion(void)
{
	spin_lock(&a);
	spin_lock(&b);
	spin_unlock(&b);
	spin_unlock(&a);
	spin_lock(&b);
	spin_lock(&a);
	spin_unlock(&a);
	spin_unlock(&b);
}

static int __rcu *pointer;

static void rcu_without_lock(void)
{
	int *p = rcu_dereference(pointer);

	if (p)
		pr_info("%d\n", *p);
}

static void sleep_in_atomic(void)
{
	spin_lock(&a);
	msleep(1);
	spin_unlock(&a);
}

static void shift_too_far(void)
{
	pr_info("%d\n", five << forty);
}

static int table[8];

static void index_too_far(void)
{
	pr_info("%d\n", table[forty]);
}

static void nothing(struct timer_list *timer)
{
}

static void timer_freed(void)
{
	struct timer_list *timer = kmalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return;
	timer_setup(timer, nothing, 0);
	mod_timer(timer, jiffies + 10 * HZ);
	kfree(timer);
}

static void warning(void)
{
	WARN_ON(five == 5);
}

static const struct {
	const char *name;
	void (*commit)(void);
} faults[] = {
	{ "use_after_free", use_after_free },
	{ "lock_inversion", lock_inversion },
	{ "rcu_without_lock", rcu_without_lock },
	{ "sleep_in_atomic", sleep_in_atomic },
	{ "shift_too_far", shift_too_far },
	{ "index_too_far", index_too_far },
	{ "timer_freed", timer_freed },
	{ "warning", warning },
	{ "none", NULL },
};

static int __init fault_init(void)
{
	for (int i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(fault, faults[i].name))
			continue;
		if (faults[i].commit)
			faults[i].commit();
		return 0;
	}
	pr_err("fault=%s: unknown\n", fault);
	return -EINVAL;
}
module_init(fault_init);

static void __exit fault_exit(void)
{
}
module_exit(fault_exit);

MODULE_DESCRIPTION("does one thing wrong, to be caught");
MODULE_LICENSE("GPL");
