/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle sim motif: runs what parallel programs exchange over a network with modelled or real NICs. */
#include "motif.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../../testbed/goal/text.h"
#include "../output.h"
#include "asked.h"
#include "goal.h"
#include "words.h"

/* --write: the schedule as text. */
static int write_schedule(const struct sim_motif *s, const struct goal *g)
{
	FILE *f = fopen(s->write, "w");
	int err = f ? goal_write(g, f) : -errno;

	if (f && fclose(f) && !err)
		err = -errno;
	return err ? command_fail("sim", "--write %s: %s", s->write, strerror(-err)) : 0;
}

/* The most that this process has held, in bytes. */
static uint64_t memory(void)
{
	struct rusage use;

	return getrusage(RUSAGE_SELF, &use) ? 0 : (uint64_t)use.ru_maxrss << 10;
}

/* When the job was done. */
static sp_time job_end(const struct sim_motif *s, uint32_t job)
{
	const uint32_t ranks = motif_ranks(&s->motif);
	sp_time end = 0;

	for (uint32_t i = job * ranks; i < (job + 1) * ranks; i++)
		end = s->run.ends[i] > end ? s->run.ends[i] : end;
	return end;
}

/* Memory of a NIC and its rank; of modelled ones all that there is. */
static uint64_t nic_bytes(const struct sim_motif *s, const struct motif_outcome *o)
{
	return s->run.real ? o->nic_bytes : memory() / goal_ranks(s->run.schedule);
}

static uint64_t dropped(const struct motif_outcome *o)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < NET_DROPS; i++)
		all += o->net.dropped[i];
	return all;
}

static void show(const struct sim_motif *s, const char *name, const struct motif_outcome *o, const char *topology,
		 double wall)
{
	const struct motif *m = &s->motif;

	if (name)
		printf("%s, %u ranks", name, goal_ranks(s->run.schedule));
	else
		printf("%s, %u x %u x %u ranks", motif_names[m->kind], m->pe[0], m->pe[1], m->pe[2]);
	if (m->jobs > 1)
		printf(" for each of %u jobs", m->jobs);
	printf(" on %s, %s routing, %.6g Gbit/s\n", topology, net_routing_names[s->routing],
	       (double)s->run.net.rate / 1e9);
	printf("%s NICs, %s, packets of %u bytes, seed %" PRIu64 "\n\n", s->run.real ? "real" : "modelled",
	       motif_transport_names[s->transport], s->run.nic.packet, s->run.net.seed);
	printf("%-14s %20.9f us\n", "time", (double)o->time / 1e6);
	for (uint32_t j = 0; m->jobs > 1 && j < m->jobs; j++)
		printf("  of job %-6u %20.9f us\n", j, (double)job_end(s, j) / 1e6);
	printf("%-14s %20" PRIu64 "\n", "messages", o->messages);
	printf("%-14s %20" PRIu64 "\n", "bytes", o->bytes);
	printf("%-14s %20" PRIu64 "\n", "packets", o->packets);
	printf("%-14s %20" PRIu64 " of them carry a message, a request, an answer or a completion\n", "carrying",
	       o->carrying);
	printf("%-14s %20" PRIu64 " packets that came after a later one\n", "reordered", o->net.reordered);
	printf("%-14s %20" PRIu64 " messages read before all of them was there\n", "early reads", o->early_reads);
	if (s->run.net.pfc.on)
		printf("%-14s %20" PRIu64 " of hosts, by PAUSE frames, %" PRIu64 " of them; %.9f us in all\n", "pauses",
		       o->net.pauses, o->net.pause_frames, (double)o->net.paused / 1e6);
	if (s->run.real) {
		printf("%-14s %20" PRIu64 " packets that were sent once more\n", "again", o->again);
		printf("%-14s %20" PRIu64 " packets that switches dropped\n", "dropped", dropped(o));
		printf("%-14s %20" PRIu64 " bytes, each as it was sent\n", "compared", o->compared);
	}
	printf("%-14s %20.3f s, %" PRIu64 " events, %.4g MiB\n", "computed in", wall, o->events + o->net.events,
	       (double)memory() / (1 << 20));
	printf("%-14s %20.1f events, %.1f KiB\n", "for each NIC",
	       (double)(o->events + o->net.events) / goal_ranks(s->run.schedule), (double)nic_bytes(s, o) / 1024);
}

