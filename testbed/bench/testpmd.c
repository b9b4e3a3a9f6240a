/* SPDX-License-Identifier: BSD-3-Clause */
#include "testpmd.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "../../host-api/spindle.h"
#include "bench.h"

#define FRAME  42	   /* bytes of headers of its own packets */
#define BUFFER 2176	   /* testpmd's default: 2 KiB and headroom */
#define HEAD   (128 + 256) /* headroom; what an XDP program may have of it */
#define LEAST  0.03	   /* s of a round: its answers take some 0.1 ms */

static int skip(struct bench_testpmd *t, const char *words, struct bench_why *why)
{
	if (words != t->skipped)
		snprintf(t->skipped, sizeof(t->skipped), "%s", words);
	return bench_fail(why, BENCH_SKIPPED, "%s", words);
}

static bool installed(const char *name)
{
	char dirs[1024], file[1200], *save;

	snprintf(dirs, sizeof(dirs), "%s", getenv("PATH") ? getenv("PATH") : "");
	for (char *d = strtok_r(dirs, ":", &save); d; d = strtok_r(NULL, ":", &save)) {
		snprintf(file, sizeof(file), "%s/%s", d, name);
		if (!access(file, X_OK))
			return true;
	}
	return false;
}

/* Waits for the line that begins so, and reads the number after it unless NULL. */
static int answer(struct bench_testpmd *t, const char *begin, double *number, struct bench_why *why)
{
	char line[512];
	int r;

	do {
		const char *at;

		r = bench_child_line(&t->house, &t->child, BENCH_PATIENCE, line, sizeof(line), why);
		at = r ? NULL : strstr(line, begin);
		if (at && number)
			*number = strtod(at + strlen(begin), NULL);
		if (at)
			break;
	} while (!r);
	return r;
}

static int tell(struct bench_testpmd *t, const char *words)
{
	return send(t->tell, words, strlen(words), MSG_NOSIGNAL) == (ssize_t)strlen(words) ? 0 : -EPIPE;
}

static void lcores(char *text, size_t room)
{
	char set[512] = "";
	cpu_set_t all;
	size_t at = 0;

	if (sched_getaffinity(0, sizeof(all), &all))
		CPU_ZERO(&all);
	for (int i = 0; i < CPU_SETSIZE && at + 8 < sizeof(set); i++)
		if (CPU_ISSET(i, &all))
			at += (size_t)snprintf(set + at, sizeof(set) - at, "%s%d", at ? "," : "", i);
	/* The first core only waits for commands. */
	snprintf(text, room, "0@(%s),1@(%s)", set, set);
}

static int start(struct bench_testpmd *t, const char *mode, const char *device, unsigned bytes, struct bench_why *why)
{
	char cores[1100], vdev[1300], forward[64], packets[64], buffers[64], prefix[64];
	/* stdbuf: otherwise its output waits until its buffer is full */
	const char *argv[] = {"stdbuf",
			      "-oL",
			      "dpdk-testpmd",
			      "--no-huge",
			      "-m",
			      "256",
			      "--no-pci",
			      "--no-shconf",
			      "--no-telemetry",
			      prefix,
			      "--lcores",
			      cores,
			      "--vdev",
			      vdev,
			      "--",
			      "-i",
			      forward,
			      "--total-num-mbufs=8191",
			      "--disable-link-check",
			      buffers, /* before packets, which must fit */
			      packets,
			      NULL};
	int in[2], r;

	if (!installed("dpdk-testpmd"))
		return skip(t, "dpdk-testpmd is not installed (Debian package dpdk-dev or dpdk)", why);
	if (!installed("stdbuf"))
		return skip(t, "stdbuf is not installed (Debian package coreutils)", why);
	r = bench_house_open(&t->house, why);
	if (r)
		return r;
	t->open = true;
	t->tell = -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in))
		return -errno;
	t->tell = in[1];
	lcores(cores, sizeof(cores));
	snprintf(vdev, sizeof(vdev), "%s", device);
	snprintf(forward, sizeof(forward), "--forward-mode=%s", mode);
	snprintf(prefix, sizeof(prefix), "--file-prefix=spindle-bench-%d", (int)getpid());
	if (bytes)
		snprintf(packets, sizeof(packets), "--txpkts=%u", bytes + FRAME);
	else
		snprintf(packets, sizeof(packets), "--burst=32");
	if (!t->room && bytes + FRAME + HEAD > BUFFER)
		t->room = bytes + FRAME + HEAD;
	snprintf(buffers, sizeof(buffers), "--mbuf-size=%u", t->room ? t->room : BUFFER);
	r = bench_child_start(
		t->spaces ? t->spaces : &t->house,
		&(struct bench_start){
			.argv = argv, .fed = true, .in = in[0], .both = true, .space = t->spaces ? t->space : -1},
		&t->child, why);
	close(in[0]);
	if (!r)
		r = tell(t, "show port stats all\n");
	if (!r)
		r = answer(t, "Tx-pps:", NULL, why);
	if (r && r != -EINTR) {
		char words[256];

		snprintf(words, sizeof(words), "dpdk-testpmd does not start: %.200s",
			 *why->text ? why->text : strerror(-r));
		return skip(t, words, why);
	}
	return r;
}

