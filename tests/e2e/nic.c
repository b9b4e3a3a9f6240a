/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NICs on ethdevs, in real time, for the end-to-end tests: worker threads, the embedded device, the sdr_* calls with
 * their waits. nic [-c nic.ini]... -- EAL ARGUMENTS. One command a line on stdin, one answer a line on stdout: "ok ..."
 * or "error -ERRNO WHAT". The end of stdin stops the NICs and prints their reports, a JSON list. Exit status 1: they
 * did not start, stderr says why.
 *
 *   qp N KEY=VALUE...          a QP on NIC N (counted from 0)   -> ok INFO (hexadecimal)
 *   connect N INFO
 *   load N FILE                what N sends from
 *   room N BYTES               where N receives
 *   post N OFFSET LENGTH       a receive                        -> ok MESSAGE
 *   send N OFFSET LENGTH IMM   one-shot, does not wait          -> ok MESSAGE
 *   stream N OFFSET LENGTH IMM PIECE   in pieces, last one first
 *   sent N                     waits until all buffers are ours again
 *   finish N SECONDS           waits for the oldest receive, takes it back -> ok MESSAGE LENGTH PACKETS IMM-STATUS IMM
 *   save N FILE                what has been received
 */
#include "../../pipeline/config/config.h"
#include "../../pipeline/nic.h"
#include "../../host-api/sdr.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define NICS 2
#define OPEN 1024
#define WAIT (30 * SP_SEC)

static struct end {
	struct sp_config *config;
	struct sp_nic_config settings;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *from, *room;
	struct sdr_send *send[OPEN];
	struct sdr_recv *recv[OPEN];
	unsigned sends, recvs, finished;
} end[NICS];
static unsigned ends;

static int fail(int error, const char *what)
{
	printf("error %d %s: %s\n", error, what, strerror(-error));
	return error;
}

static int qp(struct end *e, char *words)
{
	struct sdr_context_attr context = {0};
	struct sdr_qp_attr attr = {.name = "sdr"};
	struct sp_error error;
	struct sdr_qp_info info;
	char split[16];

	for (char *save, *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *value = strchr(word, '=');
		const struct {
			const char *key;
			uint32_t *to;
		} key[] = {{"channels", &context.channels},
			   {"mtu", &attr.mtu},
			   {"chunk", &attr.chunk_bytes},
			   {"slots", &attr.max_messages},
			   {"generations", &attr.generations},
			   {"rkey", &attr.rkey},
			   {"qpn", &attr.qpn}};

		if (!value)
			return fail(-EINVAL, word);
		*value++ = 0;
		for (unsigned i = 0; i < sizeof(key) / sizeof(*key); i++)
			if (!strcmp(word, key[i].key))
				*key[i].to = (uint32_t)strtoul(value, NULL, 0);
		if (!strcmp(word, "max"))
			attr.max_message_bytes = strtoull(value, NULL, 0);
		if (!strcmp(word, "family"))
			attr.family = *value == '6' ? AF_INET6 : AF_INET;
		if (!strcmp(word, "split")) {
			snprintf(split, sizeof(split), "%s", value);
			attr.split = split;
		}
	}
	int r = sdr_context_create(e->dev, &context, &e->context);
	if (!r)
		r = sdr_qp_create(e->context, &attr, &e->qp, &error);
	if (r)
		return fail(r, error.text);
	sdr_qp_info_get(e->qp, &info);
	printf("ok ");
	for (size_t i = 0; i < sizeof(info); i++)
		printf("%02x", ((const uint8_t *)&info)[i]);
	puts("");
	return 0;
}

static int connect_to(struct end *e, const char *hex)
{
	struct sdr_qp_info peer;

	for (size_t i = 0; i < sizeof(peer); i++) {
		unsigned byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return fail(-EINVAL, "info");
		((uint8_t *)&peer)[i] = (uint8_t)byte;
	}
	int r = sdr_qp_connect(e->qp, &peer);
	return r ? fail(r, "sdr_qp_connect") : puts("ok");
}

static int load(struct end *e, const char *file)
{
	FILE *f = fopen(file, "rb");

	if (!f)
		return fail(-errno, file);
	fseek(f, 0, SEEK_END);
	long size = ftell(f);
	rewind(f);
	int r = sp_mr_alloc(e->dev, (uint64_t)size, &e->from);
	if (!r && fread(e->from->addr, 1, (size_t)size, f) != (size_t)size)
		r = -EIO;
	fclose(f);
	return r ? fail(r, file) : puts("ok");
}

static int save(struct end *e, const char *file)
{
	FILE *f = fopen(file, "wb");

	if (!f)
		return fail(-errno, file);
	size_t n = fwrite(e->room->addr, 1, e->room->len, f);
	return fclose(f) || n != e->room->len ? fail(-EIO, file) : puts("ok");
}

/* The piece that ends the message goes first: the receiver must not mind. */
static int stream(struct end *e, uint64_t offset, uint64_t length, uint32_t immediate, uint64_t piece)
{
	struct sdr_send *s;
	int r = sdr_send_stream_start(e->qp, length, immediate, &s);

	for (uint64_t at = (length - 1) / piece * piece; !r; at -= piece) {
		r = sdr_send_stream_continue(s, e->from, offset + at, length - at < piece ? length - at : piece, at);
		if (!at)
			break;
	}
	if (!r)
		r = sdr_send_stream_end(s);
	if (r)
		return fail(r, "stream");
	e->send[e->sends++] = s;
	return printf("ok %" PRIu64 "\n", sdr_send_message(s));
}

