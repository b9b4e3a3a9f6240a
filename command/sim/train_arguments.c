/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of spindle sim train. */
#include "train.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "../options.h"

#define AT(field) OPTION_AT(struct sim_train, field)

#define DAY	(24 * 3600 * SP_SEC)
#define BARRIER 64 /* bytes of its messages, unless --bytes says so */

enum { PS = 1, LAYERS = 2, TENSOR = 4, HYBRID = 8, OTHER = 16, SUMS = 32 }; /* modes of options */

static const struct usage usage = {
	.command = "sim train",
	.forms = "spindle sim train [--scheme S] [OPTIONS]",
	.about =
		"Simulates the messages of distributed training, and how long its steps take: data parallel by a "
		"parameter server, a ring or otherwise; pipelines; tensor parallel; both. Links are full duplex, and a "
		"message takes the latency and its bytes' time on the link. Computation is time that passes. No "
		"packets "
		"are simulated.",
	.end = "Exit status: 0 done, 1 failed, or a worker has a wrong sum, 2 wrong usage.",
};

static const struct scheme {
	enum train_scheme scheme;
	bool offload;
	unsigned mode;
} schemes[] = {
	{TRAIN_RING, false, SUMS},
	{TRAIN_RING, true, SUMS},
	{TRAIN_PS, false, PS | SUMS},
	{TRAIN_PS, true, PS | SUMS},
	{TRAIN_PS_ASYNC, false, OTHER},
	{TRAIN_PS_SHARDED, false, SUMS},
	{TRAIN_DECENTRALISED, false, SUMS},
	{TRAIN_REDUCE_SCATTER, false, OTHER},
	{TRAIN_ALL_GATHER, false, OTHER},
	{TRAIN_BARRIER, false, OTHER},
	{TRAIN_BARRIER, true, OTHER},
	{TRAIN_PIPELINE, false, LAYERS},
	{TRAIN_TENSOR, false, LAYERS | TENSOR},
	{TRAIN_HYBRID, false, LAYERS | HYBRID},
};

const char *const sim_train_schemes[] = {
	"ring",		 "ring-nic",	   "ps",	 "ps-nic",  "ps-async",	   "ps-sharded",
	"decentralised", "reduce-scatter", "all-gather", "barrier", "barrier-nic", "pipeline",
	"tensor",	 "hybrid",	   NULL};

static int take_noise(void *to, const char *text)
{
	struct sim_train *s = to;

	if (!strncmp(text, "os:", 3) && text[3])
		s->os = text + 3;
	else if (!strncmp(text, "latency:", 8) && text[8])
		s->latencies = text + 8;
	else
		return -EINVAL;
	return 0;
}

/* A number of at most 9 digits; what is behind it. NULL: there is none. */
static const char *take_digits(const char *text, uint32_t *value)
{
	const size_t n = strspn(text, "0123456789");

	*value = 0;
	for (size_t i = 0; i < n && n <= 9; i++)
		*value = *value * 10 + (uint32_t)(text[i] - '0');
	return n && n <= 9 ? text + n : NULL;
}

/* "3@17" */
static int take_kill(void *to, const char *text)
{
	struct sim_train *s = to;
	const char *at = take_digits(text, &s->killed);

	s->kills = true;
	if (!at || *at != '@')
		return -EINVAL;
	at = take_digits(at + 1, &s->killed_step);
	return at && !*at ? 0 : -EINVAL;
}

static const struct option_row work_rows[] = {
	{"scheme", 0, OPTION_WORD, "S", "who sends what to whom, see spindle-sim(1) (ring)", AT(scheme),
	 .words = sim_train_schemes},
	{"workers", 'n', OPTION_NUMBER, "N", "stages of a pipeline; of a hybrid: in each server, from 1 (8)",
	 AT(workers), .least = 1, .most = TRAIN_WORKERS_MAX},
	{"servers", 0, OPTION_NUMBER, "N", "of a hybrid, the stages of its pipeline (4)", AT(servers), .least = 1,
	 .most = TRAIN_WORKERS_MAX, .modes = HYBRID},
	{"bytes", 's', OPTION_SIZE, "N",
	 "gradients of a worker; of pipeline, tensor and hybrid: activations of a micro-batch (64M; of a barrier 64)",
	 AT(config.bytes), .most = TRAIN_BYTES_MAX},
	{"segments", 0, OPTION_NUMBER, "N", "of ps, ps-nic: the server answers each part once it is summed up (1)",
	 AT(segments), .least = 1, .most = TRAIN_OPS_MAX, .modes = PS},
	{"multicast", 0, OPTION_FLAG, NULL, "of ps, ps-nic: the server sends the sum once, and the switch copies it",
	 AT(config.multicast), .modes = PS},
	{"micro-batches", 'm', OPTION_NUMBER, "N", "of a step (8)", AT(micro_batches), .least = 1,
	 .most = TRAIN_OPS_MAX, .modes = LAYERS},
	{"layers", 0, OPTION_NUMBER, "N", "of a tensor-parallel model (1)", AT(layers), .least = 1,
	 .most = TRAIN_OPS_MAX, .modes = TENSOR},
	{"compute", 0, OPTION_TIME, "T",
	 "of a step; of pipeline, tensor and hybrid: of a micro-batch's forward pass through a stage or layer (0)",
	 AT(compute), .most = DAY},
	{"backward", 0, OPTION_TIME, "T", "of its backward pass (twice --compute)", AT(backward), .most = DAY,
	 .modes = LAYERS},
	{"add-rate", 0, OPTION_RATE, "R", "at which gradients are added, bit/s (adding takes no time)",
	 AT(config.add_rate), .least = 1000, .most = 1000000000000000},
	{"steps", 0, OPTION_NUMBER, "N", "each worker begins one when it has ended the one before (1)", AT(steps),
	 .least = 1, .most = TRAIN_OPS_MAX},
	{0},
};

