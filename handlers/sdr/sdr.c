/* SPDX-License-Identifier: BSD-3-Clause */
/* Software-defined RDMA (arXiv 2505.05366): unreliable messages, placed packet by packet in any order, with a bitmap of
 * the chunks that are in place. wire/sdr.h has the packets and what the host program sees. This file has parameters,
 * attach and report; state.h lists the others. */
#include "connection.h"
#include "copy.h"
#include "datagram.h"
#include "export.h"
#include "place.h"
#include "receive.h"
#include "send.h"

#include <stdlib.h>

static const char *const sdr_drops[] = {
	[SDR_BAD_OPCODE] = "bad-opcode",
	[SDR_SHORT_HEADER] = "short-header",
	[SDR_BAD_RKEY] = "bad-rkey",
	[SDR_OUT_OF_RANGE] = "out-of-range",
	[SDR_BAD_LENGTH] = "bad-length",
	[SDR_OVER_MTU] = "over-mtu",
	[SDR_ADDRESS_MISMATCH] = "address-mismatch",
	[SDR_BEYOND_END] = "beyond-end",
	[SDR_LATE] = "late",
	[SDR_NOT_POSTED] = "not-posted",
	[SDR_BAD_CONTROL] = "bad-control",
	[SDR_BAD_NONCE] = "bad-nonce",
	[SDR_DATAGRAM_BUSY] = "datagram-busy",
	[SDR_NOT_CONNECTED] = "not-connected",
	NULL,
};

static const char *const sdr_counters[] = {
	[SDR_PACKETS] = "placed_packets",
	[SDR_BYTES] = "placed_bytes",
	[SDR_DUPLICATES] = "duplicates",
	[SDR_LATE_PACKETS] = "late_packets",
	[SDR_CHUNKS] = "chunks",
	[SDR_MESSAGES] = "messages_complete",
	[SDR_RELEASED] = "messages_released",
	[SDR_CTS_SENT] = "cts_sent",
	[SDR_CTS_RECEIVED] = "cts_received",
	[SDR_PACKETS_SENT] = "packets_sent",
	[SDR_BYTES_SENT] = "bytes_sent",
	[SDR_MESSAGES_SENT] = "messages_sent",
	[SDR_SEND_ERRORS] = "send_errors",
	[SDR_PEER_RESTARTS] = "peer_restarts",
	[SDR_DATAGRAMS_SENT] = "datagrams_sent",
	[SDR_DATAGRAMS_RECEIVED] = "datagrams_received",
	[SDR_PROBES_SENT] = "probes_sent",
	NULL,
};

static const char *const sdr_credits[] = {"control", "implicit", NULL};

static const struct sp_param sdr_params[] = {
	{"rkey", SP_UINT, "0", 0, UINT32_MAX,
	 "key that packets must carry; credit control: those of the first lap; implicit: those with payload"},
	{"mtu", SP_UINT, "1024", SP_SDR_MTU_MIN, SP_SDR_MTU_MAX, "payload bytes of a packet"},
	{"chunk-bytes", SP_UINT, "65536", SP_SDR_MTU_MIN, 1ull << 31,
	 "bytes for one bit of the chunk bitmap, a multiple of mtu"},
	{"max-message-bytes", SP_UINT, "16M", 1, 1ull << 44, "largest message; at most mtu * 2^(offset bits)"},
	{"max-messages", SP_UINT, "64", 1, SP_SDR_MAX_MESSAGES, "messages at once; at most 2^(id bits)"},
	{"generations", SP_UINT, "4", 1, SP_SDR_MAX_QPS,
	 "QPs that the messages of a slot use in turn, so that late packets are recognised"},
	{"channels", SP_UINT, "1", 1, SP_SDR_MAX_QPS, "QPs per generation, over which packets are spread"},
	{"split", SP_STRING, SP_SDR_SPLIT_DEFAULT, 0, 0, "bits of the immediate: message id + packet offset + user"},
	{"credit", SP_STRING, "control", 0, 0, "control: clear-to-send on a control QP; implicit: the peer just sends",
	 sdr_credits},
	{"cts-interval", SP_TIME, "1ms", SP_US, 3600 * SP_SEC, "first interval at which a clear-to-send is repeated"},
	{"max-packet-life", SP_TIME, "10ms", 0, 3600 * SP_SEC,
	 "time without packets after which a slot and generation can be used again"},
	{"send", SP_BOOL, "yes", 0, 0, "messages may be sent"},
	{"receive", SP_BOOL, "yes", 0, 0, "receives may be posted"},
	{"segments", SP_UINT, "1024", 1, SP_SDR_SEGMENTS_MAX, "pieces of messages queued for sending"},
	{"control-slots", SP_UINT, "64", 1, SP_SDR_DATAGRAMS_MAX,
	 "datagrams queued for sending, and datagrams of the peer held for the application"},
	{"replay", SP_BOOL, "no", 0, 0,
	 "credit control: the packets are of a capture that is played again and again: no peer, and one key for all "
	 "laps"},
	{"connect", SP_BOOL, "no", 0, 0,
	 "implicit credit: takes data only once it is connected, and from its peer; credit control always does"},
	{"queue", SP_UINT, "65536", 1, 1 << 20,
	 "implicit credit: receives posted ahead, and messages held for the report"},
	{"stream-from", SP_UINT, "0", 0, 0,
	 "memory regions of this many bytes or more get large packets past the caches; 0: by the caches' sizes"},
	{NULL},
};
#define SDR_MAX_TAGS	  (1u << 24)
#define SDR_HISTORY_BYTES (64ull << 20) /* for the bitmaps of finished messages */
#define SDR_REPORT_CHUNKS (1u << 20)	/* a report holds packets up: it shows so many chunk bits at most */

