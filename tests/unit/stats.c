/* SPDX-License-Identifier: BSD-3-Clause */
/* What the NIC says of itself: sums over workers and contexts, those that have gone, and applications' contexts. */
#include <jansson.h>

#include "../../pipeline/exec/rings.h"
#include "../lib/probe.h"

/* ---- handlers that have something to report ---- */

static unsigned asked;
static bool reports_well;

static void loud_report(struct sp_ctx *c, struct sp_report *r)
{
	asked++;
	sp_report_uint(r, "mine", 7);
	sp_report_open(r, "inner", false);
	sp_report_string(r, "text", "x");
	if (reports_well)
		sp_report_close(r);
}

static uint32_t loud_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	c->counters[1] += 3;
	return probe_words_of(p).verdict;
}

static const char *const loud_counters[] = {"nothing", "threes", NULL};
static const struct sp_handler loud = {
	SP_HANDLER_HEAD,	   .name = "loud",	    .doc = "reports",	  .drops = probe_drops,
	.counters = loud_counters, .payload = loud_payload, .report = loud_report};
SP_HANDLER(loud)
PROBE(hashed, "hashed", SP_MESSAGES_HASHED, NULL, NULL)

/* ---- helpers ---- */

static void start(uint16_t workers)
{
	asked = 0;
	reports_well = true;
	dut_prepare(&dut, workers);
	snprintf(dut.config.name, sizeof(dut.config.name), "bench");
	dut_create(&dut);
}

static void end(void)
{
	dut_stop(&dut);
	probe_log_clear();
}

/* n packets to a QP, into a worker's queue. */
static void feed(uint16_t queue, uint32_t qp, unsigned n, uint32_t verdict)
{
	struct probe_words w = {.magic = PROBE_MAGIC, .key = qp, .verdict = verdict};
	struct frame f;

	dut_roce(&f, FRAME_IP4, qp, 0, &w, sizeof(w));
	for (unsigned i = 0; i < n; i++)
		dut_feed_bytes(&dut.port, queue, 0, f.bytes, f.len);
}

static json_t *report(bool handlers, const char *context)
{
	char *text = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_nic_report_text(dut.nic, handlers, context, &text), 0);
	json_t *tree = json_loads(text, 0, NULL);
	CU_ASSERT_PTR_NOT_NULL_FATAL(tree);
	free(text);
	return tree;
}

/* "contexts/a/packets", "workers/1/packets". -1: not there, or no number. */
static json_int_t at(const json_t *tree, const char *path)
{
	char copy[200], *rest = copy, *key;

	snprintf(copy, sizeof(copy), "%s", path);
	while (tree && (key = strsep(&rest, "/")))
		tree = json_is_array(tree) ? json_array_get(tree, strtoul(key, NULL, 10)) : json_object_get(tree, key);
	return json_is_integer(tree) ? json_integer_value(tree) : -1;
}

static json_int_t context_at(const json_t *tree, const char *context, const char *key)
{
	return at(json_object_get(json_object_get(tree, "contexts"), context), key);
}

/* ---- rules ---- */

