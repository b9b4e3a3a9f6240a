/* SPDX-License-Identifier: BSD-3-Clause */
#include "show.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "../../handlers/wire/ec.h"
#include "../chosen.h"
#include "../output.h"

int sim_times_open(const struct sim *s, double **times)
{
	FILE *f;

	*times = NULL;
	if (!s->times)
		return 0;
	f = fopen(s->times, "w"); /* an error is found before the simulation, which takes long */
	*times = f ? malloc(s->samples * sizeof(**times)) : NULL;
	if (!*times)
		command_fail("sim", "--times %s: %s", s->times, strerror(errno));
	if (f)
		fclose(f);
	return *times ? 0 : 1;
}

int sim_times_write(const struct sim *s, double *times)
{
	FILE *f = times ? fopen(s->times, "w") : NULL;
	bool bad = times && !f;

	for (uint64_t i = 0; f && i < s->samples; i++)
		fprintf(f, "%.17g\n", times[i]);
	if (f) {
		bad = ferror(f);
		bad |= fclose(f);
	}
	if (bad)
		command_fail("sim", "--times %s: cannot be written", s->times);
	free(times);
	return bad;
}

/* What the model and packets both give; seconds. */
struct times {
	double mean, deviation, p50, p99, p999, lossless;
};

static json_t *json_of(const struct sim *s, const struct times *t)
{
	json_t *all = json_pack("{s:s, s:b, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "scheme",
				sim_schemes[s->scheme].name, "model", s->is_model, "samples", (json_int_t)s->samples,
				"seed", (json_int_t)s->seed, "mean_s", t->mean, "mean_error_s",
				t->deviation / sqrt((double)s->samples), "p50_s", t->p50, "p99_s", t->p99, "p999_s",
				t->p999, "lossless_s", t->lossless, "slowdown_mean", t->mean / t->lossless,
				"slowdown_p999", t->p999 / t->lossless);

	json_object_update_new(all, json_pack("{s:I, s:f, s:I, s:I, s:I, s:f, s:s, s:f, s:f}", "bandwidth_bps",
					      (json_int_t)s->bandwidth, "rtt_s", s->model.rtt, "message",
					      (json_int_t)s->model.message, "chunk", (json_int_t)s->model.chunk, "mtu",
					      (json_int_t)s->mtu, "drop", s->model.drop, "drop_per",
					      s->packet ? "packet" : "chunk", "chunk_drop", sim_chunk_drop(s),
					      "rto_rtts", s->model.rto));
	return all;
}

static void json_show(json_t *all, double wall)
{
	json_object_set_new(all, "wall_s", json_real(wall));
	json_dumpf(all, stdout, JSON_INDENT(2));
	puts("");
	json_decref(all);
}

static void loss_show(const struct sim *s)
{
	printf("a %s is lost with probability %g", s->packet ? "packet" : "chunk", s->model.drop);
	if (s->packet)
		printf(" (a chunk: %.6g)", sim_chunk_drop(s));
}

static void line(const char *name, double seconds, const struct times *t)
{
	printf("%-10s %14.9g %14.3f\n", name, seconds, seconds / t->lossless);
}

/* Of fewer samples it would be the largest one, and say something else. */
static void quantile(const char *name, double seconds, const struct times *t, bool known)
{
	if (known)
		line(name, seconds, t);
	else
		printf("%-10s %14s %14s\n", name, "-", "-");
}

static void times_show(const struct sim *s, const struct times *t)
{
	printf("%" PRIu64 " samples, seed %" PRIu64 "\n\n%-10s %14s %14s\n", s->samples, s->seed, "", "seconds",
	       "over lossless");
	line("lossless", t->lossless, t);
	line("mean", t->mean, t);
	line("50 %", t->p50, t);
	quantile("99 %", t->p99, t, s->samples >= 100);
	quantile("99.9 %", t->p999, t, s->samples >= 1000);
}

/* ---- the model ---- */
static struct times model_times(const struct sp_model_outcome *o)
{
	return (struct times){o->mean, o->deviation, o->p50, o->p99, o->p999, o->lossless};
}

void sim_show_json(const struct sim *s, const struct sp_model_outcome *o, double wall)
{
	const struct sp_model *m = &s->model;
	const struct times t = model_times(o);
	json_t *all = json_of(s, &t);

	if (m->scheme != SP_MODEL_SR)
		json_object_update_new(all, json_pack("{s:[i,i], s:f, s:I, s:f}", "ec", (int)m->k, (int)m->m,
						      "beta_rtts", m->beta, "fallbacks", (json_int_t)o->fallbacks,
						      "fallback_probability", sp_model_fallback(m)));
	json_show(all, wall);
}

void sim_show_text(const struct sim *s, const struct sp_model_outcome *o)
{
	const struct sp_model *m = &s->model;
	const struct times t = model_times(o);

	printf("SDR, model, %s: messages of %" PRIu64 " bytes in chunks of %" PRIu64
	       ", %.9g bit/s, round trip %.9g s\n",
	       sim_schemes[s->scheme].name, m->message, m->chunk, m->bandwidth, m->rtt);
	loss_show(s);
	printf("; a chunk is sent again after %g round trip%s\n", m->rto, m->rto > 1 ? "s" : "");
	if (m->scheme != SP_MODEL_SR)
		printf("%u parity chunks for %u; fallback %g round trips later in %" PRIu64
		       " samples (probability %.6g)\n",
		       m->m, m->k, m->beta, o->fallbacks, sp_model_fallback(m));
	times_show(s, &t);
}

/* ---- packets ---- */
static struct times packets_times(const struct sp_sweep_outcome *o)
{
	return (struct times){o->mean, o->deviation, o->p50, o->p99, o->p999, o->lossless};
}

