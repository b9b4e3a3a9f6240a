/* SPDX-License-Identifier: BSD-3-Clause */
/* The options of spindle sim motif. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../output.h"
#include "goal.h"
#include "motif.h"

#define AT(field)	OPTION_AT(struct sim_motif, field)
#define RANKS_DEFAULT	64
#define LONGEST		SP_SEC			 /* of a network's or NIC's delay */
#define COMPUTE_LONGEST (MOTIF_TIME_MAX * SP_NS) /* ps */

static const struct usage usage = {
	.command = "sim",
	.forms = "spindle sim motif sweep3d|halo3d|halo3d26|pingpong|ring|allreduce [OPTIONS]",
	.about =
		"Simulates what parallel programs exchange, over a network of switches: how long it takes with NICs "
		"that put "
		"(RVMA) and NICs that need a buffer's address first (RDMA). The NICs are modelled: what their messages "
		"cost in packets, bytes and time is computed, no byte is moved, and nothing is lost. With --nics real "
		"they "
		"are Spindle's, and all bytes are compared.",
	.end = "Exit status: 0 done, 1 failed, 2 wrong usage.",
	.arguments = 1,
};

static int take_noise(void *to, const char *text)
{
	struct sim_motif *s = to;
	const struct {
		const char *name, **file;
	} kinds[] = {{"os:", &s->os}, {"latency:", &s->latencies}, {"bandwidth:", &s->bandwidths}};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const size_t n = strlen(kinds[i].name);

		if (strncmp(text, kinds[i].name, n) || !text[n])
			continue;
		*kinds[i].file = text + n;
		return 0;
	}
	return -EINVAL;
}

static int take_skip(void *to, const char *text)
{
	struct sim_motif *s = to;

	return sim_skip_take(text, &s->skip, &s->of);
}

static const char *const controls[] = {"in-turn", "first", NULL};
static const char *const losslesses[] = {"credits", "pfc", NULL};
static const char *const setups[] = {"message", "once", NULL}, *const kinds[] = {"model", "real", NULL},
			 *const completions[] = {"ack", "behind", NULL}, *const sends[] = {"acked", "read", NULL};

/* One to three numbers with x between them; how many, or 0. */
static unsigned numbers(const char *text, uint32_t value[3])
{
	for (unsigned n = 0; n < 3; n++) {
		char *end;
		unsigned long v;

		if (*text < '0' || *text > '9')
			return 0;
		errno = 0;
		v = strtoul(text, &end, 10);
		if (errno || v > UINT32_MAX)
			return 0;
		value[n] = (uint32_t)v;
		if (!*end)
			return n + 1;
		if (*end != 'x')
			return 0;
		text = end + 1;
	}
	return 0;
}

static int take_ranks(void *to, const char *text)
{
	struct sim_motif *s = to;
	uint32_t value[3];

	if (!numbers(text, value) || strlen(text) >= sizeof(s->ranks))
		return -EINVAL;
	strcpy(s->ranks, text);
	return 0;
}

static int take_cells(void *to, const char *text)
{
	return numbers(text, ((struct sim_motif *)to)->motif.n) == 3 ? 0 : -EINVAL;
}

