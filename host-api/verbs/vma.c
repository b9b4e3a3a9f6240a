/* SPDX-License-Identifier: BSD-3-Clause */
/* What /proc/self says of this process's memory: read by raw system calls into a fixed place, as what registers memory
 * may stand within hooks of mmap() and malloc(). */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char text[16384]; /* a line is shorter: a path has at most 4095 bytes, each of them at most 4 here */

static long open_raw(const char *path)
{
	return syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

static ssize_t read_raw(int fd, void *to, size_t room)
{
	ssize_t got;

	do
		got = syscall(SYS_read, fd, to, room);
	while (got < 0 && errno == EINTR);
	return got;
}

static const char *number(const char *p, unsigned base, uint64_t *value)
{
	for (*value = 0;; p++) {
		const char c = *p;
		const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
				       : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
							      : 16;

		if (digit >= base)
			return p;
		*value = *value * base + digit;
	}
}

/* start-end rwxp offset major:minor inode   name */
static void parse(const char *p, struct shim_vma *v)
{
	uint64_t n, minor;

	p = number(p, 16, &n) + 1;
	v->start = (uintptr_t)n;
	p = number(p, 16, &n) + 1;
	v->end = (uintptr_t)n;
	v->readable = p[0] == 'r';
	v->writable = p[1] == 'w';
	v->executable = p[2] == 'x';
	v->shared = p[3] == 's';
	p = number(p + 5, 16, &v->offset) + 1;
	p = number(p, 16, &n) + 1;
	p = number(p, 16, &minor) + 1;
	v->device = (uint32_t)(n << 20 | minor);
	p = number(p, 10, &v->inode);
	while (*p == ' ')
		p++;
	v->name = p;
}

int shim_vmas(int (*fn)(void *user, const struct shim_vma *), void *user)
{
	const long fd = open_raw("/proc/self/maps");
	size_t have = 0;
	ssize_t got;
	int rc = fd < 0 ? -errno : 0;

	while (!rc && (got = read_raw((int)fd, text + have, sizeof(text) - have)) > 0) {
		char *line = text, *end;

		have += (size_t)got;
		while (!rc && (end = memchr(line, '\n', have - (size_t)(line - text)))) {
			struct shim_vma v;

			*end = 0;
			parse(line, &v);
			rc = fn(user, &v);
			line = end + 1;
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (have == sizeof(text))
			rc = -ENOBUFS;
	}
	if (fd >= 0)
		syscall(SYS_close, (int)fd);
	return rc;
}

static bool has_some(const char *key)
{
	const char *at = strstr(text, key);
	uint64_t n;

	if (!at)
		return false;
	at += strlen(key);
	while (*at == ' ' || *at == '\t')
		at++;
	number(at, 10, &n);
	return n != 0;
}

bool shim_pinned(void)
{
	const long fd = open_raw("/proc/self/status");
	ssize_t got = 0;

	if (fd < 0)
		return true;
	got = read_raw((int)fd, text, sizeof(text) - 1);
	syscall(SYS_close, (int)fd);
	text[got < 0 ? 0 : got] = 0;
	return got <= 0 || has_some("\nVmPin:") || has_some("\nVmLck:");
}
