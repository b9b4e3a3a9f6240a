/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include <jansson.h>

void sim_show_json(const struct sim *s, const struct sp_model_outcome *o, double wall)
{
	const struct sp_model *m = &s->model;
	json_t *all = json_pack("{s:s, s:b, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "scheme",
				sim_schemes[s->scheme].name, "model", 1, "samples", (json_int_t)s->samples, "seed",
				(json_int_t)s->seed, "mean_s", o->mean, "mean_error_s",
				o->deviation / sqrt((double)s->samples), "p50_s", o->p50, "p99_s", o->p99, "p999_s",
				o->p999, "lossless_s", o->lossless, "slowdown_mean", o->mean / o->lossless,
				"slowdown_p999", o->p999 / o->lossless);

	json_object_update_new(all, json_pack("{s:f, s:f, s:I, s:I, s:I, s:f, s:s, s:f, s:f}", "bandwidth_bps",
					      m->bandwidth, "rtt_s", m->rtt, "message", (json_int_t)m->message, "chunk",
					      (json_int_t)m->chunk, "mtu", (json_int_t)s->mtu, "drop", m->drop,
					      "drop_per", s->packet ? "packet" : "chunk", "chunk_drop",
					      sim_chunk_drop(s), "rto_rtts", m->rto));
	if (m->scheme != SP_MODEL_SR)
		json_object_update_new(all, json_pack("{s:[i,i], s:f, s:I, s:f}", "ec", (int)m->k, (int)m->m,
						      "beta_rtts", m->beta, "fallbacks", (json_int_t)o->fallbacks,
						      "fallback_probability", sp_model_fallback(m)));
	json_object_set_new(all, "wall_s", json_real(wall));
	json_dumpf(all, stdout, JSON_INDENT(2));
	puts("");
	json_decref(all);
}

static void line(const char *name, double seconds, const struct sp_model_outcome *o)
{
	printf("%-10s %14.9g %14.3f\n", name, seconds, seconds / o->lossless);
}

void sim_show_text(const struct sim *s, const struct sp_model_outcome *o)
{
	const struct sp_model *m = &s->model;

	printf("SDR, model, %s: messages of %" PRIu64 " bytes in chunks of %" PRIu64
	       ", %.9g bit/s, round trip %.9g s\n",
	       sim_schemes[s->scheme].name, m->message, m->chunk, m->bandwidth, m->rtt);
	printf("a %s is lost with probability %g", s->packet ? "packet" : "chunk", m->drop);
	if (s->packet)
		printf(" (a chunk: %.6g)", sim_chunk_drop(s));
	printf("; a chunk is sent again after %g round trip%s\n", m->rto, m->rto > 1 ? "s" : "");
	if (m->scheme != SP_MODEL_SR)
		printf("%u parity chunks for %u; fallback %g round trips later in %" PRIu64
		       " samples (probability %.6g)\n",
		       m->m, m->k, m->beta, o->fallbacks, sp_model_fallback(m));
	printf("%" PRIu64 " samples, seed %" PRIu64 "\n\n%-10s %14s %14s\n", s->samples, s->seed, "", "seconds",
	       "over lossless");
	line("lossless", o->lossless, o);
	line("mean", o->mean, o);
	line("50 %", o->p50, o);
	line("99 %", o->p99, o);
	line("99.9 %", o->p999, o);
}