static const struct option_row motif_rows[] = {
	{"ranks", 0, OPTION_CALL, "N|XxY|XxYxZ",
	 "ranks, or their grid: two dimensions of sweep3d, three of halos (64; a grid by the least spread)",
	 .take = take_ranks, .wants = "a number, or two or three with x between them, as in 64x128"},
	{"cells", 0, OPTION_CALL, "XxYxZ", "cells of a rank (sweep3d 50x50x50, halos 100x100x100)", .take = take_cells,
	 .wants = "three numbers, as in 50x50x50"},
	{"kba", 0, OPTION_NUMBER, "N", "sweep3d: cells of a slice in z (1)", AT(motif.kba), .least = 1,
	 .most = MOTIF_CELLS_MAX},
	{"width", 0, OPTION_NUMBER, "N", "bytes of a field of a cell (8)", AT(motif.width), .least = 1,
	 .most = MOTIF_CELLS_MAX},
	{"fields", 0, OPTION_NUMBER, "N", "fields of a cell (sweep3d 8, halos 1)", AT(motif.fields), .least = 1,
	 .most = MOTIF_CELLS_MAX},
	{"compute", 0, OPTION_TIME, "T",
	 "whole ns; halos: before each exchange; sweep3d: of a slice, times --kba and --fields (by SST's rule)",
	 AT(compute), .most = COMPUTE_LONGEST},
	{"copy", 0, OPTION_TIME, "T", "whole ns; halos: after each exchange (0)", AT(copy), .most = COMPUTE_LONGEST},
	{"message", 0, OPTION_SIZE, "N", "bytes; pingpong, ring: 1024; allreduce: 8", AT(motif.bytes),
	 .most = MOTIF_MESSAGE_MAX},
	{"iterations", 0, OPTION_NUMBER, "N", "how often all of it is done (1)", AT(motif.iterations), .least = 1,
	 .most = MOTIF_ITERATIONS_MAX},
	{"jobs", 0, OPTION_NUMBER, "N", "so many of it at once, each on --ranks hosts of its own (1)", AT(motif.jobs),
	 .least = 1, .most = MOTIF_RANKS_MAX},
	{"reduce", 0, OPTION_FLAG, NULL, "halo3d26: an allreduce after each exchange; sweep3d: one at the end",
	 AT(reduce)},
	{"no-reduce", 0, OPTION_FLAG, NULL, "halo3d: no allreduce after each exchange", AT(no_reduce)},
	{"write", 0, OPTION_STRING, "FILE", "write the schedule as GOAL text, and simulate nothing", AT(write)},
	{0},
};

const struct option_row sim_network_rows[] = {
	{"topology", 0, OPTION_STRING, "T",
	 "star:N, torus:8x8x8, fattree:8,8:16, dragonfly:..., hyperx:... or a file (one switch for all)", AT(topology),
	 .least = 1, .wants = "a topology"},
	{"routing", 0, OPTION_WORD, "R", "minimal, valiant, adaptive, ugal, ecmp or spray (minimal)", AT(routing),
	 .words = net_routing_names},
	{"link", 0, OPTION_RATE, "R", "of each link, bit/s (400G)", AT(run.net.rate), .least = 1000000,
	 .most = NET_MAX_RATE},
	{"link-delay", 0, OPTION_TIME, "T", "of each link (20ns)", AT(run.net.link_delay), .most = LONGEST},
	{"switch-in", 0, OPTION_TIME, "T", "delay of a switch's input (30ns)", AT(run.net.switch_in), .most = LONGEST},
	{"switch-out", 0, OPTION_TIME, "T", "delay of a switch's output (30ns)", AT(run.net.switch_out),
	 .most = LONGEST},
	{"crossbar", 0, OPTION_REAL, "X", "bandwidth of a switch's crossbar over a link's (1.5)", AT(run.net.crossbar),
	 .low = 1, .high = 64},
	{"flit", 0, OPTION_NUMBER, "N", "bytes on a link are rounded up to whole flits of N (32)", AT(run.net.flit),
	 .least = 1, .most = 65536},
	{"input-buffer", 0, OPTION_SIZE, "N", "of each port and virtual channel (64K)", AT(run.net.input_buffer),
	 .least = 64, .most = 1 << 30},
	{"output-buffer", 0, OPTION_SIZE, "N", "of each port and virtual channel (32K)", AT(run.net.output_buffer),
	 .least = 64, .most = 1 << 30},
	{"vcs", 0, OPTION_NUMBER, "N", "virtual channels (as many as the routing needs)", AT(run.net.vcs), .least = 1,
	 .most = NET_MAX_VCS},
	{"lossless", 0, OPTION_WORD, "credits|pfc",
	 "how a switch keeps hosts from sending what it has no room for: credits, or PAUSE frames of 802.1Qbb "
	 "(credits)",
	 AT(lossless), .words = losslesses},
	{"xoff", 0, OPTION_SIZE, "N", "pfc: an input queue of N bytes pauses its host (as many as the buffer allows)",
	 AT(run.net.pfc.xoff), .least = 1, .most = 1 << 30},
	{"xon", 0, OPTION_SIZE, "N", "pfc: the host goes on once the queue has no more than N bytes (half of --xoff)",
	 AT(run.net.pfc.xon), .least = 1, .most = 1 << 30},
	{"pause-quanta", 0, OPTION_NUMBER, "N",
	 "pfc: a pause lasts N times 512 bits of the link, and is repeated after half of that (65535)",
	 AT(run.net.pfc.quanta), .least = 1, .most = 65535},
	{"pause-response", 0, OPTION_TIME, "T", "pfc: how long a host takes to obey a frame (0)",
	 AT(run.net.pfc.response), .most = LONGEST},
	{"latency", 0, OPTION_TIME, "T",
	 "added to each message in the network; the median of --noise latency:FILE (0; what is measured)",
	 AT(run.noise.latency), .most = LONGEST},
	{"lossy", 0, OPTION_FLAG, NULL, "switches drop what does not fit in their buffers; only real NICs repair that",
	 AT(lossy)},
	{"scatter", 0, OPTION_FLAG, NULL, "ranks are on hosts drawn by --seed (rank r is on host r)", AT(run.scatter)},
	{"noise", 0, OPTION_CALL, "KIND:FILE",
	 "os: detours of the hosts, NICs have none; latency: of each message, added to the network's own; bandwidth: "
	 "of "
	 "each message and 16 MiB of it; as `spindle noise` or netgauge measure them. May be given once each",
	 .take = take_noise, .wants = "os:FILE, latency:FILE or bandwidth:FILE"},
	{"skip", 0, OPTION_CALL, "K/N", "leave out the first K of each N lines of latency and bandwidth (0/1)",
	 .take = take_skip, .wants = "K/N with K < N"},
	{"coscheduled", 0, OPTION_FLAG, NULL, "the detours of all hosts come at the same time", AT(coscheduled)},
	{"seed", 0, OPTION_NUMBER, "N", "the same seed gives the same run (1)", AT(run.net.seed),
	 .most = INT64_MAX /* JSON has no more */},
	{"json", 0, OPTION_FLAG, NULL, "print JSON", AT(json)},
	{0},
};

