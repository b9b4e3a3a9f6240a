/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim is asked for. */
#include "../command.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../handlers/wire/ec.h"
#include "../../pipeline/config.h"
#include "../../pipeline/limits.h"
#include "../../testbed/ring.h"
#include "asked.h"

#define FARTHEST      3e6 /* km; the round trip is 20 s */
#define KM_A_SECOND   300000.0
#define LONGEST	      (10 * SP_SEC) /* jitter, and being late */
#define NODES_DEFAULT 4
#define WARMEST	      100000
#define AUTO_M	      32  /* of the code that auto's are derived from; k is 32 */
#define MTU_LEAST     100 /* of packets, see sdr_reliable_open() */

static const char usage[] =
	"usage: spindle sim sdr|allreduce [OPTIONS]\n"
	"\n"
	"How long SDR messages take over a long link that loses packets: simulated packet by "
	"packet, with NICs and host\n"
	"programs, or by the stochastic model of the SDR paper.\n"
	"sdr: of single messages. allreduce: how long a ring of nodes takes to add up a buffer, with such links "
	"between them.\n"
	"  --bandwidth R    of the link, bit/s (400G)\n"
	"  --distance KM    of its ends; a round trip takes 2 KM / 300000 s (3750km)\n"
	"  --rtt T          the round trip itself, instead\n"
	"  --message N      bytes of a message, or of the buffer of an allreduce (128M)\n"
	"  --chunk N        bytes of a chunk, a multiple of mtu (64K)\n"
	"  --mtu N          payload bytes of a packet, 64 to 4096, without --model from 100 (4096)\n"
	"  --drop P         probability of a loss (1e-3)\n"
	"  --drop-per chunk|packet  of what P is the probability (chunk)\n"
	"  --scheme sr-rto|sr-nack|ec-mds|ec-xor|auto  (sr-rto)\n"
	"  --rto N          timeout before a chunk is sent again, in round trips (3)\n"
	"  --samples N      messages or allreduces (100; with --model 10000)\n"
	"  --warm-up N      as many before them on each connection, packets only (0)\n"
	"  --seed N         the same seed draws the same samples (1)\n"
	"  --times FILE     write each message's time to FILE, in seconds, one a line\n"
	"  --json           print JSON\n"
	"Packets:\n"
	"  --nodes N        of an allreduce's ring, 2 to 16 (4)\n"
	"  --payload-less   carry no payload: faster, and nothing is compared\n"
	"  --burst N        packets are lost in bursts of N on average; needs --drop-per packet\n"
	"  --jitter T       packets are late by 0 to T\n"
	"  --reorder P      a packet is late by --reorder-delay\n"
	"  --reorder-delay T  (a 64th of the round trip)\n"
	"  --duplicate P    a packet comes twice\n"
	"  --repair-rate R|measured  what a NIC reads of chunks to repair others, bit/s: repairs take time (they do "
	"not)\n"
	"  --repair-workers N  of a NIC, each as fast: 1 to 16 (1)\n"
	"  -j, --jobs N     processes (one per processor)\n"
	"The model:\n"
	"  --model          compute it, instead of packets\n"
	"  --ec K,M         parity chunks: M for K data chunks (32,8)\n"
	"  --beta N         wait for stragglers before the fallback, in round trips (0.5)\n";

const struct sim_scheme sim_schemes[] = {{"sr-rto", SP_MODEL_SR, 3, SDR_SR_RTO, SDR_CODE_NONE, false},
					 {"sr-nack", SP_MODEL_SR, 1, SDR_SR_NACK, SDR_CODE_NONE, false},
					 {"ec-mds", SP_MODEL_EC_MDS, 3, SDR_EC_MDS, SDR_CODE_MDS, false},
					 {"ec-xor", SP_MODEL_EC_XOR, 3, SDR_EC_XOR, SDR_CODE_XOR, false},
					 {"auto", SP_MODEL_EC_MDS, 3, SDR_AUTO, SDR_CODE_MDS, true}};
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
	TIMES,
	BURST,
	JITTER,
	REORDER,
	REORDER_DELAY,
	DUPLICATE,
	JOBS,
	REPAIR_RATE,
	REPAIR_WORKERS,
	WARM_UP,
	PAYLOAD_LESS,
	MODEL,
	JSON,
	NODES
};

static bool parse_probability(const char *text, double *value)
{
	return parse_real(text, "", value) && *value >= 0 && *value <= 1;
}

