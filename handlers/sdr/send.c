/* SPDX-License-Identifier: BSD-3-Clause */
/* sdr, messages become packets: segment by segment, oldest message first. */
#include "send.h"
#include "../mem_range.h"
#include "connection.h"
#include "datagram.h"
#include "queue.h"

#define SDR_BATCH     32u /* packets that are made together, at most: those of a budget */
#define SDR_MIN(a, b) ((a) < (b) ? (a) : (b))

static void sdr_release(struct sp_ctx *c, struct sdr *s, struct sdr_send *t)
{
	const uint64_t message = t->message;

	t->message = 0;
	while (s->ended < s->next_send && s->sends[s->ended % s->slots].message != s->ended + 1)
		__atomic_store_n(&s->ended, s->ended + 1, __ATOMIC_RELAXED);
	sdr_publish_progress(c, s, SDR_LINE(s, send, (uint64_t)(t - s->sends), released), message);
	c->counters[SDR_MESSAGES_SENT] += s->connected;
	if (s->first != SDR_NONE && s->sends[s->first].behind)
		sp_issue_start(c, &s->issue); /* it may have waited for this message */
}

/* Removes the message's first segment. */
static uint32_t sdr_take(struct sdr *s, struct sdr_send *t)
{
	const uint32_t index = t->head;

	t->head = s->segment[index].next;
	if (t->head == SDR_NONE)
		sdr_queue_remove(s, t);
	return index;
}

/* Gives the bytes of a segment back to the application. */
static void sdr_segment_done(struct sp_ctx *c, struct sdr *s, uint32_t index)
{
	struct sdr_segment *g = &s->segment[index];
	struct sdr_send *t = &s->sends[g->send];

	if (g->mem)
		sp_mem_put(c, g->mem);
	g->mem = NULL;
	g->next = s->segment_free;
	s->segment_free = index;
	sdr_publish_progress(c, s, SDR_CONNECTION(s, segments), ++s->segments_done);
	sdr_publish_progress(c, s, SDR_LINE(s, send, g->send, segments), ++t->segments);
	if (t->ended && t->head == SDR_NONE && !t->sent)
		sdr_release(c, s, t);
}

/* All of a message's first segment has been sent. */
static void sdr_segment_sent(struct sp_ctx *c, struct sdr *s, struct sdr_send *t)
{
	const uint32_t index = sdr_take(s, t);

	s->segment[index].mark = sp_send_mark(c);
	s->segment[index].next = SDR_NONE;
	*(s->first_sent == SDR_NONE ? &s->first_sent : &s->segment[s->last_sent].next) = index;
	s->last_sent = index;
	t->sent++;
}

/* Ends segments that ports have given back; or all. */
static void sdr_settle(struct sp_ctx *c, struct sdr *s, bool all)
{
	while (s->first_sent != SDR_NONE && (all || sp_send_settled(c, s->segment[s->first_sent].mark))) {
		const uint32_t index = s->first_sent;

		s->first_sent = s->segment[index].next;
		s->sends[s->segment[index].send].sent--;
		sdr_segment_done(c, s, index);
	}
}

/* ---- commands ---- */
static int sdr_start(struct sp_ctx *c, struct sdr *s, uint64_t k, uint64_t length, uint32_t immediate)
{
	const uint32_t index = sp_sdr_slot(k, s->slots);
	struct sdr_send *t = &s->sends[index];

	if (k != s->next_send || length > s->max_bytes)
		return -EINVAL;
	if (t->message)
		return -EAGAIN;
	*t = (struct sdr_send){.message = k + 1,
			       .length = length,
			       .immediate = immediate,
			       .rkey = s->lap_turns ? sp_sdr_rkey(s->peer_rkey, k, s->slots, s->generations)
						    : s->peer_rkey,
			       .head = SDR_NONE,
			       .tail = SDR_NONE};
	s->next_send++;
	sdr_publish_progress(c, s, SDR_LINE(s, send, index, segments), 0);
	sdr_publish_progress(c, s, SDR_LINE(s, send, index, message), k + 1);
	return 0;
}

