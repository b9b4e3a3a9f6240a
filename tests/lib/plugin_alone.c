/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugin_alone.h"

const struct sp_handler *plugin_handler;

static struct {
	const char *name, *text;
	uint64_t value;
} plugin_set[8];

static void *allocation[16];
static unsigned allocations;

struct sp_mem plugin_area;

atomic_uint plugin_events, plugin_kept, plugin_released, plugin_sent;

void sp_handler_register(const struct sp_handler *h)
{
	plugin_handler = h;
}

static const char *text_of(const char *name)
{
	const struct sp_param *p = plugin_handler->params;

	for (unsigned i = 0; i < 8; i++)
		if (plugin_set[i].name && !strcmp(plugin_set[i].name, name))
			return plugin_set[i].text;
	while (strcmp(p->name, name))
		p++;
	return p->fallback;
}

const char *sp_param_string(struct sp_ctx *c, const char *name)
{
	return text_of(name);
}

uint64_t sp_param_uint(struct sp_ctx *c, const char *name)
{
	char *end;
	uint64_t n;

	for (const struct sp_param *p = plugin_handler->params; p && p->name; p++)
		for (n = 0; !strcmp(p->name, name) && p->choices && p->choices[n]; n++)
			if (!strcmp(p->choices[n], text_of(name)))
				return n;
	n = strtoull(text_of(name), &end, 0);
	switch (*end) {
	case 'K':
		return n << 10;
	case 'M':
		return n << 20;
	case 'u': /* us, ms: picoseconds */
		return n * SP_US;
	case 'm':
		return n * SP_MS;
	}
	return n;
}

char plugin_failure[256]; /* "parameter: what is wrong" */

int sp_fail(struct sp_ctx *c, int err, const char *param, const char *format, ...)
{
	const int len = snprintf(plugin_failure, sizeof(plugin_failure), "%s: ", param);
	va_list ap;
	va_start(ap, format);
	vsnprintf(plugin_failure + len, sizeof(plugin_failure) - (size_t)len, format, ap);
	va_end(ap);
	return -err;
}

void *sp_alloc(struct sp_ctx *c, size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
	memset(p, 0, bytes);
	return allocation[allocations++] = p;
}

uint64_t sp_hash(struct sp_ctx *c, const void *bytes, size_t len)
{
	uint64_t hash = 14695981039346656037ull;
	for (const uint8_t *b = bytes; len; b++, len--)
		hash = (hash ^ *b) * 0x9E3779B97F4A7C15ull ^ hash >> 29;
	return hash >> 1;
}

int sp_messages_limit(struct sp_ctx *c, uint32_t n, sp_time idle)
{
	return n ? 0 : -EINVAL;
}

const struct sp_mem *sp_host_area(struct sp_ctx *c)
{
	return plugin_area.base ? &plugin_area : NULL;
}

void sp_dma_fault(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	abort(); /* an example reaches beyond its area */
}

bool sp_dma_traced(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, const void *from, uint64_t len)
{
	return false;
}

int sp_dma_add64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t n, uint64_t *old)
{
	if (offset % 8 || !sp_mem_holds(m, offset, 8))
		sp_dma_fault(c, m, offset, 8);
	n = atomic_fetch_add((_Atomic uint64_t *)(m->base + offset), n);
	if (old)
		*old = n;
	return 0;
}

int sp_dma_store64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t value)
{
	if (offset % 8 || !sp_mem_holds(m, offset, 8))
		sp_dma_fault(c, m, offset, 8);
	atomic_store((_Atomic uint64_t *)(m->base + offset), value);
	return 0;
}

int sp_dma_progress64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t value)
{
	return sp_dma_store64(c, m, offset, value);
}

int sp_event_post(struct sp_ctx *c, const struct sp_event *e)
{
	plugin_events++;
	return 0;
}

int sp_packet_keep(struct sp_ctx *c, struct sp_packet *p)
{
	plugin_kept++;
	sched_yield(); /* the other worker's turn, in the middle of payload() */
	return 0;
}