static json_int_t workers(const struct sim *s)
{
	return s->repair_workers ? (json_int_t)s->repair_workers : 1;
}

/* Seconds of one worker per message, on average. */
static double repair_time(const struct sp_transfer_counters *n)
{
	return (double)n->repairing / (double)SP_SEC / (double)n->messages;
}

static struct chosen chosen_of(const struct sim *s, const struct sp_transfer_counters *n)
{
	struct chosen chosen = {.messages = n->messages};
	struct sp_ec_shape code[SP_EC_CODES_MAX];

	chosen.codes = sp_ec_codes(SP_EC_CODE_MDS, s->model.k, s->model.m, 1, code);
	for (unsigned i = 0; i < chosen.codes; i++) {
		chosen.code[i] = (struct sdr_ec){SDR_CODE_MDS, code[i].k, code[i].m};
		chosen.coded[i] = n->coded[i];
	}
	return chosen;
}

static double each_ns(sp_time sum, uint64_t n)
{
	return n ? (double)sum / (double)SP_NS / (double)n : 0;
}

static json_t *device_json(const struct sim *s, const struct sp_transfer_counters *n)
{
	return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "name", s->device, "packets", (json_int_t)n->device_packets,
			 "lost", (json_int_t)n->device_lost, "busy_s", (double)n->device_busy / (double)SP_SEC,
			 "latency_ns", each_ns(n->device_latency, n->device_packets), "wait_ns",
			 each_ns(n->device_wait, n->device_packets));
}

void sim_show_packets_json(const struct sim *s, const struct sp_sweep_outcome *o, double wall)
{
	const struct sp_transfer_counters *n = &o->count;
	const struct times t = packets_times(o);
	json_t *all = json_of(s, &t);

	json_object_update_new(all, json_pack("{s:I, s:I, s:I, s:I, s:b}", "packets", (json_int_t)n->packets,
					      "retransmitted_packets", (json_int_t)n->retransmitted,
					      "spurious_retransmissions", (json_int_t)n->spurious, "verified",
					      (json_int_t)n->verified, "payload_less", s->payload_less));
	if (s->nodes)
		json_object_set_new(all, "nodes", json_integer((json_int_t)s->nodes));
	if (s->warm_up)
		json_object_set_new(all, "warm_up", json_integer((json_int_t)s->warm_up));
	if (sim_schemes[s->scheme].packets == SDR_AUTO) {
		const struct chosen chosen = chosen_of(s, n);

		json_object_set_new(all, "chosen", chosen_json(&chosen));
	}
	if (s->device)
		json_object_set_new(all, "device", device_json(s, n));
	if (sim_schemes[s->scheme].code != SDR_CODE_NONE)
		json_object_update_new(all,
				       json_pack("{s:[i,i], s:I, s:I, s:I, s:I, s:I, s:f}", "ec", (int)s->model.k,
						 (int)s->model.m, "parity_packets", (json_int_t)n->parity,
						 "repaired_chunks", (json_int_t)n->repaired, "fallbacks",
						 (json_int_t)n->fallbacks, "repair_bps", (json_int_t)s->repair_rate,
						 "repair_workers", workers(s), "decode_s", repair_time(n)));
	json_show(all, wall);
}

void sim_show_packets_text(const struct sim *s, const struct sp_sweep_outcome *o, double wall)
{
	const struct sp_transfer_counters *n = &o->count;
	const struct times t = packets_times(o);

	if (s->nodes)
		printf("allreduce of %" PRIu64 " bytes in a ring of %" PRIu64 " nodes, in %" PRIu64 " rounds\n",
		       s->model.message, s->nodes, 2 * (s->nodes - 1));
	printf("SDR, packets, %s: messages of %" PRIu64 " bytes in chunks of %" PRIu64 ", mtu %" PRIu64 ", %" PRIu64
	       " bit/s, round trip %.9g s\n",
	       sim_schemes[s->scheme].name, sim_message(s), s->model.chunk, s->mtu, s->bandwidth, s->model.rtt);
	loss_show(s);
	puts("");
	times_show(s, &t);
	printf("\n%" PRIu64 " packets of data, %" PRIu64 " of them sent again (%" PRIu64 " needlessly)\n", n->packets,
	       n->retransmitted, n->spurious);
	if (sim_schemes[s->scheme].code != SDR_CODE_NONE)
		printf("%" PRIu64 " packets of parity (%u chunks for %u), %" PRIu64
		       " chunks repaired, fallback in %" PRIu64 " messages\n",
		       n->parity, s->model.m, s->model.k, n->repaired, n->fallbacks);
	if (sim_schemes[s->scheme].packets == SDR_AUTO) {
		const struct chosen chosen = chosen_of(s, n);
		char text[512];

		chosen_text(&chosen, text, sizeof(text));
		printf("auto chose %s messages\n", text);
	}
	if (s->repair_rate)
		printf("repairs of a message take %.3g s of work on average, shared by %lld worker%s of %.4g bit/s\n",
		       repair_time(n), (long long)workers(s), workers(s) > 1 ? "s" : "", (double)s->repair_rate);
	if (s->device)
		printf("device %s at the receiver: %" PRIu64
		       " packets, %.1f ns each, of which %.1f waiting for a core; %" PRIu64
		       " lost as its buffer was full\n",
		       s->device, n->device_packets, each_ns(n->device_latency, n->device_packets),
		       each_ns(n->device_wait, n->device_packets), n->device_lost);
	if (s->payload_less)
		printf("nothing was compared (payload-less)");
	else
		printf("%" PRIu64 " bytes compared at the receiver, all as sent", n->verified);
	printf("; %.1f s, %.3g Gbit of payload a second\n", wall,
	       (double)n->messages * (double)sim_message(s) * 8e-9 / wall);
}