/* ---- attach ---- */
static int sdr_configure(struct sp_ctx *c, uint64_t *area)
{
	struct sdr *s = c->state;
	const char *split = sp_param_string(c, "split");
	uint64_t chunk = sp_param_uint(c, "chunk-bytes");

	s->rkey = (uint32_t)sp_param_uint(c, "rkey");
	s->mtu = (uint32_t)sp_param_uint(c, "mtu");
	s->max_bytes = sp_param_uint(c, "max-message-bytes");
	s->slots = (uint32_t)sp_param_uint(c, "max-messages");
	s->generations = (uint32_t)sp_param_uint(c, "generations");
	s->channels = (uint32_t)sp_param_uint(c, "channels");
	s->cts_interval = sp_param_uint(c, "cts-interval");
	s->life = sp_param_uint(c, "max-packet-life");
	s->send = sp_param_uint(c, "send");
	s->receive = sp_param_uint(c, "receive");
	if (sp_sdr_split_parse(split, &s->split))
		return sp_fail(c, EINVAL, "split",
			       "\"%s\" is not ID+OFFSET+USER bits with a sum of 32 and USER one of 0, 1, 2, 4, 8, 16",
			       split);
	if (chunk % s->mtu)
		return sp_fail(c, EINVAL, "chunk-bytes", "%llu is not a multiple of mtu (%u)",
			       (unsigned long long)chunk, s->mtu);
	if (s->max_bytes > (uint64_t)s->mtu << s->split.offset)
		return sp_fail(c, EINVAL, "max-message-bytes",
			       "%llu is more than %u offset bits reach with mtu %u (%llu)",
			       (unsigned long long)s->max_bytes, s->split.offset, s->mtu,
			       (unsigned long long)s->mtu << s->split.offset);
	if (s->slots > 1ull << s->split.id)
		return sp_fail(c, EINVAL, "max-messages", "%u is more than %u id bits count", s->slots, s->split.id);
	if (s->generations * s->channels > SP_SDR_MAX_QPS)
		return sp_fail(c, EINVAL, "channels", "generations * channels is more than %u", SP_SDR_MAX_QPS);
	if ((uint64_t)s->slots * s->generations > SDR_MAX_TAGS)
		return sp_fail(c, EINVAL, "generations", "max-messages * generations is more than %u", SDR_MAX_TAGS);

	s->implicit = sp_param_uint(c, "credit") == 1;
	s->open = sp_param_uint(c, "replay") || (s->implicit && !sp_param_uint(c, "connect"));
	s->lap_turns = s->implicit || sp_param_uint(c, "replay") ? 0 : s->generations;
	s->laps = s->lap_turns ? sp_sdr_laps(s->generations) : 1;
	s->queued = s->implicit && c->workers == 1;
	s->chunk_bytes = (uint32_t)chunk;
	s->per_chunk = (uint32_t)(chunk / s->mtu);
	s->chunk_shift = s->per_chunk & (s->per_chunk - 1) ? -1 : (int8_t)__builtin_ctz(s->per_chunk);
	for (unsigned i = 0; i < 64; i += s->per_chunk)
		s->chunk_firsts |= 1ull << i;
	s->id_shift = 32 - s->split.id;
	s->fragments = s->split.user ? (uint8_t)(32 / s->split.user - 1) : 0;
	s->offset_mask = sp_sdr_ones(s->split.offset);
	s->max_packets = sp_sdr_units(s->max_bytes, s->mtu);
	s->stream_region = sp_param_uint(c, "stream-from");
	if (!s->stream_region)
		s->stream_region = sp_stream_from();
	s->whole_packets = (uint32_t)(s->max_bytes / s->mtu < UINT32_MAX ? s->max_bytes / s->mtu : UINT32_MAX);
	s->max_chunks = sp_sdr_units(s->max_bytes, chunk);
	s->datagrams = s->implicit ? 0 : (uint32_t)sp_param_uint(c, "control-slots");
	s->datagram_bytes = sp_sdr_datagram_bytes(s->mtu);
	s->datagrams_ahead = SDR_DATAGRAMS_AHEAD;
	s->layout = sp_sdr_layout(s->slots, s->max_chunks,
				  s->max_packets < s->per_chunk ? s->max_packets : s->per_chunk, c->workers);
	if (s->datagrams)
		sp_sdr_layout_datagrams(&s->layout, s->datagrams, s->datagram_bytes);
	*area = s->layout.bytes;
	return 0;
}

