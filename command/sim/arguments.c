/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of spindle sim. */
#include "../../pipeline/value.h"
#include "arguments.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../handlers/wire/ec.h"
#include "../../pipeline/nic.h"
#include "../../pipeline/limits.h"
#include "../../testbed/allreduce.h"
#include "../ec_option.h"
#include "../options.h"
#include "../output.h"

#define FARTHEST      3e6 /* km; the round trip is 20 s */
#define KM_A_SECOND   300000.0
#define LONGEST	      (10 * SP_SEC) /* of --jitter and --reorder-delay */
#define NODES_DEFAULT 4
#define AUTO_M	      32  /* parity chunks of the code that auto's are derived from; k is 32 */
#define MTU_LEAST     100 /* of packets, see sdr_reliable_open() */
#define AT(field)     OPTION_AT(struct sim, field)

enum { PACKETS = 1, MODEL = 2 }; /* modes of options */
enum { SR_NACK = 1 };

static const struct usage usage = {
	.command = "sim",
	.forms = "spindle sim sdr|allreduce [OPTIONS]\n"
		 "spindle sim goal FILE|--pattern NAME [OPTIONS]\n"
		 "spindle sim motif NAME [OPTIONS]\n"
		 "spindle sim train [OPTIONS]",
	.about = "Simulates how long SDR messages take over a long link that loses packets: packet by packet, with "
		 "NICs and "
		 "host programs, or by the stochastic model of the SDR paper.\n"
		 "sdr: single messages. allreduce: a ring of nodes adds up a buffer, with such a link between "
		 "neighbours.\n"
		 "goal: schedules of many ranks, by LogGOPS: see 'spindle sim goal --help'.\n"
		 "motif: Sweep3D, Halo3D and others over a network of switches: see 'spindle sim motif --help'.\n"
		 "train: the messages of distributed training: see 'spindle sim train --help'.",
	.arguments = 1,
};

static const char *const scheme_names[] = {"sr-rto", "sr-nack", "ec-mds", "ec-xor", "auto", NULL};
static const char *const drop_units[] = {"chunk", "packet", NULL};

static int take_code(void *to, const char *text)
{
	struct sim *s = to;

	return ec_option_take(text, SP_MODEL_EC_MAX, &s->model.k, &s->model.m);
}

static int take_repair_rate(void *to, const char *text)
{
	struct sim *s = to;

	s->measured = !strcmp(text, "measured");
	return s->measured || (!sp_parse_rate(text, &s->repair_rate) && s->repair_rate >= 1000000) ? 0 : -EINVAL;
}

static const struct option_row both_rows[] = {
	{"bandwidth", 0, OPTION_RATE, "R", "of the link, bit/s (400G)", AT(bandwidth), .least = 1000,
	 .most = 100000000000000},
	{"distance", 0, OPTION_REAL, "KM", "length of the link: a round trip takes 2 KM / 300000 s (3750km)",
	 AT(distance), .low = 0.001, .high = FARTHEST, .unit = " (km)", .suffix = "km"},
	{"rtt", 0, OPTION_TIME, "T", "round-trip time, instead of --distance", AT(rtt), .least = 1,
	 .most = 20 * SP_SEC},
	{"message", 0, OPTION_SIZE, "N", "bytes of a message, or of the buffer of an allreduce (128M)",
	 AT(model.message), .least = 1, .most = SP_MODEL_MESSAGE_MAX},
	{"chunk", 0, OPTION_SIZE, "N", "bytes of a chunk, a multiple of --mtu (64K)", AT(model.chunk), .least = 1,
	 .most = 1 << 30},
	{"mtu", 0, OPTION_NUMBER, "N", "payload bytes of a packet, 64 to 4096, without --model from 100 (4096)",
	 AT(mtu), .least = 64, .most = 4096},
	{"drop", 0, OPTION_REAL, "P", "probability of a loss (1e-3)", AT(model.drop), .high = 1, .open = OPTION_BELOW},
	{"drop-per", 0, OPTION_WORD, "chunk|packet", "P is the probability that a chunk, or a packet, is lost (chunk)",
	 AT(packet), .words = drop_units},
	{"scheme", 0, OPTION_WORD, "S", "sr-rto, sr-nack, ec-mds, ec-xor or auto (sr-rto)", AT(scheme),
	 .words = scheme_names},
	{"rto", 0, OPTION_REAL, "N", "timeout before a chunk is sent again, in round trips (3)", AT(rto), .low = 1,
	 .high = 1000, .unit = " (round trips)"},
	{"ec", 0, OPTION_CALL, "K,M", "M parity chunks for K data chunks (32,8)", .take = take_code,
	 .wants = "K,M with 1 <= M <= K and K + M <= 256"},
	{"samples", 0, OPTION_NUMBER, "N", "messages or allreduces (100; with --model 10000)", AT(samples), .least = 1,
	 .most = SP_MODEL_SAMPLES_MAX},
	{"seed", 0, OPTION_NUMBER, "N", "the same seed draws the same samples (1)", AT(seed),
	 .most = INT64_MAX /* JSON has no more */},
	{"times", 0, OPTION_STRING, "FILE", "write each message's time to FILE, in seconds, one a line", AT(times)},
	{"json", 0, OPTION_FLAG, NULL, "print JSON", AT(json)},
	{0},
};

