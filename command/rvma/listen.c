/* SPDX-License-Identifier: BSD-3-Clause */
#include "listen.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "../interrupt.h"

#define NOTICE sizeof(struct rvma_notification)
#define LOOK   (100 * SP_MS) /* a signal is noticed after this time at the latest */

struct listener {
	struct rvma_ends ends;
	struct rvma_window *window;
	FILE *say;		/* for messages: standard output, unless that is for the data */
	uint64_t stride;	/* distance of buffers in the region; the notifications follow them */
	uint64_t posted, taken; /* buffers; buffer k is in place k % buffers */
	uint64_t posted_anew;	/* completed buffers whose places have been posted again */
};

static volatile struct rvma_notification *notice(const struct listener *l, uint64_t k)
{
	const struct rvma_asked *a = l->ends.asked;

	return (volatile struct rvma_notification *)(void *)((char *)l->ends.mr->addr + l->stride * a->buffers +
							     k % a->buffers * NOTICE);
}

static int post(struct listener *l)
{
	const struct rvma_asked *a = l->ends.asked;
	const uint64_t place = l->posted % a->buffers;
	const struct rvma_buffer buffer = {.mr = l->ends.mr,
					   .offset = place * l->stride,
					   .size = a->size,
					   .notify_mr = l->ends.mr,
					   .notify_offset = l->stride * a->buffers + place * NOTICE};
	int rc;

	notice(l, place)->address = NULL;
	rc = rvma_post_buffer(l->window, &buffer);
	l->posted += !rc;
	return rc ? rvma_command_nic(a, "buffer", rc) : 0;
}

static int begin(struct listener *l)
{
	const struct rvma_asked *a = l->ends.asked;
	const struct rvma_window_attr attr = {.key = a->key,
					      .threshold = a->threshold,
					      .type = a->ops ? RVMA_EPOCH_OPS : RVMA_EPOCH_BYTES,
					      .mode = a->managed ? RVMA_MANAGED : RVMA_STEERED,
					      .catch_all = a->catch_all,
					      .readable = a->readable,
					      .forget = !a->readable};
	int rc;

	l->stride = (a->size + 63) / 64 * 64;
	rc = sp_mr_alloc(l->ends.dev, (l->stride + NOTICE) * a->buffers, &l->ends.mr);
	if (rc)
		return rvma_command_nic(a, "memory", rc);
	rc = rvma_init_window(l->ends.rvma, a->mailbox, &attr, &l->window);
	if (rc)
		return rvma_command_nic(a, "mailbox", rc);
	while (!rc && l->posted < a->buffers)
		rc = post(l);
	return rc;
}

/* ---- messages ---- */
static int say(struct listener *l, json_t *line, const char *text)
{
	char *packed = line ? json_dumps(line, JSON_COMPACT) : NULL;
	const bool bad = fprintf(l->say, "%s\n", l->ends.asked->json && packed ? packed : text) < 0 || fflush(l->say);

	json_decref(line);
	free(packed);
	return bad ? rvma_command_fail(l->ends.asked, "what came cannot be told: standard output fails") : 0;
}

static int say_address(struct listener *l)
{
	const struct rvma_asked *a = l->ends.asked;
	struct rvma_address address;
	char ip[64], mailbox[32], text[200];

	rvma_address_get(l->ends.rvma, &address);
	rvma_command_ip(address.ip, ip);
	snprintf(mailbox, sizeof(mailbox), "0x%" PRIx64, a->mailbox);
	snprintf(text, sizeof(text), "listening: %s %u, mailbox %s", ip, address.qpn, mailbox);
	return say(l, json_pack("{s:s, s:i, s:s}", "ip", ip, "qpn", (int)address.qpn, "mailbox", mailbox), text);
}