TEST(sums_are_those_of_all_workers)
{
	struct sp_nic_totals t;

	start(2);
	uint32_t a = dut_context(&dut, "a", "loud", "qp=16");
	dut_context(&dut, "b", "loud", "qp=17");
	feed(0, 16, 40, SP_DONE);
	feed(1, 16, 7, SP_DONE);
	feed(1, 16, 5, SP_DROP(1));
	feed(1, 17, 50, SP_DONE);
	feed(0, 17, 2, SP_ERROR);
	feed(0, 99, 3, SP_DONE);
	dut_settle(&dut, 1);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.received, 107);
	CU_ASSERT_EQUAL(t.taken, 97);
	CU_ASSERT_EQUAL(t.dropped, 10);
	CU_ASSERT_EQUAL(t.forwarded, 0);
	CU_ASSERT_EQUAL(t.parked, 0);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "probe-one"), 5);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "handler-error"), 2);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "bad-qp"), 3);
	CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "no-such-reason"), 0);
	CU_ASSERT_EQUAL(sp_nic_context_counter(dut.nic, a, "threes"), 3 * 52);
	CU_ASSERT_EQUAL(sp_nic_context_counter(dut.nic, a, "packets"), 47);
	CU_ASSERT_EQUAL(sp_nic_context_counter(dut.nic, a, "probe-one"), 5);
	CU_ASSERT_EQUAL(sp_nic_context_counter(dut.nic, a, "no-such-counter"), 0);
	CU_ASSERT_EQUAL(sp_nic_context_counter(dut.nic, a + 100, "packets"), 0);
	json_t *r = report(false, NULL);
	CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(r, "name")), "bench");
	CU_ASSERT_EQUAL(at(r, "packets"), 107);
	CU_ASSERT_EQUAL(at(r, "taken"), 97);
	CU_ASSERT_EQUAL(at(r, "dropped"), 10);
	CU_ASSERT_EQUAL(at(r, "drops/probe-one"), 5);
	CU_ASSERT_EQUAL(at(r, "drops/probe-zero"), -1); /* never */
	CU_ASSERT_EQUAL(at(r, "workers/0/packets"), 45);
	CU_ASSERT_EQUAL(at(r, "workers/0/taken"), 40);
	CU_ASSERT_EQUAL(at(r, "workers/0/dropped"), 5);
	CU_ASSERT_EQUAL(at(r, "workers/1/packets"), 62);
	CU_ASSERT_EQUAL(at(r, "workers/1/taken"), 57);
	CU_ASSERT_EQUAL(at(r, "workers/1/dropped"), 5);
	CU_ASSERT_EQUAL(at(r, "ports/0/packets"), 107);
	CU_ASSERT_EQUAL(context_at(r, "a", "packets"), 47);
	CU_ASSERT_EQUAL(context_at(r, "a", "counters/threes"), 3 * 52);
	CU_ASSERT_EQUAL(context_at(r, "a", "counters/nothing"), 0);
	CU_ASSERT_EQUAL(context_at(r, "a", "drops/probe-one"), 5);
	CU_ASSERT_EQUAL(context_at(r, "b", "packets"), 50);
	CU_ASSERT_EQUAL(context_at(r, "b", "errors"), 2);
	CU_ASSERT_EQUAL(at(r, "handlers/loud/contexts"), 2);
	CU_ASSERT_EQUAL(at(r, "handlers/loud/packets"), 97);
	CU_ASSERT(at(r, "memory_used") > 0);
	json_decref(r);
	end();
}

TEST(counts_of_a_context_stay_when_it_is_removed)
{
	struct sp_nic_totals t;

	start(2);
	uint32_t a = dut_context(&dut, "a", "loud", "qp=16");
	for (unsigned i = 1; i <= 3; i++) {
		feed(0, 16, 10, SP_DONE);
		feed(1, 16, 4, SP_DROP(0));
		dut_settle(&dut, i);
		CU_ASSERT_EQUAL(sp_nic_context_remove(dut.nic, a), 0);
		sp_nic_totals(dut.nic, &t);
		CU_ASSERT_EQUAL(t.received, 14 * i);
		CU_ASSERT_EQUAL(t.taken, 10 * i);
		CU_ASSERT_EQUAL(t.dropped, 4 * i);
		CU_ASSERT_EQUAL(sp_nic_dropped(dut.nic, "probe-zero"), 4 * i);
		a = dut_context(&dut, "a", "loud", "qp=16");
	}
	json_t *r = report(false, NULL);
	CU_ASSERT_EQUAL(at(r, "drops/probe-zero"), 12);
	CU_ASSERT_EQUAL(at(r, "taken"), 30);
	CU_ASSERT_EQUAL(context_at(r, "a", "packets"), 0); /* another one of that name */
	json_decref(r);
	end();
}

/* More than one call of a worker takes. */
TEST(many_contexts_are_all_counted)
{
	enum { MANY = 3 * SP_MAX_RULES + 7 };
	char name[20], setting[20];

	start(2);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "c%u", i);
		snprintf(setting, sizeof(setting), "qp=%u", 100 + i);
		dut_context(&dut, name, i % 2 ? "loud" : "hashed", setting);
		feed(i % 2, 100 + i, 1 + i % 5, SP_DONE);
	}
	dut_settle(&dut, 1);
	json_t *r = report(false, NULL);
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), MANY);
	for (unsigned i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "c%u", i);
		CU_ASSERT_EQUAL(context_at(r, name, "packets"), 1 + i % 5);
		CU_ASSERT_EQUAL(context_at(r, name, "counters/threes"), i % 2 ? 3 * (json_int_t)(1 + i % 5) : -1);
	}
	json_decref(r);
	end();
}

TEST(a_companion_is_reported_within_its_context)
{
	start(2);
	dut_context(&dut, "a", "hashed", "qp=16;companion=loud");
	dut_context(&dut, "b", "hashed", "qp=17");
	feed(1, 16, 6, SP_DONE);
	feed(0, 17, 2, SP_DONE);
	dut_settle(&dut, 1);
	json_t *r = report(true, NULL);
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 2);
	CU_ASSERT_EQUAL(context_at(r, "a", "packets"), 6);
	CU_ASSERT_EQUAL(context_at(r, "a", "companion/counters/threes"), 18);
	CU_ASSERT_EQUAL(context_at(r, "a", "companion/mine"), 7);
	CU_ASSERT_EQUAL(context_at(r, "b", "packets"), 2);
	CU_ASSERT_EQUAL(at(r, "taken"), 8); /* once each */
	json_decref(r);
	end();
}

