/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim: what becomes of many messages over a link that is described, as a table or JSON. */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../pipeline/config.h"
#include "sim.h"

#define FARTHEST    3e6 /* km; the round trip is 20 s */
#define KM_A_SECOND 300000.0

static const char usage[] =
	"usage: spindle sim sdr --model [OPTIONS]\n"
	"\n"
	"How long SDR messages take over a long link that loses packets: the stochastic model of the SDR paper.\n"
	"  --bandwidth R    of the link, bit/s (400G)\n"
	"  --distance KM    of its ends; a round trip takes 2 KM / 300000 s (3750km)\n"
	"  --rtt T          the round trip itself, instead\n"
	"  --message N      bytes of a message (128M)\n"
	"  --chunk N        bytes of a chunk, a multiple of mtu (64K)\n"
	"  --mtu N          payload bytes of a packet, 64 to 4096 (4096)\n"
	"  --drop P         probability of a loss (1e-3)\n"
	"  --drop-per chunk|packet  of what P is the probability (chunk)\n"
	"  --scheme sr-rto|sr-nack|ec-mds|ec-xor  (sr-rto)\n"
	"  --rto N          timeout before a chunk is sent again, in round trips (3; sr-nack: always 1)\n"
	"  --ec K,M         parity chunks: M for K data chunks (32,8)\n"
	"  --beta N         wait for stragglers before the fallback, in round trips (0.5)\n"
	"  --samples N      messages (10000)\n"
	"  --seed N         the same seed draws the same samples (1)\n"
	"  --json           print JSON\n";

const struct sim_scheme sim_schemes[] = {{"sr-rto", SP_MODEL_SR, 3},
					 {"sr-nack", SP_MODEL_SR, 1},
					 {"ec-mds", SP_MODEL_EC_MDS, 3},
					 {"ec-xor", SP_MODEL_EC_XOR, 3}};
#define SCHEMES (sizeof(sim_schemes) / sizeof(*sim_schemes))
enum { SR_NACK = 1 };

static int misuse(const char *what, const char *about)
{
	fprintf(stderr, "spindle sim: %s%s\n", what, about);
	fputs(usage, stderr);
	return 2;
}

/* ---- options ---- */

static bool parse_real(const char *text, const char *unit, double *value)
{
	size_t digits = strspn(text, "0123456789.eE+-");
	char *end;

	*value = strtod(text, &end);
	return digits && end == text + digits && (!*end || !strcmp(end, unit)) && isfinite(*value);
}

static bool parse_scheme(const char *text, unsigned *scheme)
{
	for (*scheme = 0; *scheme < SCHEMES; ++*scheme)
		if (!strcmp(text, sim_schemes[*scheme].name))
			return true;
	return false;
}

static bool parse_ec(const char *text, unsigned *k, unsigned *m)
{
	char data[8] = "";
	size_t digits = strcspn(text, ",");
	uint64_t data_chunks, parity_chunks;

	if (!text[digits] || digits >= sizeof(data))
		return false;
	memcpy(data, text, digits);
	if (sp_parse_uint(data, &data_chunks) || sp_parse_uint(text + digits + 1, &parity_chunks) || !parity_chunks ||
	    parity_chunks > data_chunks || data_chunks + parity_chunks > SP_MODEL_EC_MAX)
		return false;
	*k = (unsigned)data_chunks;
	*m = (unsigned)parity_chunks;
	return true;
}

enum {
	BANDWIDTH = 256,
	DISTANCE,
	RTT,
	MESSAGE,
	CHUNK,
	MTU,
	DROP,
	DROP_PER,
	SCHEME,
	RTO,
	EC,
	BETA,
	SAMPLES,
	SEED,
	MODEL,
	JSON
};

/* What an option with a value wants, if it is not this; NULL: taken. */
static const char *take(struct sim *s, int option, const char *value)
{
	struct sp_model *m = &s->model;

	switch (option) {
	case BANDWIDTH:
		if (sp_parse_rate(value, &s->bandwidth) || s->bandwidth < 1000 || s->bandwidth > 100000000000000)
			return "--bandwidth must be 1000 to 100000G";
		break;
	case DISTANCE:
		if (!parse_real(value, "km", &s->distance) || !(s->distance >= 0.001 && s->distance <= FARTHEST))
			return "--distance must be 0.001 to 3000000 (km)";
		break;
	case RTT:
		if (sp_parse_time(value, &s->rtt) || !s->rtt || s->rtt > 20 * SP_SEC)
			return "--rtt must be 1ps to 20s";
		break;
	case MESSAGE:
		if (sp_parse_uint(value, &m->message) || !m->message || m->message > SP_MODEL_MESSAGE_MAX)
			return "--message must be 1 to 1024T";
		break;
	case CHUNK:
		if (sp_parse_uint(value, &m->chunk) || !m->chunk || m->chunk > 1u << 30)
			return "--chunk must be 1 to 1G";
		break;
	case MTU:
		if (sp_parse_uint(value, &s->mtu) || s->mtu < 64 || s->mtu > 4096)
			return "--mtu must be 64 to 4096";
		break;
	case DROP:
		if (!parse_real(value, "", &m->drop) || !(m->drop >= 0 && m->drop < 1))
			return "--drop must be 0 or more and less than 1";
		break;
	case DROP_PER:
		s->packet = !strcmp(value, "packet");
		if (!s->packet && strcmp(value, "chunk"))
			return "--drop-per must be chunk or packet";
		break;
	case SCHEME:
		if (!parse_scheme(value, &s->scheme))
			return "--scheme must be sr-rto, sr-nack, ec-mds or ec-xor";
		break;
	case RTO:
		if (!parse_real(value, "", &s->rto) || !(s->rto >= 1 && s->rto <= 1000))
			return "--rto must be 1 to 1000 (round trips)";
		break;
	case EC:
		s->ec = value;
		if (!parse_ec(value, &m->k, &m->m))
			return "--ec must be K,M with 1 <= M <= K and K + M <= 256";
		break;
	case BETA:
		s->beta = value;
		if (!parse_real(value, "", &m->beta) || !(m->beta >= 0 && m->beta <= 1000))
			return "--beta must be 0 to 1000 (round trips)";
		break;
	case SAMPLES:
		if (sp_parse_uint(value, &s->samples) || !s->samples || s->samples > SP_MODEL_SAMPLES_MAX)
			return "--samples must be 1 to 100000000";
		break;
	case SEED:
		if (sp_parse_uint(value, &s->seed) || s->seed > INT64_MAX) /* JSON has no more */
			return "--seed must be 0 to 9223372036854775807";
		break;
	}
	return NULL;
}

