/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets over RVMA: opening, closing and progress. */
#include "rvma_socket_private.h"

#include <stdlib.h>
#include <string.h>

#define RVMA_PORT_FIRST 49152u /* the first that the library chooses */
#define RVMA_HOUR	(3600 * SP_SEC)

/* ---- opening ---- */
static int rvma_socket_check(struct rvma_socket_attr *a, uint32_t most, struct sp_error *error)
{
	const struct {
		const char *name;
		uint32_t *value, initial, least, most;
	} number[] = {{"record", &a->record, most, 64, most},	 {"backlog", &a->backlog, 0, 0, 65536},
		      {"buffers", &a->buffers, 16, 2, 4096},	 {"buffer_bytes", &a->buffer_bytes, 65536, 0, 1u << 24},
		      {"sending", &a->sending, 256, 16, 65536},	 {"streams", &a->streams, 256, 1, 65536},
		      {"waiting", &a->waiting, 0, 16, 1u << 20}, {"window", &a->window, 64, 2, 32768}};
	const struct {
		const char *name;
		sp_time *value, initial;
	} time[] = {{"timeout", &a->timeout, 30 * SP_SEC}, {"probe", &a->probe, SP_SEC}};

	if (!a->waiting)
		a->waiting = 1024 + 4 * (a->streams ? a->streams : 256);
	for (unsigned i = 0; i < sizeof(number) / sizeof(*number); i++) {
		if (!*number[i].value)
			*number[i].value = number[i].initial;
		if (*number[i].value < number[i].least || *number[i].value > number[i].most)
			return sp_refuse(error, number[i].name, "%u is not within %u and %u", *number[i].value,
					 number[i].least, number[i].most);
	}
	for (unsigned i = 0; i < sizeof(time) / sizeof(*time); i++) {
		if (!*time[i].value)
			*time[i].value = time[i].initial;
		if (*time[i].value < SP_US || *time[i].value > RVMA_HOUR)
			return sp_refuse(error, time[i].name, "not within a microsecond and an hour");
	}
	if (a->buffer_bytes % 64 || a->buffer_bytes < 4 * RVMA_RECORD_BYTES(a->record))
		return sp_refuse(error, "buffer_bytes", "%u is no multiple of 64, or less than four records of %u",
				 a->buffer_bytes, RVMA_RECORD_BYTES(a->record));
	if (a->waiting - a->waiting / 4 < 2 * a->streams)
		return sp_refuse(error, "waiting", "three quarters of %u are not two for each of %u streams",
				 a->waiting, a->streams);
	return 0;
}

static void rvma_socket_free(struct rvma_socket *s)
{
	free(s->cell_bytes);
	free(s->cell);
	free(s->slot);
	free(s->stream);
	free(s);
}

static int rvma_socket_memory(struct rvma_socket *s)
{
	const struct rvma_socket_attr *a = &s->attr;
	int rc;

	s->stride = (RVMA_RECORD_BYTES(a->record) + 63) / 64 * 64;
	s->notices = (uint64_t)a->buffers * a->buffer_bytes;
	s->slots_at = s->notices + a->buffers * sizeof(struct rvma_notification);
	s->cell_bytes = malloc((size_t)a->waiting * a->record);
	s->cell = calloc(a->waiting, sizeof(*s->cell));
	s->slot = calloc(a->sending, sizeof(*s->slot));
	s->stream = calloc(a->streams, sizeof(*s->stream));
	if (!s->cell_bytes || !s->cell || !s->slot || !s->stream)
		return -ENOMEM;
	rc = sp_mr_alloc(s->rvma->dev, s->slots_at + (uint64_t)a->sending * s->stride, &s->mr);
	if (rc)
		return rc;
	s->datagrams_most = a->datagrams ? a->waiting / 4 : 0;
	s->credit = a->waiting - s->datagrams_most - 2 * a->streams;
	for (uint32_t i = a->waiting; i-- > 0;) {
		s->cell[i].bytes = s->cell_bytes + (size_t)i * a->record;
		rvma_cell_free(s, &s->cell[i]);
	}
	for (uint32_t i = a->sending; i-- > 0; s->slots_free++) {
		s->slot[i].offset = s->slots_at + (uint64_t)i * s->stride;
		STAILQ_INSERT_HEAD(&s->slots, &s->slot[i], link);
	}
	s->status.memory = sizeof(*s) + s->mr->len + (uint64_t)a->waiting * (a->record + sizeof(*s->cell)) +
			   a->sending * sizeof(*s->slot) + a->streams * sizeof(*s->stream);
	s->status.buffers = a->buffers;
	s->status.record = a->record;
	return 0;
}

/* The window refuses puts larger than a record. A buffer that has reached its threshold leaves the bucket at once, so
 * the head buffer always has room for one more record. */