/* The same of what only packets have. */
static const char *take_packets(struct sim *s, int option, const char *value)
{
	switch (option) {
	case BURST:
		s->packets_only = "--burst";
		if (!parse_real(value, "", &s->burst) || !(s->burst >= 1 && s->burst <= 1e6))
			return "--burst must be 1 to 1000000 (packets)";
		break;
	case JITTER:
		s->packets_only = "--jitter";
		if (sp_parse_time(value, &s->jitter) || s->jitter > LONGEST)
			return "--jitter must be 0 to 10s";
		break;
	case REORDER:
		s->packets_only = "--reorder";
		if (!parse_probability(value, &s->reorder))
			return "--reorder must be 0 to 1";
		break;
	case REORDER_DELAY:
		s->packets_only = "--reorder-delay";
		if (sp_parse_time(value, &s->reorder_delay) || s->reorder_delay > LONGEST)
			return "--reorder-delay must be 0 to 10s";
		break;
	case DUPLICATE:
		s->packets_only = "--duplicate";
		if (!parse_probability(value, &s->duplicate))
			return "--duplicate must be 0 to 1";
		break;
	case REPAIR_RATE:
		s->packets_only = "--repair-rate";
		s->measured = !strcmp(value, "measured");
		if (!s->measured && (sp_parse_rate(value, &s->repair_rate) || s->repair_rate < 1000000))
			return "--repair-rate must be 1M or more (bit/s), or measured";
		break;
	case REPAIR_WORKERS:
		s->packets_only = "--repair-workers";
		if (sp_parse_uint(value, &s->repair_workers) || !s->repair_workers ||
		    s->repair_workers > SP_MAX_WORKERS)
			return "--repair-workers must be 1 to 16";
		break;
	case WARM_UP:
		s->packets_only = "--warm-up";
		if (sp_parse_uint(value, &s->warm_up) || s->warm_up > WARMEST)
			return "--warm-up must be 0 to 100000";
		break;
	case JOBS:
		s->packets_only = "--jobs";
		if (sp_parse_uint(value, &s->jobs) || !s->jobs || s->jobs > 256)
			return "--jobs must be 1 to 256";
		break;
	}
	return NULL;
}

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
	case NODES:
		if (sp_parse_uint(value, &s->nodes) || s->nodes < 2 || s->nodes > SP_RING_NODES_MAX)
			return "--nodes must be 2 to 16";
		break;
	case TIMES:
		s->times = value;
		break;
	case DROP_PER:
		s->packet = !strcmp(value, "packet");
		if (!s->packet && strcmp(value, "chunk"))
			return "--drop-per must be chunk or packet";
		break;
	case SCHEME:
		if (!parse_scheme(value, &s->scheme))
			return "--scheme must be sr-rto, sr-nack, ec-mds, ec-xor or auto";
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
	default:
		return take_packets(s, option, value);
	}
	return NULL;
}

/* What cannot be with packets, or with the model. 0, or the exit status. */
static int conclude_kind(struct sim *s)
{
	const struct sim_scheme *scheme = &sim_schemes[s->scheme];

	if (s->is_model) {
		s->samples = s->samples ? s->samples : 10000;
		if (scheme->no_model)
			return misuse("the model has no ", scheme->name);
		return s->packets_only ? misuse("the model has no ", s->packets_only) : 0;
	}
	s->samples = s->samples ? s->samples : 100;
	if (s->beta)
		return misuse("only --model has ", "--beta");
	if ((s->measured || s->repair_rate) && scheme->code == SDR_CODE_NONE)
		return misuse("only ec-mds, ec-xor and auto have ", "--repair-rate");
	if (s->repair_workers && !s->measured && !s->repair_rate)
		return misuse("--repair-workers is of what --repair-rate says", "");
	if (s->rto > 0 && scheme->code != SDR_CODE_NONE)
		return misuse("of packets only sr-rto has ", "--rto");
	if (scheme->code != SDR_CODE_NONE && s->model.k + s->model.m > SP_EC_CHUNKS_MAX)
		return misuse("--ec must have K + M <= 255 without --model", "");
	if (s->samples > SP_SWEEP_SAMPLES_MAX)
		return misuse("--samples must be at most 10000000 without --model", "");
	if (s->mtu < MTU_LEAST)
		return misuse("--mtu must be at least 100 without --model: acknowledgements have to fit", "");
	if (s->burst > 0 && !s->packet)
		return misuse("--burst is of packets: it needs --drop-per packet", "");
	if (s->burst > 0 && s->model.drop > s->burst / (s->burst + 1))
		return misuse("bursts as short as --burst cannot lose as much as --drop: at most N / (N + 1)", "");
	if (s->reorder_delay != UINT64_MAX && !(s->reorder > 0))
		return misuse("--reorder-delay is of what --reorder says", "");
	if (sim_message(s) > s->mtu << 18) {
		fprintf(stderr,
			"spindle sim: --message%s must be at most --mtu * 2^18 without --model: %" PRIu64
			" is more than %" PRIu64 "\n",
			s->nodes ? " / --nodes" : "", sim_message(s), s->mtu << 18);
		return 2;
	}
	return 0;
}