static int show_json(const struct sim_motif *s, const char *name, const struct motif_outcome *o, const char *topology,
		     double wall)
{
	const struct motif *m = &s->motif;
	const struct motif_nic *n = &s->run.nic;
	const bool rdma = n->transport == MOTIF_RDMA || n->transport == MOTIF_RDMA_POLLED;
	json_t *all = name ? json_pack("{s:s, s:i}", "schedule", name, "ranks", (int)goal_ranks(s->run.schedule))
			   : json_pack("{s:s, s:[iii]}", "motif", motif_names[m->kind], "ranks", (int)m->pe[0],
				       (int)m->pe[1], (int)m->pe[2]);

	json_object_update_new(all, json_pack("{s:s, s:s, s:I, s:s, s:I}", "topology", topology, "routing",
					      net_routing_names[s->routing], "link_bps", (json_int_t)s->run.net.rate,
					      "transport", motif_transport_names[n->transport], "packet",
					      (json_int_t)n->packet));

	if (all && rdma)
		json_object_set_new(all, "setup", json_string(n->setup_once ? "once" : "message"));
	if (all && n->transport == MOTIF_RDMA)
		json_object_set_new(all, "completion", json_string(n->completion == MOTIF_BEHIND ? "behind" : "ack"));
	json_object_update_new(
		all, json_pack("{s:b, s:I, s:f, s:I, s:I, s:I, s:I, s:I}", "scatter", s->run.scatter, "seed",
			       (json_int_t)s->run.net.seed, "time_s", (double)o->time / (double)SP_SEC, "time_ps",
			       (json_int_t)o->time, "messages", (json_int_t)o->messages, "bytes", (json_int_t)o->bytes,
			       "packets", (json_int_t)o->packets, "wire_bytes", (json_int_t)o->wire_bytes));
	json_object_update_new(all,
			       json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "reordered", (json_int_t)o->net.reordered,
					 "early_reads", (json_int_t)o->early_reads, "overtaking",
					 (json_int_t)o->overtaking, "unexpected", (json_int_t)o->unexpected, "events",
					 (json_int_t)(o->events + o->net.events), "wall_s", wall));
	json_object_set_new(all, "lossless", json_string(s->run.net.pfc.on ? "pfc" : "credits"));
	if (s->run.net.pfc.on)
		json_object_update_new(all, json_pack("{s:I, s:I, s:f}", "pauses", (json_int_t)o->net.pauses,
						      "pause_frames", (json_int_t)o->net.pause_frames, "paused_s",
						      (double)o->net.paused / (double)SP_SEC));
	if (m->jobs > 1) {
		json_t *jobs = json_array();

		for (uint32_t j = 0; j < m->jobs; j++)
			json_array_append_new(jobs, json_pack("{s:I}", "time_ps", (json_int_t)job_end(s, j)));
		json_object_set_new(all, "jobs", jobs);
	}
	json_object_update_new(all, json_pack("{s:s, s:I, s:I, s:I}", "nics", s->run.real ? "real" : "model",
					      "carrying", (json_int_t)o->carrying, "nic_bytes",
					      (json_int_t)nic_bytes(s, o), "memory", (json_int_t)memory()));
	if (all && s->run.real)
		json_object_update_new(all,
				       json_pack("{s:I, s:I, s:I, s:I, s:I}", "again", (json_int_t)o->again, "dropped",
						 (json_int_t)dropped(o), "refused", (json_int_t)o->refused, "compared",
						 (json_int_t)o->compared, "waited", (json_int_t)o->waited));
	if (all && s->run.real && rdma)
		json_object_set_new(all, "selective", json_boolean(s->run.selective));
	return output_json(all, JSON_INDENT(2)) ? command_fail("sim", "%s", strerror(ENOMEM)) : 0;
}

struct noises {
	struct goal_detours detours;
	struct stalls stalls;
	struct goal_draws latencies, bytes;
};