static const struct option_row world_rows[] = {
	{"link", 0, OPTION_RATE, "R",
	 "of each worker, in each direction, bit/s; of a hybrid: of each server, shared by its workers (100G)",
	 AT(link), .least = 1000000, .most = 100000000000000},
	{"latency", 0, OPTION_TIME, "T", "from link to link (1us)", AT(latency), .most = DAY},
	{"inside", 0, OPTION_RATE, "R", "of a hybrid: of each worker's link inside the server, bit/s (300G)",
	 AT(inside), .least = 1000000, .most = 100000000000000, .modes = HYBRID},
	{"inside-latency", 0, OPTION_TIME, "T", "of these (--latency)", AT(inside_latency), .most = DAY,
	 .modes = HYBRID},
	{"overhead", 0, OPTION_TIME, "T", "what a send or receive takes of the host's processor (0)", AT(overhead),
	 .most = SP_SEC},
	{"noise", 0, OPTION_CALL, "os:FILE|latency:FILE",
	 "os: detours that hosts take; latency: is drawn from what was measured, with --latency as median; may come "
	 "twice",
	 .take = take_noise, .wants = "os:FILE or latency:FILE"},
	{"coscheduled", 0, OPTION_FLAG, NULL, "the detours of all hosts come at the same time", AT(coscheduled)},
	{"seed", 0, OPTION_NUMBER, "N",
	 "of what is drawn: the place in FILE where each host begins, latencies, parameters (1)", AT(seed),
	 .most = INT64_MAX /* JSON has no more */},
	{0},
};

static const struct option_row number_rows[] = {
	{"parameters", 0, OPTION_NUMBER, "N", "of each worker, which are trained and compared (1024)", AT(parameters),
	 .least = 1, .most = TRAIN_NUMBERS_MAX, .modes = SUMS},
	{"checkpoint", 0, OPTION_NUMBER, "N", "worker 0 sends parameters and momentum to storage after each N steps",
	 AT(config.checkpoint), .least = 1, .most = TRAIN_OPS_MAX, .modes = SUMS},
	{"checkpoint-share", 0, OPTION_REAL, "R", "of its link that this takes, at most (0.1)", AT(share), .low = 0.001,
	 .high = 1, .modes = SUMS},
	{"checkpoint-file", 0, OPTION_STRING, "FILE", "the latest checkpoint that has reached storage",
	 AT(checkpoint_file), .least = 1, .wants = "the name of a file", .modes = SUMS},
	{"resume", 0, OPTION_STRING, "FILE", "begin with this checkpoint, up to --steps in all", AT(resume), .least = 1,
	 .wants = "the name of a file", .modes = SUMS},
	{"kill", 0, OPTION_CALL, "W@K",
	 "worker W dies in step K, counted from 0, and all begin again with the last checkpoint", .take = take_kill,
	 .wants = "the number of a worker, @ and that of a step: 3@17", .modes = SUMS},
	{"detect", 0, OPTION_TIME, "T", "after this time the others notice, and have begun again (1ms)", AT(detect),
	 .most = DAY, .modes = SUMS},
	{0},
};

static const struct option_row show_rows[] = {
	{"write", 'w', OPTION_STRING, "FILE",
	 "write the schedule as GOAL, and do not simulate it; - is standard output", AT(write), .least = 1,
	 .wants = "the name of a file"},
	{"nodes", 0, OPTION_FLAG, NULL, "show each worker and server", AT(nodes)},
	{"json", 0, OPTION_FLAG, NULL, "print JSON", AT(json)},
	{0},
};

static uint32_t given_or(uint64_t given, uint32_t otherwise)
{
	return given ? (uint32_t)given : otherwise;
}

