/* SPDX-License-Identifier: BSD-3-Clause */
/* What a handler calls, done so that a test can look at it; and what the pipeline calls, in its order. */
#include "fake_nic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static struct fake_nic *fake_of(struct sp_ctx *c)
{
	return (struct fake_nic *)c;
}

const struct sp_handler *fake_handler;

void sp_handler_register(const struct sp_handler *h)
{
	fake_handler = h;
}

/* ---- parameters ---- */
static const char *fake_setting(struct fake_nic *f, const char *name)
{
	for (const char *const *s = f->setting; s && *s; s += 2)
		if (!strcmp(s[0], name))
			return s[1];
	for (const struct sp_param *p = f->h->params; p->name; p++)
		if (!strcmp(p->name, name))
			return p->fallback;
	abort(); /* the handler asks for what it has not declared */
}

const char *sp_param_string(struct sp_ctx *c, const char *name)
{
	return fake_setting(fake_of(c), name);
}

uint64_t sp_param_uint(struct sp_ctx *c, const char *name)
{
	static const struct {
		const char *unit;
		uint64_t factor;
	} units[] = {{"", 1},	    {"K", 1024},   {"M", 1 << 20}, {"ps", 1},  {"ns", SP_NS},
		     {"us", SP_US}, {"ms", SP_MS}, {"s", SP_SEC},  {"yes", 1}, {"no", 0}};
	const char *text = fake_setting(fake_of(c), name);
	char *end;
	uint64_t v;

	for (const struct sp_param *p = fake_of(c)->h->params; p && p->name; p++)
		for (v = 0; !strcmp(p->name, name) && p->choices && p->choices[v]; v++)
			if (!strcmp(p->choices[v], text))
				return v;
	v = strtoull(text, &end, 0);

	if (end == text)
		v = 1;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
		if (!strcmp(end, units[i].unit))
			return v * units[i].factor;
	abort();
}

int sp_fail(struct sp_ctx *c, int err, const char *param, const char *format, ...)
{
	struct fake_nic *f = fake_of(c);
	va_list args;

	va_start(args, format);
	snprintf(f->error.param, sizeof(f->error.param), "%s", param);
	vsnprintf(f->error.text, sizeof(f->error.text), format, args);
	va_end(args);
	return -err;
}

void *sp_alloc(struct sp_ctx *c, size_t bytes)
{
	struct fake_nic *f = fake_of(c);
	void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

	if (!p || f->allocs == 64)
		abort();
	memset(p, 0, bytes);
	return f->alloc[f->allocs++] = p;
}

int sp_qp_claim(struct sp_ctx *c, uint32_t count)
{
	fake_of(c)->qps.count = count;
	return 0;
}

int sp_qp_control(struct sp_ctx *c, uint32_t *qp)
{
	return *qp = fake_of(c)->qps.control = 0xF00001, 0;
}

int sp_messages_limit(struct sp_ctx *c, uint32_t count, sp_time idle)
{
	return count <= FAKE_MESSAGES ? 0 : -ENOMEM;
}

/* ---- memory ---- */
uint32_t fake_mem(struct fake_nic *f, uint64_t len)
{
	for (uint32_t i = 0; i < FAKE_MEMS; i++)
		if (!f->mem[i].base) {
			f->mem[i] =
				(struct sp_mem){.base = aligned_alloc(64, (len + 63) / 64 * 64), .len = len, .id = i};
			memset(f->mem[i].base, 0, len);
			return i;
		}
	abort();
}

int fake_start(struct fake_nic *f)
{
	uint64_t bytes = 0;
	int rc = f->h->configure ? f->h->configure(&f->c, &bytes) : 0;

	if (rc)
		return rc;
	f->area = bytes ? &f->mem[fake_mem(f, bytes)] : NULL;
	return f->h->attach(&f->c);
}

const struct sp_mem *sp_host_area(struct sp_ctx *c)
{
	return fake_of(c)->area;
}

const struct sp_mem *sp_mem_get(struct sp_ctx *c, uint32_t id)
{
	struct fake_nic *f = fake_of(c);

	if (id == 0 || id >= FAKE_MEMS || !f->mem[id].base)
		return NULL;
	__atomic_fetch_add(&f->refs[id], 1, __ATOMIC_RELAXED);
	return &f->mem[id];
}

void sp_mem_put(struct sp_ctx *c, const struct sp_mem *m)
{
	__atomic_fetch_sub(&fake_of(c)->refs[m->id], 1, __ATOMIC_RELAXED);
}