/* No product here overflows: slots * packets of a message is at most 2^32 by the split, the rest is smaller. */
static int sdr_allocate(struct sp_ctx *c, struct sdr *s)
{
	const uint64_t words = (s->max_packets + 511) / 512 * 8, chunk_words = (s->max_chunks + 511) / 512 * 8;
	const uint32_t qps = s->generations * s->channels, segments = (uint32_t)sp_param_uint(c, "segments");
	uint64_t *taken, *done, *chunk, *reserved;
	struct sdr_worker_stats *stats;

	for (s->part_shift = 3; (words - 1) >> s->part_shift > 63; s->part_shift++)
		;
	s->posts = s->slots;
	s->records = s->slots;
	if (s->queued) {
		uint64_t queue = sp_param_uint(c, "queue"), fit = SDR_HISTORY_BYTES / (chunk_words * 8);

		s->posts = queue > s->slots ? queue : s->slots;
		s->records = fit < queue ? fit : queue;
		s->records = s->records > s->slots ? s->records : s->slots;
		s->record_chunks = sp_alloc(c, s->records * chunk_words * 8);
		if (!s->record_chunks)
			return sp_fail(c, ENOMEM, "queue", "no memory for the messages to report");
		if (s->generations > 1) {
			s->newest = sp_alloc(c, qps * sizeof(*s->newest));
			if (!s->newest)
				return sp_fail(c, ENOMEM, "generations", "no memory for %u QPs", qps);
		}
	}
	if (s->datagrams) {
		s->datagram = sp_alloc(c, s->datagrams * sizeof(*s->datagram));
		s->datagram_slot = sp_alloc(c, s->datagrams * sizeof(*s->datagram_slot));
		if (!s->datagram || !s->datagram_slot)
			return sp_fail(c, ENOMEM, "control-slots", "no memory for %u datagrams", s->datagrams);
	}
	s->generation_of = sp_alloc(c, qps * sizeof(*s->generation_of));
	s->psn = sp_alloc(c, qps * sizeof(*s->psn));
	s->slot = sp_alloc(c, s->slots * sizeof(*s->slot));
	s->quiet = sp_alloc(c, (uint64_t)s->slots * s->generations * sizeof(*s->quiet));
	s->late = sp_alloc(c, (uint64_t)s->slots * s->generations * sizeof(*s->late));
	s->post = sp_alloc(c, s->posts * sizeof(*s->post));
	s->record = sp_alloc(c, s->records * sizeof(*s->record));
	s->sends = sp_alloc(c, s->slots * sizeof(*s->sends));
	s->segment = sp_alloc(c, segments * sizeof(*s->segment));
	taken = sp_alloc(c, s->slots * words * 8);
	chunk = sp_alloc(c, s->slots * chunk_words * 8);
	done = c->workers == 1	   ? taken
	       : s->per_chunk == 1 ? chunk /* as many bits */
				   : sp_alloc(c, s->slots * words * 8);
	stats = c->workers > 1 ? sp_alloc(c, (uint64_t)s->slots * c->workers * sizeof(*stats)) : NULL;
	reserved = sp_alloc(c, s->slots * chunk_words * 8);
	if (!s->generation_of || !s->psn || !s->slot || !s->quiet || !s->late || !s->post || !s->record || !s->sends ||
	    !s->segment || !taken || !done || !chunk || !reserved || (c->workers > 1 && !stats))
		return sp_fail(c, ENOMEM, "max-messages", "no memory for %u messages of %llu bytes", s->slots,
			       (unsigned long long)s->max_bytes);
	for (uint32_t i = 0; i < s->slots; i++) {
		s->slot[i].index = i;
		s->slot[i].taken = taken + i * words;
		s->slot[i].done = done + i * words;
		s->slot[i].chunk = chunk + i * chunk_words;
		s->slot[i].reserved = reserved + i * chunk_words;
		s->slot[i].stats = stats ? stats + (uint64_t)i * c->workers : NULL;
	}
	for (uint32_t i = 0; i < qps; i++) {
		s->generation_of[i] = (uint16_t)(i / s->channels);
		s->psn[i] = (uint32_t)sp_random(c) & SP_ROCE_PSN_MASK;
	}
	s->control_psn = (uint32_t)sp_random(c) & SP_ROCE_PSN_MASK;
	for (uint32_t i = 0; i < segments; i++)
		s->segment[i].next = i + 1 < segments ? i + 1 : SDR_NONE;
	s->first = s->last = s->first_sent = s->last_sent = SDR_NONE;
	return 0;
}

