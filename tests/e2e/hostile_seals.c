/* SPDX-License-Identifier: BSD-3-Clause */
/* What a hostile application does with the files of its memory: before it seals them, without, and after. */
#include "hostile_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x20 /* since Linux 6.3 */
#endif

#define PUNCH (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)

/* ---- sealed memory ---- */
static void try_descriptor(const char *name, const char *how, const struct memory *m, int fd)
{
	const int seal[] = {F_SEAL_WRITE, F_SEAL_EXEC, F_SEAL_GROW};
	char what[32];
	void *at;

#define TRY(WHAT, DONE)                                                                                                \
	do {                                                                                                           \
		snprintf(what, sizeof(what), WHAT "%s", how);                                                          \
		tried(name, what, DONE);                                                                               \
	} while (0)
	TRY("shrink", !ftruncate(fd, 0));
	TRY("grow", !ftruncate(fd, (off_t)m->bytes + (1 << 20)));
	TRY("extend", !fallocate(fd, 0, (off_t)m->bytes, 4096));
	for (unsigned i = 0; i < 3; i++)
		TRY("seal", !fcntl(fd, F_ADD_SEALS, seal[i]));
	TRY("punch", !fallocate(fd, PUNCH, 0, (off_t)m->bytes));
	TRY("punch-page", !fallocate(fd, PUNCH, 0, 4096));
	TRY("write", pwrite(fd, "x", 1, 0) == 1);
	at = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	TRY("map", at != MAP_FAILED);
#undef TRY
}

static void try_file(const char *name, const struct memory *m)
{
	char path[32];
	uint8_t *at;
	int fd;

	try_descriptor(name, "", m, m->fd);
	tried(name, "remove", !madvise(m->at, m->bytes, MADV_REMOVE));
	at = mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, m->fd, 0);
	tried(name, "protect", !mprotect(at, m->bytes, PROT_READ | PROT_WRITE));
	munmap(at, m->bytes);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", m->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	tried(name, "open", fd >= 0);
	if (fd >= 0) {
		try_descriptor(name, "-opened", m, fd);
		close(fd);
	}
	tried(name, "mode", !fchmod(m->fd, 0777));
}

int files(struct raw *raw)
{
	struct memory *all[] = {&raw->queues, &raw->region, &raw->events, &raw->area};
	struct sp_command c;

	begin(raw);
	try_file("queues", &raw->queues);
	try_file("region", &raw->region);
	try_file("events", &raw->events);
	try_file("area", &raw->area);
	puts("ready");
	while (!enough(0))
		for (unsigned i = 0; i < 100; i++) {
			const struct memory *m = all[chance() % 4];
			const off_t at = (off_t)(chance() % m->bytes & ~4095ull);

			c = any_command(raw);
			put(raw, &c);
			if (!fallocate(m->fd, PUNCH, at, (off_t)m->bytes - at) ||
			    !madvise(m->at + at, m->bytes - (size_t)at, MADV_REMOVE))
				die("there is a hole in memory in use", -EBADE);
			usleep(50);
		}
	puts("ok");
	return 0;
}

/* ---- what is not sealed as it should be ---- */
static const uint16_t ops[] = {SP_ATTACH_HELLO, SP_ATTACH_MR_ALLOC, SP_ATTACH_OPEN};
static const char *const op_names[] = {"hello", "alloc", "open"};

/* A connection on which this is the next request. */
static void before(struct raw *raw, uint16_t op)
{
	if (op != SP_ATTACH_HELLO) {
		hello(raw);
		return;
	}
	raw->fd = dial();
	if (raw->fd < 0)
		die("connect", raw->fd);
}

static void pend(struct raw *raw, uint16_t op, struct memory *m)
{
	const uint64_t arg = op == SP_ATTACH_OPEN ? 5 : op == SP_ATTACH_MR_ALLOC ? REGION : 0;
	char text[512];
	uint32_t bytes = 0;

	if (op == SP_ATTACH_OPEN)
		bytes = settings(text, (uint32_t)o.qpn, "max-messages", 16);
	if (ask_memory(raw, op, arg, text, bytes, m))
		die("memory to be sealed", -EPROTO);
}

