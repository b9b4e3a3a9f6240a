/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheme `auto`: sends each message with parity of one of the QP's codes or without, whichever it expects to take
 * the least time (handlers/reliability/choice.h). It learns the path from sending: the round trip from the core, losses
 * from retransmissions and from the peer's count of repairs, the bandwidth from how fast the NIC takes units while it
 * has some.
 */
#include "reliable_private.h"
#include "sdr_private.h"

#define SDR_AUTO_BANDWIDTH 400e9 /* bit/s, until one was measured: high, because parity costs little then */
#define SDR_AUTO_FADES	   0.2	 /* weight of a slower sample: its end may have been noticed late */

void sdr_auto_open(struct sdr_reliable *r, const struct sdr_reliable_attr *attr)
{
	const struct sdr_qp *qp = r->qp;
	const bool xor = qp->info.ec_code == SDR_CODE_XOR;
	struct sp_choice candidate[SP_CHOICE_CANDIDATES] = {{.scheme = SP_CHOICE_SR_NACK}};
	struct sdr_auto *a = &r->choice;
	unsigned count = 1;

	static_assert(SDR_EC_CODES < SP_CHOICE_CANDIDATES && SDR_EC_CODES == SP_EC_CODES_MAX, "room for all");
	/* Codes with the least parity first: they win where times are equal. */
	for (unsigned i = qp->codes; i--;) {
		const struct sp_ec_shape *code = &qp->code[i];

		if (code->m > code->k || sdr_ec_parity_bytes_of(qp, i, qp->info.max_message_bytes) > r->ec.stride)
			continue;
		a->code[count] = (uint8_t)i;
		candidate[count++] = (struct sp_choice){
			.scheme = xor? SP_CHOICE_EC_XOR : SP_CHOICE_EC_MDS, .k = code->k, .m = code->m};
	}
	sp_chooser_init(&a->chooser, candidate, count);
	sp_loss_init(&a->loss);
	a->fixed = attr->rate_bps ? (double)attr->rate_bps : (double)r->qp->rate_bps;
	a->coding = (double)attr->coding_rate;
}

static struct sp_choice_path sdr_auto_path(const struct sdr_reliable *r)
{
	const struct sdr_auto *a = &r->choice;
	const struct sp_rel_config *c = &r->sender.config;
	const double rtt = (double)r->sender.rtt.smoothed / SP_SEC;
	const double window = c->reorder && rtt > 0 ? (double)c->reorder / SP_SEC / rtt : 1.0 / 8;
	const double later = 1 + (window < 1 ? window : 1) + 0.5 / c->polls;

	return (struct sp_choice_path){.bandwidth = a->fixed > 0      ? a->fixed
						    : a->measured > 0 ? a->measured
								      : SDR_AUTO_BANDWIDTH,
				       .rtt = rtt,
				       .rto = 3,
				       .nack = later,
				       .fallback = later,
				       .lost_only = true,
				       .encode = a->coding,
				       .decode = a->coding};
}

bool sdr_auto_wants_parity(struct sdr_reliable *r, uint64_t length, unsigned *code)
{
	const struct sp_choice_size size = {.bytes = length, .chunk = (uint32_t)r->chunk_bytes, .mtu = r->mtu};
	const struct sp_choice_path path = sdr_auto_path(r);

	sp_choose(&r->choice.chooser, &path, &size, &r->choice.loss);
	*code = r->choice.code[r->choice.chooser.which];
	return r->choice.chooser.which > 0;
}

void sdr_auto_arrived(struct sdr_reliable *r, const struct sdr_reliable_op *op)
{
	struct sdr_auto *a = &r->choice;
	const uint32_t units = sdr_reliable_units(r, op->length);
	const uint32_t repaired = r->sender.repaired - a->repaired;
	const uint32_t runs = r->sender.repaired_runs - a->repaired_runs;
	const uint64_t packets = op->length ? (op->length - 1) / r->mtu + 1 : 1;

	a->repaired = r->sender.repaired;
	a->repaired_runs = r->sender.repaired_runs;
	sp_loss_add(&a->loss, (uint64_t)units + op->again, packets + op->again * (packets / units),
		    (uint64_t)op->again + repaired, (uint64_t)op->runs + runs);
}

/* `queued` units of data are with the NIC, before more are handed over. */
void sdr_auto_sending(struct sdr_reliable *r, uint64_t queued)
{
	struct sdr_auto *a = &r->choice;
	double rate;

	if (queued || !a->bytes)
		return;
	if (r->now > a->since && a->bytes > r->chunk_bytes) {
		rate = (double)a->bytes * 8 / ((double)(r->now - a->since) / SP_SEC);
		a->measured += rate > a->measured ? rate - a->measured : (rate - a->measured) * SDR_AUTO_FADES;
	}
	a->bytes = 0;
}

void sdr_auto_sent(struct sdr_reliable *r, uint64_t bytes)
{
	if (!r->choice.bytes)
		r->choice.since = r->now;
	r->choice.bytes += bytes;
}
