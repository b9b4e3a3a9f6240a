/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications that do everything right while others do not: for hostile.py and kills.py. They are verbs of hostile.c's
 * program; lines on stdout, "error -ERRNO WHAT" and exit status 1 where something failed.
 *
 *   traffic  one QP, messages both ways without end. Prints "qp INFO", reads the peer's, then sends (what seed= says)
 * and receives (peer=), comparing every byte; of a message that does not come whole (packets may be lost) each word
 * must be right or untouched. On stdin: "?" is answered "at SENT RECEIVED LOST RESTARTED REGION CONTEXT", "more" by
 * "more ERRNO" after getting and giving back another region and QP, the end of it by "ok SENT RECEIVED LOST". await
 * waits for what does not come, in the way how= names: "ready", then what it is told ("error ..."), then "closed". A
 * line on stdin: it attaches again, sends to itself through the NIC, says "ok 16", and waits for another line.
 */
#include "../../host-api/sdr.h"
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS	64
#define GUARD	64 /* bytes behind each buffer that nobody may write to */
#define GIVE_UP (3 * SP_SEC)

struct end {
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
};

/* One direction. Message k is in buffer k % slots. */
struct flow {
	struct sp_mr *mr;
	uint64_t begun, ended, lost, seed;
	union {
		struct sdr_send *send[SLOTS];
		struct sdr_recv *recv[SLOTS];
	};
	sp_time since; /* the oldest receive is the oldest */
	bool whole, releasing;
};

static int fail(int error, const char *what)
{
	printf("error %d %s: %s\n", error, what, strerror(-error));
	return error;
}

static uint64_t stride(void)
{
	return o.size + GUARD;
}

static uint8_t *buffer(const struct flow *f, uint64_t message)
{
	return (uint8_t *)f->mr->addr + message % o.slots * stride();
}

static uint64_t content(uint64_t seed, uint64_t message, uint64_t word)
{
	uint64_t x = seed * 0x9E3779B97F4A7C15ull + message * 0xD6E8FEB86659FD93ull + word * 0xBF58476D1CE4E5B9ull;

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
	x = (x ^ x >> 27) * 0x94D049BB133111EBull;
	return (x ^ x >> 31) | 1; /* not 0: that is what was there before */
}

static int compare(const struct flow *f, uint64_t message, bool whole)
{
	const uint8_t *bytes = buffer(f, message);
	uint64_t word;

	for (uint64_t at = 0; at < o.size; at += 8) {
		memcpy(&word, bytes + at, 8);
		if (word != content(f->seed, message, at / 8) && (whole || word)) {
			printf("error %d message %" PRIu64 " (%s) differs in the 8 bytes from %" PRIu64 ": %016" PRIx64
			       "\n",
			       -EBADMSG, message, whole ? "whole" : "given up", at, word);
			return -EBADMSG;
		}
	}
	for (uint64_t at = 0; at < GUARD; at++)
		if (bytes[o.size + at] != 0xA5) {
			printf("error %d behind message %" PRIu64 " somebody has written\n", -EBADMSG, message);
			return -EBADMSG;
		}
	return 0;
}

/* ---- the two directions; each step returns how much it did, or -errno (said already) ---- */
static int send_step(struct end *e, struct flow *f)
{
	int did = 0, r;

	while (f->begun - f->ended < o.slots && f->begun < o.messages) {
		for (uint64_t at = 0; at < o.size; at += 8) {
			const uint64_t word = content(f->seed, f->begun, at / 8);

			memcpy(buffer(f, f->begun) + at, &word, 8);
		}
		r = sdr_send_post(e->qp, f->mr, f->begun % o.slots * stride(), o.size, 0, &f->send[f->begun % o.slots]);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(r, "sdr_send_post");
		f->begun++;
		did++;
	}
	while (f->ended < f->begun) {
		r = sdr_send_poll(f->send[f->ended % o.slots]);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(r, "sdr_send_poll");
		f->ended++;
		did++;
	}
	return did;
}

