/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets over RVMA: the bucket, and what is in it.
 *
 * The application gets the buffers that have reached their threshold, which leaves room for one more record in each. If
 * there is none but puts have arrived, it asks for the one that is not full (RVMA_Win_inc_epoch, as the paper does for
 * streams). So under load one buffer carries hundreds of records, and a single record does not wait. A buffer per
 * record (a threshold of 1) would need a posting for each.
 */
#include "rvma_socket_private.h"

#include <string.h>

/* ---- records ---- */
/* Reads the record at the beginning of these bytes. False: there is none. Its content is untrusted. */
static bool rvma_record_read(const struct rvma_socket *s, const uint8_t *at, uint32_t left, struct rvma_record *r)
{
	static const uint8_t zero[6];
	struct sp_rvma_record h;

	if (left < sizeof(h))
		return false;
	memcpy(&h, at, sizeof(h));
	*r = (struct rvma_record){.type = h.type,
				  .length = sp_load_be16(h.length),
				  .record = sp_load_be16(h.record),
				  .sequence = sp_load_be32(h.sequence),
				  .limit = sp_load_be32(h.limit),
				  .stream = sp_load_be64(h.stream),
				  .source = sp_load_be64(h.source),
				  .from = {.address = {.qpn = sp_load_be32(h.qpn)}, .port = sp_load_be16(h.port)},
				  .bytes = at + sizeof(h)};
	memcpy(r->from.address.ip, h.ip, sizeof(h.ip));
	if (h.version != SP_RVMA_RECORD_VERSION || memcmp(h.zero, zero, sizeof(h.zero)) ||
	    memcmp(h.zero2, zero, sizeof(h.zero2)) || memcmp(h.zero3, zero, sizeof(h.zero3)))
		return false;
	if (r->length > s->attr.record || r->length > left - sizeof(h) || !sp_roce_qp_valid(r->from.address.qpn))
		return false;
	return r->type >= SP_RVMA_RECORD_DATAGRAM && r->type <= SP_RVMA_RECORD_RESET &&
	       (!r->length || r->type == SP_RVMA_RECORD_DATAGRAM || r->type == SP_RVMA_RECORD_DATA);
}

static bool rvma_datagram_received(struct rvma_socket *s, const struct rvma_record *r)
{
	struct rvma_cell *c;

	if (!s->attr.datagrams) {
		s->status.strays++;
		return true;
	}
	c = s->datagrams < s->datagrams_most ? rvma_cell_take(s, r) : NULL;
	if (!c)
		return false;
	STAILQ_INSERT_TAIL(&s->datagram, c, link);
	s->datagrams++;
	return true;
}

/* Handles the records of a buffer, from s->at on. False: a datagram finds no cell. Bytes that are no record are
 * skipped: an application that does not follow the protocol has put them there. */
static bool rvma_bucket_read(struct rvma_socket *s, const uint8_t *bytes, uint32_t length)
{
	bool lost = false;

	while (s->at < length) {
		struct rvma_record r;

		if (!rvma_record_read(s, bytes + s->at, length - s->at, &r)) {
			s->status.strays += !lost;
			lost = true;
			s->at += SP_RVMA_RECORD_ALIGN;
			continue;
		}
		if (r.type != SP_RVMA_RECORD_DATAGRAM)
			rvma_stream_received(s, &r);
		else if (!rvma_datagram_received(s, &r))
			return false;
		lost = false;
		s->status.received++;
		s->at += RVMA_RECORD_BYTES(r.length);
	}
	return true;
}

/* ---- buffers ---- */
static struct rvma_notification *rvma_bucket_notice(const struct rvma_socket *s, uint64_t k)
{
	return (struct rvma_notification *)(void *)((uint8_t *)s->mr->addr + s->notices +
						    k % s->attr.buffers * sizeof(struct rvma_notification));
}

int rvma_bucket_post(struct rvma_socket *s)
{
	while (s->posted < s->taken + s->attr.buffers) {
		const uint64_t place = s->posted % s->attr.buffers;
		const struct rvma_buffer b = {.mr = s->mr,
					      .offset = place * s->attr.buffer_bytes,
					      .size = s->attr.buffer_bytes,
					      .notify_mr = s->mr,
					      .notify_offset = s->notices + place * sizeof(struct rvma_notification)};
		const int rc = rvma_post_buffer(s->window, &b);

		if (rc)
			return rc;
		s->posted++;
		s->status.posted++;
	}
	return 0;
}

/* 1: the oldest buffer was complete and is read; 0: it is not complete, or not read to its end. */
static int rvma_bucket_next(struct rvma_socket *s)
{
	struct rvma_notification *n = rvma_bucket_notice(s, s->taken);
	uint8_t *bytes = (uint8_t *)s->mr->addr + s->taken % s->attr.buffers * s->attr.buffer_bytes;
	uint32_t length;

	if (s->taken == s->posted || !__atomic_load_n(&n->address, __ATOMIC_ACQUIRE))
		return 0;
	length = n->length < s->attr.buffer_bytes ? (uint32_t)n->length : s->attr.buffer_bytes;
	if (!rvma_bucket_read(s, bytes, length)) {
		s->blocked = true;
		return 0;
	}
	/* A later put may leave a hole there: its bytes must not be read as a record again. */
	memset(bytes, 0, length);
	s->puts += n->puts;
	memset(n, 0, sizeof(*n));
	s->at = 0;
	s->taken++;
	return 1;
}

int rvma_bucket_take(struct rvma_socket *s)
{
	struct rvma_window_status status;
	bool asked = false;
	int rc;

	s->blocked = false;
	for (;;) {
		while (rvma_bucket_next(s)) {
			rc = rvma_bucket_post(s);
			if (rc)
				return rc == -ENOBUFS || rc == -EAGAIN ? 0 : rc;
		}
		rc = rvma_win_status(s->window, &status);
		/* Asked for once: it takes a while if a put into it is open. */
		if (rc || s->blocked || asked || status.puts == s->puts || s->asked == s->taken + 1)
			return rc;
		asked = true;
		s->asked = s->taken + 1;
		s->status.asked++;
		rc = rvma_win_inc_epoch(s->window);
		if (rc && rc != -ENODATA)
			return rc;
	}
}