const struct option_row sim_nic_rows[] = {
	{"nics", 0, OPTION_WORD, "model|real",
	 "NICs that are modelled, or Spindle's own, in virtual time: not for mpi; much slower (model)", AT(nics),
	 .words = kinds},
	{"selective", 0, OPTION_FLAG, NULL, "real, rdma: RC with selective repeat (it goes back N)", AT(selective)},
	{"transport", 0, OPTION_WORD, "T", "rvma, rdma, rdma-polled or mpi (rvma)", AT(transport),
	 .words = motif_transport_names},
	{"setup", 0, OPTION_WORD, "message|once",
	 "rdma: a buffer is asked for by each message, or by the first of a pair (message)", AT(setup),
	 .words = setups},
	{"completion", 0, OPTION_WORD, "ack|behind",
	 "rdma: the receiver is told once the write is acknowledged, or right behind it (ack)", AT(completion),
	 .words = completions},
	{"sends", 0, OPTION_WORD, "acked|read",
	 "rvma, rdma: a send is done once its put is acknowledged, or once the NIC has read it (acked)", AT(sends),
	 .words = sends},
	{"control", 0, OPTION_WORD, "in-turn|first",
	 "requests, answers and acknowledgements wait for the puts before them, or pass them (in-turn)", AT(control),
	 .words = controls},
	{"packet", 0, OPTION_SIZE, "N", "payload bytes of a packet (4096)", AT(run.nic.packet), .least = 1,
	 .most = MOTIF_PACKET_MAX},
	{"header", 0, OPTION_NUMBER, "N", "other bytes of a packet (those of the transport on Ethernet)", AT(header),
	 .most = MOTIF_PACKET_MAX},
	{"pcie", 0, OPTION_TIME, "T", "from host to NIC, and back (150ns)", AT(run.nic.pcie), .most = LONGEST},
	{"tx-delay", 0, OPTION_TIME, "T", "of a NIC, before each message (50ns)", AT(run.nic.tx_delay),
	 .most = LONGEST},
	{"rx-match", 0, OPTION_TIME, "T", "of a NIC, after each message (100ns)", AT(run.nic.rx_match),
	 .most = LONGEST},
	{"eager", 0, OPTION_SIZE, "N", "mpi: messages up to N bytes are copied (12000)", AT(run.nic.mpi.eager),
	 .most = MOTIF_MESSAGE_MAX},
	{"tx-setup", 0, OPTION_TIME, "T", "mpi: of a host, for each send (130ns)", AT(run.nic.mpi.tx_setup),
	 .most = LONGEST},
	{"rx-setup", 0, OPTION_TIME, "T", "mpi: for each receive (100ns)", AT(run.nic.mpi.rx_setup), .most = LONGEST},
	{"match", 0, OPTION_TIME, "T", "mpi: to match a message (150ns)", AT(run.nic.mpi.match), .most = LONGEST},
	{"copy-byte", 0, OPTION_TIME, "T", "mpi: of each byte that is copied, at each end (344ps)",
	 AT(run.nic.mpi.copy), .most = SP_US},
	{"register", 0, OPTION_TIME, "T", "mpi: to register memory (3us)", AT(run.nic.mpi.register_memory),
	 .most = LONGEST},
	{"register-page", 0, OPTION_TIME, "T", "mpi: ... and each page of 4096 bytes of it (100ns)",
	 AT(run.nic.mpi.page), .most = SP_US},
	{0},
};

