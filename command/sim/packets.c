/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim, packet by packet. */
#include "packets.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <rte_common.h>

#include "../../pipeline/observe/trace.h"
#include "../../testbed/repair.h"
#include "../interrupt.h"
#include "show.h"
#include "../output.h"

#define PACKET_EXTRA  114u  /* bytes of the wire that a packet takes beyond its payload: IPv4 to ICRC, Ethernet, gap */
#define GRAIN	      16u   /* so many packets are simulated together, if they take at most a LITTLE-th ... */
#define LITTLE	      8192  /* ... of the round trip */
#define FRAME	      0.2   /* s between two pictures */
#define IN_FLIGHT     65536 /* units, see struct sdr_reliable_attr */
#define IN_FLIGHT_MAX (1ull << 20)

struct bar {
	const struct sim *sim;
	double began, drawn;
	bool on;
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Time that a full packet takes on the wire. */
static sp_time packet_time(const struct sim *s)
{
	return (sp_time)((double)(8 * (s->mtu + PACKET_EXTRA)) / (double)s->bandwidth * (double)SP_SEC);
}

/* Packets that wait for the wire at most: a small part of the round trip. */
static uint32_t queue(const struct sim *s)
{
	const sp_time packet = packet_time(s);
	const uint64_t fit = packet ? smaller(256, s->rtt / 64 / packet) : 256;

	return fit < 2 * GRAIN ? 2 * GRAIN : (uint32_t)fit;
}

/* Twice the units of a message, so that no window limits what is measured. 0: the default, which is enough. */
static uint32_t in_flight(const struct sim *s)
{
	const uint64_t units = (sim_message(s) + s->model.chunk - 1) / s->model.chunk;

	return units > IN_FLIGHT / 2 ? (uint32_t)smaller(rte_align64pow2(2 * units), IN_FLIGHT_MAX) : 0;
}

/* The host knows the path: the first round-trip time, and by how much packets may overtake each other. */
static struct sdr_reliable_attr host(const struct sim *s)
{
	const double inject = (double)sim_message(s) * 8 / (double)s->bandwidth;
	const sp_time late = s->jitter + (s->reorder > 0 ? s->reorder_delay : 0);
	const double way = (double)(s->rtt + 2 * late) / (double)SP_SEC;
	const double timeout = 1000 * (2 * inject + way * s->model.rto + 1);

