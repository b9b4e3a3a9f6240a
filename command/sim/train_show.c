/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle sim train prints. */
#include "train.h"

#include <inttypes.h>
#include <stdio.h>

#include <jansson.h>

#include "../output.h"

/* What the figures say of all steps, or of one. */
struct summary {
	const struct links_node *server; /* NULL: there is none */
	struct links_node most;		 /* of the workers, each figure by itself */
	double mean, least, longest;	 /* s, of a step */
	double ideal;			 /* s of computation of a step, with layers; 0: none */
	double needed;			 /* ratio of the links inside to the network, of a hybrid; 0: none */
};

static double seconds(sp_time t)
{
	return (double)t / (double)SP_SEC;
}

static void greatest(uint64_t *most, uint64_t value)
{
	*most = value > *most ? value : *most;
}

static void workers(struct summary *m, const struct train *t, const struct links_node *node)
{
	const uint32_t n = t->ranks - (m->server ? 1 : 0) - train_has_store(&t->config);

	for (uint32_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < LINKS_NICS; k++) {
			greatest(&m->most.sent[k], node[i].sent[k]);
			greatest(&m->most.received[k], node[i].received[k]);
			greatest(&m->most.work[k], node[i].work[k]);
		}
		if (node[i].fan_in > m->most.fan_in)
			m->most.fan_in = node[i].fan_in;
	}
}

static struct summary summarise(const struct train *t, const struct train_outcome *o)
{
	const struct train_config *c = &t->config;
	struct summary m = {0};

	if (c->scheme == TRAIN_PS || c->scheme == TRAIN_PS_ASYNC)
		m.server = &o->node[c->workers];
	workers(&m, t, o->node);
	for (uint32_t i = 0; i < c->steps; i++) {
		const double took = seconds(o->step[i] - (i ? o->step[i - 1] : 0));

		m.least = i && m.least < took ? m.least : took;
		m.longest = m.longest > took ? m.longest : took;
	}
	m.mean = seconds(o->step[c->steps - 1]) / c->steps; /* a checkpoint may still be on its way */
	if (c->scheme == TRAIN_PIPELINE || c->scheme == TRAIN_HYBRID || c->scheme == TRAIN_TENSOR)
		m.ideal = seconds((c->compute + c->backward) * SP_NS) * c->micro_batches * c->layers;
	if (c->scheme == TRAIN_HYBRID)
		m.needed = 2.0 * (c->workers - 1) / c->workers;
	return m;
}

/* ---- JSON ---- */
static json_t *integer(uint64_t value)
{
	return json_integer((json_int_t)value);
}

static json_t *node_json(const struct sim_train *s, const struct links_node *n)
{
	const bool hybrid = s->config.scheme == TRAIN_HYBRID;
	json_t *all = json_pack("{s:o, s:o, s:o, s:f, s:f}", "sent", integer(n->sent[TRAIN_NETWORK]), "received",
				integer(n->received[TRAIN_NETWORK]), "fan_in", integer(n->fan_in), "host_s",
				seconds(n->work[TRAIN_HOST]), "nic_s", seconds(n->work[TRAIN_NIC]));

	if (hybrid)
		json_object_update_new(all, json_pack("{s:o, s:o}", "inside_sent", integer(n->sent[TRAIN_INSIDE]),
						      "inside_received", integer(n->received[TRAIN_INSIDE])));
	return all;
}

static void config_json(json_t *all, const struct sim_train *s)
{
	const struct train_config *c = &s->config;

	json_object_update_new(all,
			       json_pack("{s:s, s:o, s:o, s:o, s:o, s:f, s:f}", "scheme", sim_train_schemes[s->scheme],
					 "workers", integer(c->workers), "bytes", integer(c->bytes), "steps",
					 integer(c->steps), "link_bps", integer(s->link), "latency_s",
					 seconds(s->latency), "compute_s", seconds(c->compute * SP_NS)));
	if (c->scheme == TRAIN_PS)
		json_object_update_new(
			all, json_pack("{s:o, s:b}", "segments", integer(c->segments), "multicast", c->multicast));
	if (c->scheme == TRAIN_PIPELINE || c->scheme == TRAIN_TENSOR || c->scheme == TRAIN_HYBRID)
		json_object_update_new(all, json_pack("{s:o, s:f}", "micro_batches", integer(c->micro_batches),
						      "backward_s", seconds(c->backward * SP_NS)));
	if (c->scheme == TRAIN_TENSOR)
		json_object_set_new(all, "layers", integer(c->layers));
	if (c->scheme == TRAIN_HYBRID)
		json_object_update_new(all,
				       json_pack("{s:o, s:o, s:f, s:f}", "servers", integer(c->servers), "inside_bps",
						 integer(s->inside), "inside_latency_s", seconds(s->inside_latency),
						 "link_ratio", (double)s->inside / (double)s->link));
}

