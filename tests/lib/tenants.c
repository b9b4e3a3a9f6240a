/* SPDX-License-Identifier: BSD-3-Clause */
#include "tenants.h"
#include "ports.h"

struct tenancy tenancy;

static uint64_t tenant_clock(void *arg)
{
	return tenancy.ticks;
}

static sp_time tenant_now(void)
{
	return (sp_time)((unsigned __int128)tenancy.ticks * SP_US / tenancy.us);
}

static void tenant_arrive(struct tenant *t, uint32_t index)
{
	for (unsigned i = 0; i < t->burst; i++) {
		if (tenancy.count == TENANT_QUEUE) {
			t->missed++;
			continue;
		}
		struct tenant_words *w = &tenancy.queue[(tenancy.head + tenancy.count++) % TENANT_QUEUE];
		*w = (struct tenant_words){.tenant = index, .serial = ++t->serial, .arrival = t->next, .cost = t->cost};
		if (t->vary)
			w->cost *= 1 + dut_random(&tenancy.seed) % t->vary;
		t->came++;
	}
}

/* Everything that is due, in the order of its time. */
static void tenants_arrive(void)
{
	for (;;) {
		struct tenant *first = NULL;

		for (struct tenant *t = tenancy.tenant; t < tenancy.tenant + tenancy.tenants; t++)
			if (t->every && t->next <= tenancy.ticks && (!t->until || t->next < t->until) &&
			    (!first || t->next < first->next))
				first = t;
		if (!first)
			return;
		tenant_arrive(first, (uint32_t)(first - tenancy.tenant));
		first->next += first->every;
	}
}

static unsigned tenant_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	unsigned n = 0;
	tenants_arrive();
	for (; n < max && tenancy.count; n++, tenancy.count--) {
		const struct tenant_words *w = &tenancy.queue[tenancy.head];
		const struct frame *f = &tenancy.frame[w->tenant];

		packet[n] = sp_packet_alloc();
		CU_ASSERT_PTR_NOT_NULL_FATAL(packet[n]);
		uint8_t *bytes = (uint8_t *)rte_pktmbuf_append(packet[n], (uint16_t)f->len);
		memcpy(bytes, f->bytes, f->len);
		memcpy(bytes + f->data, w, sizeof(*w));
		tenancy.head = (tenancy.head + 1) % TENANT_QUEUE;
	}
	tenancy.received += n;
	return n;
}

static const struct sp_port_ops tenant_ops = {.receive = tenant_receive, .transmit = dut_transmit, .next = port_never};

static int tenant_attach(struct sp_ctx *c)
{
	struct tenant_state *s = c->state;

	s->index = (uint32_t)sp_param_uint(c, "index");
	for (uint64_t i = 0; i < tenancy.tenant[s->index].slices; i++)
		sp_work_start(c, &s->work[i]);
	if (tenancy.tenant[s->index].issue)
		sp_issue_start(c, &s->issue);
	return 0;
}

static uint32_t tenant_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	const struct tenant_state *s = c->state;
	struct tenant *t = &tenancy.tenant[s->index];
	struct tenant_words w;
	memcpy(&w, p->data, sizeof(w));
	t->reordered += w.tenant != s->index || w.serial <= t->last;
	t->last = w.serial;
	dut_need((void **)&t->wait, &t->room, (unsigned)t->done, sizeof(*t->wait));
	t->wait[t->done++] = (uint32_t)(tenancy.ticks - w.arrival);
	tenancy.ticks += w.cost;
	t->had += w.cost;
	return SP_DONE;
}

static bool tenant_work(struct sp_ctx *c, struct sp_work *work)
{
	const struct tenant_state *s = c->state;
	struct tenant *t = &tenancy.tenant[s->index];
	tenancy.ticks += t->slice;
	t->had += t->slice;
	t->sliced++;
	return true;
}

static int tenant_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	const struct tenant_state *s = c->state;
	struct tenant *t = &tenancy.tenant[s->index];
	static const uint8_t frame[1514] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5};
	unsigned n = 0;

	while (t->frame && n < budget && !sp_send_frame(c, 0, frame, t->frame))
		n++;
	t->sent += n;
	tenancy.ticks += t->issue;
	t->had += t->issue;
	t->issued++;
	return SP_ISSUE_MORE;
}

static const struct sp_param tenant_params[] = {{"index", SP_UINT, "0", 0, TENANTS, "which it is"}, {NULL}};

static const struct sp_handler tenant_handler = {SP_HANDLER_HEAD,	  .name = "tenant",
						 .params = tenant_params, .ctx_size = sizeof(struct tenant_state),
						 .attach = tenant_attach, .payload = tenant_payload,
						 .issue = tenant_issue,	  .work = tenant_work};
SP_HANDLER(tenant_handler)

void tenants_begin(void)
{
	memset(&tenancy, 0, sizeof(tenancy));
	dut_prepare(&dut, 1);
	tenancy.us = rte_get_tsc_hz() / 1000000;
	tenancy.ticks = 1000 * tenancy.us;
	tenancy.seed = 1;
	dut.config.cycles = tenant_clock;
	dut.config.icrc_off = true;
	dut.config.port[0].ops = &tenant_ops;
}

struct tenant *tenant_add(uint32_t weight, double cost, double every)
{
	struct tenant *t = &tenancy.tenant[tenancy.tenants++];

	t->weight = weight;
	t->cost = (uint64_t)(cost * (double)tenancy.us);
	t->every = (uint64_t)(every * (double)tenancy.us);
	t->burst = 1;
	return t;
}

struct tenant *tenant_of(struct tenant *t, uint32_t user, uint32_t app)
{
	t->user = user;
	t->app = app;
	return t;
}