static int recv_step(struct end *e, struct flow *f)
{
	int did = 0, r;

	while (f->begun - f->ended < o.slots) {
		uint8_t *at = buffer(f, f->begun);

		memset(at, 0, o.size);
		memset(at + o.size, 0xA5, GUARD);
		r = sdr_recv_post(e->qp, f->mr, f->begun % o.slots * stride(), o.size, &f->recv[f->begun % o.slots]);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(r, "sdr_recv_post");
		if (f->begun++ == f->ended)
			f->since = sp_clock();
		did++;
	}
	while (f->ended < f->begun) {
		struct sdr_recv *recv = f->recv[f->ended % o.slots];

		if (!f->releasing) {
			r = sdr_recv_test(recv);
			if (r && r != -EAGAIN)
				return fail(r, "sdr_recv_test");
			if (r && sp_clock() - f->since < GIVE_UP)
				break;
			f->releasing = true;
			f->whole = !r;
		}
		r = sdr_recv_complete(recv);
		if (r == -EAGAIN)
			break;
		if (r)
			return fail(r, "sdr_recv_complete");
		f->releasing = false;
		f->since = sp_clock();
		r = compare(f, f->ended, f->whole);
		if (r)
			return r;
		f->lost += !f->whole;
		f->ended++;
		did++;
	}
	return did;
}

/* ---- ends ---- */
static void end_close(struct end *e, struct flow *a, struct flow *b)
{
	if (!e->dev)
		return;
	if (e->qp)
		sdr_qp_destroy(e->qp);
	if (e->context)
		sdr_context_destroy(e->context);
	if (a->mr)
		sp_mr_free(a->mr);
	if (b && b->mr)
		sp_mr_free(b->mr);
	sp_dev_close(e->dev);
	memset(e, 0, sizeof(*e));
}

static int end_qp(struct end *e, uint32_t qpn)
{
	const struct sdr_qp_attr attr = {.max_message_bytes = o.size,
					 .chunk_bytes = 8192,
					 .max_messages = (uint32_t)o.slots,
					 .generations = 4,
					 .qpn = qpn};
	struct sp_error error = {.text = ""};
	int r = sdr_qp_create(e->context, &attr, &e->qp, &error);

	return r ? fail(r, *error.text ? error.text : "sdr_qp_create") : 0;
}

static int end_open(struct end *e, struct flow *a, struct flow *b)
{
	int r = sp_attach(o.nic, &e->dev);

	if (r)
		return fail(r, "sp_attach");
	r = sdr_context_create(e->dev, NULL, &e->context);
	if (!r)
		r = sp_mr_alloc(e->dev, o.slots * stride(), &a->mr);
	if (!r && b)
		r = sp_mr_alloc(e->dev, o.slots * stride(), &b->mr);
	return r ? fail(r, "memory") : end_qp(e, (uint32_t)o.qpn);
}

/* ---- traffic ---- */
int qp_introduce(struct sdr_qp *qp)
{
	struct sdr_qp_info info;
	char line[2 * sizeof(info) + 2];
	int r = sdr_qp_info_get(qp, &info);

	if (r)
		return fail(r, "sdr_qp_info_get");
	printf("qp ");
	for (size_t i = 0; i < sizeof(info); i++)
		printf("%02x", ((const uint8_t *)&info)[i]);
	puts("");
	if (!fgets(line, sizeof(line), stdin))
		return fail(-ENODATA, "no peer on stdin");
	for (size_t i = 0; i < sizeof(info); i++) {
		unsigned byte;

		if (sscanf(line + 2 * i, "%2x", &byte) != 1)
			return fail(-EINVAL, "the peer's info");
		((uint8_t *)&info)[i] = (uint8_t)byte;
	}
	r = sdr_qp_connect(qp, &info);
	return r ? fail(r, "sdr_qp_connect") : 0;
}

/* Another region, another QP, and back. */
static int more(struct end *e)
{
	struct end other = {e->dev, e->context, NULL};
	struct sp_mr *mr;
	int r = sp_mr_alloc(e->dev, 4 << 20, &mr);

	if (r)
		return fail(r, "more memory");
	memset(mr->addr, 1, mr->len);
	r = end_qp(&other, 0);
	if (!r) {
		r = sdr_qp_destroy(other.qp);
		printf("more %d\n", r);
	}
	sp_mr_free(mr);
	return r;
}

/* 1: the end of stdin. */
static int answer(struct end *e, const struct flow *out, const struct flow *in)
{
	struct sdr_qp_status status;
	char line[64];

	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (!strcmp(line, "more\n"))
		return more(e);
	sdr_qp_status(e->qp, &status);
	printf("at %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %u %u\n", out->ended, in->ended - in->lost, in->lost,
	       status.peer_restarted, in->mr->id, status.id);
	return 0;
}