static int sdr_attach(struct sp_ctx *c)
{
	struct sdr *s = c->state;
	uint32_t control = 0;
	int rc = sdr_allocate(c, s);

	if (rc)
		return rc;
	rc = sp_qp_claim(c, s->generations * s->channels);
	if (rc)
		return rc == -EINVAL ? sp_fail(c, EINVAL, "qp",
					       "sdr needs `qp`: the first of %u QP numbers within 2 and 0xFFFFFE",
					       s->generations * s->channels)
				     : rc;
	if (!s->implicit) {
		rc = sp_qp_control(c, &control);
		if (rc)
			return sp_fail(c, -rc, "credit", "no QP number left for the control QP");
	}
	rc = sp_messages_limit(c, s->slots, 0);
	if (rc)
		return sp_fail(c, -rc, "max-messages", "no room for %u messages", s->slots);
	s->area = sp_host_area(c);

	const struct sp_sdr_area header = {.magic = SP_SDR_AREA_MAGIC,
					   .version = SP_SDR_AREA_VERSION,
					   .workers = c->workers,
					   .slots = s->slots,
					   .generations = s->generations,
					   .channels = s->channels,
					   .control_qp = control,
					   .bitmap = s->layout.bitmap,
					   .bitmap_stride = s->layout.bitmap_stride,
					   .packets = s->layout.packets,
					   .bytes = s->layout.bytes,
					   .datagrams = s->layout.datagrams};

	c->post_bytes = s->receive ? s->max_bytes : 0;
	for (int i = 0; i < SDR_TIMERS; i++)
		s->timer[i].cookie = (uint64_t)i;
	return sp_dma_write(c, s->area, 0, &header, sizeof(header));
}

static void sdr_detach(struct sp_ctx *c)
{
	sdr_receive_detach(c);
	sdr_send_detach(c);
	sdr_drop_datagrams(c, c->state);
}

/* ---- commands, timers ---- */
static int sdr_command(struct sp_ctx *c, const struct sp_command *command, struct sp_event *result)
{
	switch (command->op) {
	case SP_CMD_POST:
		return sdr_post(c, command);
	case SP_CMD_COMPLETE:
		return sdr_complete(c, command);
	case SP_SDR_CMD_PACKETS:
		return sdr_packets(c, command, result);
	case SP_SDR_CMD_CONNECT:
		return sdr_connect(c, command);
	case SP_SDR_CMD_DATAGRAM:
		return sdr_datagram(c, command);
	default:
		return sdr_send_command(c, command);
	}
}

static void sdr_timer(struct sp_ctx *c, struct sp_timer *timer)
{
	if (timer->cookie == SDR_TIMER_OPEN)
		sdr_open_due(c);
	else if (timer->cookie == SDR_TIMER_CTS)
		sdr_cts_timer(c);
	else
		sdr_probe_timer(c);
}

