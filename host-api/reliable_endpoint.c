/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable messages over SDR: opening, closing, progress and status of one connection. */
#include "reliable_private.h"

#include <stdlib.h>
#include <string.h>

#define SDR_RELIABLE_QUEUE     262144u /* bytes with the NIC */
#define SDR_RELIABLE_IN_FLIGHT 65536u  /* units, by default */
#define SDR_RELIABLE_MESSAGES  (1u << 20)
#define SDR_RELIABLE_LISTEN    256u /* datagrams per call, so that a peer that never stops does not block us */
/* Bytes of a packet on the wire beyond its payload: preamble and delimiter 8, Ethernet 14, UDP 8, BTH 12, RETH 16,
 * ImmDt 4, ICRC 4, FCS 4, gap 12; and IP. */
#define SDR_PACKET_EXTRA       82u
#define SDR_IPV4	       20u
#define SDR_IPV6	       40u

int sdr_reliable_scheme(const char *name)
{
	static const char *const names[] = {[SDR_SR_RTO] = "sr-rto",
					    [SDR_SR_NACK] = "sr-nack",
					    [SDR_EC_MDS] = "ec-mds",
					    [SDR_EC_XOR] = "ec-xor",
					    [SDR_AUTO] = "auto"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			return (int)i;
	return -EINVAL;
}

static uint32_t sdr_reliable_power(uint64_t least, uint32_t most)
{
	uint32_t n = 1;

	while (n < least && n < most)
		n *= 2;
	return n;
}

static bool sdr_reliable_is_ipv4(const struct sdr_qp_info *info)
{
	static const uint8_t mapped[12] = {[10] = 0xFF, 0xFF};

	return !memcmp(info->ip, mapped, sizeof(mapped));
}

/* The part of the attributes that the sending core needs. */
static struct sp_rel_config sdr_reliable_config(const struct sdr_reliable *r, const struct sdr_reliable_attr *attr,
						const struct sdr_qp_info *info)
{
	struct sp_rel_config c = {
		.scheme = attr->scheme == SDR_SR_RTO ? SP_REL_RTO : SP_REL_NACK,
		.rtt = attr->rtt,
		.rto_quarters = attr->rto_quarters,
		.reorder = attr->reorder,
		.timeout = SP_NEVER, /* reliable.c enforces it: it also runs while there is no clear-to-send */
		.polls = attr->polls,
		.rate = attr->rate_bps,
		.messages = sdr_reliable_power(r->slots, SDR_RELIABLE_MESSAGES),
		.units = sdr_reliable_units(r, info->max_message_bytes)};

	c.in_flight = attr->in_flight ? attr->in_flight
				      : sdr_reliable_power((uint64_t)c.messages * c.units, SDR_RELIABLE_IN_FLIGHT);
	return c;
}

static void sdr_reliable_free(struct sdr_reliable *r)
{
	free(r->sender_memory);
	free(r->send.op);
	free(r->recv.op);
	free(r->come);
	free(r);
}

int sdr_reliable_open(struct sdr_qp *qp, const struct sdr_reliable_attr *attr, struct sdr_reliable **reliable)
{
	static const struct sdr_reliable_attr defaults;
	struct sdr_qp_info info;
	struct sdr_qp_status status;
	struct sp_rel_config config;
	struct sdr_reliable *r;
	uint64_t queue;
	int rc = sdr_qp_info_get(qp, &info);

	rc = rc ? rc : sdr_qp_status(qp, &status);
	if (rc)
		return rc;
	if (status.error)
		return status.error;
	if (status.control_bytes < SP_REL_ACK_LEAST)
		return -EOPNOTSUPP;
	attr = attr ? attr : &defaults;
	if ((unsigned)attr->scheme > SDR_AUTO)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	queue = (attr->queued_bytes ? attr->queued_bytes : SDR_RELIABLE_QUEUE) / info.chunk_bytes;
	r->qp = qp;
	r->chunk_bytes = info.chunk_bytes;
	r->mtu = info.mtu;
	r->slots = info.max_messages; /* with pairs sdr_ec_open halves it */
	r->datagram_bytes = status.control_bytes;
	r->queue = queue > 2 ? (uint32_t)queue : 2;
	r->packet_bits = 8 * (SDR_PACKET_EXTRA + (sdr_reliable_is_ipv4(&info) ? SDR_IPV4 : SDR_IPV6));
	r->send.timeout = attr->timeout ? attr->timeout : 10 * SP_SEC;
	r->recv.timeout = attr->recv_timeout ? attr->recv_timeout : SP_NEVER;
	rc = sdr_ec_open(r, attr->scheme);
	if (rc)
		goto fail;
	if (r->ec.chooses)
		sdr_auto_open(r, attr);
	config = sdr_reliable_config(r, attr, &info);
	rc = -EINVAL;
	if (!sp_rel_sender_bytes(&config))
		goto fail;
	rc = -ENOMEM;
	r->sender_memory = calloc(1, sp_rel_sender_bytes(&config));
	r->send.op = calloc(r->slots, sizeof(*r->send.op));
	r->recv.op = calloc(r->slots, sizeof(*r->recv.op));
	r->come = calloc(r->slots, sizeof(*r->come));
	if (!r->sender_memory || !r->send.op || !r->recv.op || !r->come)
		goto fail;
	rc = sp_rel_sender_init(&r->sender, &config, r->sender_memory);
	if (rc)
		goto fail;
	*reliable = r;
	return 0;
fail:
	sdr_reliable_free(r);
	return rc;
}

int sdr_reliable_close(struct sdr_reliable *r, sp_time quiet)
{
	if (!r)
		return 0;
	const bool sending = r->send.live.count || r->send.ending.count;

	if (quiet && !r->error && (sending || !r->abandoned)) {
		if (!r->lingers) {
			r->lingers = true;
			r->heard = r->now;
		}
		r->quiet = quiet;
		if (sending || r->now - r->heard < quiet) {
			r->wake = r->wake < r->heard + quiet ? r->wake : r->heard + quiet;
			return -EAGAIN;
		}
	}
	sdr_reliable_free(r);
	return 0;
}

/* ---- status ---- */
void sdr_reliable_op_status(const struct sdr_reliable_op *op, struct sdr_reliable_op_status *status)
{
	const struct sdr_reliable *r = op->reliable;

	*status = (struct sdr_reliable_op_status){.message = op->message,
						  .length = op->length,
						  .units = sdr_reliable_units(r, op->length),
						  .immediate = op->immediate,
						  .mask = op->mask};
	if (op->phase >= SDR_OP_ENDING)
		status->done = op->result ? 0 : status->units;
	else if (op->sends)
		status->done = sdr_reliable_send_done(op);
	else
		status->done = sdr_reliable_recv_done(op, &status->bitmap);
}

/* ---- progress ---- */
/* Reads datagrams. All requests that have arrived get one answer, to the latest, which covers the others. False: there
 * may be more datagrams. */
static bool sdr_reliable_listen(struct sdr_reliable *r)
{
	uint8_t bytes[SDR_CONTROL_BYTES];
	struct sp_rel_asked asked;

	for (unsigned n = 0; n < SDR_RELIABLE_LISTEN; n++) {
		const int len = sdr_control_recv(r->qp, bytes, sizeof(bytes));

		if (len < 0)
			return false;
		if (sp_rel_poll_take(&r->receiver, bytes, (size_t)len, &asked) == 0) {
			if (!r->asked || asked.poll > r->question.poll)
				r->question = asked;
			r->asked = true;
			r->heard = r->now;
		} else if (sp_rel_ack(&r->sender, bytes, (size_t)len, r->now)) {
			r->refused++;
		}
	}
	return true;
}

static sp_time sdr_reliable_earlier(sp_time a, sp_time b)
{
	return a < b ? a : b;
}

int sdr_reliable_progress(struct sdr_reliable *r, sp_time now)
{
	struct sdr_qp_status status;
	bool more;

	if (r->error)
		return r->error;
	r->now = now > r->now ? now : r->now;
	sdr_qp_status(r->qp, &status);
	if (status.error)
		return sdr_reliable_fail(r, status.error);
	r->abandoned |= status.peer_restarted;
	more = sdr_reliable_listen(r);
	sdr_reliable_recv_progress(r, &status);
	sdr_reliable_send_progress(r, &status);
	if (r->ec.broken)
		return sdr_reliable_fail(r, -EINVAL);
	r->wake = sdr_reliable_earlier(sdr_reliable_send_deadline(r), sdr_reliable_side_deadline(&r->recv));
	if (r->lingers && r->heard + r->quiet > r->now)
		r->wake = sdr_reliable_earlier(r->wake, r->heard + r->quiet);
	if (more)
		r->wake = r->now;
	return 0;
}

sp_time sdr_reliable_deadline(const struct sdr_reliable *r)
{
	return r->wake;
}

void sdr_reliable_status(const struct sdr_reliable *r, struct sdr_reliable_status *status)
{
	const struct sp_rel_counters *c = &r->sender.counters;
	struct sdr_qp_status qp;

	sdr_qp_status(r->qp, &qp);

	*status = (struct sdr_reliable_status){.units = c->units,
					       .retransmitted = c->retransmitted,
					       .spurious = c->spurious,
					       .polls = c->polls,
					       .polls_late = c->polls_late,
					       .acks = c->acks,
					       .acks_stale = c->acks_stale,
					       .answers = r->answers,
					       .refused = r->refused,
					       .coded = r->ec.coded,
					       .parity = r->ec.units,
					       .repaired = qp.repaired,
					       .fallbacks = r->ec.fallbacks,
					       .sent = r->send.good,
					       .sent_failed = r->send.bad,
					       .received = r->recv.good,
					       .received_failed = r->recv.bad,
					       .sending = r->send.live.count + r->send.ending.count,
					       .receiving = r->recv.live.count + r->recv.ending.count,
					       .rtt = r->sender.rtt.smoothed,
					       .rtt_variation = r->sender.rtt.variation,
					       .rtt_least = r->sender.rtt.least};
	memcpy(status->coded_of, r->ec.coded_of, sizeof(status->coded_of));
}