void sp_packet_release(struct sp_ctx *c, void *buf)
{
	plugin_released += buf != NULL;
}

uint8_t order[256]; /* first payload byte of each frame sent */

__attribute__((weak)) int sp_send_frame(struct sp_ctx *c, uint16_t port, const void *frame, uint32_t len)
{
	order[plugin_sent++] = ((const uint8_t *)frame)[DATA_AT + SLMP];
	return 0;
}

int sp_timer_arm(struct sp_ctx *c, struct sp_timer *t, sp_time at)
{
	return 0;
}

struct sp_ctx plugin_ctx[WORKERS];

uint64_t plugin_counted[WORKERS][64];

void *plugin_state;

const char *plugin_directory;

static void *object;

/* Loads NAME.so, attaches it with parameters: name, text; returns what attach() says. */
static int attached(const char *name, va_list ap)
{
	char path[4096];

	while (allocations)
		free(allocation[--allocations]);
	snprintf(path, sizeof(path), "%s/%s.so", plugin_directory, name);
	plugin_handler = NULL;
	if (object)
		dlclose(object);
	object = dlopen(path, RTLD_LAZY); /* its constructor registers it */
	if (!object)
		printf("# %s\n", dlerror());
	CU_ASSERT_PTR_NOT_NULL_FATAL(object);
	memset(plugin_set, 0, sizeof(plugin_set));
	for (unsigned i = 0; (plugin_set[i].name = va_arg(ap, const char *)); i++)
		plugin_set[i].text = va_arg(ap, const char *);
	memset(plugin_counted, 0, sizeof(plugin_counted));
	plugin_events = plugin_kept = plugin_released = plugin_sent = 0;
	CU_ASSERT_PTR_NOT_NULL_FATAL(plugin_handler);
	plugin_state = sp_alloc(NULL, plugin_handler->ctx_size);
	for (uint16_t i = 0; i < WORKERS; i++)
		plugin_ctx[i] = (struct sp_ctx){
			.state = plugin_state, .counters = plugin_counted[i], .worker = i, .workers = WORKERS};
	plugin_area = (struct sp_mem){0};
	if (plugin_handler->configure) {
		uint64_t bytes = 0;
		const int rc = plugin_handler->configure(&plugin_ctx[0], &bytes);

		if (rc)
			return rc;
		if (bytes)
			plugin_area = (struct sp_mem){.base = sp_alloc(&plugin_ctx[0], bytes), .len = bytes};
	}
	return plugin_handler->attach(&plugin_ctx[0]);
}

void plugin_setup(const char *name, ...)
{
	va_list ap;

	va_start(ap, name);
	CU_ASSERT_EQUAL_FATAL(attached(name, ap), 0);
	va_end(ap);
}

bool plugin_refused(const char *name, ...)
{
	va_list ap;

	plugin_failure[0] = 0;
	va_start(ap, name);
	int err = attached(name, ap);
	va_end(ap);
	return err == -EINVAL;
}

void put32(uint8_t *b, uint32_t n)
{
	const uint8_t bytes[] = {n >> 24, n >> 16, n >> 8, n};

	memcpy(b, bytes, 4);
}

struct sp_packet slmp(struct wire *w, bool last, uint16_t user, uint32_t message, uint32_t offset, uint32_t words,
		      uint32_t word)
{
	uint8_t *data = w->frame + DATA_AT;

	memset(w->frame, 0, DATA_AT);
	w->frame[UDP_AT + 1] = 9; /* source port 9, destination port 0 */
	put32(data, (uint32_t)last << 16 | user);
	put32(data + 4, message);
	put32(data + 8, offset);
	for (uint32_t i = 0; i < words; i++)
		put32(data + SLMP + 4 * i, word);
	return (struct sp_packet){.data = data,
				  .len = SLMP + 4 * words,
				  .frame = w->frame,
				  .frame_len = DATA_AT + SLMP + 4 * words,
				  .l3 = 14,
				  .l4 = UDP_AT,
				  .flags = SP_PKT_UDP,
				  .buf = w};
}
