/* SPDX-License-Identifier: BSD-3-Clause */
#include "live_nic.h"

struct live live;

uint64_t live_clock(void *arg)
{
	return live.clock;
}

struct live_orders live_orders;

unsigned live_loaded(void)
{
	return ++live.loads;
}

void live_unloaded(unsigned load)
{
	live.gone[load % LIVE_LOADS] = true;
	live.unloads++;
}

void live_called(unsigned load, char what, unsigned worker, uint32_t qp, uint64_t key, uint32_t serial)
{
	live.wrong += !load || what == '!' || live.gone[load % LIVE_LOADS];
	if (live.calls < RTE_DIM(live.call))
		live.call[live.calls++] = (struct live_call){load, worker, what, qp, serial, key};
	live.clock += what == 'p' ? live.cost : 0;
	if (what == 'h' && live.in_header) {
		void (*fn)(void) = live.in_header;

		live.in_header = NULL;
		fn();
	}
}

const char *live_told(const char *kinds)
{
	static char text[4096];
	size_t at = 0;

	text[0] = 0;
	for (unsigned i = 0; i < live.calls && at < sizeof(text); i++)
		if (!kinds || strchr(kinds, live.call[i].what))
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%c%u ", live.call[i].what,
					       live.call[i].load);
	live.calls = 0;
	return text;
}

void live_clear(void)
{
	live_orders = (struct live_orders){.attach = 0};
	memset(&live, 0, sizeof(live));
}

const char *live_built(const char *kind)
{
	static char path[4][512];
	static unsigned turn;

	snprintf(path[turn % 4], sizeof(*path), PLUGINS "/live-%s.so", kind);
	return path[turn++ % 4];
}

static void live_frame(struct frame *f, uint32_t qp, const struct live_words *w)
{
	dut_roce(f, FRAME_IP4, qp, w->serial, w, sizeof(*w));
}

void live_feed_at(struct dut *r, uint32_t qp, uint16_t queue, sp_time at, const struct live_words *w)
{
	struct frame f;

	live_frame(&f, qp, w);
	dut_feed_bytes(&r->port, queue, at, f.bytes, f.len);
}

void live_feed(struct dut *r, uint32_t qp, uint64_t key, uint32_t verdict)
{
	static uint32_t serial;

	live_feed_at(r, qp, 0, 0, &(struct live_words){LIVE_MAGIC, ++serial, key, verdict, 0, 0});
}

void live_act(struct dut *r, uint32_t qp, uint64_t key, uint32_t action, uint64_t arg)
{
	live_feed_at(r, qp, 0, 0, &(struct live_words){LIVE_MAGIC, 0, key, SP_DONE, action, arg});
}

json_t *live_copy(json_t *told, size_t context, size_t copy)
{
	return json_array_get(json_object_get(json_array_get(json_object_get(told, "contexts"), context), "copies"),
			      copy);
}

uint64_t live_number(const json_t *object, const char *name)
{
	const json_t *n = json_object_get(object, name);

	CU_ASSERT_PTR_NOT_NULL(n);
	return (uint64_t)json_integer_value(n);
}

int live_try(struct dut *r, const char *name, const char *file, sp_time force, json_t **told, struct sp_error *error)
{
	char *json = NULL;
	int rc = sp_nic_handler_reload(r->nic, name, file, force, told ? &json : NULL, error);

	if (told)
		*told = json ? json_loads(json, 0, NULL) : NULL;
	free(json);
	return rc;
}

json_t *live_reload(struct dut *r, const char *kind, sp_time force)
{
	struct sp_error error = {.key = ""};
	json_t *told;
	const int rc = live_try(r, "live", kind ? live_built(kind) : NULL, force, &told, &error);

	if (rc)
		printf("# %d: %s\n", rc, error.text);
	CU_ASSERT_EQUAL_FATAL(rc, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(told);
	CU_ASSERT_EQUAL(live_number(told, "lost"), 0);
	return told;
}

void live_load(struct dut *r, const char *kind)
{
	struct sp_error error = {.key = ""};
	const int rc = sp_nic_handler_load(r->nic, live_built(kind), NULL, &error);

	if (rc)
		printf("# %d: %s\n", rc, error.text);
	CU_ASSERT_EQUAL_FATAL(rc, 0);
}

void live_stop(struct dut *r)
{
	struct sp_error error = {.key = ""};
	uint32_t id;

	for (unsigned i = 0; i < 4; i++) {
		char name[8];

		snprintf(name, sizeof(name), "c%u", i);
		if (!sp_nic_context_find(r->nic, name, &id))
			CU_ASSERT_EQUAL(sp_nic_context_remove(r->nic, id), 0);
	}
	CU_ASSERT_EQUAL(sp_nic_handler_unload(r->nic, "live", &error), 0);
	CU_ASSERT_EQUAL(live.unloads, live.loads);
	CU_ASSERT_EQUAL(live.wrong, 0);
	dut_stop(r);
}
