/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_apps.h"

void app_open(struct apps *a, struct app *x)
{
	struct mo_context *mo = &a->mo.context[x->c];
	char qp[16], mtu[16], counters[16], timeout[32];
	const struct sp_setting settings[] = {{"qp", qp},	    {"mtu", mtu},	    {"windows", "64"},
					      {"buffers", "20000"}, {"counters", counters}, {"peers", "16"},
					      {"ops", "24"},	    {"timeout", timeout}};
	struct sp_error error = {.text = ""};
	struct sp_event result;
	uint64_t bytes;
	void *area;

	snprintf(qp, sizeof(qp), "%u", mo->qp);
	snprintf(mtu, sizeof(mtu), "%u", mo->mtu);
	snprintf(counters, sizeof(counters), "%u", 1 + (unsigned)app_below(a, 2) * 63);
	snprintf(timeout, sizeof(timeout), "%lluus", U(a->timeout / SP_US));
	int rc = sp_nic_dev(a->nic[x->nic], false, &x->dev);
	rc = rc ? rc : sp_mr_reg(x->dev, x->memory, APP_BYTES, &x->mr);
	rc = rc ? rc : sp_mr_reg(x->dev, app_source, APP_SOURCE, &x->source);
	rc = rc ? rc
		: sp_context_open(x->dev, qp, "rvma", settings, sizeof(settings) / sizeof(*settings), &x->id, &error);
	rc = rc ? rc : sp_context_area(x->dev, x->id, &area, &bytes);
	APP_CHECK(a, !rc, "a context: %d %s %s", rc, error.key, error.text);
	if (rc)
		return;
	x->area = area;
	APP_CHECK(a, app_area(x)->magic == SP_RVMA_AREA_MAGIC && app_area(x)->bytes <= bytes, "no area");
	x->open = mo->alive = true;
	x->life++;
	memset(x->slot, 0, sizeof(x->slot));
	memset(x->op, 0, sizeof(x->op));
	a->dead[x->c] = false;
	for (unsigned i = 0; i < a->mo.contexts; i++) {
		uint8_t ip[16] = {0xFD, 0, 0, 7, [15] = (uint8_t)(a->app[i].nic + 1)};
		uint64_t arg[6] = {0};

		if (a->app[i].nic == x->nic)
			continue;
		if (!a->ipv6)
			memcpy(ip, (const uint8_t[]){[10] = 0xFF, 0xFF, 10, 7, 0, (uint8_t)(a->app[i].nic + 1)}, 16);
		memcpy(arg, ip, 16);
		arg[2] = a->mo.context[i].qp;
		rc = app_call(x, SP_RVMA_CMD_PEER, arg, 0, 0, &result);
		APP_CHECK(a, !rc, "peer: %d", rc);
		x->peer[i] = (uint32_t)result.arg[0] + 1;
	}
}

/* The application ends, or dies: then its NIC says nothing of it either. What it posted is not written to any more. */
static void app_end(struct apps *a, struct app *x, bool silent)
{
	a->dead[x->c] = silent;
	mo_context_over(&a->mo, x->c);
	for (unsigned i = 0; i < APP_OPS; i++) /* gets write where they do until the end */
		memcpy(a->mo.context[x->c].memory + APP_LAND(i), x->memory + APP_LAND(i), APP_ROOM);
	if (x->dev)
		sp_dev_close(x->dev);
	x->dev = NULL;
	x->open = false;
}

static void app_act(struct apps *a, struct app *x)
{
	const unsigned what = (unsigned)app_below(a, 100);
	unsigned windows = 0;

	for (struct mo_window *w = a->mo.context[x->c].windows; w; w = w->next)
		if (w->freeing)
			app_free_window(a, x, w);
		else
			windows += !w->gone;
	if (windows < 3 || what < 2)
		app_init_window(a, x);
	else if (what < 28)
		app_post(a, x);
	else if (what < 76)
		app_operation(a, x, false);
	else if (what < 86)
		app_operation(a, x, true);
	else
		app_manage(a, x);
	a->did++;
}