/* Packets forwarded so far (or bytes, as it is asked), and its processor time: its first thread only waits. */
struct look {
	double packets, ran;
	sp_time wall;
};

static int look(struct bench_testpmd *t, const char *which, struct look *l, struct bench_why *why)
{
	struct timespec ran = {0};
	clockid_t clock;
	int r = tell(t, "show port stats all\n");

	if (!r)
		r = answer(t, which, &l->packets, why);
	l->wall = sp_clock();
	if (!r && (clock_getcpuclockid(t->child.pid, &clock) || clock_gettime(clock, &ran)))
		r = -ESRCH;
	l->ran = (double)ran.tv_sec + 1e-9 * (double)ran.tv_nsec;
	return r;
}

static bool moved(const struct look *before, const struct look *after)
{
	return after->packets > before->packets && after->ran > before->ran;
}

static bool late(const struct look *before, const struct look *after)
{
	return after->wall > before->wall + BENCH_PATIENCE * SP_SEC;
}

static int run_round(struct bench_testpmd *t, const char *mode, const char *device, unsigned bytes, double seconds,
		     struct bench_round *round, struct bench_why *why)
{
	const char *which = strcmp(mode, "txonly") ? "RX-packets:" : "TX-packets:";
	struct look before = {0}, after = {0};
	double ran, wall;
	int r = 0;

	seconds = seconds > LEAST ? seconds : LEAST;
	if (!t->open)
		r = start(t, mode, device, bytes, why);
	if (!r)
		r = tell(t, "start\n");
	if (!r)
		r = look(t, which, &before, why);
	/* On a busy machine it may not have had a processor in that time: then the round is longer. */
	while (!r && !moved(&before, &after) && !late(&before, &after) && !bench_stopped()) {
		usleep((useconds_t)(seconds * 1e6));
		r = look(t, which, &after, why);
	}
	if (!r)
		r = tell(t, "stop\n");
	if (!r)
		r = answer(t, "Done.", NULL, why);
	if (r)
		return r;
	ran = after.ran - before.ran;
	wall = (double)(after.wall - before.wall) / SP_SEC;
	round->units = (uint64_t)(after.packets - before.packets);
	round->cycles = (uint64_t)((ran < wall ? ran : wall) * (double)rte_get_tsc_hz());
	if (round->units && round->cycles)
		return 0;
	return bench_fail(why, -EPROTO, "dpdk-testpmd forwarded no packets");
}

