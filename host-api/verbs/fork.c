/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork(): areas are shared mappings, so the child's would be the parent's. The child puts private copies in their place
 * before it goes on, and the thread of the parent that forks waits until it has them. vfork(), posix_spawn() and
 * system() need nothing: there the child runs in the parent's memory until exec(). A raw clone() or _Fork() runs no
 * handlers: such a child shares the areas.
 */
#include "memory.h"
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATIENCE 30000 /* ms: a child that copies gigabytes, or has died while another holds its end of the pipe */

static int gate[2] = {-1, -1};

void shim_memory_fork(void)
{
	gate[0] = gate[1] = -1;
	if (shim_areas && syscall(SYS_pipe2, gate, O_CLOEXEC))
		gate[0] = gate[1] = -1;
}

void shim_memory_fork_parent(void)
{
	struct pollfd wait = {.fd = gate[0], .events = POLLIN};
	const int saved = errno;

	if (gate[0] < 0)
		return;
	syscall(SYS_close, gate[1]);
	while (poll(&wait, 1, PATIENCE) < 0 && errno == EINTR)
		;
	syscall(SYS_close, gate[0]);
	errno = saved;
}

/* Rather none than the parent's. */
static int forbid(void *user, const struct shim_vma *v)
{
	(void)user;
	if (shim_area_of(v))
		syscall(SYS_mprotect, v->start, v->end - v->start, PROT_NONE);
	return 0;
}

void shim_memory_fork_child(void)
{
	bool whole = true;

	for (struct shim_area *a = shim_areas; a; a = a->next)
		whole &= !shim_area_restore(a, false);
	if (!whole)
		shim_vmas(forbid, NULL);
	shim_counts = (struct shim_memory_counts){0};
	shim_areas = NULL; /* its handles are the parent's, as all of the device is */
	if (gate[0] < 0)
		return;
	syscall(SYS_close, gate[0]);
	syscall(SYS_close, gate[1]);
}