static void numbers_json(json_t *all, const struct sim_train *s, const struct sim_train_result *r)
{
	const struct sim_train_restart *a = &r->restart;
	char digest[17];

	snprintf(digest, sizeof(digest), "%016" PRIx64, r->digest);
	json_object_update_new(all,
			       json_pack("{s:o, s:s, s:o, s:o}", "parameters", integer(s->state.numbers), "digest",
					 digest, "seed", integer(s->seed), "first_step", integer(s->config.before)));
	if (s->config.checkpoint)
		json_object_update_new(all,
				       json_pack("{s:o, s:f, s:o, s:f}", "checkpoint", integer(s->config.checkpoint),
						 "checkpoint_bps", (double)s->config.checkpoint_rate, "checkpoints",
						 integer(r->checkpoints), "checkpoint_s", seconds(r->checkpoint_time)));
	if (s->kills)
		json_object_set_new(all, "restart",
				    json_pack("{s:o, s:o, s:f, s:f, s:o, s:o, s:f, s:b}", "killed", integer(s->killed),
					      "killed_step", integer(s->killed_step), "died_s", seconds(a->died),
					      "noticed_s", seconds(a->noticed), "checkpoints", integer(a->checkpoints),
					      "first_step", integer(a->from), "time_s", seconds(a->end), "equal",
					      a->equal));
}

static int show_json(const struct sim_train *s, const struct train *t, const struct sim_train_result *r,
		     const struct summary *m)
{
	const struct train_outcome *o = &r->outcome;
	const uint32_t steps = s->config.steps;
	json_t *all = json_object();

	config_json(all, s);
	json_object_update_new(all, json_pack("{s:f, s:o, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "time_s",
					      seconds(o->all.end), "time_ps", integer(o->all.end), "step_s", m->mean,
					      "step_first_s", seconds(o->step[0]), "step_min_s", m->least, "step_max_s",
					      m->longest, "rounds", integer(o->rounds), "messages_per_step",
					      integer(o->all.messages / steps), "bytes_per_step",
					      integer(o->all.bytes / steps), "ranks", integer(t->ranks)));
	json_object_set_new(all, "worker", node_json(s, &m->most));
	if (m->server)
		json_object_set_new(all, "server", node_json(s, m->server));
	if (m->ideal > 0)
		json_object_set_new(all, "bubble_share", json_real((m->mean - m->ideal) / m->ideal));
	if (m->needed > 0)
		json_object_set_new(all, "link_ratio_needed", json_real(m->needed));
	if (r->compared)
		json_object_set_new(all, "sums_compared", integer(r->compared));
	if (s->learns)
		numbers_json(all, s, r);
	if (s->config.scheme == TRAIN_PS_ASYNC)
		json_object_update_new(all, json_pack("{s:o, s:f, s:o}", "updates", integer(o->updates), "stale_mean",
						      (double)o->stale_sum / (double)o->updates, "stale_max",
						      integer(o->stale_most)));
	if (s->os || s->latencies)
		json_object_update_new(all,
				       json_pack("{s:f, s:o}", "quiet_s", seconds(r->quiet), "seed", integer(s->seed)));
	if (s->nodes) {
		json_t *nodes = json_array();

		for (uint32_t i = 0; i < t->ranks; i++)
			json_array_append_new(nodes, node_json(s, &o->node[i]));
		json_object_set_new(all, "nodes", nodes);
	}
	json_object_update_new(all, json_pack("{s:o, s:f}", "events", integer(o->all.events), "wall_s", r->wall));
	return output_json(all, 0) ? command_fail("sim train", "the result cannot be shown as JSON") : 0;
}

/* ---- text ---- */
static void show_node(const struct sim_train *s, const char *name, const struct links_node *n)
{
	printf("%-12s sends %" PRIu64 " bytes, receives %" PRIu64 ", %u messages at once", name, n->sent[TRAIN_NETWORK],
	       n->received[TRAIN_NETWORK], n->fan_in);
	if (s->config.scheme == TRAIN_HYBRID)
		printf("; inside sends %" PRIu64 ", receives %" PRIu64, n->sent[TRAIN_INSIDE],
		       n->received[TRAIN_INSIDE]);
	printf("; host works %.6g us", seconds(n->work[TRAIN_HOST]) * 1e6);
	if (n->work[TRAIN_NIC])
		printf(", NIC %.6g us", seconds(n->work[TRAIN_NIC]) * 1e6);
	puts("");
}

