/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pages change places while the program's other threads may read and write them. They are write-protected, copied to
 * where the new ones are mapped for the time being, and the new mapping moves onto the old one in one step; then who
 * waits to write goes on there. Readers never wait.
 *
 * userfaultfd makes a writer wait. Without privileges it does so for the program's own instructions only: a system call
 * of another thread that writes there (read) fails with EFAULT during that time. Where there is no userfaultfd,
 * mprotect() does the same with the help of a handler of SIGSEGV. Steps are small, so that nobody waits for long.
 */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STEP (2ul << 20)

/* ---- raw system calls ---- */

static long error(long rc)
{
	return rc == -1 ? -errno : rc;
}

static void *map(size_t len)
{
	const long at = syscall(SYS_mmap, NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0ul);

	return at == -1 ? NULL : (void *)at;
}

static void unmap(uintptr_t at, size_t len)
{
	if (len)
		syscall(SYS_munmap, at, len);
}

static int move(uintptr_t from, size_t len, uintptr_t to)
{
	const long at = error(syscall(SYS_mremap, from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, to));

	return at < 0 && at > -4096 ? (int)at : 0;
}

static int protect(uintptr_t at, size_t len, int rights)
{
	return (int)error(syscall(SYS_mprotect, at, len, rights));
}

/* Not memcpy(): sanitizers look at what it touches, and parts of these pages may be nobody's. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void copy(uintptr_t to, uintptr_t from,
										size_t len)
{
	volatile uint64_t *out = (volatile uint64_t *)to;
	const volatile uint64_t *in = (const volatile uint64_t *)from;

	for (size_t i = 0; i < len / 8; i++)
		out[i] = in[i];
}

/* ---- making writers wait ---- */

/* One range at a time. generation is odd while it is protected. */
static struct {
	uintptr_t start, end;
	uint32_t generation;
} held;
static struct sigaction before; /* of SIGSEGV */
bool shim_by_mprotect;
static int uffd = -1;
static pid_t uffd_of; /* the process that has opened it */

static int open_uffd(int flags)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
	const long fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags);

	if (fd < 0)
		return -1;
	if (!syscall(SYS_ioctl, (int)fd, UFFDIO_API, &api) && api.features & UFFD_FEATURE_PAGEFAULT_FLAG_WP)
		return (int)fd;
	syscall(SYS_close, (int)fd);
	return -1;
}

static int the_uffd(void)
{
	if (uffd_of != getpid()) { /* a child's would be the parent's memory */
		if (uffd >= 0)
			syscall(SYS_close, uffd);
		uffd_of = getpid();
		uffd = open_uffd(0);
		if (uffd < 0)
			uffd = open_uffd(UFFD_USER_MODE_ONLY);
	}
	return uffd;
}

/* A write to what is protected is done again, and goes on once it is not. The handler may come late: then the range's
 * generation has gone on, and one more attempt tells whether the fault was ours. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	static __thread uint32_t tried __attribute__((tls_model("initial-exec")));
	const uintptr_t at = (uintptr_t)info->si_addr;
	uint32_t generation = __atomic_load_n(&held.generation, __ATOMIC_ACQUIRE);
	const bool ours = generation && info->si_code == SEGV_ACCERR &&
			  at >= __atomic_load_n(&held.start, __ATOMIC_RELAXED) &&
			  at < __atomic_load_n(&held.end, __ATOMIC_RELAXED);

	if (ours && (generation % 2 || tried != generation)) {
		const int saved = errno;

		while (generation % 2) {
			sched_yield();
			generation = __atomic_load_n(&held.generation, __ATOMIC_ACQUIRE);
		}
		tried = generation;
		errno = saved;
		return;
	}
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(signal, info, context);
	} else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
		before.sa_handler(signal);
	} else { /* the instruction faults again, with no handler */
		const struct sigaction usual = {.sa_handler = SIG_DFL};

		sigaction(SIGSEGV, &usual, NULL);
	}
}

static void watch_faults(void)
{
	struct sigaction now, ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	if (sigaction(SIGSEGV, NULL, &now) || (now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_fault))
		return;
	before = now;
	sigaction(SIGSEGV, &ours, NULL);
}

enum how { BY_USERFAULTFD, BY_MPROTECT };

static void let_go(enum how how, uintptr_t start, size_t len)
{
	struct uffdio_range range = {start, len};

	if (how == BY_USERFAULTFD)
		syscall(SYS_ioctl, uffd, UFFDIO_WAKE, &range);
	else
		__atomic_store_n(&held.generation, held.generation + 1, __ATOMIC_RELEASE);
}

/* The new mapping could not take the place: all is as before. */
static void unhold(enum how how, uintptr_t start, size_t len, int rights)
{
	struct uffdio_range range = {start, len};

	if (how == BY_USERFAULTFD)
		syscall(SYS_ioctl, uffd, UFFDIO_UNREGISTER, &range); /* also takes the protection away */
	else
		protect(start, len, rights);
	let_go(how, start, len);
}

