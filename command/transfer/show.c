/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../output.h"
#include "words.h"

#define FRAME (SP_SEC / 10) /* between two pictures */

static double seconds(sp_time t)
{
	return (double)t / (double)SP_SEC;
}

static void rate_text(double bits, char text[32])
{
	static const char *const unit[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
	unsigned u = 0;

	for (; bits >= 1000 && u < 4; u++)
		bits /= 1000;
	snprintf(text, 32, "%.3g %s", bits, unit[u]);
}

void transfer_progress(struct transfer *t)
{
	const sp_time now = sp_clock();
	char name[256], rate[32], more[100], line[512];
	unsigned width, height;
	int part;

	if (!t->bar || (t->drawn && now - t->drawn_at < FRAME))
		return;
	output_terminal(STDERR_FILENO, &width, &height);
	part = t->size ? (int)((double)t->done / (double)t->size * 1000) : 1000;
	part = part < 1000 ? part : 1000;
	rate_text(now > t->started ? (double)(t->done - t->from) * 8 / seconds(now - t->started) : 0, rate);
	snprintf(name, sizeof(name), "%s", t->name);
	talk_clean(name);
	if (!t->started)
		snprintf(more, sizeof(more), "reading what is kept");
	else if (t->rtt) /* at the sender */
		snprintf(more, sizeof(more), "%s  %llu repeated  %.3g ms", rate, (unsigned long long)t->repeated,
			 seconds(t->rtt) * 1000);
	else
		snprintf(more, sizeof(more), "%s", rate);
	snprintf(line, sizeof(line), "%.40s  [%.*s%*s] %5.1f %%  %s", name, part / 50,
		 "====================", 20 - part / 50, "", part / 10.0, more);
	fprintf(stderr, "\r\033[K%.*s", (int)width - 1, line);
	fflush(stderr);
	t->drawn = true;
	t->drawn_at = now;
}

void transfer_bar_end(struct transfer *t)
{
	if (t->drawn)
		fprintf(stderr, "\r\033[K");
	t->drawn = false;
}

int transfer_summary(struct transfer *t, bool json)
{
	const double time = seconds(t->ended - t->started),
		     bits = time > 0 ? (double)(t->size - t->from) * 8 / time : 0;
	char name[256], rate[32], resumed[64] = "", repaired[64] = "", digest[2 * TRANSFER_DIGEST + 1] = "";

	transfer_bar_end(t);
	snprintf(name, sizeof(name), "%s", t->name);
	talk_clean(name);
	for (unsigned i = 0; i < TRANSFER_DIGEST; i++)
		snprintf(digest + 2 * i, 3, "%02x", t->digest[i]);
	rate_text(bits, rate);
	if (json) {
		/* JSON cannot hold a name that is not UTF-8: it is printed in hexadecimal. */
		json_t *text = json_string(t->name);
		json_t *o = json_pack(
			"{s:o, s:s, s:I, s:I, s:f, s:I, s:s, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:s, s:s}", "file",
			text ? text : talk_hex(t->name, strlen(t->name)), "peer", t->talk->peer, "bytes",
			(json_int_t)t->size, "resumed_at", (json_int_t)t->from, "seconds", time, "rate",
			(json_int_t)bits, "reliability", t->scheme, "chunks_repeated", (json_int_t)t->repeated,
			"chunks_repeated_needlessly", (json_int_t)t->needless, "parity_chunks", (json_int_t)t->parity,
			"chunks_repaired", (json_int_t)t->repaired, "round_trip", seconds(t->rtt), "mtu",
			(json_int_t)t->mtu, "chunk_bytes", (json_int_t)t->chunk, "message_bytes",
			(json_int_t)t->message, "ip", t->family == AF_INET6 ? "6" : "4", "sha256", digest);
		if (o && t->chosen.codes)
			json_object_set_new(o, "chosen", chosen_json(&t->chosen));
		if (output_json(o, JSON_COMPACT | JSON_REAL_PRECISION(6)))
			return transfer_fail(t, "out of memory");
	} else {
		if (t->from)
			snprintf(resumed, sizeof(resumed), ", resumed at %llu", (unsigned long long)t->from);
		if (t->coded)
			snprintf(repaired, sizeof(repaired), ", %llu repaired", (unsigned long long)t->repaired);
		printf("%s: %llu byte%s%s in %.3f s, %s, %llu chunk%s repeated (%llu needlessly)%s, round trip %.3g "
		       "ms, "
		       "sha256 %s\n",
		       name, (unsigned long long)t->size, t->size == 1 ? "" : "s", resumed, time, rate,
		       (unsigned long long)t->repeated, t->repeated == 1 ? "" : "s", (unsigned long long)t->needless,
		       repaired, seconds(t->rtt) * 1000, digest);
	}
	errno = 0;
	if (fflush(stdout) || ferror(stdout))
		return transfer_fail(t, "standard output: %s", errno ? strerror(errno) : "not all could be written");
	return 0;
}
