/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, beside the messages: the connection, clear-to-send in both directions, the application's datagrams. */
#include "state.h"

/* ---- connection ----------------------------------------------------------------------------------------------------
 */
/* Called on whichever worker the packet came by. */
void sdr_flag(struct sp_ctx *c, struct sdr *s, uint64_t flag)
{
	if (__atomic_load_n(&s->flags, __ATOMIC_RELAXED) & flag)
		return;
	__atomic_fetch_or(&s->flags, flag, __ATOMIC_RELAXED);
	sp_dma_or64(c, s->area, SDR_CONNECTION(s, flags), flag);
}

int sdr_connect(struct sp_ctx *c, const struct sp_command *command)
{
	struct sdr *s = c->state;
	const uint32_t qp = (uint32_t)command->arg[2], control = (uint32_t)(command->arg[2] >> 32);
	uint8_t ip[16];
	int rc;

	if (s->connected || s->flags & SP_SDR_CLOSED)
		return -EISCONN;
	if (!sp_roce_qp_valid(qp) || !sp_roce_qp_valid(qp + s->generations * s->channels - 1) ||
	    (!s->implicit && !sp_roce_qp_valid(control)) || command->arg[5] > UINT32_MAX)
		return -EINVAL;
	memcpy(ip, command->arg, sizeof(ip));
	rc = sp_path_open(c, ip, true, &s->path);
	if (rc)
		return rc;
	s->peer_qp = qp;
	s->peer_control = control;
	s->peer_rkey = (uint32_t)command->arg[5];
	s->peer_nonce = command->arg[3];
	s->nonce = command->arg[4];
	if (s->implicit)
		s->may_send = UINT64_MAX;
	sdr_flag(c, s, SP_SDR_CONNECTED);
	__atomic_store_n(&s->connected, 1, __ATOMIC_RELEASE); /* control packets count from here on */
	if (s->next_open)
		sdr_grant(c);
	sp_issue_start(c, &s->issue);
	return 0;
}

/* ---- clear-to-send: the receiver's side ----------------------------------------------------------------------------
 */
void sdr_grant(struct sp_ctx *c)
{
	struct sdr *s = c->state;

	if (s->implicit || !s->connected)
		return;
	/* By timer, although due now: many receives posted together make one packet. */
	s->cts_wait = s->cts_interval;
	sp_timer_arm(c, &s->timer[SDR_TIMER_CTS], c->now);
}

/* Home worker. `head` begins the packet of `len` bytes in all. 0 or what sp_send_roce says. */
static int sdr_send_control(struct sp_ctx *c, struct sdr *s, struct sp_sdr_control *head, enum sp_sdr_control_type type,
			    uint32_t len, uint8_t flags)
{
	const struct sp_send send = {
		.dest_qp = s->peer_control,
		.psn = s->control_psn,
		.opcode = SP_UC_SEND_ONLY,
		.flags = flags,
		.bytes = head,
		.len = len,
	};
	int rc;

	head->version = SP_SDR_CONTROL_VERSION;
	head->type = (uint8_t)type;
	sp_store_be32(head->magic, SP_SDR_CONTROL_MAGIC);
	sp_store_be16(head->length, (uint16_t)len);
	sp_store_be64(head->to, s->peer_nonce);
	sp_store_be64(head->from, s->nonce);
	rc = sp_send_roce(c, s->path, &send);
	if (rc == 0)
		s->control_psn = (s->control_psn + 1) & SP_ROCE_PSN_MASK;
	return rc;
}

int sdr_tell_peer(struct sp_ctx *c, struct sdr *s, enum sp_sdr_control_type type, uint64_t count)
{
	struct sp_sdr_cts cts;

	sp_store_be64(cts.count, count);
	return sdr_send_control(c, s, &cts.head, type, sizeof(cts), 0);
}

void sdr_cts_timer(struct sp_ctx *c)
{
	struct sdr *s = c->state;

	/* A packet of the last message granted has come, or the peer has said that it has ended it: it knows. */
	if (!s->connected || __atomic_load_n(&s->heard, __ATOMIC_RELAXED) >= s->next_open ||
	    __atomic_load_n(&s->peer_ended, __ATOMIC_RELAXED) >= s->next_open)
		return;
	if (sdr_tell_peer(c, s, SP_SDR_CTS, s->next_open) == 0)
		c->counters[SDR_CTS_SENT]++;
	sp_timer_arm(c, &s->timer[SDR_TIMER_CTS], c->now + s->cts_wait);
	if (s->cts_wait < 128 * s->cts_interval)
		s->cts_wait *= 2;
}

/* The peer has ended the messages below count. The last packets of those that nothing was heard of may be under way. */
static uint32_t sdr_peer_ended(struct sp_ctx *c, struct sdr *s, uint64_t count)
{
	const uint64_t heard = __atomic_load_n(&s->heard, __ATOMIC_RELAXED), lap = (uint64_t)s->slots * s->generations;
	uint64_t k = __atomic_load_n(&s->peer_ended, __ATOMIC_RELAXED);

	if (count > __atomic_load_n(&s->next_open, __ATOMIC_RELAXED)) /* more than were granted */
		return SP_DROP(SDR_BAD_CONTROL);
	if (heard > s->slots && k < heard - s->slots)
		k = heard - s->slots;
	if (count > lap && k < count - lap)
		k = count - lap;
	for (; k < count; k++)
		sdr_raise(&s->quiet[sp_sdr_slot(k, s->slots) * s->generations +
				    sp_sdr_generation(k, s->slots, s->generations)],
			  c->now | 1);
	sdr_raise(&s->peer_ended, count);
	return SP_DONE;
}