/* ---- packets ---- */
void sim_show_packets_json(const struct sim *s, const struct sp_sweep_outcome *o, double wall)
{
	const struct sp_crossing_counters *n = &o->count;
	json_t *all = json_pack("{s:s, s:b, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "scheme",
				sim_schemes[s->scheme].name, "model", 0, "samples", (json_int_t)s->samples, "seed",
				(json_int_t)s->seed, "mean_s", o->mean, "mean_error_s",
				o->deviation / sqrt((double)s->samples), "p50_s", o->p50, "p99_s", o->p99, "p999_s",
				o->p999, "lossless_s", o->lossless, "slowdown_mean", o->mean / o->lossless,
				"slowdown_p999", o->p999 / o->lossless);

	json_object_update_new(all, json_pack("{s:I, s:I, s:I, s:I, s:b}", "packets", (json_int_t)n->packets,
					      "retransmitted_packets", (json_int_t)n->retransmitted,
					      "spurious_retransmissions", (json_int_t)n->spurious, "verified",
					      (json_int_t)n->verified, "payload_less", s->payload_less));
	json_object_update_new(all, json_pack("{s:I, s:f, s:I, s:I, s:I, s:f, s:s, s:f, s:f}", "bandwidth_bps",
					      (json_int_t)s->bandwidth, "rtt_s", s->model.rtt, "message",
					      (json_int_t)s->model.message, "chunk", (json_int_t)s->model.chunk, "mtu",
					      (json_int_t)s->mtu, "drop", s->model.drop, "drop_per",
					      s->packet ? "packet" : "chunk", "chunk_drop", sim_chunk_drop(s),
					      "rto_rtts", s->model.rto));
	if (s->nodes)
		json_object_set_new(all, "nodes", json_integer((json_int_t)s->nodes));
	if (sim_schemes[s->scheme].code != SDR_CODE_NONE)
		json_object_update_new(all, json_pack("{s:[i,i], s:I, s:I, s:I, s:f}", "ec", (int)s->model.k,
						      (int)s->model.m, "parity_packets", (json_int_t)n->parity,
						      "repaired_chunks", (json_int_t)n->repaired, "fallbacks",
						      (json_int_t)n->fallbacks, "decode_s",
						      (double)n->repairing / (double)SP_SEC / (double)n->messages));
	json_object_set_new(all, "wall_s", json_real(wall));
	json_dumpf(all, stdout, JSON_INDENT(2));
	puts("");
	json_decref(all);
}

static void packets_line(const char *name, double seconds, const struct sp_sweep_outcome *o)
{
	printf("%-10s %14.9g %14.3f\n", name, seconds, seconds / o->lossless);
}

void sim_show_packets_text(const struct sim *s, const struct sp_sweep_outcome *o, double wall)
{
	const struct sp_crossing_counters *n = &o->count;

	if (s->nodes)
		printf("allreduce of %" PRIu64 " bytes in a ring of %" PRIu64 " nodes, in %" PRIu64 " rounds\n",
		       s->model.message, s->nodes, 2 * (s->nodes - 1));
	printf("SDR, packets, %s: messages of %" PRIu64 " bytes in chunks of %" PRIu64 ", mtu %" PRIu64 ", %" PRIu64
	       " bit/s, round trip %.9g s\n",
	       sim_schemes[s->scheme].name, sim_message(s), s->model.chunk, s->mtu, s->bandwidth, s->model.rtt);
	printf("a %s is lost with probability %g", s->packet ? "packet" : "chunk", s->model.drop);
	if (s->packet)
		printf(" (a chunk: %.6g)", sim_chunk_drop(s));
	printf("\n%" PRIu64 " samples, seed %" PRIu64 "\n\n%-10s %14s %14s\n", s->samples, s->seed, "", "seconds",
	       "over lossless");
	packets_line("lossless", o->lossless, o);
	packets_line("mean", o->mean, o);
	packets_line("50 %", o->p50, o);
	packets_line("99 %", o->p99, o);
	packets_line("99.9 %", o->p999, o);
	printf("\n%" PRIu64 " packets of data, %" PRIu64 " of them sent again (%" PRIu64 " needlessly)\n", n->packets,
	       n->retransmitted, n->spurious);
	if (sim_schemes[s->scheme].code != SDR_CODE_NONE)
		printf("%" PRIu64 " packets of parity (%u chunks for %u), %" PRIu64
		       " chunks repaired, fallback in %" PRIu64 " messages\n",
		       n->parity, s->model.m, s->model.k, n->repaired, n->fallbacks);
	if (s->payload_less)
		printf("nothing was compared (payload-less)");
	else
		printf("%" PRIu64 " bytes compared at the receiver, all as sent", n->verified);
	printf("; %.1f s, %.3g Gbit of payload a second\n", wall,
	       (double)n->messages * (double)sim_message(s) * 8e-9 / wall);
}