/* Closes all, says what came of it. Of a connection that has been ended: was it? */
static void said(struct raw *raw, unsigned op, const char *what, int r, bool ended, struct memory *m)
{
	printf("try %s %s %d\n", op_names[op], what, -r);
	if (ended && reply(raw) != -ENODEV)
		die("the connection goes on", -EISCONN);
	if (m)
		unmap(m);
	if (ops[op] != SP_ATTACH_HELLO) {
		unmap(&raw->queues);
		close(raw->wake);
		close(raw->post);
	}
	close(raw->fd);
}

/* Asks, does this to the file, asks for the rest. */
static void misseal(struct raw *raw, unsigned op, const char *what, int add)
{
	struct memory m;
	int r;

	before(raw, ops[op]);
	pend(raw, ops[op], &m);
	if (!strcmp(what, "punched"))
		r = fallocate(m.fd, PUNCH, 0, (off_t)m.bytes);
	else if (!strcmp(what, "removed"))
		r = madvise(m.at, m.bytes, MADV_REMOVE);
	else if (!strcmp(what, "shrunk"))
		r = ftruncate(m.fd, 0);
	else if (!strcmp(what, "halved"))
		r = ftruncate(m.fd, (off_t)m.bytes / 2 & ~4095);
	else if (!strcmp(what, "grown"))
		r = ftruncate(m.fd, (off_t)m.bytes + 4096);
	else
		r = 0;
	if (r)
		die(what, -errno); /* before it is sealed, it is the program's */
	if (add && fcntl(m.fd, F_ADD_SEALS, add)) {
		if (add != (SP_ATTACH_SEALS | F_SEAL_EXEC) && add != (SP_ATTACH_SEALS | F_SEAL_WRITE))
			die("seals", -errno);
		printf("# %s: the kernel refuses these seals\n", what);
	}
	r = ask(raw, SP_ATTACH_SEALED, 0, NULL, 0);
	for (unsigned i = 0; i < SP_ATTACH_FDS; i++)
		if (raw->got[i] >= 0)
			close(raw->got[i]);
	if (r == -EACCES) { /* nothing has happened, and all goes on */
		unmap(&m);
		pend(raw, ops[op], &m);
		const int again = ask_sealed(raw, &m);

		if (again)
			die("what is asked for anew", again);
		for (unsigned i = 0; i < SP_ATTACH_FDS; i++)
			if (raw->got[i] >= 0)
				close(raw->got[i]);
	}
	said(raw, op, what, r, false, &m);
}

static void disorder(struct raw *raw, unsigned op)
{
	static const uint16_t others[] = {SP_ATTACH_HELLO, SP_ATTACH_MR_ALLOC, SP_ATTACH_MR_FREE, SP_ATTACH_OPEN,
					  SP_ATTACH_CLOSE, SP_ATTACH_CALL,     SP_ATTACH_REPORT};
	struct memory m;
	int r;

	before(raw, ops[op]);
	r = ask(raw, SP_ATTACH_SEALED, 0, NULL, 0);
	said(raw, op, "nothing", r, true, NULL);
	before(raw, ops[op]);
	pend(raw, ops[op], &m);
	if (ask_sealed(raw, &m))
		die("sealed", -EPROTO);
	for (unsigned i = 0; i < SP_ATTACH_FDS; i++)
		if (raw->got[i] >= 0)
			close(raw->got[i]);
	r = ask(raw, SP_ATTACH_SEALED, 0, NULL, 0);
	said(raw, op, "twice", r, true, &m);
	for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++) {
		before(raw, ops[op]);
		pend(raw, ops[op], &m);
		if (i % 2)
			seal(&m, SP_ATTACH_SEALS);
		r = ask(raw, others[i], 4096, NULL, 0);
		said(raw, op, "instead", r, true, &m);
	}
}