static int flow(struct end *e, struct flow *out, struct flow *in)
{
	bool armed = false;

	for (;;) {
		struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
					 {.fd = sp_dev_fd(e->dev), .events = POLLIN}};
		const int sent = send_step(e, out), received = sent < 0 ? 0 : recv_step(e, in);
		bool idle = !sent && !received;
		int r = 0;

		if (sent < 0 || received < 0)
			return sent < 0 ? sent : received;
		if (idle && o.sleep && !armed) {
			r = sp_dev_arm(e->dev);
			armed = true;
			idle = false; /* one more look */
		} else if (idle && !o.sleep) {
			r = sp_progress(e->dev, sp_clock());
			usleep(100);
		}
		if (r)
			return fail(r, "idle");
		/* Awake now and then: to give up what is lost. */
		if (poll(wait, idle && o.sleep ? 2 : 1, idle && o.sleep ? 500 : 0) > 0 && wait[0].revents) {
			r = answer(e, out, in);
			if (r)
				return r;
		}
		if (idle)
			armed = false;
	}
}

int traffic(void)
{
	struct end e = {0};
	struct flow out = {.seed = o.seed}, in = {.seed = o.peer};
	int r = end_open(&e, &out, &in);

	if (!r)
		r = qp_introduce(e.qp);
	if (!r)
		r = flow(&e, &out, &in);
	end_close(&e, &out, &in);
	if (r > 0)
		printf("ok %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", out.ended, in.ended - in.lost, in.lost);
	return r < 0;
}

/* ---- await ---- */
static int create_for_ever(struct end *e)
{
	for (bool first = true;; first = false) {
		struct end other = {e->dev, e->context, NULL};
		struct sp_mr *mr;
		int r = sp_mr_alloc(e->dev, 1 << 20, &mr);

		if (r)
			return fail(r, "sp_mr_alloc");
		r = end_qp(&other, 0);
		if (r)
			return r;
		r = sdr_qp_destroy(other.qp);
		if (r)
			return fail(r, "sdr_qp_destroy");
		r = sp_mr_free(mr);
		if (r)
			return fail(r, "sp_mr_free");
		if (first)
			puts("ready");
	}
}

/* So that it does not end with the NIC: opens the other end too, which we may as the NIC's own user. */
static void keep_pipe(void)
{
	char path[32], to[64];

	for (int fd = 3; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		const ssize_t n = readlink(path, to, sizeof(to));

		if (n > 5 && !memcmp(to, "pipe:", 5))
			open(path, O_WRONLY | O_CLOEXEC);
	}
}

static int await_end(struct end *e, struct sdr_recv *recv)
{
	int r;

	if (!strcmp(o.how, "create"))
		return create_for_ever(e);
	puts("ready");
	if (!strcmp(o.how, "wait"))
		return fail(sdr_recv_wait(recv, SDR_WAIT_ALL, NULL, SP_NEVER), "sdr_recv_wait");
	if (!strcmp(o.how, "test")) {
		while ((r = sdr_recv_test(recv)) == -EAGAIN)
			usleep(50);
		return fail(r, "sdr_recv_test");
	}
	for (;;) { /* fd: whoever has an event loop of his own */
		struct pollfd wait = {.fd = sp_dev_fd(e->dev), .events = POLLIN};

		r = sp_dev_arm(e->dev);
		if (!r)
			r = sdr_recv_test(recv);
		if (r != -EAGAIN)
			return fail(r, "sp_dev_arm");
		poll(&wait, 1, -1);
	}
}

/* 16 messages to ourselves. */
static int again(void)
{
	struct end e = {0};
	struct flow out = {.seed = o.seed}, in = {.seed = o.seed};
	struct sdr_qp_info info;
	int r = end_open(&e, &out, &in);

	o.messages = 16;
	if (!r) {
		sdr_qp_info_get(e.qp, &info);
		r = sdr_qp_connect(e.qp, &info);
		r = r ? fail(r, "sdr_qp_connect") : 0;
	}
	while (!r && in.ended < o.messages) {
		r = send_step(&e, &out);
		r = r < 0 ? r : recv_step(&e, &in);
		if (!r)
			usleep(100);
		r = r < 0 ? r : 0;
	}
	end_close(&e, &out, &in);
	if (!r)
		printf("ok %" PRIu64 "\n", in.ended - in.lost);
	return r < 0;
}

int await(void)
{
	struct end e = {0};
	struct flow in = {.mr = NULL};
	struct sdr_recv *recv;
	char line[64];
	int r = end_open(&e, &in, NULL);

	if (o.stage)
		keep_pipe();
	if (!r) {
		r = sdr_recv_post(e.qp, in.mr, 0, o.size, &recv);
		r = r ? fail(r, "sdr_recv_post") : await_end(&e, recv);
	}
	end_close(&e, &in, NULL);
	puts("closed");
	while (fgets(line, sizeof(line), stdin))
		if (again())
			return 1;
	return 0;
}
