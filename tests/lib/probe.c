/* SPDX-License-Identifier: BSD-3-Clause */
#include "probe.h"

struct probe_log probe_log;

void probe_log_clear(void)
{
	free(probe_log.call);
	memset(&probe_log, 0, sizeof(probe_log));
}

struct probe_call *probe_note(char what, struct sp_ctx *c, uint64_t key, uint32_t serial)
{
	static struct probe_call nowhere;
	struct sp_ctx *first;
	struct probe_call *call = &nowhere;

	if (!probe_log.off) {
		dut_need((void **)&probe_log.call, &probe_log.room, probe_log.n, sizeof(*call));
		call = &probe_log.call[probe_log.n++];
	}
	*call = (struct probe_call){
		.what = what, .worker = (uint8_t)c->worker, .key = key, .serial = serial, .now = c->now};
	call->companion = sp_first(c, &first) != NULL || sp_view_of(c)->context->first;
	call->context = sp_view_of(c)->context->id;
	return call;
}

struct probe_words probe_words_of(const struct sp_packet *p)
{
	struct probe_words w = {0};

	if (p->len >= sizeof(w))
		memcpy(&w, p->data, sizeof(w));
	return w.magic == PROBE_MAGIC ? w : (struct probe_words){.key = SP_NO_MESSAGE};
}

int probe_attach(struct sp_ctx *c)
{
	probe_note('a', c, 0, 0);
	return sp_messages_limit(c, (uint32_t)sp_param_uint(c, "messages"), sp_param_uint(c, "idle"));
}

int probe_attach_none(struct sp_ctx *c)
{
	probe_note('a', c, 0, 0);
	return 0;
}

void probe_detach(struct sp_ctx *c)
{
	probe_note('d', c, 0, 0);
}

uint64_t probe_classify(struct sp_ctx *c, struct sp_packet *p)
{
	return probe_words_of(p).key;
}

uint32_t probe_header(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct probe_words w = probe_words_of(p);
	struct probe_call *call = probe_note('h', c, m->key, w.serial);

	for (unsigned i = 0; i < PROBE_STATE; i++)
		call->dirty |= ((uint8_t *)m->state)[i] != 0;
	memset(m->state, 0xA5, PROBE_STATE);
	if (probe_log.in_header) {
		void (*fn)(void) = probe_log.in_header;

		probe_log.in_header = NULL;
		fn();
	}
	if (w.action & PROBE_CLOSE_EARLY)
		sp_message_close(c, m->key);
	return w.header;
}

uint32_t probe_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct probe_words w = probe_words_of(p);
	struct probe_call *call = probe_note('p', c, m ? m->key : SP_NO_MESSAGE, w.serial);

	if (m) {
		call->first = m->first;
		call->last = m->last;
	}
	if (w.action & PROBE_SEND)
		sp_packet_send(c, p);
	if (w.action & PROBE_KEEP && !sp_packet_keep(c, p))
		probe_log.kept[probe_log.keeps++] = p->buf;
	if (m && w.action & PROBE_CLOSE)
		sp_message_close(c, m->key);
	return w.verdict;
}

uint32_t probe_burst(struct sp_ctx *c, struct sp_message *m, struct sp_packet *const *p, unsigned n)
{
	uint32_t all = 0;

	probe_note('b', c, m ? m->key : SP_NO_MESSAGE, 0)->n = n;
	for (unsigned i = 0; i < n; i++)
		all |= p[i]->verdict = probe_payload(c, m, p[i]);
	return all;
}

uint32_t probe_miss(struct sp_ctx *c, struct sp_packet *p)
{
	struct probe_words w = probe_words_of(p);

	probe_note('m', c, p->key, w.serial);
	if (w.action & PROBE_CLOSE_MISS)
		sp_message_close(c, p->key ^ 1ull << 32);
	if (w.miss == SP_AGAIN)
		sp_message_open(c, p->key);
	return w.miss;
}

void probe_completion(struct sp_ctx *c, struct sp_message *m, enum sp_end why)
{
	struct probe_call *call = probe_note('c', c, m->key, why);

	call->first = m->first;
	call->last = m->last;
	for (unsigned i = 0; i < PROBE_STATE; i++)
		call->dirty |= ((uint8_t *)m->state)[i] != 0xA5;
	if (probe_log.reopen)
		probe_log.reopened = sp_message_open(c, m->key + (1ull << 32));
}

int probe_command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	switch (cmd->op) {
	case PROBE_CMD_OPEN:
		return sp_message_open(c, cmd->arg[0]);
	case PROBE_CMD_CLOSE:
		return sp_message_close(c, cmd->arg[0]);
	case PROBE_CMD_EVENT:
		return sp_event_post(c, &(struct sp_event){.type = SP_EVENT_OWN, .cookie = cmd->arg[0]});
	case PROBE_CMD_FAIL:
		result->arg[0] = cmd->arg[0] + 1;
		return -(int)cmd->arg[0];
	}
	return -EOPNOTSUPP;
}

const struct sp_param probe_params[] = {
	{"messages", SP_UINT, "64", 1, 1 << 20, "messages at once"},
	{"idle", SP_TIME, "0ps", .help = "idle timeout"},
	{NULL},
};

const char *const probe_drops[] = {"probe-zero", "probe-one", NULL};

void probe_feed(struct dut *r, uint32_t qp, struct probe_words *w)
{
	struct frame f;

	w->magic = PROBE_MAGIC;
	dut_roce(&f, FRAME_IP4, qp, 0, w, sizeof(*w));
	dut_feed(r, &f);
}

const char *probe_letters(uint64_t key)
{
	static char text[4096];
	unsigned n = 0;

	for (unsigned i = 0; i < probe_log.n && n + 1 < sizeof(text); i++)
		if (key == SP_NO_MESSAGE || (probe_log.call[i].key == key && strchr("hpcm", probe_log.call[i].what)))
			text[n++] = probe_log.call[i].what;
	text[n] = '\0';
	return text;
}

static int probe_call_order(const void *a, const void *b)
{
	const struct probe_call *x = *(struct probe_call *const *)a, *y = *(struct probe_call *const *)b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x < y ? -1 : x > y;
}

unsigned probe_check_order(bool all_ended)
{
	struct probe_call **by_key = calloc(probe_log.n + 1, sizeof(*by_key));
	unsigned messages = 0, n = 0, bad = 0;
	bool open = false;

	for (unsigned i = 0; i < probe_log.n; i++)
		if (strchr("hpc", probe_log.call[i].what) && probe_log.call[i].key != SP_NO_MESSAGE)
			by_key[n++] = &probe_log.call[i];
	qsort(by_key, n, sizeof(*by_key), probe_call_order);
	for (unsigned i = 0; i < n; i++) {
		if (i && by_key[i]->key != by_key[i - 1]->key) {
			bad += open && all_ended;
			open = false;
		}
		bad += by_key[i]->dirty;
		bad += open == (by_key[i]->what == 'h');
		if (by_key[i]->what == 'h')
			messages++;
		open = by_key[i]->what != 'c';
	}
	bad += open && all_ended;
	free(by_key);
	CU_ASSERT_EQUAL(bad, 0);
	return bad ? 0 : messages;
}

int dut_call(struct dut *r, uint32_t id, uint16_t op, uint64_t arg)
{
	struct sp_command cmd = {.op = op, .context = id, .arg = {arg}};

	return sp_command_call(r->dev, &cmd, NULL);
}