static int check_numbers(const struct sim_train *s, const struct options *o)
{
	const uint32_t workers = given_or(s->workers, 8), steps = given_or(s->steps, 1);

	if (s->os)
		return options_misuse(&usage,
				      "with --noise there are no --parameters, --checkpoint, --resume or --kill");
	if (options_has(o, "checkpoint-share") && !s->config.checkpoint)
		return options_misuse(&usage, "--checkpoint-share needs --checkpoint");
	if (s->checkpoint_file && !s->config.checkpoint)
		return options_misuse(&usage, "--checkpoint-file needs --checkpoint");
	if (options_has(o, "detect") && !s->kills)
		return options_misuse(&usage, "--detect needs --kill");
	if (!s->kills)
		return OPTIONS_GO_ON;
	if (s->config.checkpoint && !s->checkpoint_file)
		return options_misuse(&usage, "--kill with --checkpoint needs --checkpoint-file");
	if (s->killed >= workers || s->killed_step >= steps)
		return options_misuse(&usage, "--kill: there are workers 0 to %u and steps 0 to %u", workers - 1,
				      steps - 1);
	if (s->write)
		return options_misuse(&usage, "--write writes one schedule, and with --kill there are two");
	return OPTIONS_GO_ON;
}

static int check(const struct sim_train *s, const struct options *o)
{
	const char *const scheme = sim_train_schemes[s->scheme];
	const struct option_row *foreign = options_foreign(o, schemes[s->scheme].mode);

	if (foreign)
		return options_misuse(&usage, "%s has no %s", scheme, option_name(foreign));
	if (s->workers < 2 && s->workers && s->scheme + 1u < sizeof(schemes) / sizeof(*schemes))
		return options_misuse(&usage, "only a hybrid has one worker: %s wants two or more", scheme);
	if (s->compute % SP_NS || s->backward % SP_NS)
		return options_misuse(&usage, "--compute and --backward must be whole nanoseconds");
	if (s->coscheduled && !s->os)
		return options_misuse(&usage, "--coscheduled needs --noise os:FILE");
	if (s->learns)
		return check_numbers(s, o);
	if ((schemes[s->scheme].mode & HYBRID) && s->link / given_or(s->workers, 8) < 1000)
		return options_misuse(&usage, "--link must leave each worker 1k (bit/s) or more");
	return OPTIONS_GO_ON;
}

/* Sets what follows from other options. */
static void conclude(struct sim_train *s, const struct options *o)
{
	const bool layers = schemes[s->scheme].mode & LAYERS, hybrid = schemes[s->scheme].mode & HYBRID;
	struct train_config *c = &s->config;

	c->scheme = schemes[s->scheme].scheme;
	c->offload = schemes[s->scheme].offload;
	c->workers = given_or(s->workers, 8);
	c->servers = given_or(s->servers, 4);
	c->steps = given_or(s->steps, 1);
	c->segments = given_or(s->segments, 1);
	c->micro_batches = given_or(s->micro_batches, 8);
	c->layers = given_or(s->layers, 1);
	if (!options_has(o, "bytes"))
		c->bytes = c->scheme == TRAIN_BARRIER ? BARRIER : 64 << 20;
	c->checkpoint_bytes = 2 * c->bytes; /* parameters and momentum */
	c->checkpoint_rate = (uint64_t)(s->share * (double)s->link);
	c->compute = s->compute / SP_NS;
	c->backward = options_has(o, "backward") ? s->backward / SP_NS : layers ? 2 * c->compute : 0;
	if (!options_has(o, "inside-latency"))
		s->inside_latency = s->latency;
	s->world.nic[TRAIN_NETWORK] = (struct links_nic){s->link / (hybrid ? c->workers : 1), s->latency};
	s->world.nic[TRAIN_INSIDE] = (struct links_nic){s->inside, s->inside_latency};
	s->world.overhead[TRAIN_HOST] = s->overhead;
}

int sim_train_arguments(struct sim_train *s, int argc, char **argv)
{
	struct options o = {&usage,
			    {{NULL, work_rows, s, NULL},
			     {"The world:", world_rows, s, NULL},
			     {"Numbers, checkpoints and a death:", number_rows, s, NULL},
			     {"What is shown:", show_rows, s, NULL}}};
	int status;

	*s = (struct sim_train){.link = 100000000000,
				.inside = 300000000000,
				.latency = SP_US,
				.seed = 1,
				.share = 0.1,
				.detect = SP_MS};
	status = options_parse(&o, argc, argv);
	for (unsigned i = 0; status == OPTIONS_GO_ON && number_rows[i].name; i++)
		s->learns |= options_has(&o, number_rows[i].name);
	if (status == OPTIONS_GO_ON)
		status = check(s, &o);
	if (status == OPTIONS_GO_ON)
		conclude(s, &o);
	return status;
}