static const struct option_row packet_rows[] = {
	{"nodes", 0, OPTION_NUMBER, "N", "of an allreduce's ring, 2 to 16 (4)", AT(nodes), .least = 2,
	 .most = SP_ALLREDUCE_NODES_MAX},
	{"warm-up", 0, OPTION_NUMBER, "N", "messages before the samples, on each connection (0)", AT(warm_up),
	 .most = 100000, .modes = PACKETS},
	{"payload-less", 0, OPTION_FLAG, NULL, "carry no payload: faster, but nothing is compared", AT(payload_less),
	 .modes = PACKETS},
	{"burst", 0, OPTION_REAL, "N", "packets are lost in bursts of N on average; needs --drop-per packet", AT(burst),
	 .low = 1, .high = 1e6, .unit = " (packets)", .modes = PACKETS},
	{"jitter", 0, OPTION_TIME, "T", "packets are late by 0 to T", AT(jitter), .most = LONGEST, .modes = PACKETS},
	{"reorder", 0, OPTION_PROBABILITY, "P", "probability that a packet is late by --reorder-delay", AT(reorder),
	 .modes = PACKETS},
	{"reorder-delay", 0, OPTION_TIME, "T", "how late such a packet is (a 64th of the round trip)",
	 AT(reorder_delay), .most = LONGEST, .modes = PACKETS},
	{"duplicate", 0, OPTION_PROBABILITY, "P", "probability that a packet arrives twice", AT(duplicate),
	 .modes = PACKETS},
	{"repair-rate", 0, OPTION_CALL, "R|measured",
	 "rate at which a NIC reads chunks to repair others, bit/s (repairs take no time)", .take = take_repair_rate,
	 .wants = "1M or more (bit/s), or measured", .modes = PACKETS},
	{"repair-workers", 0, OPTION_NUMBER, "N", "workers of a NIC, each with that rate, 1 to 16 (1)",
	 AT(repair_workers), .least = 1, .most = SP_MAX_WORKERS, .modes = PACKETS},
	{"device", 0, OPTION_STRING, "NAME", "the receiving NIC runs SDR on this device (spindle device)", AT(device),
	 .modes = PACKETS},
	{"jobs", 'j', OPTION_NUMBER, "N", "processes (one per processor)", AT(jobs), .least = 1, .most = 256,
	 .modes = PACKETS},
	{0},
};

static const struct option_row model_rows[] = {
	{"model", 0, OPTION_FLAG, NULL, "compute the model, instead of simulating packets", AT(is_model)},
	{"beta", 0, OPTION_REAL, "N", "wait for stragglers before the fallback, in round trips (0.5)", AT(model.beta),
	 .high = 1000, .unit = " (round trips)", .modes = MODEL},
	{0},
};

static int check_model(struct sim *s, const struct options *o)
{
	const struct option_row *foreign = options_foreign(o, MODEL);

	s->samples = s->samples ? s->samples : 10000;
	if (sim_schemes[s->scheme].no_model)
		return options_misuse(&usage, "the model has no %s", scheme_names[s->scheme]);
	return foreign ? options_misuse(&usage, "the model has no %s", option_name(foreign)) : OPTIONS_GO_ON;
}

static int check_packets(struct sim *s, const struct options *o)
{
	const bool coded = sim_schemes[s->scheme].code != SDR_CODE_NONE;
	const char *wrong = NULL;

	s->samples = s->samples ? s->samples : 100;
	if (options_foreign(o, PACKETS))
		return options_misuse(&usage, "only --model has %s", option_name(options_foreign(o, PACKETS)));
	if ((s->measured || s->repair_rate) && !coded)
		wrong = "only ec-mds, ec-xor and auto have --repair-rate";
	else if (s->repair_workers && !s->measured && !s->repair_rate)
		wrong = "--repair-workers needs --repair-rate";
	else if (s->rto > 0 && coded)
		wrong = "of packets only sr-rto has --rto";
	else if (coded && s->model.k + s->model.m > SP_EC_CHUNKS_MAX)
		wrong = "--ec must have K + M <= 255 without --model";
	else if (s->samples > SP_SWEEP_SAMPLES_MAX)
		wrong = "--samples must be at most 10000000 without --model";
	else if (s->mtu < MTU_LEAST)
		wrong = "--mtu must be at least 100 without --model: acknowledgements have to fit";
	else if (s->burst > 0 && !s->packet)
		wrong = "--burst needs --drop-per packet";
	else if (s->burst > 0 && s->model.drop > s->burst / (s->burst + 1))
		wrong = "bursts as short as --burst cannot lose as much as --drop: at most N / (N + 1)";
	else if (options_has(o, "reorder-delay") && !(s->reorder > 0))
		wrong = "--reorder-delay needs --reorder";
	else if (s->device && s->nodes)
		wrong = "allreduce has no --device";
	else if (s->device && s->payload_less)
		wrong = "--device needs the packets' payload: no --payload-less";
	if (wrong)
		return options_misuse(&usage, "%s", wrong);
	if (sim_message(s) <= s->mtu << 18)
		return OPTIONS_GO_ON;
	command_fail("sim",
		     "--message%s must be at most --mtu * 2^18 without --model: %" PRIu64 " is more than %" PRIu64,
		     s->nodes ? " / --nodes" : "", sim_message(s), s->mtu << 18);
	return 2;
}

