/* SPDX-License-Identifier: BSD-3-Clause */
#include "timers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../handlers/spindle-handler.h"
#include "../../pipeline/nic.h"

#define TIMERS 256u
#define POLLS  512u
#define PERIOD 1000000u /* ps, of each timer */
#define STEP   10000u	/* ps, between polls */

/* ---- the handler ---- */

struct clock {
	struct sp_timer timer[TIMERS];
};

static uint64_t fired;

static int attach(struct sp_ctx *c)
{
	struct clock *clock = c->state;
	int r = sp_qp_claim(c, 1);

	/* As acknowledgements and give-up times have them: in no order. */
	for (uint32_t i = 0; i < TIMERS && !r; i++)
		r = sp_timer_arm(c, &clock->timer[i], c->now + (uint64_t)(i * 0x9E3779B1u) * PERIOD / UINT32_MAX);
	return r;
}

static void timer(struct sp_ctx *c, struct sp_timer *t)
{
	fired++;
	sp_timer_arm(c, t, t->at + PERIOD);
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	return SP_DONE;
}

static const struct sp_handler handler = {
	SP_HANDLER_HEAD,  .name = "counts-timers", .doc = "fires timers", .ctx_size = sizeof(struct clock),
	.attach = attach, .payload = payload,	   .timer = timer,
};

/* ---- a port on which nothing comes ---- */

static unsigned receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	return 0;
}

static unsigned transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned n, sp_time now)
{
	return 0;
}

static sp_time next(void *port, uint16_t queue, bool blocked)
{
	return SP_NEVER;
}

static const struct sp_port_ops ops = {.receive = receive, .transmit = transmit, .next = next};

/* ---- the case ---- */

struct bench {
	struct sp_nic *nic;
	uint32_t context;
	sp_time now;
};

static void close_timers(void *state)
{
	struct bench *b = state;

	if (b->context)
		sp_nic_context_remove(b->nic, b->context);
	sp_nic_destroy(b->nic);
	free(b);
}

static int open_timers(const struct bench_options *o, void **state, struct bench_why *why)
{
	const struct sp_setting setting[] = {{"qp", "256"}};
	const struct sp_context_config context = {
		.name = "timers", .handler = "counts-timers", .setting = setting, .settings = 1};
	struct sp_nic_config config = {.addresses = 1, .ports = 1, .mac = {2, 0, 0, 0, 0, 1}, .port = {{.ops = &ops}}};
	struct bench *b = calloc(1, sizeof(*b));
	struct sp_error error = {.text = "no memory"};
	if (!b)
		return -ENOMEM;
	sp_handler_register(&handler);
	memcpy(config.address[0].ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xC0\0\2\1", 16);
	config.address[0].prefix = 24;
	int r = sp_nic_create(&config, &error, &b->nic);
	if (!r)
		r = sp_nic_context_add(b->nic, &context, &b->context, &error);
	if (r) {
		snprintf(why->text, sizeof(why->text), "%s", error.text);
		close_timers(b);
	} else {
		*state = b;
	}
	return r;
}

static int run_timers(void *state, double seconds, struct bench_round *round, struct bench_why *why)
{
	struct bench *b = state;
	const uint64_t before = fired;
	for (unsigned i = 0; i < POLLS; i++)
		sp_nic_poll(b->nic, 0, b->now += STEP);
	round->units = fired - before;
	if (round->units)
		return 0;
	return bench_fail(why, -EPROTO, "no timer has fired");
}

const struct bench_case counts_timers = {
	.name = "timers", .open = open_timers, .run = run_timers, .close = close_timers};