static int say_epoch(struct listener *l, const struct rvma_notification *n)
{
	char mailbox[32], text[200];

	snprintf(mailbox, sizeof(mailbox), "0x%" PRIx64, n->mailbox);
	snprintf(text, sizeof(text), "epoch %" PRIu64 ": %" PRIu64 " bytes, puts: %" PRIu64 ", mailbox %s%s%s",
		 n->epoch, n->length, n->puts, mailbox, n->flags & RVMA_PARTIAL ? ", partial" : "",
		 n->flags & RVMA_LOST ? ", a put was lost" : "");
	return say(l,
		   json_pack("{s:I, s:I, s:I, s:s, s:b, s:b}", "epoch", (json_int_t)n->epoch, "length",
			     (json_int_t)n->length, "puts", (json_int_t)n->puts, "mailbox", mailbox, "partial",
			     (int)(n->flags & RVMA_PARTIAL), "lost", (int)(n->flags & RVMA_LOST)),
		   text);
}

/* ---- buffers ---- */
/* Takes the oldest buffer, which is complete. Lengths from the NIC that exceed the buffer are refused. */
static int take(struct listener *l)
{
	const struct rvma_asked *a = l->ends.asked;
	struct rvma_notification n;
	const char *bytes = (const char *)l->ends.mr->addr + l->taken % a->buffers * l->stride;
	int rc;

	memcpy(&n, (const void *)(uintptr_t)notice(l, l->taken), sizeof(n));
	l->taken++;
	if (n.length > a->size)
		n.length = a->size;
	if (!n.length && !n.puts && n.flags & RVMA_ENDED) /* it was empty when we stopped */
		return 0;
	rc = l->ends.fd >= 0 ? rvma_command_write(a, l->ends.fd, bytes, n.length) : 0;
	return rc ? rc : say_epoch(l, &n);
}

/* Posts the places of buffers that no get can read any more. */
static int repost(struct listener *l)
{
	const struct rvma_asked *a = l->ends.asked;
	const uint64_t kept = a->readable ? a->buffers / 2 : 0;

	while (l->posted_anew + kept < l->taken) {
		const int rc = a->readable ? rvma_win_release(l->window, l->posted_anew) : 0;

		if (rc == -EAGAIN) /* a get still reads it: try again with the next buffer */
			return 0;
		if (rc)
			return rvma_command_nic(a, "release", rc);
		l->posted_anew++;
		if (post(l))
			return -1;
	}
	return 0;
}

static int serve(struct listener *l)
{
	const struct rvma_asked *a = l->ends.asked;
	int rc = 0;

	while (!rc && !interrupt_came() && (!a->count || l->taken < a->count)) {
		rc = rvma_wait(l->ends.rvma, notice(l, l->taken), RVMA_WAIT_SLEEP, LOOK);
		if (rc && rc != -ETIMEDOUT)
			return rvma_command_nic(a, "waiting", rc);
		rc = rc ? 0 : take(l);
		rc = rc ? rc : repost(l);
	}
	if (rc || (a->count && l->taken == a->count))
		return rc;
	/* After a signal: also takes the data in the buffer that is not complete. */
	rc = rvma_close_win(l->window);
	if (rc)
		return rvma_command_nic(a, "mailbox", rc);
	for (rc = 0; !rc && l->taken < l->posted; rc = take(l)) {
		rc = rvma_wait(l->ends.rvma, notice(l, l->taken), RVMA_WAIT_SLEEP, SP_SEC);
		if (rc == -ETIMEDOUT) /* puts to it are in progress */
			return 0;
		if (rc)
			return rvma_command_nic(a, "waiting", rc);
	}
	return rc;
}

int rvma_listen(const struct rvma_asked *a)
{
	const struct rvma_attr attr = {
		.qpn = (uint32_t)a->qpn, .windows = 1, .buffers = (uint32_t)(2 * a->buffers), .peers = 1024, .ops = 1};
	struct listener l = {.say = a->file && !strcmp(a->file, "-") ? stderr : stdout};
	int rc = rvma_command_open(&l.ends, a, &attr, O_WRONLY | O_CREAT | O_TRUNC);

	rc = rc ? rc : begin(&l);
	rc = rc ? rc : say_address(&l);
	rc = rc ? rc : serve(&l);
	rvma_command_close(&l.ends);
	return rc;
}
