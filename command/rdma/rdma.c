/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle rdma: what verbs can do between two NICs, as perftest measures it. */
#include <errno.h>
#include <string.h>

#include "../../pipeline/nic.h"
#include "../../pipeline/value.h"
#include "../command.h"
#include "../interrupt.h"
#include "../nic_error.h"
#include "client.h"
#include "serve.h"

#define AT(field) OPTION_AT(struct rdma_asked, field)

static const struct usage usage = {
	.command = "rdma",
	.forms = "spindle rdma bw|lat|ping [OPTIONS]\n"
		 "spindle rdma bw|lat|ping ADDRESS [OPTIONS]",
	.about = "Bandwidth and latency of RDMA through NICs that `spindle run` runs. Without ADDRESS it waits for a "
		 "client, and does what that asks for; with ADDRESS it is the client. Both ends may be on one NIC.",
	.end = "Exit status: 0 done, 1 failed or wrong bytes, 2 wrong usage.",
	.arguments = 2,
};

static const char *const ops[] = {"send", "write", "read", "atomic", NULL}, *const types[] = {"rc", "uc", "ud", NULL},
			 *const verbs[] = {"bw", "lat", "ping", NULL};

static int take_from(void *to, const char *value)
{
	struct rdma_asked *a = to;

	a->has_from = true;
	return sp_parse_ip(value, a->from, NULL) ? -EINVAL : 0;
}

/* -n is perftest's here, so the NIC has no letter. */
static const struct option_row rows[] = {
	{"nic", 0, OPTION_STRING, "NAME", "the NIC, or the path of its socket ($SPINDLE_NIC, or spindle0)", AT(nic),
	 .least = 1, .wants = "the name of a NIC, or the path of its socket"},
	{"port", 'p', OPTION_NUMBER, "PORT", "of the connection manager (18515; server: 0, a free one)", AT(port),
	 .most = 65535},
	{"gid", 'g', OPTION_CALL, "ADDRESS", "the NIC's own address, if it has several", .take = take_from,
	 .wants = "an address"},
	{"events", 'e', OPTION_FLAG, NULL, "sleep until something comes, and do not poll", AT(events)},
	{"json", 0, OPTION_FLAG, NULL, "print lines of JSON", AT(json)},
	{"keep", 0, OPTION_FLAG, NULL, "server: serve clients until a signal, not one", AT(keep), .modes = 1},
	{"agent", 0, OPTION_FLAG, NULL, "bw, server: memory that the NIC has not made; an agent copies", AT(agent),
	 .modes = 1},
	{"use-srq", 0, OPTION_FLAG, NULL, "bw, server: all QPs take receives from one shared queue", AT(use_srq),
	 .modes = 1},
	{0},
};

static const struct option_row client_rows[] = {
	{"op", 0, OPTION_WORD, "OP", "send, write, read or atomic (send)", AT(op), .words = ops, .modes = 2},
	{"qp", 'c', OPTION_WORD, "TYPE", "rc, uc or ud (rc)", AT(type), .words = types, .modes = 2},
	{"size", 's', OPTION_SIZE, "BYTES", "of a message (bw: 64K, ud: MTU; lat: 2; ping: 64; atomic: 8)", AT(size),
	 .least = 1, .most = RDMA_SIZE_MOST, .modes = 2},
	{"all", 'a', OPTION_FLAG, NULL, "sizes from 2 bytes to 8M (ud: the MTU), doubling", AT(all), .modes = 2},
	{"iters", 'n', OPTION_NUMBER, "N", "messages per QP (bw: 5000; lat: 1000; ping: no end)", AT(iterations),
	 .least = 1, .most = UINT32_MAX, .modes = 2},
	{"duration", 'D', OPTION_TIME, "TIME", "so long, as in 10s, and not a number of messages", AT(duration),
	 .least = SP_MS, .most = 3600 * SP_SEC, .modes = 2},
	{"interval", 'i', OPTION_TIME, "TIME", "ping: between two messages (1s)", AT(interval), .most = 3600 * SP_SEC,
	 .modes = 2},
	{"qps", 'q', OPTION_NUMBER, "N", "bw: QPs (1)", AT(queues), .least = 1, .most = RDMA_QUEUES_MOST, .modes = 2},
	{"tx-depth", 't', OPTION_NUMBER, "N", "bw: requests in flight per QP (128)", AT(depth), .least = 1,
	 .most = RDMA_DEPTH_MOST, .modes = 2},
	{"mtu", 'm', OPTION_NUMBER, "BYTES", "path MTU: 256, 512, 1024, 2048 or 4096 (1024)", AT(mtu), .least = 256,
	 .most = 4096, .modes = 2},
	{"qp-timeout", 'u', OPTION_NUMBER, "N", "rc: both ends wait 4.096 us * 2^N for an acknowledgement (14)",
	 AT(qp_timeout), .least = 1, .most = 31, .modes = 2},
	{"timeout", 0, OPTION_NUMBER, "S", "give up connecting after S seconds (20)", AT(timeout), .least = 1,
	 .most = 3600, .modes = 2},
	{"verify", 0, OPTION_FLAG, NULL, "check the bytes of all messages", AT(verify), .modes = 2},
	{"selective", 0, OPTION_FLAG, NULL, "rc: selective repeat, if both NICs allow it", AT(selective), .modes = 2},
	{0},
};