int seals(struct raw *raw)
{
	static const int each[] = {F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE};

	for (unsigned op = 0; op < 3; op++) {
		misseal(raw, op, "none", 0);
		for (unsigned i = 0; i < 4; i++)
			misseal(raw, op, "three", SP_ATTACH_SEALS & ~each[i]);
		misseal(raw, op, "write", SP_ATTACH_SEALS | F_SEAL_WRITE);
		misseal(raw, op, "exec", SP_ATTACH_SEALS | F_SEAL_EXEC);
		for (unsigned i = 0; i < 2; i++) {
			misseal(raw, op, i ? "punched" : "removed", SP_ATTACH_SEALS);
			misseal(raw, op, i ? "shrunk" : "halved", SP_ATTACH_SEALS);
		}
		misseal(raw, op, "grown", SP_ATTACH_SEALS);
		disorder(raw, op);
	}
	/* A region with holes that is used all the same. */
	before(raw, SP_ATTACH_MR_ALLOC);
	pend(raw, SP_ATTACH_MR_ALLOC, &raw->region);
	fallocate(raw->region.fd, PUNCH, 0, (off_t)raw->region.bytes);
	if (!ask_sealed(raw, &raw->region)) {
		raw->id = (uint32_t)raw->reply.head.arg[0];
		if (open_context(raw, (uint32_t)o.qpn, "max-messages", 16))
			die("context", -EPROTO);
		take_context(raw);
		if (connect_self(raw, (uint32_t)o.qpn) || stream(raw))
			die("a stream to itself", -EPROTO);
		for (uint64_t i = 0; i < 256; i++)
			stream_more(raw, i * 4096 % REGION);
	}
	until_enough();
	return 0;
}

/* ---- what has been given back ---- */
/* Keeps so many regions that it gives back, of one page each, by descriptor or mapping. */
static void hold(struct raw *raw)
{
	for (unsigned held = 0; held < o.size; held++) {
		struct memory m;
		uint32_t id;
		int r = alloc(raw, 4096, &m, &id);

		r = r ? r : ask(raw, SP_ATTACH_MR_FREE, id, NULL, 0);
		if (r)
			die("to be held", r);
		if (held % 2)
			munmap(m.at, m.bytes);
		else
			close(m.fd);
	}
}

/* Gets more until the NIC has noticed what we hold: "held ERRNO". Refused once is not yet that: what we have just let
 * go of may count for a moment. */
static void want_more(struct raw *raw)
{
	struct memory m;
	uint32_t id;
	int r = 0;

	for (unsigned i = 0, refused = 0; i < 1000 && refused < 25; i++) {
		r = alloc(raw, 4096, &m, &id);
		refused = r ? refused + 1 : 0;
		if (!r) {
			ask(raw, SP_ATTACH_MR_FREE, id, NULL, 0);
			unmap(&m);
		}
		usleep(20000);
	}
	printf("held %d\n", -r);
}

/* An heir of all that we have, who outlives the connection. */
static void leave_heir(struct raw *raw)
{
	const pid_t heir = fork();

	if (heir)
		exit(0);
	prctl(PR_SET_PDEATHSIG, 0);
	close(raw->fd);
}

int freed(struct raw *raw)
{
	struct memory *gone[] = {&raw->region, &raw->events};

	begin(raw);
	memset(raw->region.at, 0x77, raw->region.bytes);
	if (ask(raw, SP_ATTACH_CLOSE, raw->context, NULL, 0) || ask(raw, SP_ATTACH_MR_FREE, raw->id, NULL, 0))
		die("give back", -EPROTO);
	for (size_t at = 0; at < raw->region.bytes; at++)
		if (raw->region.at[at] != 0x77)
			die("what is ours has changed", -EBADMSG);
	for (unsigned i = 0; i < 2; i++)
		memset(gone[i]->at, 0x55, gone[i]->bytes);
	if (!strcmp(o.how, "held")) {
		hold(raw);
		want_more(raw);
	}
	if (!strcmp(o.how, "heir")) {
		hold(raw);
		fflush(stdout);
		leave_heir(raw);
	}
	puts("ready");
	enough(-1);
	if (!strcmp(o.how, "let")) { /* lets go, and stays */
		char line[8];

		for (unsigned i = 0; i < 2; i++)
			unmap(gone[i]);
		unmap(&raw->area);
		if (fgets(line, sizeof(line), stdin))
			puts("let");
		enough(-1);
	}
	puts("ok");
	return 0;
}