TEST(handlers_are_asked_only_when_they_shall_be)
{
	start(1);
	dut_context(&dut, "a", "loud", "qp=16");
	json_t *r = report(false, NULL);
	CU_ASSERT_EQUAL(asked, 0);
	CU_ASSERT_EQUAL(context_at(r, "a", "mine"), -1);
	json_decref(r);
	r = report(true, NULL);
	CU_ASSERT_EQUAL(asked, 1);
	CU_ASSERT_EQUAL(context_at(r, "a", "mine"), 7);
	json_decref(r);
	end();
}

TEST(a_bad_report_of_a_handler_spoils_nothing_else)
{
	start(1);
	dut_context(&dut, "a", "loud", "qp=16");
	dut_context(&dut, "b", "hashed", "qp=17");
	reports_well = false; /* what it opens it does not close */
	feed(0, 17, 3, SP_DONE);
	dut_settle(&dut, 1);
	json_t *r = report(true, NULL);
	CU_ASSERT_EQUAL(asked, 1);
	CU_ASSERT_EQUAL(context_at(r, "a", "mine"), -1);
	CU_ASSERT_EQUAL(context_at(r, "a", "packets"), 0);
	CU_ASSERT_EQUAL(context_at(r, "b", "packets"), 3);
	json_decref(r);
	end();
}

TEST(one_context_alone_can_be_asked_for)
{
	char *text = NULL;

	start(1);
	dut_context(&dut, "a", "loud", "qp=16");
	dut_context(&dut, "b", "loud", "qp=17");
	json_t *r = report(true, "b");
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 1);
	CU_ASSERT_EQUAL(context_at(r, "b", "mine"), 7);
	CU_ASSERT_EQUAL(asked, 1);
	json_decref(r);
	CU_ASSERT_EQUAL(sp_nic_report_text(dut.nic, false, "c", &text), -ENOENT);
	CU_ASSERT_EQUAL(sp_nic_report_text(dut.nic, false, "b@1", &text), -ENOENT);
	CU_ASSERT_PTR_NULL(text);
	r = report(false, ""); /* the whole */
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 2);
	json_decref(r);
	end();
}

/* Opened by an application as the server does it. */
static struct sp_device *application(uint32_t pid, uint32_t uid, const char *context, unsigned qp)
{
	const struct sp_limits limits = {.memory = 1 << 24, .contexts = 5, .qps = 6, .messages = 700};
	char number[12];
	const struct sp_setting setting = {"qp", number};
	struct sp_error error;
	struct sp_device *d;
	uint32_t id;

	snprintf(number, sizeof(number), "%u", qp);
	CU_ASSERT_EQUAL_FATAL(sp_device_create(dut.nic, true, &limits, &d), 0);
	d->pid = pid;
	d->uid = uid;
	CU_ASSERT_EQUAL_FATAL(d->pub.ops->context_open(&d->pub, context, "hashed", &setting, 1, &id, &error), 0);
	return d;
}

TEST(applications_contexts_are_told_apart_by_pid)
{
	struct sp_setting setting = {"qp", "22"};
	struct sp_device *d[2];
	struct sp_error error;
	char *text = NULL;
	uint32_t id;

	start(2);
	dut_context(&dut, "same", "loud", "qp=16");
	d[0] = application(4711, 1000, "same", 20);
	d[1] = application(4712, 1001, "same", 21);
	feed(0, 16, 1, SP_DONE);
	feed(0, 20, 2, SP_DONE);
	feed(1, 21, 3, SP_DONE);
	dut_settle(&dut, 1);
	json_t *r = report(false, NULL);
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 3);
	CU_ASSERT_EQUAL(context_at(r, "same", "packets"), 1);
	CU_ASSERT_EQUAL(context_at(r, "same", "application/pid"), -1);
	CU_ASSERT_EQUAL(context_at(r, "same@4711", "packets"), 2);
	CU_ASSERT_EQUAL(context_at(r, "same@4711", "application/pid"), 4711);
	CU_ASSERT_EQUAL(context_at(r, "same@4711", "application/uid"), 1000);
	CU_ASSERT_EQUAL(context_at(r, "same@4712", "packets"), 3);
	CU_ASSERT_EQUAL(context_at(r, "same@4712", "application/uid"), 1001);
	json_decref(r);
	r = report(false, "same@4712");
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 1);
	CU_ASSERT_EQUAL(context_at(r, "same@4712", "packets"), 3);
	json_decref(r);
	/* One application, one name, two contexts: both are there. */
	CU_ASSERT_EQUAL_FATAL(d[1]->pub.ops->context_open(&d[1]->pub, "same", "hashed", &setting, 1, &id, &error), 0);
	feed(0, 22, 4, SP_DONE);
	dut_settle(&dut, 2);
	snprintf(error.text, sizeof(error.text), "same@4712#%u", id & 0xFFFF);
	r = report(false, NULL);
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 4);
	CU_ASSERT_EQUAL(context_at(r, "same@4712", "packets"), 3);
	CU_ASSERT_EQUAL(context_at(r, error.text, "packets"), 4);
	json_decref(r);
	for (unsigned i = 0; i < 2; i++) {
		d[i]->pub.ops->close(&d[i]->pub);
		CU_ASSERT_EQUAL(sp_nic_report_text(dut.nic, false, i ? "same@4712" : "same@4711", &text), -ENOENT);
	}
	r = report(false, NULL);
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 1);
	CU_ASSERT_EQUAL(at(r, "taken"), 10);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(r, "applications")), 0);
	json_decref(r);
	end();
}