/* Message k, if pieces may be added to it; or NULL. */
static struct sdr_send *sdr_stream(struct sdr *s, uint64_t k)
{
	struct sdr_send *t = &s->sends[k % s->slots];

	return k < s->next_send && t->message == k + 1 && !t->ended ? t : NULL;
}

/* ready: bytes that may be sent already. */
static void sdr_append(struct sp_ctx *c, struct sdr *s, struct sdr_send *t, const struct sp_mem *mem,
		       const struct sp_command *command, uint64_t at, uint64_t ready)
{
	const uint32_t index = s->segment_free;
	struct sdr_segment *g = &s->segment[index];

	s->segment_free = g->next;
	*g = (struct sdr_segment){.mem = mem,
				  .offset = command->arg[1],
				  .at = at,
				  .left = ready,
				  .more = command->arg[2] - ready,
				  .next = SDR_NONE,
				  .send = (uint32_t)(t - s->sends)};
	if (t->head == SDR_NONE)
		t->head = index;
	else
		s->segment[t->tail].next = index;
	t->tail = index;
	if (!ready && command->arg[2])
		return;
	sdr_queue_add(s, (uint32_t)(t - s->sends));
	sp_issue_start(c, &s->issue);
}

static int sdr_send_one(struct sp_ctx *c, struct sdr *s, const struct sp_command *command, uint64_t ready)
{
	const uint64_t k = command->cookie;
	struct sdr_send *t = &s->sends[k % s->slots];
	const struct sp_mem *mem;
	int rc;

	if (s->segment_free == SDR_NONE)
		return -EAGAIN;
	rc = mem_range_source(c, command, &mem);
	if (rc)
		return rc;
	rc = sdr_start(c, s, k, command->arg[2], (uint32_t)command->arg[3]);
	if (rc) {
		if (mem)
			sp_mem_put(c, mem);
		return rc;
	}
	t->ended = true;
	sdr_append(c, s, t, mem, command, 0, ready);
	return 0;
}

static int sdr_continue(struct sp_ctx *c, struct sdr *s, const struct sp_command *command)
{
	struct sdr_send *t = sdr_stream(s, command->cookie);
	const uint64_t bytes = command->arg[2], at = command->arg[3];
	const struct sp_mem *mem;
	int rc;

	if (!t)
		return -ENOENT;
	if (at % s->mtu || at > t->length || bytes > t->length - at || (!bytes && t->length) ||
	    (bytes % s->mtu && bytes != t->length - at))
		return -EINVAL;
	if (s->segment_free == SDR_NONE)
		return -EAGAIN;
	rc = mem_range_source(c, command, &mem);
	if (rc)
		return rc;
	sdr_append(c, s, t, mem, command, at, bytes);
	return 0;
}

/* Ends the connection: drops what was to be sent, and gives buffers back to the application. */
static int sdr_close(struct sp_ctx *c, struct sdr *s)
{
	if (!s->connected)
		return -ENOTCONN;
	__atomic_store_n(&s->connected, 0, __ATOMIC_RELEASE);
	sp_timer_cancel(c, &s->timer[SDR_TIMER_CTS]);
	sp_timer_cancel(c, &s->timer[SDR_TIMER_PROBE]);
	sdr_settle(c, s, true); /* if the application writes to them now, it spoils packets that nobody waits for */
	sdr_drop_datagrams(c, s);
	sdr_publish_progress(c, s, SDR_CONNECTION(s, datagrams_sent), s->datagrams_sent);
	for (uint32_t i = 0; i < s->slots; i++) {
		struct sdr_send *t = &s->sends[i];

		if (!t->message)
			continue;
		t->ended = true;
		if (t->head == SDR_NONE)
			sdr_release(c, s, t);
		while (t->message)
			sdr_segment_done(c, s, sdr_take(s, t));
	}
	sdr_flag(c, s, SP_SDR_CLOSED);
	return 0;
}