/* A page that was never touched cannot be protected: reading gives it the page of zeros. */
__attribute__((no_sanitize("address", "thread"))) static void touch(uintptr_t start, size_t len)
{
	for (size_t i = 0; i < len; i += SHIM_PAGE)
		(void)*(const volatile uint8_t *)(start + i);
}

static int hold_by_uffd(uintptr_t start, size_t len)
{
	struct uffdio_register ask = {.range = {start, len}, .mode = UFFDIO_REGISTER_MODE_WP};
	struct uffdio_writeprotect wp = {.range = {start, len}, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
	struct uffdio_range range = {start, len};
	int rc;

	if (the_uffd() < 0)
		return -ENOSYS;
	if (syscall(SYS_ioctl, uffd, UFFDIO_REGISTER, &ask))
		return -errno;
	touch(start, len);
	while ((rc = (int)error(syscall(SYS_ioctl, uffd, UFFDIO_WRITEPROTECT, &wp))) == -EAGAIN)
		;
	if (rc) {
		syscall(SYS_ioctl, uffd, UFFDIO_UNREGISTER, &range);
		syscall(SYS_ioctl, uffd, UFFDIO_WAKE, &range);
	}
	return rc;
}

/* -EBUSY: the program has a userfaultfd of its own there. */
static int hold(uintptr_t start, size_t len, enum how *how)
{
	int rc;

	*how = BY_USERFAULTFD;
	rc = shim_by_mprotect ? -ENOSYS : hold_by_uffd(start, len);
	if (!rc || rc == -EBUSY)
		return rc;
	*how = BY_MPROTECT;
	watch_faults();
	__atomic_store_n(&held.start, start, __ATOMIC_RELAXED);
	__atomic_store_n(&held.end, start + len, __ATOMIC_RELAXED);
	__atomic_store_n(&held.generation, held.generation + 1, __ATOMIC_RELEASE);
	rc = protect(start, len, PROT_READ);
	if (rc)
		let_go(*how, start, len);
	return rc;
}

/* What is mapped at `with` takes the place of what is mapped at `start`, with its bytes. */
static int change(uintptr_t start, size_t len, uintptr_t with, int rights)
{
	enum how how;
	int rc = hold(start, len, &how);

	if (rc)
		return rc;
	copy(with, start, len);
	if (rights != (PROT_READ | PROT_WRITE))
		rc = protect(with, len, rights);
	rc = rc ? rc : move(with, len, start);
	if (rc)
		unhold(how, start, len, rights);
	else
		let_go(how, start, len);
	return rc;
}

/* ---- there and back ---- */

struct identity {
	uintptr_t at;
	uint64_t inode;
	uint32_t device;
};

static int identify(void *user, const struct shim_vma *v)
{
	struct identity *i = user;

	if (i->at < v->start || i->at >= v->end)
		return 0;
	if (v->offset + (i->at - v->start)) /* two mappings as one: it is not the area's beginning */
		return -EPROTO;
	i->inode = v->inode;
	i->device = v->device;
	return 1;
}

int shim_substitute(struct sp_dev *dev, uintptr_t start, uintptr_t end, struct shim_area **area)
{
	const size_t len = end - start;
	struct identity id = {0};
	struct shim_area *a;
	struct sp_mr *memory;
	size_t done = 0;
	int rc;

	if (len / SHIM_PAGE > UINT32_MAX)
		return -E2BIG;
	rc = sp_mr_alloc(dev, len, &memory);
	if (rc)
		return rc;
	id.at = (uintptr_t)memory->addr;
	a = shim_vmas(identify, &id) == 1 && id.inode ? shim_area_new(memory, (uint32_t)(len / SHIM_PAGE)) : NULL;
	if (!a || sp_mr_moved(memory, (void *)start)) {
		if (a)
			shim_area_end(a);
		sp_mr_free(memory);
		return -ENOMEM;
	}
	a->inode = id.inode;
	a->device = id.device;
	while (!rc && done < len) {
		const size_t step = len - done < STEP ? len - done : STEP;

		rc = change(start + done, step, id.at + done, PROT_READ | PROT_WRITE);
		done += rc ? 0 : step;
	}
	if (rc) {
		unmap(id.at + done, len - done);
		a->stale = true; /* the next sweep takes back what has moved, and frees it */
		return rc;
	}
	*area = a;
	return 0;
}

int shim_restore(const struct shim_vma *v, uintptr_t start, uintptr_t end)
{
	const int rights =
		(v->readable ? PROT_READ : 0) | (v->writable ? PROT_WRITE : 0) | (v->executable ? PROT_EXEC : 0);
	int rc = 0;

	if (!v->readable) /* it must be read */
		rc = protect(start, end - start, rights | PROT_READ);
	while (!rc && start < end) {
		const size_t len = end - start < STEP ? end - start : STEP;
		void *to = map(len);

		if (!to)
			return -ENOMEM;
		rc = change(start, len, (uintptr_t)to, rights);
		if (rc)
			unmap((uintptr_t)to, len);
		start += len;
	}
	return rc;
}