	return (struct sdr_reliable_attr){
		.scheme = sim_schemes[s->scheme].packets,
		.rtt = s->rtt,
		.rto_quarters = (uint32_t)(s->model.rto * 4 + 0.5),
		.reorder = (GRAIN + queue(s)) * packet_time(s) + late,
		.in_flight = in_flight(s),
		.timeout = timeout < 4e6 ? (sp_time)(timeout * (double)SP_SEC) : SP_NEVER / 4,
	};
}

static void describe(const struct sim *s, struct sp_transfer_config *c)
{
	const sp_time packet = packet_time(s);

	*c = (struct sp_transfer_config){.message = sim_message(s),
					 .chunk = (uint32_t)s->model.chunk,
					 .mtu = (uint32_t)s->mtu,
					 .chunk_drop = s->packet ? 0 : s->model.drop,
					 .reliable = host(s),
					 .ec = {.code = sim_schemes[s->scheme].code, .k = s->model.k, .m = s->model.m},
					 .payload_less = s->payload_less,
					 .grain = smaller(GRAIN * packet, s->rtt / LITTLE),
					 .repair_bps = s->repair_rate,
					 .workers = (uint16_t)s->repair_workers,
					 .seed = s->seed};
	if (c->grain <= packet)
		c->grain = 0; /* nothing would go together */
	for (unsigned e = 0; e < 2; e++) {
		struct sp_link_direction *d = &c->link[e];

		*d = (struct sp_link_direction){.bandwidth = s->bandwidth,
						.queue = queue(s),
						.delay = e ? s->rtt / 2 : s->rtt - s->rtt / 2,
						.loss = s->packet ? s->model.drop : 0,
						.duplicate = s->duplicate,
						.reorder = s->reorder,
						.reorder_delay = s->reorder_delay,
						.jitter = s->jitter};
		if (s->burst > 0 && s->model.drop > 0)
			sp_link_burst(d, s->burst, s->model.drop);
	}
}

/* ---- on a terminal ---- */
static bool progress(void *arg, uint32_t done)
{
	struct bar *b = arg;
	const double now = sim_seconds();
	const uint32_t all = (uint32_t)b->sim->samples;
	const int part = (int)(done * 20ull / all);

	if (b->on && (now - b->drawn > FRAME || done == all)) {
		fprintf(stderr, "\r\033[K%s  [%.*s%*s] %" PRIu32 " of %" PRIu32 " %s", sim_schemes[b->sim->scheme].name,
			part, "====================", 20 - part, "", done, all,
			b->sim->nodes ? "allreduces" : "messages");
		if (done && done < all)
			fprintf(stderr, "  %.0f s left", (now - b->began) / done * (all - done));
		fflush(stderr);
		b->drawn = now;
	}
	return interrupt_came();
}

/* Copies what is asked for and adds what is measured. 0, or -ENOMEM. */
static int measure(const struct sim *asked, struct sim *s)
{
	const struct sdr_ec ec = {.code = sim_schemes[asked->scheme].code, .k = asked->model.k, .m = asked->model.m};

	*s = *asked;
	if (s->measured)
		s->repair_rate = sp_repair_rate(&ec, (uint32_t)s->model.chunk);
	return s->measured && !s->repair_rate ? -ENOMEM : 0;
}

/* The device that is asked for, or NULL. 0, or the exit status after a message. */
static int device_find(const struct sim *s, const struct sp_device **device)
{
	static struct sp_device found; /* static: large */
	struct sp_error error = {.key = ""};

	*device = NULL;
	if (!s->device)
		return 0;
	if (sp_device_find(s->device, &found, &error))
		return command_fail("sim", "%s", error.text);
	if (!sp_costs_find(&found.costs, "sdr", SP_CALLED_PAYLOAD))
		return command_fail("sim", "--device %s: its file has no cost of sdr in [cost]", s->device);
	*device = &found;
	return 0;
}

int sim_packets(const struct sim *asked)
{
	struct sim found;
	const struct sim *s = &found;
	struct bar bar = {.sim = asked, .began = sim_seconds(), .on = isatty(STDERR_FILENO)};
	struct sp_sweep sweep = {.nodes = (uint32_t)asked->nodes,
				 .samples = (uint32_t)asked->samples,
				 .warm_up = (uint32_t)asked->warm_up,
				 .processes = (uint32_t)asked->jobs,
				 .progress = progress,
				 .arg = &bar};
	struct sp_sweep_outcome o;
	struct sp_error error = {.key = ""};
	const struct sp_device *device;
	int rc = device_find(asked, &device);

	rc = rc ? rc : sim_times_open(asked, &sweep.times);
	if (rc)
		return rc;
	rc = measure(asked, &found);
	rc = rc ? rc : interrupt_note();
	describe(s, &sweep.transfer);
	sweep.transfer.device = device;
	rc = rc ? rc : sp_sweep_run(&sweep, &o, &error);
	if (bar.on)
		fprintf(stderr, "\r\033[K");
	if (rc)
		free(sweep.times);
	if (rc == -ECANCELED) {
		fputs("spindle sim: interrupted\n", stderr);
		return 1;
	}
	if (rc)
		return command_fail("sim", "%s%s%s", error.key, *error.key ? ": " : "",
				    *error.text ? error.text : strerror(-rc));
	if (o.count.oversized || o.count.held)
		fputs("spindle sim: the link ran out of memory for what is in flight: times are too long\n", stderr);
	if (sim_times_write(s, sweep.times))
		return 1;
	if (s->json)
		sim_show_packets_json(s, &o, sim_seconds() - bar.began);
	else
		sim_show_packets_text(s, &o, sim_seconds() - bar.began);
	return 0;
}