/* The application that it belongs to. */
static struct sp_device *tenant_device(const struct tenant *t)
{
	const struct sp_device_user who = {.uid = t->user, .user = &tenancy.limits[t->user]};

	for (unsigned i = 0; i < tenancy.tenants; i++)
		if (tenancy.device[i] && tenancy.tenant[i].user == t->user && tenancy.tenant[i].app == t->app)
			return tenancy.device[i];
	struct sp_device *d;
	CU_ASSERT_EQUAL_FATAL(sp_device_create_for(dut.nic, &who, &d), 0);
	return d;
}

static void tenant_enter(struct tenant *t, uint32_t i)
{
	char name[24], qp[16], weight[16], index[16];
	const struct sp_setting setting[] = {{"qp", qp}, {"weight", weight}, {"index", index}};
	struct sp_error error;

	snprintf(name, sizeof(name), "tenant-%u", i);
	snprintf(qp, sizeof(qp), "%u", TENANT_QP + i);
	snprintf(weight, sizeof(weight), "%u", t->weight);
	snprintf(index, sizeof(index), "%u", i);
	tenancy.device[i] = tenant_device(t);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(&tenancy.device[i]->pub, name, "tenant", setting, 3, &t->id, &error), 0);
}

void tenants_enter(void)
{
	struct tenant_words none = {0};

	dut_create(&dut);
	for (uint32_t i = 0; i < tenancy.tenants; i++) {
		char name[24], settings[64];

		snprintf(name, sizeof(name), "tenant-%u", i);
		snprintf(settings, sizeof(settings), "qp=%u;weight=%u;index=%u", TENANT_QP + i,
			 tenancy.tenant[i].weight, i);
		if (tenancy.tenant[i].user)
			tenant_enter(&tenancy.tenant[i], i);
		else
			tenancy.tenant[i].id = dut_context(&dut, name, "tenant", settings);
		tenancy.tenant[i].next = tenancy.ticks + tenancy.tenant[i].from;
		dut_roce(&tenancy.frame[i], FRAME_IP4, TENANT_QP + i, 0, &none, sizeof(none));
	}
}

struct sp_view *tenant_view(const struct tenant *t)
{
	return sp_context_by_id(dut.nic, t->id)->view[0];
}

double tenant_part(const struct tenant *t)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < tenancy.tenants; i++)
		all += tenancy.tenant[i].had;
	return (double)t->had / (double)all;
}

double tenants_part_of(uint32_t user, uint32_t app)
{
	double sum = 0;

	for (unsigned i = 0; i < tenancy.tenants; i++)
		if (tenancy.tenant[i].user == user && (!app || tenancy.tenant[i].app == app))
			sum += tenant_part(&tenancy.tenant[i]);
	return sum;
}

struct sp_worker *tenants_worker(void)
{
	return dut.nic->worker[0];
}

unsigned tenants_poll(uint64_t end)
{
	const unsigned waiting = sp_scheduler_packets(tenants_worker());
	const uint64_t began = tenancy.ticks;
	const unsigned done = sp_nic_poll(dut.nic, 0, tenant_now());

	tenancy.idle += !done && waiting;
	if (sp_scheduler_packets(tenants_worker()) > tenancy.backlog_most)
		tenancy.backlog_most = sp_scheduler_packets(tenants_worker());
	if (!done && tenancy.ticks == began) {
		for (const struct tenant *t = tenancy.tenant; t < tenancy.tenant + tenancy.tenants; t++)
			if (t->every && t->next < end)
				end = t->next;
		if (end > tenancy.ticks)
			tenancy.ticks = end;
	}
	tenancy.ticks += tenancy.us / 10;
	if (tenancy.look)
		tenancy.look();
	return done;
}

void tenants_run(double us)
{
	const uint64_t end = tenancy.ticks + (uint64_t)(us * (double)tenancy.us);

	while (tenancy.ticks < end)
		tenants_poll(end);
}

void tenants_settle(void)
{
	for (unsigned i = 0; i < tenancy.tenants; i++)
		tenancy.tenant[i].every = 0;
	for (unsigned i = 0; i < 100000 && (tenancy.count || sp_scheduler_packets(tenants_worker())); i++)
		tenants_poll(0);
	CU_ASSERT_EQUAL(tenancy.count, 0);
	CU_ASSERT_EQUAL(sp_scheduler_packets(tenants_worker()), 0);
}

uint64_t tenants_lost(void)
{
	struct sp_nic_totals t;

	sp_nic_totals(dut.nic, &t);
	return (t.received != tenancy.received) + (t.taken + t.forwarded + t.dropped + t.parked != t.received) +
	       (t.parked != sp_scheduler_packets(tenants_worker()));
}

void tenants_stop(void)
{
	for (unsigned i = 0; i < tenancy.tenants; i++)
		CU_ASSERT_EQUAL(tenancy.tenant[i].reordered, 0);
	CU_ASSERT_EQUAL(tenants_lost(), 0);
	CU_ASSERT_EQUAL(tenancy.idle, 0);
	for (unsigned i = 0; i < tenancy.tenants; i++) {
		struct sp_device *d = tenancy.device[i];

		for (unsigned k = i; k < tenancy.tenants; k++)
			tenancy.device[k] = tenancy.device[k] == d ? NULL : tenancy.device[k];
		if (d)
			sp_dev_close(&d->pub);
	}
	dut_stop(&dut);
	for (unsigned i = 0; i < TENANTS; i++)
		free(tenancy.tenant[i].wait);
}

static int tenant_less(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

double tenant_quantile(struct tenant *t, double q)
{
	if (!t->done)
		return 0;
	qsort(t->wait, t->done, sizeof(*t->wait), tenant_less);
	return (double)t->wait[(uint64_t)(q * (double)(t->done - 1))] / (double)tenancy.us;
}
