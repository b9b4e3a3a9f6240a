/* SPDX-License-Identifier: BSD-3-Clause */
/* A handler that makes system calls that no handler has any business to make, when a packet's first byte says so. */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <spindle-handler.h>

enum { SERVED, DONE, REFUSED };
static const char *const counters[] = {"served", "done", "refused", NULL};

#ifdef IN_CONSTRUCTOR
static void __attribute__((constructor)) loaded(void)
{
	execl("/bin/true", "true", NULL);
}
#endif

/* True if it has worked. */
static bool map(int protection)
{
	void *at = mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return at != MAP_FAILED && !munmap(at, 4096);
}

static bool make_code(int before, int then)
{
	void *at = mmap(NULL, 4096, before, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const bool done = at != MAP_FAILED && !mprotect(at, 4096, then);

	munmap(at, 4096);
	return done;
}

static bool open_file(const char *path, int flags)
{
	const int fd = open(path, flags | O_CLOEXEC, 0600);

	return fd >= 0 && !close(fd);
}

static bool act(uint8_t what)
{
	switch (what) {
	case 'x':
		return !execl("/bin/true", "true", NULL);
	case 'p':
		return !ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	case 's':
		return socket(AF_INET, SOCK_STREAM, 0) >= 0;
	case 'r':
		return socket(AF_PACKET, SOCK_RAW, 0) >= 0;
	case 'u':
		return !unshare(CLONE_NEWUSER);
	case 'c':
		return syscall(SYS_clone, CLONE_NEWNET, 0, 0, 0, 0) >= 0;
	case 'k':
		return !syscall(SYS_setresuid, 0, 0, 0);
	case 'b':
		return syscall(SYS_bpf, 0, NULL, 0) >= 0;
	case 'w':
		return map(PROT_READ | PROT_WRITE | PROT_EXEC);
	case 'W':
		return make_code(PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE | PROT_EXEC);
	case 'm':
		return map(PROT_READ | PROT_EXEC);
	case 'M':
		return make_code(PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC);
	case 'f':
		return open_file("/etc/passwd", O_RDONLY);
	case 'F':
		return open_file("/var/lib/spindle-outlaw", O_RDWR | O_CREAT);
	case 'q':
		return open_file("/proc/self/maps", O_RDONLY);
	}
	return true;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)m;
	c->counters[SERVED]++;
	if (p->len)
		c->counters[act(p->data[0]) ? DONE : REFUSED]++;
	return SP_DONE;
}

static const struct sp_handler outlaw = {
	SP_HANDLER_HEAD,      .name = "outlaw",	  .doc = "makes system calls when it is told to",
	.counters = counters, .payload = payload,
};
SP_HANDLER(outlaw)