/* ---- report ---- */
static void sdr_report_message(struct sp_report *r, const struct sdr *s, uint64_t k, const struct sdr_record *f,
			       const uint64_t *chunk, uint64_t *room)
{
	const uint64_t chunks = sp_sdr_units(f->length, s->chunk_bytes);
	char *digits = chunks <= *room ? malloc(chunks + 1) : NULL;

	if (digits) {
		*room -= chunks;
		for (uint64_t i = 0; i < chunks; i++)
			digits[i] =
				chunk && __atomic_load_n(&chunk[i / 64], __ATOMIC_RELAXED) >> (i % 64) & 1 ? '1' : '0';
		digits[chunks] = '\0';
	}
	sp_report_open(r, NULL, false);
	sp_report_uint(r, "id", k % s->slots);
	sp_report_uint(r, "message", k);
	sp_report_uint(r, "generation", sp_sdr_generation(k, s->slots, s->generations));
	sp_report_uint(r, "length", f->length);
	sp_report_uint(r, "packets", f->packets);
	sp_report_uint(r, "duplicates", f->duplicates);
	sp_report_uint(r, "late", f->late);
	sp_report_string(r, "chunk_bitmap", digits);
	sp_report_bool(r, "complete", f->complete);
	if (s->split.user && f->immediate >> 32 == UINT32_MAX)
		sp_report_uint(r, "immediate", (uint32_t)f->immediate);
	else
		sp_report_string(r, "immediate", NULL);
	sp_report_close(r);
	free(digits);
}

/* Shows messages posted and not yet released, in order of k. In replay, where nobody releases them, also finished ones.
 */
static void sdr_report(struct sp_ctx *c, struct sp_report *r)
{
	const struct sdr *s = c->state;
	const uint64_t chunk_words = (s->max_chunks + 511) / 512 * 8;
	uint64_t held = s->posts > s->records ? s->posts : s->records, room = SDR_REPORT_CHUNKS;

	sp_report_uint(r, "posted", s->next_post);
	sp_report_bool(r, "connected", s->connected);
	sp_report_uint(r, "may_send", __atomic_load_n(&s->may_send, __ATOMIC_RELAXED));
	sp_report_open(r, "messages", true);
	held += s->slots;
	for (uint64_t k = s->next_post > held ? s->next_post - held : 0; k < s->next_post; k++) {
		const struct sdr_slot *slot = &s->slot[k % s->slots];
		const struct sdr_record *record = &s->record[k % s->records];
		const struct sdr_post *post = &s->post[k % s->posts];

		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == SDR_OPEN && slot->message == k) {
			struct sdr_record now = {
				.length = sdr_length(slot),
				.packets = slot->packets,
				.duplicates = slot->duplicates,
				.immediate = __atomic_load_n(&slot->immediate, __ATOMIC_RELAXED),
				.complete = __atomic_load_n(&slot->complete, __ATOMIC_RELAXED),
				.late = __atomic_load_n(&record->late, __ATOMIC_RELAXED),
			};

			for (unsigned i = 0; slot->stats && i < c->workers; i++) {
				now.packets += __atomic_load_n(&slot->stats[i].packets, __ATOMIC_RELAXED);
				now.duplicates += __atomic_load_n(&slot->stats[i].duplicates, __ATOMIC_RELAXED);
			}
			sdr_report_message(r, s, k, &now, slot->chunk, &room);
		} else if (s->queued && record->message == k + 1 && record->finished) {
			sdr_report_message(r, s, k, record,
					   record->skipped ? NULL : s->record_chunks + k % s->records * chunk_words,
					   &room);
		} else if (post->message == k + 1 && !post->cancelled) {
			sdr_report_message(r, s, k, &(struct sdr_record){.length = post->length}, NULL, &room);
		}
	}
	sp_report_close(r);
}

static const struct sp_handler sdr_handler = {
	SP_HANDLER_HEAD,
	.name = "sdr",
	.doc = "software-defined RDMA: unreliable messages in any packet order, with a bitmap of the chunks that came",
	.params = sdr_params,
	.drops = sdr_drops,
	.counters = sdr_counters,
	.ctx_size = sizeof(struct sdr),
	.messages = SP_MESSAGES_SLOTS,
	.flags = SP_HANDLER_HOSTED,
	.configure = sdr_configure,
	.attach = sdr_attach,
	.detach = sdr_detach,
	.classify = sdr_classify,
	.classify_burst = sdr_classify_burst,
	.miss = sdr_miss,
	.payload_burst = sdr_payload,
	.completion = sdr_completion,
	.command = sdr_command,
	.issue = sdr_issue,
	.timer = sdr_timer,
	.report = sdr_report,
	.exports = &sdr_exports,
};
SP_HANDLER(sdr_handler)