/* What the options are together. 0, or the exit status. */
static int conclude(struct sim *s)
{
	struct sp_model *m = &s->model;

	m->scheme = sim_schemes[s->scheme].scheme;
	if (!s->is_model)
		return misuse("--model is missing", "");
	if (s->rtt && s->distance > 0)
		return misuse("--distance and --rtt say the same: only one can be given", "");
	if (s->rto > 0 && s->scheme == SR_NACK)
		return misuse("sr-nack sends again after one round trip and has no --rto", "");
	if ((s->ec || s->beta) && m->scheme == SP_MODEL_SR)
		return misuse("only ec-mds and ec-xor have ", s->ec ? "--ec" : "--beta");
	if (m->chunk % s->mtu) {
		fprintf(stderr,
			"spindle sim: --chunk must be a multiple of --mtu: %" PRIu64 " is not one of %" PRIu64 "\n",
			m->chunk, s->mtu);
		return 2;
	}
	m->rto = s->rto > 0 ? s->rto : sim_schemes[s->scheme].rto;
	m->bandwidth = (double)s->bandwidth;
	m->mtu = s->packet ? (uint32_t)s->mtu : 0;
	m->rtt = 2 * (s->distance > 0 ? s->distance : 3750) / KM_A_SECOND;
	if (s->rtt)
		m->rtt = (double)s->rtt / (double)SP_SEC;
	return 0;
}

double sim_chunk_drop(const struct sim *s)
{
	return s->packet ? sp_model_chunk_drop(s->model.drop, s->model.chunk / s->mtu) : s->model.drop;
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The exit status. */
static int run(const struct sim *s)
{
	const struct sp_model *m = &s->model;
	struct sp_model_outcome o;
	double began = seconds();
	int err = sp_model_run(m, (uint32_t)s->samples, s->seed, &o);

	if (err == -ERANGE && sim_chunk_drop(s) > SP_MODEL_DROP_MAX) {
		fprintf(stderr, "spindle sim: --drop must leave a chunk's probability of a loss at most %g, not %.6g\n",
			SP_MODEL_DROP_MAX, sim_chunk_drop(s));
		return 2;
	}
	if (err == -ERANGE) {
		fprintf(stderr, "spindle sim: --message must have at most %u submessages of --ec data chunks\n",
			SP_MODEL_SUBMESSAGES_MAX);
		return 2;
	}
	if (err) {
		fprintf(stderr, "spindle sim: %" PRIu64 " samples: %s\n", s->samples, strerror(-err));
		return 1;
	}
	if (s->json)
		sim_show_json(s, &o, seconds() - began);
	else
		sim_show_text(s, &o);
	return 0;
}

int command_sim(int argc, char **argv)
{
	static const struct option options[] = {{"bandwidth", required_argument, NULL, BANDWIDTH},
						{"distance", required_argument, NULL, DISTANCE},
						{"rtt", required_argument, NULL, RTT},
						{"message", required_argument, NULL, MESSAGE},
						{"chunk", required_argument, NULL, CHUNK},
						{"mtu", required_argument, NULL, MTU},
						{"drop", required_argument, NULL, DROP},
						{"drop-per", required_argument, NULL, DROP_PER},
						{"scheme", required_argument, NULL, SCHEME},
						{"rto", required_argument, NULL, RTO},
						{"ec", required_argument, NULL, EC},
						{"beta", required_argument, NULL, BETA},
						{"samples", required_argument, NULL, SAMPLES},
						{"seed", required_argument, NULL, SEED},
						{"model", no_argument, NULL, MODEL},
						{"json", no_argument, NULL, JSON},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct sim s = {
		.model = {.message = 128ull << 20, .chunk = 64 << 10, .drop = 1e-3, .k = 32, .m = 8, .beta = 0.5},
		.bandwidth = 400000000000,
		.mtu = 4096,
		.samples = 10000,
		.seed = 1};
	const char *what, *about;
	int opt, status;

	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", options, NULL)) != -1)
		switch (opt) {
		case MODEL:
			s.is_model = true;
			break;
		case JSON:
			s.json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case ':':
		case '?':
			what = command_bad_option(opt, argv, &about);
			return misuse(what, about);
		default:
			what = take(&s, opt, optarg);
			if (what)
				return command_bad_value("sim", what, optarg);
		}
	if (optind >= argc)
		return misuse("what to simulate is missing: sdr", "");
	if (strcmp(argv[optind], "sdr"))
		return misuse("can simulate sdr, not ", argv[optind]);
	if (optind + 1 < argc)
		return misuse("extra argument ", argv[optind + 1]);
	status = conclude(&s);
	return status ? status : run(&s);
}