void sp_dma_fault(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	abort(); /* no test here provokes one */
}

bool sp_dma_traced(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, const void *from, uint64_t len)
{
	return false;
}

int sp_dma_read(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, void *to, uint32_t len)
{
	if (!sp_mem_holds(m, offset, len))
		abort();
	memcpy(to, m->base + offset, len);
	return 0;
}

static uint64_t *fake_word(const struct sp_mem *m, uint64_t offset)
{
	if (!sp_mem_holds(m, offset, 8) || offset & 7)
		abort();
	return (uint64_t *)(void *)(m->base + offset);
}

int sp_dma_or64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t bits)
{
	__atomic_fetch_or(fake_word(m, offset), bits, __ATOMIC_ACQ_REL);
	return 0;
}

int sp_dma_add64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t n, uint64_t *old)
{
	*old = __atomic_fetch_add(fake_word(m, offset), n, __ATOMIC_ACQ_REL);
	return 0;
}

int sp_dma_store64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t value)
{
	__atomic_store_n(fake_word(m, offset), value, __ATOMIC_RELEASE);
	return 0;
}

int sp_dma_progress64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t value)
{
	return sp_dma_store64(c, m, offset, value);
}

/* ---- messages ---- */
int sp_message_open(struct sp_ctx *c, uint64_t key)
{
	struct fake_nic *f = fake_of(c);
	struct fake_message *m = &f->message[(uint32_t)key];

	if (m->open)
		return -EEXIST;
	*m = (struct fake_message){.open = true, .tag = (uint32_t)(key >> 32), .m = {.key = key}};
	f->opened++;
	return 0;
}

static void fake_end(struct fake_nic *f, struct fake_message *m, enum sp_end why)
{
	f->h->completion(&f->c, &m->m, why);
	m->open = false; /* after completion(), as in the pipeline */
	f->completed++;
}

int sp_message_close(struct sp_ctx *c, uint64_t key)
{
	struct fake_nic *f = fake_of(c);
	struct fake_message *m = &f->message[(uint32_t)key];

	if (!m->open || m->m.key != key)
		return -ENOENT;
	fake_end(f, m, SP_END_CLOSED);
	return 0;
}

/* ---- timers, issue, sending ---- */
int sp_timer_arm(struct sp_ctx *c, struct sp_timer *t, sp_time at)
{
	struct fake_nic *f = fake_of(c);

	t->at = at;
	t->armed = 1;
	for (int i = 0; i < FAKE_TIMERS; i++)
		if (!f->timer[i] || f->timer[i] == t) {
			f->timer[i] = t;
			return 0;
		}
	abort();
}

int sp_timer_cancel(struct sp_ctx *c, struct sp_timer *t)
{
	t->armed = 0;
	return 0;
}

void fake_run(struct fake_nic *f, sp_time until)
{
	for (;;) {
		struct sp_timer *next = NULL;

		for (int i = 0; i < FAKE_TIMERS && f->timer[i]; i++)
			if (f->timer[i]->armed && f->timer[i]->at <= until && (!next || f->timer[i]->at < next->at))
				next = f->timer[i];
		if (!next)
			break;
		f->c.now = f->c.now > next->at ? f->c.now : next->at;
		next->armed = 0;
		f->h->timer(&f->c, next);
	}
	f->c.now = until;
}

void sp_issue_start(struct sp_ctx *c, struct sp_issue *i)
{
	fake_of(c)->issue = i;
}

void fake_issue(struct fake_nic *f, unsigned budget, unsigned rounds)
{
	while (f->issue && rounds--) {
		struct sp_issue *i = f->issue;

		f->issue = NULL;
		if (f->h->issue(&f->c, i, budget) == SP_ISSUE_MORE)
			f->issue = i;
	}
}

int sp_path_open(struct sp_ctx *c, const uint8_t ip[16], bool only, struct sp_path **path)
{
	*path = NULL;
	return only ? 0 : -EINVAL;
}

int sp_send_roce(struct sp_ctx *c, struct sp_path *path, const struct sp_send *send)
{
	struct fake_nic *f = fake_of(c);
	if (!f->room)
		return -EAGAIN;
	if (f->sent_count == FAKE_SENT || send->ext_len > 64 || send->len > 4096)
		abort();
	struct fake_sent *s = &f->sent[f->sent_count];
	f->room -= f->room > 0;
	s->send = *send;
	if (send->ext_len)
		memcpy(s->bytes, send->ext, send->ext_len);
	if (send->len && send->mem) {
		if (!sp_mem_holds(send->mem, send->offset, send->len))
			abort();
		memcpy(s->bytes + send->ext_len, send->mem->base + send->offset, send->len);
	} else if (send->len) {
		memcpy(s->bytes + send->ext_len, send->bytes, send->len);
	}
	f->sent_count++;
	return 0;
}