int sdr_send_command(struct sp_ctx *c, const struct sp_command *command)
{
	struct sdr *s = c->state;
	struct sdr_send *t;

	if (command->op == SP_CMD_CLOSE)
		return sdr_close(c, s);
	if (!s->send || command->op < SP_SDR_CMD_SEND || command->op > SP_SDR_CMD_END)
		return -EOPNOTSUPP;
	if (!s->connected)
		return -ENOTCONN;
	switch (command->op) {
	case SP_SDR_CMD_SEND:
		return sdr_send_one(c, s, command, command->arg[2]);
	case SP_SDR_CMD_START:
		return sdr_start(c, s, command->cookie, command->arg[2], (uint32_t)command->arg[3]);
	case SP_SDR_CMD_CONTINUE:
		return sdr_continue(c, s, command);
	default:
		t = sdr_stream(s, command->cookie);
		if (!t)
			return -ENOENT;
		t->ended = true;
		if (t->head == SDR_NONE && !t->sent)
			sdr_release(c, s, t);
		return 0;
	}
}

void sdr_send_detach(struct sp_ctx *c)
{
	struct sdr *s = c->state;

	for (uint32_t i = 0; s->sends && s->segment && i < s->slots; i++)
		if (s->sends[i].message)
			for (uint32_t g = s->sends[i].head; g != SDR_NONE; g = s->segment[g].next)
				if (s->segment[g].mem)
					sp_mem_put(c, s->segment[g].mem);
	/* The NIC holds what ports still use. */
	for (uint32_t g = s->sends && s->segment ? s->first_sent : SDR_NONE; g != SDR_NONE; g = s->segment[g].next)
		if (s->segment[g].mem)
			sp_mem_put(c, s->segment[g].mem);
}

/* ---- for a companion ---- */
int sdr_export_send(struct sp_ctx *c, uint64_t k, uint64_t mem, uint64_t offset, uint64_t bytes, uint32_t immediate)
{
	const struct sp_command command = {.cookie = k, .arg = {mem, offset, bytes, immediate}};
	struct sdr *s = c->state;
	int rc;

	if (!s->send)
		return -EOPNOTSUPP;
	if (!s->connected)
		return -ENOTCONN;
	rc = sdr_send_one(c, s, &command, 0);
	if (!rc)
		s->sends[sp_sdr_slot(k, s->slots)].behind = true;
	return rc;
}

/* Such a message has one segment, its first, until all of it was sent. */
int sdr_export_ready(struct sp_ctx *c, uint64_t k, uint64_t bytes)
{
	struct sdr *s = c->state;
	const uint32_t index = sp_sdr_slot(k, s->slots);
	struct sdr_send *t = &s->sends[index];
	struct sdr_segment *g = t->message == k + 1 && t->head != SDR_NONE ? &s->segment[t->head] : NULL;

	if (!g)
		return -ENOENT;
	if (bytes > g->more || (bytes % s->mtu && bytes != g->more))
		return -EINVAL;
	g->more -= bytes;
	g->left += bytes;
	sdr_queue_add(s, index);
	sp_issue_start(c, &s->issue);
	return 0;
}

/* ---- packets ---- */
/* Packets that are handed to the NIC together. */
struct sdr_batch {
	struct sp_send send[SDR_BATCH];
	struct sp_write_imm ext[SDR_BATCH];
};

static inline uint32_t sdr_next_channel(const struct sdr *s, uint32_t channel)
{
	return channel + 1 < s->channels ? channel + 1 : 0;
}

/* Addresses a packet to the QP, `after` packets from now. One flow per QP: a channel stays on its worker and its path.
 */