/* A file of times, with this median; 0: as they are. */
static int read_draws(const struct sim_motif *s, const char *file, enum goal_column column, uint64_t median,
		      struct goal_draws *to)
{
	return sim_draws_read("sim", file, column, s->skip, s->of, median ? &median : NULL, 1, to);
}

/* Reads the files of noise. Exit status. */
static int read_noise(struct sim_motif *s, struct noises *n)
{
	int status = s->os ? sim_detours_read("sim", s->os, &n->detours) : 0, err;

	if (!status && s->latencies) {
		status = read_draws(s, s->latencies, GOAL_TIME, s->run.noise.latency, &n->latencies);
		s->run.noise.latencies = &n->latencies;
	}
	if (!status && s->bandwidths) { /* the median is the link's rate */
		status = read_draws(s, s->bandwidths, GOAL_A_BYTE, (8 * SP_SEC + s->run.net.rate / 2) / s->run.net.rate,
				    &n->bytes);
		s->run.noise.bytes = &n->bytes;
	}
	if (status || !s->os)
		return status;
	err = stalls_create(&n->stalls, &n->detours, goal_ranks(s->run.schedule), s->coscheduled, s->run.net.seed);
	s->run.stalls = &n->stalls;
	if (err == -ERANGE)
		return command_fail("sim", "%s: the detours take %.3g %% of the time, more than %g %%", s->os,
				    100 * goal_detours_share(&n->detours), 100 * STALLS_SHARE_MAX);
	return err ? command_fail("sim", "%s", strerror(-err)) : 0;
}

/* Runs it, with the noise that is wanted. */
static int execute(struct sim_motif *s, struct motif_outcome *o)
{
	struct noises noises = {0};
	char why[512] = "";
	int status = read_noise(s, &noises), err = 0;

	if (!status)
		err = motif_run(&s->run, o, why, sizeof(why));
	s->run.stalls = NULL;
	s->run.noise.latencies = s->run.noise.bytes = NULL;
	stalls_free(&noises.stalls);
	goal_detours_free(&noises.detours);
	goal_draws_free(&noises.latencies);
	goal_draws_free(&noises.bytes);
	if (!status && !err && o->time >= 1ull << 63)
		return command_fail("sim", "that takes more than 2^63 ps, 106 days");
	return err ? command_fail("sim", "%s", *why ? why : strerror(-err)) : status;
}

int sim_network_run(struct sim_motif *s, const struct goal *g, const char *name)
{
	const char *text = s->topology;
	const double began = sim_seconds();
	struct net_topology *topology;
	struct motif_outcome o;
	char why[512] = "";
	int err = net_topology_parse(text, &topology, why, sizeof(why));

	if (err)
		return command_fail("sim", "--topology %s: %s", text, *why ? why : strerror(-err));
	s->run.schedule = g;
	s->run.net.topology = topology;
	s->run.ends = s->motif.jobs > 1 ? calloc(goal_ranks(g), sizeof(*s->run.ends)) : NULL;
	if (s->motif.jobs > 1 && !s->run.ends)
		err = command_fail("sim", "%s", strerror(ENOMEM));
	else
		err = execute(s, &o);
	if (!err && o.waited)
		fprintf(stderr, "spindle sim: packets waited %" PRIu64 " times for a buffer: times are too long\n",
			o.waited);
	if (!err && s->json)
		err = show_json(s, name, &o, text, sim_seconds() - began);
	else if (!err)
		show(s, name, &o, text, sim_seconds() - began);
	free(s->run.ends);
	net_topology_destroy(topology);
	return err != 0;
}

int sim_motif(int argc, char **argv)
{
	struct sim_motif s;
	struct goal *g;
	char star[32];
	int status = sim_motif_arguments(&s, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	status = motif_schedule(&s.motif, &g);
	if (status == -E2BIG)
		return command_fail("sim", "that is more than %llu operations", MOTIF_OPS_MAX);
	if (status)
		return command_fail("sim", "the schedule: %s", strerror(-status));
	snprintf(star, sizeof(star), "star:%u", s.motif.jobs * motif_ranks(&s.motif));
	s.topology = s.topology ? s.topology : star;
	status = s.write ? write_schedule(&s, g) : sim_network_run(&s, g, NULL);
	goal_destroy(g);
	return status;
}
