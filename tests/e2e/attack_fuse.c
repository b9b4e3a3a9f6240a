/* SPDX-License-Identifier: BSD-3-Clause */
#include "attack_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define AT    "/mnt" /* in our own namespace nothing else is there */
#define PAGES 4096
#define BYTES (PAGES * 4096ull)

static void skip(const char *what)
{
	printf("skip %s: %s\n", what, strerror(errno));
	exit(0);
}

static bool said(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	const bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

static void attributes(struct fuse_attr *a, bool directory)
{
	a->ino = directory ? 1 : 2;
	a->mode = directory ? S_IFDIR | 0777 : S_IFREG | 0666;
	a->size = directory ? 0 : BYTES;
	a->nlink = 1;
}

/* Reads and writes are never answered, nor is anything after them. The end of `owner` is ours: our death is what
 * whoever waits for an answer is waiting for then. */
static void serve(int fd, int owner)
{
	static uint8_t request[1 << 17] __attribute__((aligned(8)));
	const struct fuse_in_header *h = (const void *)request;
	struct {
		struct fuse_out_header head;
		union {
			struct fuse_init_out init;
			struct fuse_entry_out entry;
			struct fuse_attr_out attr;
			struct fuse_open_out open;
		};
	} reply;

	while (read(fd, request, sizeof(request)) > 0) {
		size_t bytes = 0;

		memset(&reply, 0, sizeof(reply));
		switch (h->opcode) {
		case FUSE_INIT:
			reply.init = (struct fuse_init_out){.major = FUSE_KERNEL_VERSION,
							    .minor = 31,
							    .flags = FUSE_WRITEBACK_CACHE | FUSE_ASYNC_READ,
							    .max_write = 4096};
			bytes = sizeof(reply.init);
			break;
		case FUSE_LOOKUP:
			reply.entry.nodeid = 2;
			reply.entry.attr_valid = reply.entry.entry_valid = 3600;
			attributes(&reply.entry.attr, false);
			bytes = sizeof(reply.entry);
			break;
		case FUSE_GETATTR:
		case FUSE_SETATTR:
			reply.attr.attr_valid = 3600;
			attributes(&reply.attr.attr, h->nodeid == 1);
			bytes = sizeof(reply.attr);
			break;
		case FUSE_OPEN:
			bytes = sizeof(reply.open);
			break;
		case FUSE_READ:
		case FUSE_WRITE:
			poll(&(struct pollfd){.fd = owner}, 1, -1);
			_exit(0);
		case FUSE_FORGET:
			continue;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			break;
		default:
			reply.head.error = -ENOSYS;
		}
		reply.head.unique = h->unique;
		reply.head.len = (uint32_t)(sizeof(reply.head) + bytes);
		if (write(fd, &reply, reply.head.len) < 0)
			break;
	}
	_exit(0);
}

void fuse_begin(void)
{
	const unsigned uid = getuid(), gid = getgid();
	char text[64];
	int fd, owner[2];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		skip("no user namespace");
	prctl(PR_SET_DUMPABLE, 1); /* else its files in /proc are root's, after setuid() */
	said("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	if (!said("/proc/self/uid_map", text))
		skip("no user namespace");
	snprintf(text, sizeof(text), "0 %u 1", gid);
	said("/proc/self/gid_map", text);
	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		skip("/dev/fuse");
	snprintf(text, sizeof(text), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (mount("spindle", AT, "fuse", MS_NOSUID | MS_NODEV, text))
		skip("mount a FUSE at " AT);
	if (pipe2(owner, O_CLOEXEC))
		skip("a pipe");
	/* A process of its own, which ends when ours is killed, also while ours cannot end. */
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(owner[1]);
		serve(fd, owner[0]);
	}
	close(owner[0]);
	close(fd);
}

int fuse_open(void)
{
	const int fd = open(AT "/file", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		skip("a file of a FUSE");
	return fd;
}

void *fuse_page(void)
{
	static uint8_t *pages;
	static unsigned next;

	if (!pages) {
		const int fd = fuse_open();

		pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		if (pages == MAP_FAILED)
			skip("a page of a FUSE");
	}
	return pages + next++ % PAGES * 4096;
}

void fuse_dirty(void)
{
	static uint8_t page[4096];
	const int fd = fuse_open(); /* stays open: closing it would wait, too */

	if (pwrite(fd, page, sizeof(page), 0) != sizeof(page))
		skip("write to a file of a FUSE");
}