/* What the options are together. 0, or the exit status. */
static int conclude(struct sim *s)
{
	struct sp_model *m = &s->model;

	int status;

	m->scheme = sim_schemes[s->scheme].scheme;
	if (!s->ec && sim_schemes[s->scheme].packets == SDR_AUTO)
		m->m = AUTO_M;
	if (s->rtt && s->distance > 0)
		return misuse("--distance and --rtt say the same: only one can be given", "");
	if (s->rto > 0 && s->scheme == SR_NACK)
		return misuse("sr-nack sends again after one round trip and has no --rto", "");
	if ((s->ec || s->beta) && m->scheme == SP_MODEL_SR)
		return misuse("only ec-mds, ec-xor and auto have ", s->ec ? "--ec" : "--beta");
	status = conclude_kind(s);
	if (status)
		return status;
	if (m->chunk % s->mtu) {
		fprintf(stderr,
			"spindle sim: --chunk must be a multiple of --mtu: %" PRIu64 " is not one of %" PRIu64 "\n",
			m->chunk, s->mtu);
		return 2;
	}
	if (sim_chunk_drop(s) > SP_MODEL_DROP_MAX) {
		fprintf(stderr, "spindle sim: --drop must leave a chunk's probability of a loss at most %g, not %.6g\n",
			SP_MODEL_DROP_MAX, sim_chunk_drop(s));
		return 2;
	}
	m->rto = s->rto > 0 ? s->rto : sim_schemes[s->scheme].rto;
	m->bandwidth = (double)s->bandwidth;
	m->mtu = s->packet ? (uint32_t)s->mtu : 0;
	m->rtt = 2 * (s->distance > 0 ? s->distance : 3750) / KM_A_SECOND;
	if (s->rtt)
		m->rtt = (double)s->rtt / (double)SP_SEC;
	if (!s->rtt)
		s->rtt = (uint64_t)(m->rtt * (double)SP_SEC + 0.5);
	if (s->reorder_delay == UINT64_MAX)
		s->reorder_delay = s->rtt / 64;
	return 0;
}

int sim_options(struct sim *s, int argc, char **argv)
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
						{"times", required_argument, NULL, TIMES},
						{"burst", required_argument, NULL, BURST},
						{"jitter", required_argument, NULL, JITTER},
						{"reorder", required_argument, NULL, REORDER},
						{"reorder-delay", required_argument, NULL, REORDER_DELAY},
						{"duplicate", required_argument, NULL, DUPLICATE},
						{"jobs", required_argument, NULL, JOBS},
						{"repair-rate", required_argument, NULL, REPAIR_RATE},
						{"repair-workers", required_argument, NULL, REPAIR_WORKERS},
						{"warm-up", required_argument, NULL, WARM_UP},
						{"payload-less", no_argument, NULL, PAYLOAD_LESS},
						{"model", no_argument, NULL, MODEL},
						{"json", no_argument, NULL, JSON},
						{"nodes", required_argument, NULL, NODES},
						{"help", no_argument, NULL, 'h'},
						{0}};
	const char *what, *about;
	bool allreduce;
	int opt;

	*s = (struct sim){
		.model = {.message = 128ull << 20, .chunk = 64 << 10, .drop = 1e-3, .k = 32, .m = 8, .beta = 0.5},
		.bandwidth = 400000000000,
		.mtu = 4096,
		.reorder_delay = UINT64_MAX,
		.seed = 1};
	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":hj:", options, NULL)) != -1)
		switch (opt) {
		case MODEL:
			s->is_model = true;
			break;
		case PAYLOAD_LESS:
			s->packets_only = "--payload-less";
			s->payload_less = true;
			break;
		case JSON:
			s->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		case ':':
		case '?':
			what = command_bad_option(opt, argv, &about);
			return misuse(what, about) + 1;
		default:
			what = take(s, opt == 'j' ? JOBS : opt, optarg);
			if (what)
				return command_bad_value("sim", what, optarg) + 1;
		}
	if (optind >= argc)
		return misuse("what to simulate is missing: sdr or allreduce", "") + 1;
	if (strcmp(argv[optind], "sdr") && strcmp(argv[optind], "allreduce"))
		return misuse("can simulate sdr and allreduce, not ", argv[optind]) + 1;
	allreduce = !strcmp(argv[optind], "allreduce");
	if (s->nodes && !allreduce)
		return misuse("only allreduce has ", "--nodes") + 1;
	if (s->is_model && allreduce)
		return misuse("allreduce is of packets alone: it has no ", "--model") + 1;
	s->nodes = allreduce && !s->nodes ? NODES_DEFAULT : s->nodes;
	if (optind + 1 < argc)
		return misuse("extra argument ", argv[optind + 1]) + 1;
	opt = conclude(s);
	return opt ? opt + 1 : 0;
}