static inline void sdr_address(const struct sdr *s, struct sp_send *send, uint32_t qp, uint32_t after)
{
	send->dest_qp = s->peer_qp + qp;
	send->psn = (s->psn[qp] + after) & SP_ROCE_PSN_MASK;
	send->udp_source = (uint16_t)(SP_ROCE_UDP_SOURCE_MIN | ((s->peer_qp + qp) * 0x9E3779B1u) >> 18);
}

/* Makes the segment's next packet, and `more` after it. The segment has as many. */
static void sdr_make(const struct sdr *s, const struct sdr_send *t, const struct sdr_segment *g, uint32_t tag,
		     struct sdr_batch *b, unsigned more)
{
	const uint32_t id = (uint32_t)(t - s->sends), mtu = s->mtu, fragments = s->fragments, user = s->split.user,
		       ones = sp_sdr_ones(user), immediate = t->immediate, rkey = t->rkey;
	const uint64_t at = g->at, last = at + (uint64_t)more * mtu, va = id * s->max_bytes + at;
	const uint32_t len = at + g->left - last < mtu ? (uint32_t)(at + g->left - last) : mtu;
	struct sp_send one = {.opcode = SP_UC_WRITE_ONLY_IMM, .ext_len = sizeof(b->ext[0]), .len = mtu, .mem = g->mem};
	uint32_t packet = (uint32_t)(at / mtu), base = sp_sdr_imm(s->split, id, 0, 0);

	sdr_address(s, &one, tag + s->channel, 0);
	for (unsigned i = 0; i <= more; i++, packet++) {
		struct sp_write_imm *ext = &b->ext[i];

		b->send[i] = one;
		b->send[i].psn = (one.psn + i) & SP_ROCE_PSN_MASK;
		b->send[i].ext = ext;
		b->send[i].offset = g->offset + (uint64_t)i * mtu;
		/* Field by field: a copy of a common header would wait for the stores that made it. */
		sp_store_be64(ext->reth.va, va + (uint64_t)i * mtu);
		sp_store_be32(ext->reth.rkey, rkey);
		sp_store_be32(ext->reth.dma_len, mtu);
		sp_store_be32(ext->immdt.imm, base | (uint32_t)((uint64_t)packet << user) |
						      (immediate >> (packet & fragments) * user & ones));
	}
	b->send[more].len = len;
	b->send[more].flags = last + len == t->length ? SP_PKT_SE : 0;
	sp_store_be32(b->ext[more].reth.dma_len, len);
	for (uint32_t i = 1, channel = s->channel, after = 0; s->channels > 1 && i <= more; i++) {
		channel = sdr_next_channel(s, channel);
		after += channel == s->channel;
		sdr_address(s, &b->send[i], tag + channel, after);
	}
}

/* n packets were sent: moves PSNs and channel on. */
static void sdr_count_on(struct sdr *s, uint32_t tag, unsigned n)
{
	const unsigned step = s->channels > 1 ? 1 : n;

	for (unsigned i = 0; i < n; i += step) {
		uint32_t *psn = &s->psn[tag + s->channel];

		*psn = (*psn + step) & SP_ROCE_PSN_MASK;
		s->channel = sdr_next_channel(s, s->channel);
	}
}

/* Sends from the message's first segment. Returns how many packets, or -EAGAIN. */
static int sdr_send_packets(struct sp_ctx *c, struct sdr *s, struct sdr_send *t, unsigned budget)
{
	struct sdr_segment *g = &s->segment[t->head];
	const uint32_t tag = sp_sdr_generation(t->message - 1, s->slots, s->generations) * s->channels;
	struct sdr_batch b;
	unsigned sent = 0;

	do {
		const uint64_t left = sp_sdr_units(g->left, s->mtu), most = SDR_MIN(budget - sent, SDR_BATCH);
		unsigned n = (unsigned)SDR_MIN(left, most);
		uint64_t bytes;
		int rc;

		sdr_make(s, t, g, tag, &b, n - 1);
		rc = sp_send_roce_run(c, s->path, b.send, n);
		if (rc == -EAGAIN)
			return sent ? (int)sent : -EAGAIN;
		/* Any other failure counts as a packet lost in the network. */
		c->counters[SDR_SEND_ERRORS] += rc < 0;
		n = rc < 0 ? 1 : (unsigned)rc;
		bytes = b.send[n - 1].offset + b.send[n - 1].len - g->offset;
		sdr_count_on(s, tag, n);
		c->counters[SDR_PACKETS_SENT] += n;
		c->counters[SDR_BYTES_SENT] += bytes;
		g->offset += bytes;
		g->at += bytes;
		g->left -= bytes;
		t->reach = g->at > t->reach ? g->at : t->reach;
		sent += n;
	} while (g->left && sent < budget);
	return (int)sent;
}