/* Two factors of a number, the first at most the second, as near to each other as can be. */
static void split(uint32_t ranks, uint32_t pe[3])
{
	pe[0] = 1;
	for (uint32_t x = 1; (uint64_t)x * x <= ranks; x++)
		if (ranks % x == 0)
			pe[0] = x;
	pe[1] = ranks / pe[0];
	pe[2] = 1;
}

static void grid(struct sim_motif *s)
{
	struct motif *m = &s->motif;
	uint32_t pe[3] = {RANKS_DEFAULT, 1, 1};
	const unsigned given = *s->ranks ? numbers(s->ranks, pe) : 1;

	for (unsigned d = 0; d < 3; d++)
		m->pe[d] = d < given ? pe[d] : 1;
	if (given > 1 || pe[0] < 1 || pe[0] > MOTIF_RANKS_MAX)
		return; /* motif_check() looks at what is given */
	if (m->kind == MOTIF_SWEEP3D)
		split(pe[0], m->pe);
	else if (m->kind == MOTIF_HALO3D || m->kind == MOTIF_HALO3D26)
		motif_grid(pe[0], m->pe);
}

/* The first option that nobody has whom this run asks for: who has it. NULL: there is none. */
struct owner {
	const char *name;
	bool has;
	const char *who;
};

static const char *foreign(const struct options *o, const struct owner *of, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (options_has(o, of[i].name) && !of[i].has)
			return of[i].who;
	return NULL;
}

static const char *foreign_to_motif(const struct sim_motif *s, const struct options *o)
{
	const enum motif_kind kind = s->motif.kind;
	const bool halo = kind == MOTIF_HALO3D || kind == MOTIF_HALO3D26, gridded = halo || kind == MOTIF_SWEEP3D;
	const struct owner of[] = {
		{"kba", kind == MOTIF_SWEEP3D, "only sweep3d has --kba"},
		{"cells", gridded, "only sweep3d, halo3d and halo3d26 have --cells"},
		{"width", gridded, "only sweep3d, halo3d and halo3d26 have --width"},
		{"fields", gridded, "only sweep3d, halo3d and halo3d26 have --fields"},
		{"compute", gridded, "only sweep3d, halo3d and halo3d26 have --compute"},
		{"copy", halo, "only halo3d and halo3d26 have --copy"},
		{"reduce", kind == MOTIF_HALO3D26 || kind == MOTIF_SWEEP3D, "only halo3d26 and sweep3d have --reduce"},
		{"no-reduce", kind == MOTIF_HALO3D, "only halo3d has --no-reduce"},
		{"message", !gridded, "only pingpong, ring and allreduce have --message"},
	};

	return foreign(o, of, sizeof(of) / sizeof(*of));
}

