/* SPDX-License-Identifier: BSD-3-Clause */
/* The two programs of a trace: ping sends a message of 8 bytes, pong answers; one at a time. All receives are posted in
 * advance, so that nothing but the message is under way. */
#include "path.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_pause.h>

#include "../../host-api/sdr.h"
#include "children.h"

#define STRIDE	 64
#define PATIENCE (30 * SP_SEC)
#define SETTLE	 200000 /* us: before the first message nothing else is under way any more */

struct end {
	bool sleep, yield;
	unsigned messages;
	struct sp_dev *dev;
	struct sp_mr *mr; /* lines to receive into, then one to send from */
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sdr_recv *recv[BENCH_PATH_MESSAGES];
};

/* ---- who ran ---- */

static void add_switches(const char *pid, const char *task, struct bench_path_ran *ran)
{
	char path[64], line[128];
	unsigned long long n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.16s/task/%.16s/status", pid, task);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "voluntary_ctxt_switches: %llu", &n) == 1)
			ran->voluntary += n;
		else if (sscanf(line, "nonvoluntary_ctxt_switches: %llu", &n) == 1)
			ran->involuntary += n;
	}
	if (f)
		fclose(f);
}

static struct bench_path_ran ran_so_far(const char *pid)
{
	struct bench_path_ran ran = {0};
	const struct dirent *d;
	struct timespec t;
	clockid_t clock;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%.16s/task", pid);
	tasks = opendir(path);
	while (tasks && (d = readdir(tasks)))
		if (d->d_name[0] != '.')
			add_switches(pid, d->d_name, &ran);
	if (tasks)
		closedir(tasks);
	if (!clock_getcpuclockid((pid_t)strtol(pid, NULL, 10), &clock) && !clock_gettime(clock, &t))
		ran.seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
	return ran;
}

static void since(struct bench_path_ran *now, const struct bench_path_ran *before)
{
	now->voluntary -= before->voluntary;
	now->involuntary -= before->involuntary;
	now->seconds -= before->seconds;
}

/* ---- messages ---- */

static int trade(const void *mine, void *theirs, size_t bytes)
{
	if (send(BENCH_LINK, mine, bytes, MSG_NOSIGNAL) != (ssize_t)bytes ||
	    recv(BENCH_LINK, theirs, bytes, 0) != (ssize_t)bytes)
		return -EPIPE;
	return 0;
}

static int open_end(struct end *e, const char *target)
{
	const struct sdr_qp_attr attr = {.mtu = 64, .chunk_bytes = 64, .max_message_bytes = 64, .max_messages = 1024};
	struct sp_error error = {.text = ""};
	struct sdr_qp_info mine, theirs;
	char byte = 0, other;
	int r = sp_attach(target, &e->dev);

	if (!r)
		r = sp_mr_alloc(e->dev, (e->messages + 1) * STRIDE, &e->mr);
	if (!r)
		r = sdr_context_create(e->dev, NULL, &e->context);
	if (!r)
		r = sdr_qp_create(e->context, &attr, &e->qp, &error);
	if (*error.text)
		fprintf(stderr, "%s\n", error.text);
	if (!r)
		r = sdr_qp_info_get(e->qp, &mine);
	if (!r)
		r = trade(&mine, &theirs, sizeof(mine));
	if (!r)
		r = sdr_qp_connect(e->qp, &theirs);
	for (unsigned i = 0; i < e->messages && !r; i++)
		r = sdr_recv_post(e->qp, e->mr, i * STRIDE, 8, &e->recv[i]);
	return r ? r : trade(&byte, &other, 1);
}

static void close_end(struct end *e)
{
	if (e->qp)
		sdr_qp_destroy(e->qp);
	if (e->context)
		sdr_context_destroy(e->context);
	if (e->dev)
		sp_dev_close(e->dev);
}

static inline void pause_end(const struct end *e)
{
	if (e->yield)
		sched_yield();
	else
		rte_pause();
}

static uint64_t *line_of(const struct end *e, unsigned i)
{
	return (uint64_t *)(void *)((uint8_t *)e->mr->addr + (size_t)i * STRIDE);
}

/* -EAGAIN at first: clear-to-send is under way. */
static int put(struct end *e, unsigned i, uint64_t *call)
{
	const sp_time until = sp_clock() + PATIENCE;
	struct sdr_send *send;
	int r;

	*line_of(e, e->messages) = i;
	do {
		*call = rte_rdtsc();
		r = sdr_send_post(e->qp, e->mr, (uint64_t)e->messages * STRIDE, 8, 0, &send);
	} while (r == -EAGAIN && sp_clock() < until);
	return r;
}