/* Sizes and numbers that were not given. */
static void defaults(struct rdma_asked *a, const struct options *o)
{
	static const uint64_t sizes[] = {65536, 2, 64};

	if (!options_has(o, "size"))
		a->size = a->op == RDMA_ATOMIC ? 8 : a->type == 2 && a->mode == RDMA_BW ? a->mtu : sizes[a->mode];
	if (a->all)
		a->size = a->op == RDMA_ATOMIC ? 8 : a->type == 2 ? a->mtu : 8 << 20;
	if (!options_has(o, "iters"))
		a->iterations = a->mode == RDMA_BW ? 5000 : a->mode == RDMA_LAT ? 1000 : 0;
	if (a->mode != RDMA_BW)
		a->depth = 8;
}

static int consistent(const struct rdma_asked *a, const struct options *o)
{
	if (a->mtu & (a->mtu - 1))
		return options_misuse(&usage, "--mtu must be 256, 512, 1024, 2048 or 4096");
	if (a->type && a->op >= RDMA_READ)
		return options_misuse(&usage, "%s has no %s", types[a->type], ops[a->op]);
	if (a->type == 2 && a->op != RDMA_SEND)
		return options_misuse(&usage, "ud has no %s", ops[a->op]);
	if (a->op == RDMA_ATOMIC && a->size != 8)
		return options_misuse(&usage, "an atomic has 8 bytes");
	if (a->type == 2 && a->size > a->mtu)
		return options_misuse(&usage, "a datagram has at most the MTU, %u bytes", (unsigned)a->mtu);
	if (a->all && options_has(o, "size"))
		return options_misuse(&usage, "--all or --size, not both");
	if (a->duration && options_has(o, "iters"))
		return options_misuse(&usage, "--duration or --iters, not both");
	if (a->mode != RDMA_BW && a->queues != 1)
		return options_misuse(&usage, "%s uses one QP", a->verb);
	if (a->mode == RDMA_PING && (a->op != RDMA_SEND || a->all || a->duration))
		return options_misuse(&usage, "ping sends, and has neither --all nor --duration");
	return OPTIONS_GO_ON;
}

static int arguments(struct rdma_asked *a, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, rows, a, NULL}, {"client:", client_rows, a, NULL}}};
	const struct option_row *foreign;
	int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (!o.arguments)
		return options_misuse(&usage, "bw, lat or ping?");
	for (unsigned i = 0; verbs[i]; i++)
		if (!strcmp(o.argument[0], verbs[i])) {
			a->verb = verbs[i];
			a->mode = (enum rdma_mode)i;
		}
	if (!a->verb)
		return options_misuse(&usage, "bw, lat or ping, not %s", o.argument[0]);
	a->client = o.arguments > 1;
	foreign = options_foreign(&o, a->client ? 2 : 1);
	if (foreign)
		return options_misuse(&usage, "%s takes no %s", a->client ? "a client" : "a server",
				      option_name(foreign));
	if (a->agent && a->mode != RDMA_BW)
		return options_misuse(&usage, "--agent is for bw");
	if (a->use_srq && a->mode != RDMA_BW)
		return options_misuse(&usage, "--use-srq is for bw");
	if (!a->client)
		return OPTIONS_GO_ON;
	if (sp_parse_ip(o.argument[1], a->to, NULL))
		return options_misuse(&usage, "no address: %s", o.argument[1]);
	if (!a->port)
		return options_misuse(&usage, "--port 0 is for a server");
	defaults(a, &o);
	return consistent(a, &o);
}

int command_rdma(int argc, char **argv)
{
	struct rdma_asked a = {.port = RDMA_PORT,
			       .queues = 1,
			       .depth = 128,
			       .mtu = 1024,
			       .qp_timeout = 14,
			       .timeout = 20,
			       .interval = SP_SEC};
	const int status = arguments(&a, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (interrupt_note())
		return rdma_fail(&a, "%s", strerror(errno)) ? 1 : 0;
	return (a.client ? rdma_client(&a) : rdma_serve(&a)) ? 1 : 0;
}