TEST(applications_are_reported_with_what_they_have_and_may_have)
{
	struct sp_mr mr;
	json_int_t before;

	start(1);
	struct sp_device *d = application(4711, 1000, "one", 20);
	json_t *r = report(false, NULL);
	CU_ASSERT_EQUAL(json_array_size(json_object_get(r, "applications")), 1); /* not the embedded one */
	CU_ASSERT_EQUAL(at(r, "applications/0/pid"), 4711);
	CU_ASSERT_EQUAL(at(r, "applications/0/uid"), 1000);
	CU_ASSERT_EQUAL(at(r, "applications/0/contexts"), 1);
	CU_ASSERT_EQUAL(at(r, "applications/0/contexts_limit"), 5);
	CU_ASSERT_EQUAL(at(r, "applications/0/qps"), 1);
	CU_ASSERT_EQUAL(at(r, "applications/0/qps_limit"), 6);
	CU_ASSERT_EQUAL(at(r, "applications/0/messages_limit"), 700);
	CU_ASSERT_EQUAL(at(r, "applications/0/memory_limit"), 1 << 24);
	before = at(r, "applications/0/memory");
	json_decref(r);
	CU_ASSERT_EQUAL_FATAL(d->pub.ops->mr_alloc(&d->pub, 1 << 20, &mr), 0);
	r = report(false, NULL);
	CU_ASSERT(at(r, "applications/0/memory") >= before + (1 << 20));
	CU_ASSERT(at(r, "applications/0/memory") <= 1 << 24);
	json_decref(r);
	CU_ASSERT_EQUAL(d->pub.ops->mr_free(&d->pub, &mr), 0);
	d->pub.ops->close(&d->pub);
	end();
}

/* Names come from outside. */
TEST(any_name_gives_a_report_that_can_be_read)
{
	static const char *const names[] = {"\xFF", "\xFE", "a\"b\\", "\033[2J", "x@4711", "x@4711#1", "x"};
	struct sp_device *d[7];

	start(1);
	dut_context(&dut, "x@4711", "loud", "qp=16");
	for (unsigned i = 0; i < 7; i++)
		d[i] = application(4711, 0, names[i], 20 + i);
	json_t *r = report(false, NULL);
	CU_ASSERT_EQUAL(json_object_size(json_object_get(r, "contexts")), 8);
	json_decref(r);
	for (unsigned i = 0; i < 7; i++)
		d[i]->pub.ops->close(&d[i]->pub);
	end();
}

TEST(telemetry_serves_one_nic_of_a_process)
{
	start(1);
	struct sp_nic *first = dut.nic;
	CU_ASSERT_EQUAL(sp_telemetry_serve(first), 0);
	CU_ASSERT_EQUAL(sp_telemetry_serve(first), 0);
	dut.config.port[0].ops_arg = &dut.exception;
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&dut.config, NULL, &dut.nic), 0);
	CU_ASSERT_EQUAL(sp_telemetry_serve(dut.nic), -EBUSY);
	sp_telemetry_end(dut.nic); /* not it */
	CU_ASSERT_EQUAL(sp_telemetry_serve(dut.nic), -EBUSY);
	sp_telemetry_end(first);
	CU_ASSERT_EQUAL(sp_telemetry_serve(dut.nic), 0);
	sp_telemetry_end(dut.nic);
	sp_nic_destroy(dut.nic);
	dut.nic = first;
	end();
}