static void show_work(const struct sim_train *s, const struct train *t, const struct train_outcome *o)
{
	const struct train_config *c = &s->config;

	printf("%s of %u %s", sim_train_schemes[s->scheme], c->workers,
	       c->scheme == TRAIN_PIPELINE ? "stages"
	       : c->scheme == TRAIN_HYBRID ? "workers in each server"
					   : "workers");
	if (c->scheme == TRAIN_HYBRID)
		printf(", %u servers", c->servers);
	printf(", %" PRIu64 " bytes", c->bytes);
	if (c->scheme == TRAIN_PIPELINE || c->scheme == TRAIN_TENSOR || c->scheme == TRAIN_HYBRID)
		printf(", %u micro-batches", c->micro_batches);
	printf("\nlinks of %" PRIu64 " bit/s each way, latency %.6g us\n", s->link, seconds(s->latency) * 1e6);
	printf("a step: %u rounds, %" PRIu64 " messages, %" PRIu64 " bytes\n\n", o->rounds, o->all.messages / c->steps,
	       o->all.bytes / c->steps);
	(void)t;
}

static void show_ends(const struct sim_train *s, const struct train *t, const struct sim_train_result *r,
		      const struct summary *m)
{
	const struct train_outcome *o = &r->outcome;

	puts(s->config.steps > 1 ? "\nin all steps" : "");
	show_node(s, "worker, most", &m->most);
	if (m->server)
		show_node(s, "server", m->server);
	for (uint32_t i = 0; s->nodes && i < t->ranks; i++) {
		char name[32];

		snprintf(name, sizeof(name), "rank %u", i);
		show_node(s, name, &o->node[i]);
	}
	if (s->config.scheme == TRAIN_PS_ASYNC)
		printf("%" PRIu64 " updates, which missed %.4g of others on average, %" PRIu64 " at most\n", o->updates,
		       (double)o->stale_sum / (double)o->updates, o->stale_most);
	if (r->compared)
		printf("%" PRIu64 " sums compared, all right\n", r->compared);
}

static void show_numbers(const struct sim_train *s, const struct sim_train_result *r)
{
	const struct sim_train_restart *a = &r->restart;

	printf("\nparameters   %16u of each worker; of them and momentum FNV-1a is %016" PRIx64 "\n", s->state.numbers,
	       r->digest);
	if (s->config.checkpoint)
		printf("checkpoints  %16u reached storage, the latest %.9g us after its step\n", r->checkpoints,
		       seconds(r->checkpoint_time) * 1e6);
	if (!s->kills)
		return;
	printf("worker %u died in step %u, at %.9g us; the others noticed at %.9g us\n", s->killed, s->killed_step,
	       seconds(a->died) * 1e6, seconds(a->noticed) * 1e6);
	printf("all began again with step %" PRIu64 "%s, and ended at %.9g us with the same parameters\n", a->from,
	       a->checkpoints ? ", from the checkpoint" : ": no checkpoint had reached storage", seconds(a->end) * 1e6);
}

static void show_text(const struct sim_train *s, const struct train *t, const struct sim_train_result *r,
		      const struct summary *m)
{
	const struct train_outcome *o = &r->outcome;

	show_work(s, t, o);
	printf("time         %16.9g us\n", seconds(o->all.end) * 1e6);
	if (s->config.steps > 1)
		printf("a step       %16.9g us on average, %.9g to %.9g us, the first %.9g us\n", m->mean * 1e6,
		       m->least * 1e6, m->longest * 1e6, seconds(o->step[0]) * 1e6);
	if (s->os || s->latencies)
		printf("no noise     %16.9g us: noise makes it %.4g times as long\n", seconds(r->quiet) * 1e6,
		       seconds(o->all.end) / seconds(r->quiet));
	if (m->ideal > 0)
		printf("bubble       %16.6g of the %.9g us of computation\n", (m->mean - m->ideal) / m->ideal,
		       m->ideal * 1e6);
	if (m->needed > 0)
		printf("links inside %16.6g times as fast as the network; %g is enough\n",
		       (double)s->inside / (double)s->link, m->needed);
	show_ends(s, t, r, m);
	if (s->learns)
		show_numbers(s, r);
	printf("\n%" PRIu64 " events in %.3g s\n", o->all.events, r->wall);
}

int sim_train_show(const struct sim_train *s, const struct train *t, const struct sim_train_result *r)
{
	const struct summary m = summarise(t, &r->outcome);

	if (s->json)
		return show_json(s, t, r, &m);
	show_text(s, t, r, &m);
	return 0;
}