int sp_send_roce_run(struct sp_ctx *c, struct sp_path *path, const struct sp_send *send, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const int r = sp_send_roce(c, path, &send[i]);

		if (r)
			return i ? (int)i : r;
	}
	return (int)n;
}

/* Everything is copied. */
uint64_t sp_send_mark(struct sp_ctx *c)
{
	return 0;
}

bool sp_send_settled(struct sp_ctx *c, uint64_t mark)
{
	return mark == 0;
}

uint64_t sp_random(struct sp_ctx *c)
{
	return fake_of(c)->random = fake_of(c)->random * 6364136223846793005ull + 1442695040888963407ull;
}

/* ---- reports ---- */
static void fake_write(struct sp_report *r, const char *name, const char *value)
{
	int n = snprintf(r->text + r->len, sizeof(r->text) - r->len, "%s=%s ", name ? name : "-", value);

	if (n < 0 || (size_t)n >= sizeof(r->text) - r->len)
		abort();
	r->len += (size_t)n;
}

void sp_report_uint(struct sp_report *r, const char *name, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	fake_write(r, name, text);
}

void sp_report_string(struct sp_report *r, const char *name, const char *v)
{
	fake_write(r, name, v ? v : "null");
}

void sp_report_bool(struct sp_report *r, const char *name, bool v)
{
	fake_write(r, name, v ? "true" : "false");
}

void sp_report_open(struct sp_report *r, const char *name, bool list)
{
	fake_write(r, name, list ? "[" : "{");
}

void sp_report_close(struct sp_report *r)
{
	fake_write(r, "", ";");
}

/* ---- the NIC itself ---- */
int fake_attach(struct fake_nic *f, const char *const *setting)
{
	memset(f, 0, sizeof(*f));
	f->h = fake_handler;
	f->setting = setting;
	f->room = -1;
	f->c.workers = 1;
	f->c.counters = f->counters;
	f->c.now = SP_SEC;
	f->sent = malloc(sizeof(*f->sent) * FAKE_SENT);
	f->c.state = sp_alloc(&f->c, f->h->ctx_size);
	return fake_start(f);
}

void fake_detach(struct fake_nic *f)
{
	for (int i = 0; i < FAKE_MESSAGES; i++)
		if (f->message[i].open)
			fake_end(f, &f->message[i], SP_END_DETACH);
	f->h->detach(&f->c);
	for (int i = 1; i < FAKE_MEMS; i++)
		if (f->refs[i]) {
			fprintf(stderr, "memory %d has %d references left\n", i, f->refs[i]);
			abort();
		}
	for (int i = 0; i < FAKE_MEMS; i++)
		free(f->mem[i].base);
	for (unsigned i = 0; i < f->allocs; i++)
		free(f->alloc[i]);
	free(f->sent);
}

uint32_t fake_receive(struct fake_nic *f, struct sp_packet *p)
{
	uint32_t verdict;

	p->verdict = SP_DONE;
	p->key = f->h->classify(&f->c, p);
	if (p->key != SP_NO_MESSAGE && p->key > SP_REJECT(256)) {
		verdict = SP_DROP(UINT64_MAX - 1 - p->key);
		f->rejected++;
	} else if (p->key == SP_NO_MESSAGE) {
		f->h->payload_burst(&f->c, NULL, &p, 1);
		verdict = p->verdict;
	} else {
		struct fake_message *m = &f->message[(uint32_t)p->key];

		verdict = SP_AGAIN;
		for (int tries = 0; verdict == SP_AGAIN && tries < 3; tries++) {
			if (m->open && m->m.key == p->key) {
				f->h->payload_burst(&f->c, &m->m, &p, 1);
				verdict = p->verdict;
			} else {
				verdict = f->h->miss(&f->c, p);
			}
		}
	}
	if ((verdict & 0xFF) == SP_DROP_KIND)
		f->drops[verdict >> 8]++;
	else if (verdict == SP_DONE)
		f->taken++;
	else
		f->errors++;
	return verdict;
}

int fake_command(struct fake_nic *f, const struct sp_command *command, struct sp_event *result)
{
	struct sp_event ignored = {.type = SP_EVENT_RESULT};

	return f->h->command(&f->c, command, result ? result : &ignored);
}