/* ---- datagrams: out ------------------------------------------------------------------------------------------------
 */
/* Copied, however long: a slot that is read for as long as a port likes would have to be waited for. */
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

/*
 * They go before data, at once and whatever its pace: mostly they are what the peer's next packets depend on. So that
 * who sends nothing else does not keep data from going, those that find data waiting are no more than packets of data.
 */
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
		/* Any other failure is one lost on the way. */
		c->counters[rc ? SDR_SEND_ERRORS : SDR_DATAGRAMS_SENT]++;
		s->datagrams_ahead -= waits;
		sdr_datagram_done(c, s);
		sent++;
	}
	if (s->datagrams_sent != before)
		sdr_tell(c, s, SDR_CONNECTION(s, datagrams_sent), s->datagrams_sent);
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
	rc = sdr_source(c, command, &mem);
	if (rc)
		return rc;
	s->datagram[(s->datagram_first + s->datagrams_waiting++) % s->datagrams] =
		(struct sdr_datagram){mem, command->arg[1], (uint32_t)command->arg[2]};
	sdr_send_datagrams(c, s, s->datagrams_waiting);
	if (s->datagrams_waiting)
		sp_issue_start(c, &s->issue);
	return 0;
}

/* ---- datagrams: in -------------------------------------------------------------------------------------------------
 */
/* Into the next slot, where the oldest is. Workers that come to the same slot, all slots apart, do not wait. */
static uint32_t sdr_take_datagram(struct sp_ctx *c, struct sdr *s, const uint8_t *bytes, uint32_t len)
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
	sdr_tell(c, s, at + offsetof(struct sp_sdr_datagram, number), number - 1);
#ifndef __SANITIZE_THREAD__			 /* which knows no fences, and runs where stores keep their order */
	__atomic_thread_fence(__ATOMIC_RELEASE); /* whoever sees one of the bytes sees that they change */
#endif
	sp_dma_write(c, s->area, at + sizeof(struct sp_sdr_datagram), bytes, len);
	sdr_tell(c, s, at + offsetof(struct sp_sdr_datagram, length), len);
	sdr_tell(c, s, at + offsetof(struct sp_sdr_datagram, number), number);
	__atomic_store_n(&s->datagram_slot[n % s->datagrams], number, __ATOMIC_RELEASE);
	sp_dma_add64(c, s->area, SDR_CONNECTION(s, datagrams), 1, &before); /* last: then it is there */
	c->counters[SDR_DATAGRAMS_RECEIVED]++;
	return SP_DONE;
}

/* ---- control packets -----------------------------------------------------------------------------------------------
 */
uint32_t sdr_control(struct sp_ctx *c, struct sp_packet *p)
{
	struct sdr *s = c->state;
	const struct sp_sdr_cts *cts = (const void *)p->data;
	const struct sp_sdr_control *head = &cts->head;

	if (p->opcode != SP_UC_SEND_ONLY)
		return SP_DROP(SDR_BAD_OPCODE);
	if (p->len < sizeof(*head))
		return SP_DROP(SDR_SHORT_HEADER);
	if (sp_load_be32(head->magic) != SP_SDR_CONTROL_MAGIC || head->version != SP_SDR_CONTROL_VERSION ||
	    sp_load_be16(head->length) > p->len || !__atomic_load_n(&s->connected, __ATOMIC_ACQUIRE))
		return SP_DROP(SDR_BAD_CONTROL);
	if (sp_load_be64(head->to) != s->nonce)
		return SP_DROP(SDR_BAD_NONCE);
	if (sp_load_be64(head->from) != s->peer_nonce) {
		/* It knows us, and is not who we know: the peer has started anew and holds our messages no longer. */
		c->counters[SDR_PEER_RESTARTS]++;
		sdr_flag(c, s, SP_SDR_PEER_RESTARTED);
		return SP_DROP(SDR_BAD_NONCE);
	}
	if (head->type == SP_SDR_DATAGRAM && sp_load_be16(head->length) >= sizeof(*head))
		return sdr_take_datagram(c, s, p->data + sizeof(*head),
					 sp_load_be16(head->length) - (uint32_t)sizeof(*head));
	if ((head->type != SP_SDR_CTS && head->type != SP_SDR_ENDED) || sp_load_be16(head->length) < sizeof(*cts))
		return SP_DROP(SDR_BAD_CONTROL);
	if (head->type == SP_SDR_ENDED)
		return sdr_peer_ended(c, s, sp_load_be64(cts->count));

	const uint64_t count = sp_load_be64(cts->count), before = __atomic_load_n(&s->may_send, __ATOMIC_RELAXED);

	if (count > before && count - before > SP_SDR_CTS_AHEAD)
		return SP_DROP(SDR_BAD_CONTROL);
	c->counters[SDR_CTS_RECEIVED]++;
	sdr_flag(c, s, SP_SDR_PEER_SEEN);
	if (count > before) {
		sdr_raise(&s->may_send, count);
		sp_issue_start(c, &s->issue); /* tells the host too */
	} else if (__atomic_load_n(&s->ended, __ATOMIC_RELAXED)) {
		/* It repeats itself: it may be waiting to hear of what is lost. sdr_issue() knows whether we wait too.
		 */
		__atomic_store_n(&s->answer, 1, __ATOMIC_RELAXED);
		sp_issue_start(c, &s->issue);
	}
	return SP_DONE;
}