static int rvma_socket_mailbox(struct rvma_socket *s)
{
	const uint32_t largest = RVMA_RECORD_BYTES(s->attr.record);
	const struct rvma_window_attr attr = {.key = s->attr.key,
					      .threshold = s->attr.buffer_bytes - largest + 1,
					      .mode = RVMA_MANAGED,
					      .forget = true,
					      .max_put = largest};
	uint32_t port = s->attr.port ? s->attr.port : RVMA_PORT_FIRST;
	int rc = rvma_init_window(s->rvma, RVMA_SOCKET_MAILBOX + port, &attr, &s->window);

	while (rc == -EEXIST && !s->attr.port && port < UINT16_MAX)
		rc = rvma_init_window(s->rvma, RVMA_SOCKET_MAILBOX + ++port, &attr, &s->window);
	s->name.port = (uint16_t)port;
	return rc == -EEXIST ? -EADDRINUSE : rc;
}

int rvma_socket_open(struct rvma *rvma, const struct rvma_socket_attr *attr, struct rvma_socket **socket,
		     struct sp_error *error)
{
	struct sp_error ignored;
	struct rvma_socket *s;
	int rc;

	error = error ? error : &ignored;
	memset(error, 0, sizeof(*error));
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	STAILQ_INIT(&s->cells);
	STAILQ_INIT(&s->datagram);
	STAILQ_INIT(&s->slots);
	STAILQ_INIT(&s->in_flight);
	STAILQ_INIT(&s->waiting);
	STAILQ_INIT(&s->streams);
	STAILQ_INIT(&s->backlog);
	STAILQ_INIT(&s->ready);
	STAILQ_INIT(&s->due);
	s->sent = rvma_stream_sent;
	s->rvma = rvma;
	if (attr)
		s->attr = *attr;
	s->random = s->attr.seed ? s->attr.seed : rvma_entropy();
	rc = -EINVAL;
	if (rvma->mtu < 2 * RVMA_HEAD)
		sp_refuse(error, "mtu", "the context's packets of %u bytes hold no record", rvma->mtu);
	else
		rc = rvma_socket_check(&s->attr, (rvma->mtu - RVMA_HEAD) & ~(SP_RVMA_RECORD_ALIGN - 1), error);
	rc = rc ? rc : rvma_address_get(rvma, &s->name.address);
	rc = rc ? rc : rvma_socket_memory(s);
	if (rc)
		goto fail;
	rc = rvma_socket_mailbox(s);
	if (rc)
		goto free_mr;
	rc = rvma_bucket_post(s);
	if (rc)
		goto free_window;
	*socket = s;
	return 0;
free_window:
	rvma_free_win(s->window);
free_mr:
	sp_mr_free(s->mr);
fail:
	rvma_socket_free(s);
	return rc;
}

/* ---- closing ---- */
/* Memory is freed once the NIC uses none of it. */
int rvma_socket_close(struct rvma_socket *s)
{
	int rc = 0;

	if (!s)
		return 0;
	if (!s->closing)
		rvma_streams_end(s);
	s->closing = true;
	rvma_send_progress(s);
	rvma_send_drop(s);
	if (!STAILQ_EMPTY(&s->in_flight))
		return -EAGAIN;
	for (unsigned i = 0; i < RVMA_ROUTES; i++) {
		rvma_peer_close(s->route[i].peer);
		s->route[i].peer = NULL;
	}
	if (s->window)
		rc = rvma_free_win(s->window);
	if (rc == -EAGAIN)
		return rc;
	s->window = NULL;
	if (sp_mr_free(s->mr) == -EBUSY)
		return -EAGAIN;
	rvma_socket_free(s);
	return 0;
}

int rvma_socket_name(struct rvma_socket *s, struct rvma_socket_address *name)
{
	*name = s->name;
	return rvma_check(s->rvma);
}

void rvma_socket_status(const struct rvma_socket *s, struct rvma_socket_status *status)
{
	*status = s->status;
	status->waiting = s->attr.waiting - s->cells_free;
	status->sending = s->attr.sending - s->slots_free;
}

/* ---- progress ---- */
int rvma_socket_progress(struct rvma_socket *s, sp_time now)
{
	int rc = s->error ? s->error : rvma_check(s->rvma);

	s->now = now > s->now ? now : s->now;
	if (!rc && !s->closing) {
		rvma_send_progress(s);
		rc = rvma_bucket_post(s);
		if (rc == -ENOBUFS || rc == -EAGAIN) /* the context has no free buffer now */
			rc = 0;
		rc = rc ? rc : rvma_bucket_take(s);
		rvma_streams_progress(s);
	}
	if (sp_is_gone(rc) || rc == -ECONNRESET)
		s->error = rc;
	return rc;
}

sp_time rvma_socket_deadline(const struct rvma_socket *s)
{
	const sp_time next = rvma_send_deadline(s);

	if (s->error)
		return SP_NEVER;
	if (s->closing) /* only what is in flight counts, and its end wakes */
		return next;
	if (s->blocked && s->datagrams < s->datagrams_most)
		return s->now;
	return (s->status.streams || s->blocked) && s->tick < next ? s->tick : next;
}