/* The oldest message goes first, so that repeated data never waits for messages without clear-to-send. */
int sdr_issue(struct sp_ctx *c, struct sp_issue *issue, unsigned budget)
{
	struct sdr *s = c->state;
	const uint64_t may_send = __atomic_load_n(&s->may_send, __ATOMIC_RELAXED);
	int waits = SP_ISSUE_DONE;

	(void)issue;
	sdr_settle(c, s, false);
	if (may_send != s->published_may_send)
		sdr_publish_progress(c, s, SDR_CONNECTION(s, may_send), s->published_may_send = may_send);
	/* ENDED is sent when all that was granted has ended, or when a message waits for clear-to-send, even while
	 * others are being sent: the peer may be waiting for it before it grants more. */
	if (__atomic_exchange_n(&s->answer, 0, __ATOMIC_RELAXED) && s->connected &&
	    (s->ended == may_send || s->next_send > may_send)) {
		if (!budget || sdr_send_count(c, s, SP_SDR_ENDED, s->ended) == -EAGAIN) {
			__atomic_store_n(&s->answer, 1, __ATOMIC_RELAXED);
			return SP_ISSUE_MORE;
		}
		budget--;
	}
	if (unlikely(__atomic_load_n(&s->suspect, __ATOMIC_RELAXED)) &&
	    __atomic_exchange_n(&s->suspect, 0, __ATOMIC_RELAXED))
		sdr_probe_start(c);
	if (unlikely(__atomic_load_n(&s->alive, __ATOMIC_RELAXED)) && s->connected) {
		if (!budget || sdr_send_count(c, s, SP_SDR_ALIVE, s->alive) == -EAGAIN)
			return SP_ISSUE_MORE;
		__atomic_store_n(&s->alive, 0, __ATOMIC_RELAXED);
		budget--;
	}
	if (s->datagrams_waiting)
		budget -= sdr_send_datagrams(c, s, budget);
	while (s->first != SDR_NONE && s->connected) {
		const uint32_t index = sdr_queue_next(s);
		struct sdr_send *t = index != SDR_NONE ? &s->sends[index] : NULL;
		int sent;

		if (!t || t->message > may_send) {
			waits = SP_ISSUE_WAIT;
			break;
		}
		if (!budget)
			return SP_ISSUE_MORE;
		sent = sdr_send_packets(c, s, t, budget);
		if (sent < 0)
			return SP_ISSUE_MORE;
		budget -= (unsigned)sent;
		s->datagrams_ahead = s->datagrams_ahead + (unsigned)sent < SDR_DATAGRAMS_AHEAD
					     ? s->datagrams_ahead + (unsigned)sent
					     : SDR_DATAGRAMS_AHEAD;
		if (!s->segment[t->head].left && s->segment[t->head].more)
			sdr_queue_remove(s, t); /* until the companion has made more */
		else if (!s->segment[t->head].left)
			sdr_segment_sent(c, s, t);
	}
	sdr_settle(c, s, false);
	if (s->datagrams_waiting)
		return SP_ISSUE_MORE;
	return s->first_sent == SDR_NONE ? waits : SP_ISSUE_WAIT; /* for ports, which start it */
}