/* Rejects options that exclude each other. */
static int check(struct sim *s, const struct options *o)
{
	const bool code = options_has(o, "ec"), beta = options_has(o, "beta");
	int status;

	if (s->rtt && s->distance > 0)
		return options_misuse(&usage, "--distance and --rtt say the same: only one can be given");
	if (s->rto > 0 && s->scheme == SR_NACK)
		return options_misuse(&usage, "sr-nack sends again after one round trip and has no --rto");
	if ((code || beta) && s->model.scheme == SP_MODEL_SR)
		return options_misuse(&usage, "only ec-mds, ec-xor and auto have %s", code ? "--ec" : "--beta");
	status = s->is_model ? check_model(s, o) : check_packets(s, o);
	if (status != OPTIONS_GO_ON)
		return status;
	if (s->model.chunk % s->mtu) {
		command_fail("sim", "--chunk must be a multiple of --mtu: %" PRIu64 " is not one of %" PRIu64,
			     s->model.chunk, s->mtu);
		return 2;
	}
	if (sim_chunk_drop(s) > SP_MODEL_DROP_MAX) {
		command_fail("sim", "--drop must leave a chunk's probability of a loss at most %g, not %.6g",
			     SP_MODEL_DROP_MAX, sim_chunk_drop(s));
		return 2;
	}
	return OPTIONS_GO_ON;
}

/* Sets what follows from other options. */
static void conclude(struct sim *s, const struct options *o)
{
	struct sp_model *m = &s->model;

	m->rto = s->rto > 0 ? s->rto : sim_schemes[s->scheme].rto;
	m->bandwidth = (double)s->bandwidth;
	m->mtu = s->packet ? (uint32_t)s->mtu : 0;
	m->rtt = s->rtt ? (double)s->rtt / (double)SP_SEC : 2 * (s->distance > 0 ? s->distance : 3750) / KM_A_SECOND;
	if (!s->rtt)
		s->rtt = (uint64_t)(m->rtt * (double)SP_SEC + 0.5);
	if (!options_has(o, "reorder-delay"))
		s->reorder_delay = s->rtt / 64;
}

int sim_arguments(struct sim *s, int argc, char **argv)
{
	struct options o = {
		&usage,
		{{NULL, both_rows, s, NULL}, {"Packets:", packet_rows, s, NULL}, {"The model:", model_rows, s, NULL}}};
	bool allreduce;
	int status;

	*s = (struct sim){
		.model = {.message = 128ull << 20, .chunk = 64 << 10, .drop = 1e-3, .k = 32, .m = 8, .beta = 0.5},
		.bandwidth = 400000000000,
		.mtu = 4096,
		.seed = 1};
	status = options_parse(&o, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!o.arguments)
		return options_misuse(&usage, "what to simulate is missing: sdr, allreduce, goal, motif or train");
	allreduce = !strcmp(o.argument[0], "allreduce");
	if (!allreduce && strcmp(o.argument[0], "sdr"))
		return options_misuse(&usage, "can simulate sdr, allreduce, goal, motif and train, not %s",
				      o.argument[0]);
	if (s->nodes && !allreduce)
		return options_misuse(&usage, "only allreduce has --nodes");
	if (s->is_model && allreduce)
		return options_misuse(&usage, "allreduce is simulated by packets only: it has no --model");
	s->nodes = allreduce && !s->nodes ? NODES_DEFAULT : s->nodes;
	s->model.scheme = sim_schemes[s->scheme].scheme;
	if (!options_has(&o, "ec") && sim_schemes[s->scheme].packets == SDR_AUTO)
		s->model.m = AUTO_M;
	status = check(s, &o);
	if (status == OPTIONS_GO_ON)
		conclude(s, &o);
	return status;
}