int sim_nic_asked(struct sim_motif *s, const struct options *o)
{
	const bool mpi = s->transport == MOTIF_MPI, pfc = s->lossless == SIM_PFC;
	const struct owner of[] = {
		{"setup", s->transport == MOTIF_RDMA || s->transport == MOTIF_RDMA_POLLED,
		 "only --transport rdma and rdma-polled have --setup"},
		{"completion", s->transport == MOTIF_RDMA, "only --transport rdma has --completion"},
		{"sends", !mpi, "--transport mpi has no --sends"},
		{"lossy", s->nics, "modelled NICs do not repair losses: --lossy needs --nics real"},
		{"selective", s->nics && s->transport != MOTIF_RVMA,
		 "only --nics real with --transport rdma or rdma-polled has --selective"},
		{"eager", mpi, "only --transport mpi has --eager"},
		{"tx-setup", mpi, "only --transport mpi has --tx-setup"},
		{"rx-setup", mpi, "only --transport mpi has --rx-setup"},
		{"match", mpi, "only --transport mpi has --match"},
		{"copy-byte", mpi, "only --transport mpi has --copy-byte"},
		{"register", mpi, "only --transport mpi has --register"},
		{"register-page", mpi, "only --transport mpi has --register-page"},
		{"xoff", pfc, "only --lossless pfc has --xoff"},
		{"xon", pfc, "only --lossless pfc has --xon"},
		{"pause-quanta", pfc, "only --lossless pfc has --pause-quanta"},
		{"pause-response", pfc, "only --lossless pfc has --pause-response"},
	};
	const char *who = foreign(o, of, sizeof(of) / sizeof(*of));

	if (!who && s->coscheduled && !s->os)
		who = "--coscheduled needs --noise os:FILE";
	if (!who && s->of && !s->latencies && !s->bandwidths)
		who = "--skip needs --noise latency:FILE or bandwidth:FILE";
	if (!who && s->bandwidths && pfc)
		who = "--noise bandwidth:FILE needs --lossless credits: PFC's headroom is that of links that do not "
		      "change";
	if (who)
		return options_misuse(o->usage, "%s", who);
	s->run.nic.transport = s->transport;
	s->run.nic.setup_once = s->setup;
	s->run.nic.control_first = s->control;
	s->run.nic.completion = s->completion ? MOTIF_BEHIND : MOTIF_AFTER_ACK;
	s->run.nic.sends = s->sends ? MOTIF_SEND_READ : MOTIF_SEND_ACKED;
	s->run.nic.header = (uint32_t)s->header;
	s->run.net.routing = s->routing;
	s->run.net.pfc.on = pfc;
	s->run.net.lossless = !s->lossy;
	s->run.real = s->nics;
	s->run.selective = s->selective;
	return OPTIONS_GO_ON;
}

void sim_network_default(struct sim_motif *s)
{
	*s = (struct sim_motif){.compute = MOTIF_DEFAULT, .header = MOTIF_HEADERS};
	motif_nic_defaults(&s->run.nic);
	net_defaults(&s->run.net);
	s->run.net.seed = 1;
}

/* The kind, whose default values options change. */
static int kind_of(int argc, char **argv, enum motif_kind *kind)
{
	for (int i = 1; i < argc; i++)
		for (unsigned k = 0; k < MOTIF_KINDS; k++)
			if (!strcmp(argv[i], motif_names[k])) {
				*kind = k;
				return 0;
			}
	return -ENOENT;
}

int sim_motif_arguments(struct sim_motif *s, int argc, char **argv)
{
	struct options o = {&usage,
			    {{"What is exchanged:", motif_rows, s, NULL},
			     {"The network:", sim_network_rows, s, NULL},
			     {"NICs:", sim_nic_rows, s, NULL}}};
	enum motif_kind kind = MOTIF_SWEEP3D;
	char why[256];
	int status;

	sim_network_default(s);
	(void)kind_of(argc, argv, &kind);
	s->motif = motif_defaults(kind);
	status = options_parse(&o, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!o.arguments)
		return options_misuse(&usage,
				      "a motif is missing: sweep3d, halo3d, halo3d26, pingpong, ring or allreduce");
	for (kind = 0; kind < MOTIF_KINDS && strcmp(o.argument[0], motif_names[kind]);)
		kind++;
	if (kind == MOTIF_KINDS || kind != s->motif.kind)
		return options_misuse(&usage, "there is no motif %s", o.argument[0]);
	if (foreign_to_motif(s, &o))
		return options_misuse(&usage, "%s", foreign_to_motif(s, &o));
	status = sim_nic_asked(s, &o);
	if (status != OPTIONS_GO_ON)
		return status;
	if (s->compute != MOTIF_DEFAULT && s->compute % SP_NS)
		return options_misuse(&usage, "--compute must be whole ns");
	if (s->copy % SP_NS)
		return options_misuse(&usage, "--copy must be whole ns");
	s->motif.compute_ns = s->compute == MOTIF_DEFAULT ? MOTIF_DEFAULT : s->compute / SP_NS;
	s->motif.copy_ns = s->copy / SP_NS;
	s->motif.reduce = (s->motif.reduce || s->reduce) && !s->no_reduce;
	grid(s);
	if (motif_check(&s->motif, why, sizeof(why)))
		return options_misuse(&usage, "%s", why);
	return OPTIONS_GO_ON;
}
