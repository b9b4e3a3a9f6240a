/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, datagrams of the application: sent and received. */
#include "datagram.h"
#include "../mem_range.h"
#include "connection.h"
#include "queue.h"

/* ---- sending ---- */
/* Always copies the datagram. A port that read it in place could hold the slot for as long as it likes. */
static int sdr_send_datagram(struct sp_ctx *c, struct sdr *s, const struct sdr_datagram *d)
{
	struct {
		struct sp_sdr_control head;
		uint8_t bytes[SP_SDR_DATAGRAM_MAX];
	} packet;

	if (d->len && sp_dma_read(c, d->mem, d->offset, packet.bytes, d->len))
		return -EFAULT;
	return sdr_send_control(c, s, &packet.head, SP_SDR_DATAGRAM, (uint32_t)sizeof(packet.head) + d->len,
				SP_SEND_UNPACED);
}

static void sdr_datagram_done(struct sp_ctx *c, struct sdr *s)
{
	struct sdr_datagram *d = &s->datagram[s->datagram_first];

	if (d->mem)
		sp_mem_put(c, d->mem);
	s->datagram_first = s->datagram_first + 1 < s->datagrams ? s->datagram_first + 1 : 0;
	s->datagrams_waiting--;
	s->datagrams_sent++;
}

/* Datagrams go before data, without pacing: the peer's next packets mostly depend on them. So that a stream of
 * datagrams does not stop data, waiting data lets no more datagrams pass than it has packets. */
unsigned sdr_send_datagrams(struct sp_ctx *c, struct sdr *s, unsigned budget)
{
	const uint64_t before = s->datagrams_sent;
	unsigned sent = 0;

	while (s->datagrams_waiting && sent < budget) {
		const bool waits = sdr_data_waits(s);
		int rc;

		if (waits && !s->datagrams_ahead)
			break;
		rc = sdr_send_datagram(c, s, &s->datagram[s->datagram_first]);
		if (rc == -EAGAIN)
			break;
		/* Any other failure counts as a datagram lost in the network. */
		c->counters[rc ? SDR_SEND_ERRORS : SDR_DATAGRAMS_SENT]++;
		s->datagrams_ahead -= waits;
		sdr_datagram_done(c, s);
		sent++;
	}
	if (s->datagrams_sent != before)
		sdr_publish_progress(c, s, SDR_CONNECTION(s, datagrams_sent), s->datagrams_sent);
	return sent;
}

void sdr_drop_datagrams(struct sp_ctx *c, struct sdr *s)
{
	while (s->datagrams_waiting)
		sdr_datagram_done(c, s);
}

int sdr_datagram(struct sp_ctx *c, const struct sp_command *command)
{
	struct sdr *s = c->state;
	const struct sp_mem *mem;
	int rc;

	if (!s->datagrams)
		return -EOPNOTSUPP;
	if (!s->connected)
		return -ENOTCONN;
	if (command->arg[2] > s->datagram_bytes)
		return -EMSGSIZE;
	if (s->datagrams_waiting == s->datagrams)
		return -EAGAIN;
	rc = mem_range_source(c, command, &mem);
	if (rc)
		return rc;
	s->datagram[(s->datagram_first + s->datagrams_waiting++) % s->datagrams] =
		(struct sdr_datagram){mem, command->arg[1], (uint32_t)command->arg[2]};
	sdr_send_datagrams(c, s, s->datagrams_waiting);
	if (s->datagrams_waiting)
		sp_issue_start(c, &s->issue);
	return 0;
}

/* ---- receiving ---- */
/* Writes into the next slot, which has the oldest datagram. Two workers meet in a slot only when `datagrams` others
 * arrived between theirs; then one of them drops its datagram instead of waiting. */
uint32_t sdr_take_datagram(struct sp_ctx *c, struct sdr *s, const uint8_t *bytes, uint32_t len)
{
	uint64_t n, number, before, at;

	if (len > s->datagram_bytes || !s->datagrams)
		return SP_DROP(SDR_BAD_CONTROL);
	n = __atomic_fetch_add(&s->datagrams_in, 1, __ATOMIC_RELAXED);
	number = 2 * n + 2;
	at = s->layout.datagrams + n % s->datagrams * s->layout.datagram_stride;
	before = __atomic_load_n(&s->datagram_slot[n % s->datagrams], __ATOMIC_RELAXED);
	do
		if (before & 1 || before > number)
			return SP_DROP(SDR_DATAGRAM_BUSY);
	while (!__atomic_compare_exchange_n(&s->datagram_slot[n % s->datagrams], &before, number - 1, true,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	sdr_publish(c, s, at + offsetof(struct sp_sdr_datagram, number), number - 1);
#ifndef __SANITIZE_THREAD__			 /* it knows no fences; it runs on x86, where stores keep their order */
	__atomic_thread_fence(__ATOMIC_RELEASE); /* a reader that sees one of the bytes also sees the odd number */
#endif
	sp_dma_write(c, s->area, at + sizeof(struct sp_sdr_datagram), bytes, len);
	sdr_publish(c, s, at + offsetof(struct sp_sdr_datagram, length), len);
	sdr_publish(c, s, at + offsetof(struct sp_sdr_datagram, number), number);
	__atomic_store_n(&s->datagram_slot[n % s->datagrams], number, __ATOMIC_RELEASE);
	sp_dma_add64(c, s->area, SDR_CONNECTION(s, datagrams), 1, &before); /* last, when the datagram is there */
	c->counters[SDR_DATAGRAMS_RECEIVED]++;
	return SP_DONE;
}
