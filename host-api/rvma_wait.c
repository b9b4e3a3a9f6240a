/* SPDX-License-Identifier: BSD-3-Clause */
/* RVMA for applications: waiting for a notification, three ways. */
#include "rvma_private.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <x86intrin.h>
#endif

/* ---- monitored waits ---- */
#define RVMA_MONITOR_CYCLES 100000u /* at most, before the clock and the NIC are looked at again */

static bool rvma_there(const volatile struct rvma_notification *n)
{
	return __atomic_load_n(&n->address, __ATOMIC_ACQUIRE);
}

#ifdef __x86_64__
__attribute__((target("waitpkg"))) static void rvma_umwait(const volatile struct rvma_notification *n)
{
	_umonitor((void *)(uintptr_t)n);
	if (!rvma_there(n)) /* nothing was written between the last look and the monitor */
		_umwait(1, __rdtsc() + RVMA_MONITOR_CYCLES);
}

__attribute__((target("mwaitx"))) static void rvma_mwaitx(const volatile struct rvma_notification *n)
{
	_mm_monitorx((void *)(uintptr_t)n, 0, 0);
	if (!rvma_there(n))
		_mm_mwaitx(2, 0xF0, RVMA_MONITOR_CYCLES); /* with this time limit; C0, the state that ends fastest */
}
#endif

static void rvma_pause(void)
{
#ifdef __x86_64__
	_mm_pause();
#endif
}

typedef void (*rvma_monitor)(const volatile struct rvma_notification *n);

/* The instruction of this CPU; NULL: none. */
static rvma_monitor rvma_monitor_of_cpu(void)
{
#ifdef __x86_64__
	unsigned a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> 5 & 1)
		return rvma_umwait;
	if (__get_cpuid(0x80000001, &a, &b, &c, &d) && c >> 29 & 1)
		return rvma_mwaitx;
#endif
	return NULL;
}

bool rvma_wait_monitors(void)
{
	return rvma_monitor_of_cpu();
}

/* ---- waiting ---- */
struct rvma_waiter {
	struct rvma *rvma;
	const volatile struct rvma_notification *notification;
};

static int rvma_wait_look(void *waiter)
{
	const struct rvma_waiter *w = waiter;
	const int rc = rvma_there(w->notification) ? 0 : rvma_check(w->rvma);

	return rc ? rc : rvma_there(w->notification) ? 0 : -EAGAIN;
}

/* Drives an embedded NIC in each round; looks at the rest now and then. */
static int rvma_wait_spin(struct rvma *r, const volatile struct rvma_notification *n, rvma_monitor monitor,
			  sp_time timeout)
{
	const sp_time start = sp_clock(), until = timeout < SP_NEVER - start ? start + timeout : SP_NEVER;

	for (;;) {
		const sp_time now = sp_clock();
		int rc = sp_progress(r->dev, now);

		if (monitor && !rvma_there(n) && sp_next_deadline(r->dev) > now)
			monitor(n);
		for (unsigned i = 0; !monitor && i < 64 && !rvma_there(n) && sp_next_deadline(r->dev) > now; i++)
			rvma_pause();
		if (rvma_there(n))
			return 0;
		rc = rc ? rc : rvma_check(r);
		if (rc)
			return rvma_there(n) ? 0 : rc; /* written before the NIC ended */
		if (now >= until)
			return -ETIMEDOUT;
	}
}

int rvma_wait(struct rvma *r, const volatile struct rvma_notification *notification, enum rvma_wait how,
	      sp_time timeout)
{
	struct rvma_waiter w = {r, notification};

	switch (how) {
	case RVMA_WAIT_POLL:
		return rvma_wait_spin(r, notification, NULL, timeout);
	case RVMA_WAIT_MONITOR:
		return rvma_wait_spin(r, notification, rvma_monitor_of_cpu(), timeout);
	case RVMA_WAIT_SLEEP:
		return sp_wait_for(r->dev, SP_ARM_RECEIVE, rvma_wait_look, &w, timeout);
	}
	return -EINVAL;
}