static int finish(struct end *e, uint64_t seconds)
{
	struct sdr_recv *recv = e->recv[e->finished];
	struct sdr_recv_status status;
	uint32_t immediate, mask;

	if (e->finished == e->recvs)
		return fail(-ENOENT, "finish");
	int r = sdr_recv_wait(recv, SDR_WAIT_ALL, NULL, seconds * SP_SEC);
	if (r)
		return fail(r, "sdr_recv_wait");
	int told = sdr_recv_imm_get(recv, &immediate, &mask);
	sdr_recv_status(recv, &status);
	r = sdr_recv_complete_wait(recv, WAIT);
	if (r)
		return fail(r, "sdr_recv_complete_wait");
	e->finished++;
	return printf("ok %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %u\n", status.message, status.length, status.packets,
		      told, immediate);
}

static int sent(struct end *e)
{
	int r = 0;

	for (unsigned i = 0; i < e->sends && !r; i++)
		r = sdr_send_wait(e->send[i], WAIT);
	e->sends = 0;
	return r ? fail(r, "sdr_send_wait") : puts("ok");
}

static int command(char *line)
{
	uint64_t a = 0, b = 0, c = 0, d = 0;
	char verb[16], rest[1024] = "";
	unsigned number;
	int r;

	line[strcspn(line, "\n")] = 0;
	if (sscanf(line, "%15s %u %1023[^\n]", verb, &number, rest) < 2 || number >= ends)
		return fail(-EINVAL, line);
	struct end *e = &end[number];
	sscanf(rest, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c, &d);
	if (!strcmp(verb, "qp"))
		return qp(e, rest);
	if (!strcmp(verb, "connect"))
		return connect_to(e, rest);
	if (!strcmp(verb, "load"))
		return load(e, rest);
	if (!strcmp(verb, "save"))
		return save(e, rest);
	if (!strcmp(verb, "finish"))
		return finish(e, a);
	if (!strcmp(verb, "sent"))
		return sent(e);
	if (!strcmp(verb, "room")) {
		r = sp_mr_alloc(e->dev, a, &e->room);
		return r ? fail(r, "sp_mr_alloc") : puts("ok");
	}
	if (e->sends == OPEN || e->recvs == OPEN)
		return fail(-ENOSPC, line);
	if (!strcmp(verb, "stream") && b && d)
		return stream(e, a, b, (uint32_t)c, d);
	if (!strcmp(verb, "post")) {
		r = sdr_recv_post(e->qp, e->room, a, b, &e->recv[e->recvs]);
		return r ? fail(r, "sdr_recv_post") : printf("ok %u\n", e->recvs++);
	}
	if (!strcmp(verb, "send")) {
		r = sdr_send_post(e->qp, e->from, a, b, (uint32_t)c, &e->send[e->sends]);
		return r ? fail(r, "sdr_send_post") : printf("ok %" PRIu64 "\n", sdr_send_message(e->send[e->sends++]));
	}
	return fail(-EINVAL, line);
}

static int start(struct end *e, struct sp_error *error)
{
	int r = sp_config_nic(e->config, &e->settings, error);

	if (!r)
		r = sp_nic_create(&e->settings, error, &e->nic);
	if (!r)
		r = sp_config_contexts(e->config, e->nic, error);
	if (!r)
		r = sp_nic_start(e->nic);
	return r ? r : sp_nic_dev(e->nic, false, &e->dev);
}

static void stop(struct end *e)
{
	if (e->qp)
		sdr_qp_destroy(e->qp);
	sdr_context_destroy(e->context);
	if (e->from)
		sp_mr_free(e->from);
	if (e->room)
		sp_mr_free(e->room);
	if (e->dev)
		sp_dev_close(e->dev);
	sp_nic_destroy(e->nic);
	sp_config_free(e->config);
}

static int report(void)
{
	printf("[");
	for (unsigned i = 0; i < ends; i++) {
		struct sp_report *r = sp_report_new();

		sp_nic_stop(end[i].nic);
		sp_nic_report(end[i].nic, r);
		char *text = sp_report_finish(r);
		if (!text)
			return 1;
		printf("%s%s", i ? "," : "", text);
		free(text);
	}
	puts("]");
	return 0;
}

int main(int argc, char **argv)
{
	struct sp_error error = {.text = ""};
	char line[2048];
	int at = 1, r = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (; at + 1 < argc && !strcmp(argv[at], "-c") && ends < NICS && !r; at += 2)
		r = sp_config_read(argv[at + 1], &end[ends++].config, &error);
	if (!r)
		r = at < argc && !strcmp(argv[at], "--") ? sp_eal_init(argc - at - 1, argv + at + 1, &error) : -EINVAL;
	for (unsigned i = 0; i < ends && !r; i++)
		r = start(&end[i], &error);
	if (r) {
		fprintf(stderr, "nic: %s: %s (%s)\n", error.key, error.text, strerror(-r));
	} else {
		puts("ok");
		while (fgets(line, sizeof(line), stdin))
			command(line);
		r = report();
	}
	for (unsigned i = 0; i < ends; i++)
		stop(&end[i]);
	return r ? 1 : 0;
}