/* ---- the world ---- */
static void apps_step(void *arg, sp_time now)
{
	struct apps *a = arg;

	APP_CHECK(a, ++a->steps < 20000000, "the run does not end");
	for (unsigned c = 0; c < a->mo.contexts && !a->mo.text[0]; c++) {
		struct app *x = &a->app[c];

		if (!x->open)
			continue;
		if (!a->quiet) {
			app_check_windows(a, x);
			app_check_memory(a, x, !app_below(a, 16));
		}
		app_check_ops(a, x);
		if (a->quiet || now < x->wake || a->did >= a->limit)
			continue;
		for (unsigned n = 1 + (unsigned)app_below(a, 6); n && !a->mo.text[0]; n--)
			app_act(a, x);
		x->wake = now + app_below(a, a->pause);
	}
}

static sp_time apps_next(void *arg)
{
	struct apps *a = arg;
	sp_time next = SP_NEVER;

	for (unsigned c = 0; c < a->mo.contexts && !a->quiet && a->did < a->limit; c++)
		if (a->app[c].open && a->app[c].wake < next)
			next = a->app[c].wake;
	return next;
}

static bool apps_idle(void *arg)
{
	const struct apps *a = arg;

	for (unsigned c = 0; c < a->mo.contexts && !a->mo.text[0]; c++)
		for (unsigned i = 0; a->app[c].open && i < APP_OPS; i++)
			if (a->app[c].op[i].used)
				return false;
	return true;
}

static bool apps_did(void *arg)
{
	const struct apps *a = arg;

	return a->mo.text[0] || a->did >= a->limit;
}

static bool apps_done(void *arg)
{
	const struct apps *a = arg;

	return a->mo.text[0] || (a->did >= a->limit && apps_idle(arg));
}

static void apps_nic(struct apps *a, unsigned e)
{
	struct sp_nic_config config = {.addresses = 1,
				       .mtu = 9000,
				       .seed = sp_random_next(&a->random),
				       .neighbours = 1,
				       .ports = 1,
				       .port = {{.ops = &app_ops, .ops_arg = &a->tap[e]}}};
	struct sp_error error = {.text = ""};

	for (unsigned i = 0; i < 2; i++) {
		uint8_t *ip = i ? config.neighbour[0].ip : config.address[0].ip;
		const uint8_t last = (uint8_t)((i ? !e : e) + 1);

		if (a->ipv6)
			memcpy(ip, (const uint8_t[]){0xFD, 0, 0, 7, [15] = last}, 16);
		else
			memcpy(ip, (const uint8_t[]){[10] = 0xFF, 0xFF, 10, 7, 0, last}, 16);
	}
	config.address[0].prefix = a->ipv6 ? 64 : 24;
	memcpy(config.neighbour[0].mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(!e + 1)}, 6);
	memcpy(config.mac, (const uint8_t[]){2, 0, 0, 0, 7, (uint8_t)(e + 1)}, 6);
	snprintf(config.name, sizeof(config.name), "apps%u", e);
	tap_open(&a->tap[e], &sp_link_ops, sp_link_port(a->under, e), 1);
	a->end[e] = (struct tap_end){a, e};
	a->tap[e].arg = &a->end[e];
	a->tap[e].seen = app_seen;
	if (sp_nic_create(&config, &error, &a->nic[e]) || sp_world_add_nic(a->world, a->nic[e])) {
		printf("# %s\n", error.text);
		abort();
	}
}

void apps_random(struct apps *a)
{
	static const sp_time delays[] = {SP_US, 20 * SP_US, 300 * SP_US};
	static const uint32_t mtus[] = {64, 128, 256, 1024};
	const bool silent = !app_below(a, 24);
	const sp_time delay = delays[silent ? 2 : app_below(a, 3)];
	const uint32_t mtu = mtus[app_below(a, 4)];

	a->mo.contexts = 2 + (unsigned)app_below(a, MO_CONTEXTS - 1);
	a->ipv6 = !app_below(a, 3);
	a->burst = app_below(a, 2) ? 1 : 1 + (unsigned)app_below(a, 32);
	a->pause = app_below(a, 2) ? 2 * delay : 40 * delay;
	a->silent = silent; /* who is told nothing repeats it until the time-out */
	a->timeout = silent ? 60 * delay : 3000 * delay + 300 * SP_MS;
	a->loss = app_below(a, 3) && !silent ? 0.01 * (double)app_below(a, 16) : 0;
	for (unsigned e = 0; e < 2; e++)
		a->link[e] = (struct sp_link_direction){.bandwidth = 1000000000ull << app_below(a, 7),
							.delay = delay,
							.queue = 64,
							.loss = a->loss,
							.duplicate = app_below(a, 2) ? 0.05 : 0,
							.reorder = app_below(a, 3) ? 0.3 : 0,
							.reorder_delay = app_below(a, 4 * delay)};
	for (unsigned c = 0; c < a->mo.contexts; c++) {
		struct app *x = &a->app[c];

		*x = (struct app){.apps = a, .c = c, .nic = c % 2};
		a->mo.context[c].qp = 0x100 + c * 0x10;
		a->mo.context[c].mtu = app_below(a, 4) ? mtu : mtus[app_below(a, 4)];
		a->mo.context[c].memory = calloc(1, APP_BYTES);
		x->memory = aligned_alloc(64, APP_BYTES);
		memset(x->memory, 0, APP_BYTES);
	}
}