static int pair_start(struct bench_testpmd *from, const char *from_device, struct bench_testpmd *to,
		      const char *to_device, unsigned bytes, struct bench_why *why)
{
	int r = 0;

	from->room = to->room = bytes + FRAME + HEAD; /* a packet is one piece */
	if (!to->open)
		r = start(to, "rxonly", to_device, 0, why);
	if (!r && !from->open)
		r = start(from, "txonly", from_device, bytes, why);
	if (!r)
		r = tell(to, "start\n");
	return r ? r : tell(from, "start\n");
}

static int pair_stop(struct bench_testpmd *from, struct bench_testpmd *to, struct bench_why *why)
{
	int r = tell(from, "stop\n");

	if (!r)
		r = answer(from, "Done.", NULL, why);
	if (!r)
		r = tell(to, "stop\n");
	return r ? r : answer(to, "Done.", NULL, why);
}

static int pair_round(struct bench_testpmd *from, const char *from_device, struct bench_testpmd *to,
		      const char *to_device, unsigned bytes, double seconds, struct bench_round *round,
		      struct bench_why *why)
{
	struct look sent[2] = {{0}}, got[2] = {{0}};
	int r = pair_start(from, from_device, to, to_device, bytes, why);
	double moved_bytes;

	if (!r)
		r = look(from, "TX-packets:", &sent[0], why);
	if (!r)
		r = look(to, "RX-bytes:", &got[0], why);
	while (!r && !moved(&got[0], &got[1]) && !late(&got[0], &got[1]) && !bench_stopped()) {
		usleep((useconds_t)(seconds * 1e6));
		r = look(from, "TX-packets:", &sent[1], why);
		if (!r)
			r = look(to, "RX-bytes:", &got[1], why);
	}
	if (!r)
		r = pair_stop(from, to, why);
	if (r)
		return r;
	if (!moved(&got[0], &got[1]))
		return bench_fail(why, -EPROTO, "no packets went from one to the other");
	moved_bytes = (got[1].packets - got[0].packets) * bytes / (bytes + FRAME);
	round->value = moved_bytes / ((double)(got[1].wall - got[0].wall) / SP_SEC) / 1e6;
	round->processor = (got[1].ran - got[0].ran + sent[1].ran - sent[0].ran) / (moved_bytes / (double)(1u << 30));
	return 0;
}

void bench_testpmd_close(struct bench_testpmd *t)
{
	if (!t->open)
		return;
	if (t->tell > 0)
		close(t->tell);
	bench_child_stop(&t->child);
	bench_house_close(&t->house);
	*t = (struct bench_testpmd){.spaces = t->spaces, .space = t->space};
}

int bench_testpmd_round(struct bench_testpmd *t, const char *mode, const char *device, unsigned bytes, double seconds,
			struct bench_round *round, struct bench_why *why)
{
	char words[256];
	int r;

	if (*t->skipped)
		return skip(t, t->skipped, why);
	r = run_round(t, mode, device, bytes, seconds, round, why);
	if (!r || r == -EINTR)
		return r;
	/* It is not our program: its failure does not fail the case. */
	snprintf(words, sizeof(words), "%s%.200s",
		 *t->skipped ? "" : "dpdk-testpmd: ", *why->text ? why->text : strerror(-r));
	bench_testpmd_close(t);
	return skip(t, words, why);
}

int bench_testpmd_pair(struct bench_testpmd *from, const char *from_device, struct bench_testpmd *to,
		       const char *to_device, unsigned bytes, double seconds, struct bench_round *round,
		       struct bench_why *why)
{
	char words[256];
	int r;

	if (*from->skipped || *to->skipped)
		return skip(from, *to->skipped ? to->skipped : from->skipped, why);
	r = pair_round(from, from_device, to, to_device, bytes, seconds, round, why);
	if (!r || r == -EINTR)
		return r;
	snprintf(words, sizeof(words), "%s%.200s",
		 *from->skipped || *to->skipped ? "" : "dpdk-testpmd: ", *why->text ? why->text : strerror(-r));
	bench_testpmd_close(from);
	bench_testpmd_close(to);
	return skip(from, words, why);
}