/* Waits for message i. */
static int get(struct end *e, unsigned i, uint64_t *woken, uint64_t *seen)
{
	const sp_time until = sp_clock() + PATIENCE;
	int r = -EAGAIN;

	*woken = 0;
	while ((r = sdr_recv_test(e->recv[i])) == -EAGAIN) {
		if (sp_clock() > until)
			return -ETIMEDOUT;
		if (!e->sleep) {
			pause_end(e);
			continue;
		}
		r = sp_dev_arm_for(e->dev, SP_ARM_RECEIVE);
		if (!r && sdr_recv_test(e->recv[i]) == -EAGAIN) {
			r = sp_dev_wait(e->dev, PATIENCE);
			*woken = rte_rdtsc();
		}
		if (r && r != -EINTR)
			return r;
	}
	*seen = rte_rdtsc();
	if (!*woken)
		*woken = *seen;
	return r ? r : *line_of(e, i) == i ? 0 : -EBADMSG;
}

static int write_said(const char *file, const struct bench_path_said *said)
{
	FILE *f = fopen(file, "wbe");
	bool all = f && fwrite(said, sizeof(*said), 1, f) == 1;

	if (f && fclose(f))
		all = false;
	return all ? 0 : errno ? -errno : -EIO;
}

static int ping(struct end *e, useconds_t rest, char **pid, struct bench_path_said *said)
{
	struct bench_path_ran before[BENCH_PATH_PROCESSES] = {{0}};
	uint64_t woken, seen;
	int r = 0;

	usleep(SETTLE);
	for (unsigned k = 0; k < 2 && pid[k]; k++)
		before[BENCH_PATH_NIC + k] = ran_so_far(pid[k]);
	before[BENCH_PATH_SENDER] = ran_so_far("self");
	for (unsigned i = 0; i < e->messages && !r; i++) {
		if (rest)
			usleep(rest);
		r = put(e, i, &said->message[i].call);
		if (!r)
			r = get(e, i, &woken, &seen);
	}
	for (unsigned k = 0; k < 2 && pid[k]; k++)
		said->ran[BENCH_PATH_NIC + k] = ran_so_far(pid[k]);
	said->ran[BENCH_PATH_SENDER] = ran_so_far("self");
	for (unsigned k = 0; k < BENCH_PATH_PROCESSES; k++)
		since(&said->ran[k], &before[k]);
	return r;
}

static int pong(struct end *e, struct bench_path_said *said)
{
	struct bench_path_ran before = {0};
	uint64_t call;
	int r = 0;

	for (unsigned i = 0; i < e->messages && !r; i++) {
		r = get(e, i, &said->message[i].woken, &said->message[i].seen);
		if (!i) /* what came before was waiting for the first one */
			before = ran_so_far("self");
		if (!r)
			r = put(e, i, &call);
	}
	said->ran[BENCH_PATH_RECEIVER] = ran_so_far("self");
	since(&said->ran[BENCH_PATH_RECEIVER], &before);
	return r;
}

/* ping puts what pong has seen beside what it has sent itself. */
static int join(struct bench_path_said *said)
{
	struct bench_path_said *theirs = malloc(sizeof(*theirs));
	int r = theirs ? trade(said, theirs, sizeof(*theirs)) : -ENOMEM;

	for (unsigned i = 0; i < said->messages && !r; i++) {
		said->message[i].woken = theirs->message[i].woken;
		said->message[i].seen = theirs->message[i].seen;
	}
	if (!r)
		said->ran[BENCH_PATH_RECEIVER] = theirs->ran[BENCH_PATH_RECEIVER];
	free(theirs);
	return r;
}

int bench_path_end(int argc, char **argv)
{
	static struct bench_path_said said;
	static struct end e;
	bool pings;
	int r;

	if (argc < 6)
		return 1;
	pings = !strcmp(argv[0], "ping");
	e.sleep = !strcmp(argv[1], "sleep");
	e.yield = !strcmp(argv[1], "yield");
	said.messages = e.messages = (unsigned)strtoul(argv[2], NULL, 10);
	if (!e.messages || e.messages > BENCH_PATH_MESSAGES)
		return 1;
	r = open_end(&e, argv[4]);
	if (!r)
		r = pings ? ping(&e, (useconds_t)strtoul(argv[3], NULL, 10), argv + 6, &said) : pong(&e, &said);
	/* Both are still connected until both have everything. */
	if (!r)
		r = join(&said);
	if (!r && pings)
		r = write_said(argv[5], &said);
	close_end(&e);
	if (r)
		fprintf(stderr, "path %s: %s\n", argv[0], strerror(-r));
	else if (pings)
		puts("done");
	return r ? 1 : 0;
}