void apps_open(struct apps *a)
{
	struct sp_link_config link = {
		.direction = {a->link[0], a->link[1]}, .queues = {1, 1}, .seed = sp_random_next(&a->random)};

	if (sp_link_create(&link, &a->under) || sp_world_create(&a->world))
		abort();
	for (unsigned e = 0; e < 2; e++)
		apps_nic(a, e);
	for (unsigned c = 0; c < a->mo.contexts; c++)
		app_open(a, &a->app[c]);
	if (sp_world_add_host(a->world, &(struct sp_world_host){.step = apps_step, .next = apps_next, .arg = a}))
		abort();
}

static void apps_check(struct apps *a)
{
	for (unsigned c = 0; c < a->mo.contexts; c++) {
		if (a->app[c].open)
			app_check_windows(a, &a->app[c]);
		app_check_memory(a, &a->app[c], true);
	}
}

void apps_run(struct apps *a, uint64_t limit)
{
	a->limit = a->did + limit;
	int rc = sp_world_run(a->world, sp_world_now(a->world) + 1000 * SP_SEC, apps_done, a);
	for (unsigned c = 0; rc != 1 && !a->mo.text[0] && c < a->mo.contexts; c++)
		for (unsigned i = 0; a->app[c].open && i < APP_OPS; i++) {
			const struct op *o = &a->app[c].op[i];

			APP_CHECK(a, !o->used, "context %u: a %s of %llu bytes to %u does not end (%d)", c,
				  o->get ? "get" : "put", U(o->length), o->to, rc);
		}
	APP_CHECK(a, rc == 1, "not over (%d)", rc);
	apps_check(a);
}

void apps_run_to_death(struct apps *a, uint64_t limit, unsigned c, bool silent)
{
	a->limit = a->did + limit;
	int rc = sp_world_run(a->world, sp_world_now(a->world) + 1000 * SP_SEC, apps_did, a);
	APP_CHECK(a, rc == 1, "not over (%d)", rc);
	app_end(a, &a->app[c], silent);
	a->quiet = true;
	rc = sp_world_run(a->world, sp_world_now(a->world) + 6 * a->timeout, NULL, NULL);
	a->quiet = false;
	APP_CHECK(a, rc == 0 && apps_idle(a), "puts and gets to one that is gone do not end (%d)", rc);
	for (struct mo_session *s = a->mo.sessions; s; s = s->next)
		for (struct mo_transfer *t = s->peer == c ? s->transfers : NULL; t; t = t->next)
			mo_transfer_over(&a->mo, s, t, MO_GIVEN_UP);
	apps_check(a);
}

void apps_close(struct apps *a)
{
	for (unsigned c = 0; c < a->mo.contexts; c++)
		if (a->app[c].dev)
			app_end(a, &a->app[c], false);
	for (unsigned e = 0; e < 2; e++) {
		struct sp_nic_totals t;

		sp_nic_totals(a->nic[e], &t);
		APP_CHECK(a, t.received == t.taken + t.forwarded + t.dropped, "NIC %u has lost count of packets", e);
		sp_nic_destroy(a->nic[e]);
		tap_close(&a->tap[e]);
	}
	for (unsigned c = 0; c < a->mo.contexts; c++) {
		app_check_memory(a, &a->app[c], true); /* nothing was written behind anybody's back */
		free(a->app[c].memory);
	}
	sp_world_destroy(a->world);
	sp_link_destroy(a->under);
}
