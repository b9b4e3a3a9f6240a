/* SPDX-License-Identifier: BSD-3-Clause */
/* All of the rdma handler, and a stand-in for the NIC with a link from it to itself. */
#include "../../handlers/rdma/ack.c"
#include "../../handlers/rdma/ah.c"
#include "../../handlers/rdma/answer.c"
#include "../../handlers/rdma/cq.c"
#include "../../handlers/rdma/create.c"
#include "../../handlers/rdma/datagram.c"
#include "../../handlers/rdma/export.c"
#include "../../handlers/rdma/fetch.c"
#include "../../handlers/rdma/flow.c"
#include "../../handlers/rdma/keep.c"
#include "../../handlers/rdma/key.c"
#include "../../handlers/rdma/message.c"
#include "../../handlers/rdma/modify.c"
#include "../../handlers/rdma/packet.c"
#include "../../handlers/rdma/peer.c"
#include "../../handlers/rdma/place.c"
#include "../../handlers/rdma/qp.c"
#include "../../handlers/rdma/rate.c"
#include "../../handlers/rdma/rdma.c"
#include "../../handlers/rdma/region.c"
#include "../../handlers/rdma/request.c"
#include "../../handlers/rdma/respond.c"
#include "../../handlers/rdma/retry.c"
#include "../../handlers/rdma/rkey.c"
#include "../../handlers/rdma/rq.c"
#include "../../handlers/rdma/second.c"
#include "../../handlers/rdma/selective.c"
#include "../../handlers/rdma/slot.c"
#include "../../handlers/rdma/tell.c"
#include "../../handlers/rdma/wqe.c"

#include "rdma_model_nic.h"

#define HEAD	   54u /* Ethernet, IPv4, UDP, BTH */
#define IN_AIR	   2048u
#define ISSUES	   (RM_QPS + 1)
#define BURST	   8u
#define PER_PACKET 100000u /* ps on the link */

struct air {
	sp_time at;
	bool used;
	struct rm_packet p;
};
struct nic nic;
static struct {
	struct sp_ctx c;
	struct rdma s;
	uint64_t counters[64];
	struct sp_mem mem;
	struct air *air;
	unsigned airs;
	sp_time link;
	struct sp_issue *issue[ISSUES];
	bool waits[RM_QPS];
	struct sp_timer *timer[ISSUES];
	uint64_t lents, back;
	sp_time lent[IN_AIR];
	struct sp_event event[64];
	unsigned events, quiet;
	void *given[64];
	unsigned gave;
	uint64_t mrs;
} h;

uint32_t nic_draw(uint32_t below)
{
	nic.random = nic.random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)((nic.random >> 33) % below);
}

/* ---- what the handler calls ---- */
void sp_handler_register(const struct sp_handler *handler)
{
	(void)handler;
}
uint64_t sp_param_uint(struct sp_ctx *c, const char *name)
{
	static const struct {
		const char *name;
		uint64_t value;
	} all[] = {{"qps", RM_QPS},
		   {"cqs", 4},
		   {"srqs", 2},
		   {"pds", 2},
		   {"mrs", 64},
		   {"ahs", 2},
		   {"ecn", 0},
		   {"cc", 0},
		   {"qp", NIC_QP},
		   {"cc-rate", 1u << 30},
		   {"peer-reads", 4u << 20}};

	(void)c;
	if (!strcmp(name, "requests"))
		return nic.requests;
	if (!strcmp(name, "send-window"))
		return nic.window;
	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (!strcmp(name, all[i].name))
			return all[i].value;
	return 0;
}
void *sp_alloc(struct sp_ctx *c, size_t bytes)
{
	void *p = NULL;

	(void)c;
	if (h.gave == 64 || posix_memalign(&p, 64, bytes + 64))
		abort();
	return h.given[h.gave++] = memset(p, 0, bytes);
}
int sp_fail(struct sp_ctx *c, int err, const char *param, const char *format, ...)
{
	(void)c, (void)param, (void)format;
	return -err;
}
int sp_qp_claim(struct sp_ctx *c, uint32_t count)
{
	(void)c, (void)count;
	return 0;
}
uint16_t sp_qp_worker(struct sp_ctx *c, uint32_t index)
{
	(void)c, (void)index;
	return 0;
}
const struct sp_mem *sp_mem_get(struct sp_ctx *c, uint32_t id)
{
	(void)c, (void)id;
	return &h.mem;
}
void sp_mem_put(struct sp_ctx *c, const struct sp_mem *m)
{
	(void)c, (void)m;
}
int sp_path_open(struct sp_ctx *c, const uint8_t ip[16], bool only, struct sp_path **path)
{
	(void)c, (void)ip, (void)only;
	*path = (struct sp_path *)&h;
	return 0;
}
void sp_path_close(struct sp_ctx *c, struct sp_path *path)
{
	(void)c, (void)path;
}
uint64_t sp_random(struct sp_ctx *c)
{
	(void)c;
	return nic_draw(1u << 31);
}
uint64_t sp_hash(struct sp_ctx *c, const void *bytes, size_t len)
{
	(void)c, (void)bytes;
	return len; /* one peer */
}
struct sp_ctx *sp_second(struct sp_ctx *c)
{
	(void)c;
	return NULL;
}
void sp_second_end(struct sp_ctx *c)
{
	(void)c;
}
uint64_t sp_grace_begin(struct sp_ctx *c)
{
	(void)c;
	return 0;
}
bool sp_grace_over(struct sp_ctx *c, uint64_t token)
{
	(void)c, (void)token;
	return true;
}
int sp_event_post(struct sp_ctx *c, const struct sp_event *e)
{
	(void)c;
	if (h.events == 64)
		return -EAGAIN;
	h.event[h.events++] = *e;
	return 0;
}
void sp_report_close(struct sp_report *r)
{
	(void)r;
}
void sp_report_open(struct sp_report *r, const char *name, bool list)
{
	(void)r, (void)name, (void)list;
}
void sp_report_string(struct sp_report *r, const char *name, const char *s)
{
	(void)r, (void)name, (void)s;
}
void sp_report_uint(struct sp_report *r, const char *name, uint64_t v)
{
	(void)r, (void)name, (void)v;
}
void sp_dma_fault(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t len)
{
	(void)c, (void)m;
	rm_wrong("DMA beyond the memory: %llu bytes at %llx", (unsigned long long)len, (unsigned long long)offset);
}
bool sp_dma_traced(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, const void *from, uint64_t len)
{
	(void)c, (void)m, (void)offset, (void)from, (void)len;
	return false;
}
int sp_dma_store64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t value)
{
	return offset % 8 ? -EINVAL : sp_dma_write(c, m, offset, &value, 8);
}
int sp_dma_add64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t add, uint64_t *old)
{
	memcpy(old, m->base + offset, 8);
	return sp_dma_store64(c, m, offset, *old + add);
}
int sp_dma_swap64(struct sp_ctx *c, const struct sp_mem *m, uint64_t offset, uint64_t expect, uint64_t value,
		  uint64_t *old)
{
	memcpy(old, m->base + offset, 8);
	return *old == expect || offset % 8 ? sp_dma_store64(c, m, offset, value) : 0;
}
void sp_issue_start(struct sp_ctx *c, struct sp_issue *issue)
{
	(void)c;
	h.issue[issue->cookie & 1 ? RM_QPS : issue->cookie >> 1] = issue;
}
int sp_timer_arm(struct sp_ctx *c, struct sp_timer *t, sp_time at)
{
	(void)c;
	h.timer[t->cookie & 1 ? RM_QPS : t->cookie >> 1] = t;
	t->at = at;
	t->armed = 1;
	return 0;
}
int sp_timer_cancel(struct sp_ctx *c, struct sp_timer *t)
{
	(void)c;
	t->armed = 0;
	return 0;
}
uint64_t sp_send_mark(struct sp_ctx *c)
{
	(void)c;
	return h.lents;
}
bool sp_send_settled(struct sp_ctx *c, uint64_t mark)
{
	(void)c;
	return h.back >= mark;
}

/* ---- the link ---- */
/* With SPINDLE_TRACE: what goes over it. */
static void trace(const char *what, const struct rm_packet *p)
{
	static const char *on = "";

	if (on && !*on)
		on = getenv("SPINDLE_TRACE");
	if (on)
		printf("# %9.3f %s %u -> %u op %02x psn %06x len %u%s%s ext %016llx\n", (double)h.c.now / SP_US - 1e6,
		       what, p->from, p->to, p->op, p->psn, p->len, p->ask ? " ask" : "", p->foul ? " foul" : "",
		       (unsigned long long)rm_get(p->ext, 8));
}

static bool ruled(const struct rm_packet *p, bool late)
{
	for (unsigned i = 0; i < 2; i++) {
		struct nic_rule *r = &nic.rule[i];

		if (r->on && r->late == late && p->from == r->from && rm_is_answer(p->op) == r->answer &&
		    (r->op == 0xFF || p->op == r->op) && (r->psn == RM_ANY || r->psn == p->psn)) {
			r->on = r->more;
			r->more -= r->more != 0;
			r->psn = r->on ? rm_psn(r->psn + 1) : r->psn;
			return true;
		}
	}
	return false;
}

static void to_link(const struct rm_packet *p)
{
	h.link = (h.link > h.c.now ? h.link : h.c.now) + PER_PACKET;
	if (ruled(p, false) || nic_draw(1000) < nic.loss) {
		trace("lost", p);
		rm_lost(p);
		return;
	}
	for (unsigned copies = nic_draw(1000) < nic.repeat ? 2 : 1, i = 0; copies--; i++) {
		struct air *a;

		while (i < IN_AIR && h.air[i].used)
			i++;
		if (i == IN_AIR)
			abort();
		a = &h.air[i];
		h.airs = i < h.airs ? h.airs : i + 1;
		a->used = true;
		a->at = h.link + 5 * SP_US +
			(ruled(p, true)		     ? 30 * SP_US
			 : nic_draw(1000) < nic.late ? nic_draw(60) * SP_US
						     : copies * 3 * SP_US);
		a->p = *p;
	}
}

int sp_send_roce(struct sp_ctx *c, struct sp_path *path, const struct sp_send *s)
{
	struct rm_packet p = {.to = s->dest_qp - NIC_QP, .psn = s->psn, .op = s->opcode, .len = s->len};
	uint8_t *to = p.bytes;

	(void)path;
	if (nic_draw(1000) < nic.again)
		return -EAGAIN;
	RM_MUST(s->ext_len <= 64 && s->len <= 4096 && s->psn < 1u << 24 && p.to < RM_QPS, "a packet is malformed");
	if (rm.bad)
		return 0;
	p.from = p.to ^ 1;
	p.ask = s->flags & SP_SEND_ACK_REQ;
	p.se = s->flags & SP_PKT_SE;
	p.ext_len = s->ext_len;
	if (s->ext_len)
		memcpy(p.ext, s->ext, s->ext_len);
	for (unsigned k = 0; s->piece && k < s->pieces; to += s->piece[k++].len)
		memcpy(to, s->piece[k].mem->base + s->piece[k].offset, s->piece[k].len);
	if (!s->piece && s->len)
		memcpy(p.bytes, s->mem ? s->mem->base + s->offset : s->bytes, s->len);
	memcpy(p.ip + 12, (const uint8_t[]){1, 2, 3, 4}, 4);
	trace("sent", &p);
	rm_sent(&p);
	to_link(&p);
	if (s->mem)
		h.lent[h.lents++ % IN_AIR] = h.link + SP_US;
	return 0;
}
int sp_send_roce_run(struct sp_ctx *c, struct sp_path *path, const struct sp_send *s, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const int r = sp_send_roce(c, path, &s[i]);

		if (r)
			return i ? (int)i : r;
	}
	return (int)count;
}

/* The frame, as the NIC hands it to the handler. */
static struct sp_packet frame(uint8_t *f, struct rm_packet *p)
{
	struct sp_packet x = {.data = f + HEAD,
			      .len = p->ext_len + p->len,
			      .frame = f,
			      .frame_len = HEAD + p->ext_len + p->len + 4,
			      .l3 = 14,
			      .l4 = 34,
			      .dest_qp = NIC_QP + p->to,
			      .qp_index = (uint16_t)p->to,
			      .psn = p->psn,
			      .opcode = p->op,
			      .flags = (uint8_t)(SP_PKT_ROCE | (p->se ? SP_PKT_SE : 0))};

	memset(f, 0, HEAD);
	memcpy(f + 14, p->ip, 20);
	f[HEAD - 12] = p->op;
	f[HEAD - 11] = (uint8_t)((-p->len & 3) << SP_BTH_PAD_SHIFT);
	f[HEAD - 10] = f[HEAD - 9] = 0xFF;
	f[HEAD - 4] = p->ask ? SP_BTH_ACK_REQ : 0;
	memcpy(f + HEAD, p->ext, p->ext_len);
	memcpy(f + HEAD + p->ext_len, p->bytes, p->len);
	if (p->foul)
		switch (nic_draw(p->ext_len ? 4 : 3)) {
		case 0:
			f[HEAD - 10] ^= 0x40; /* another partition */
			break;
		case 1:
			f[14 + 13] ^= 1; /* from somebody else */
			if (rm.qp[p->to].type == SP_RDMA_UD)
				f[HEAD - 9] ^= 1;
			break;
		case 2:
			x.opcode ^= 0x80; /* another transport */
			break;
		default:
			x.len = nic_draw(p->ext_len < 4 ? p->ext_len : 4); /* cut off */
			break;
		}
	return x;
}

/* ---- time ---- */
void nic_look(void)
{
	for (unsigned i = 0; i < RM_QPS; i++)
		rm_look(i, rdma_state(&h.s.qp[i]), false);
	for (unsigned i = 0; i < h.events; i++)
		if (h.event[i].type == SP_RDMA_EVENT_CQ)
			nic.signal(h.event[i].cookie);
		else if (h.event[i].arg[1] - NIC_QP >= RM_QPS)
			rm_wrong("event %llu of a queue", (unsigned long long)h.event[i].arg[0]);
		else
			rm_event((uint32_t)h.event[i].arg[1] - NIC_QP, (int)h.event[i].arg[0]);
	h.events = 0;
	nic.poll();
	for (unsigned i = 0; i < RM_QPS; i++)
		rm_look(i, rdma_state(&h.s.qp[i]), !h.issue[i] && !h.waits[i]);
	if (!(++h.quiet % 32))
		rm_compare();
}

int nic_control(uint32_t op, uint32_t qp, const void *in, uint32_t in_len, void *out, uint32_t out_room)
{
	struct sp_control x = {.op = op, .qp = qp, .in_len = in_len, .in = in, .out = out, .out_room = out_room};

	return rdma_control(&h.c, &x);
}

void nic_doorbell(uint32_t qp)
{
	rdma_command(&h.c, &(struct sp_command){.op = SP_RDMA_CMD_DOORBELL, .arg = {NIC_QP + qp}}, NULL);
}

static void deliver(struct air *first)
{
	static uint8_t frames[BURST][HEAD + 64 + 4096 + 4];
	struct sp_packet packet[BURST], *p[BURST];
	const uint32_t to = first->p.to;
	const unsigned most = nic_draw(2) ? 1 : 1 + nic_draw(BURST);
	const sp_time together = nic_draw(4) ? 2 * PER_PACKET : 10 * SP_US;
	unsigned n = 0;

	/* What came meanwhile for the same QP may come at once, in the order of its times. Not requests behind answers,
	 * with which the QP may have failed. */
	while (first && n < most) {
		struct air *next = NULL;

		first->p.foul = nic_draw(1000) < nic.foul;
		packet[n] = frame(frames[n], &first->p);
		p[n] = &packet[n];
		trace("came", &first->p);
		rm_delivered(&first->p);
		first->used = false;
		n++;
		for (unsigned i = 0; i < h.airs; i++)
			if (h.air[i].used && h.air[i].p.to == to &&
			    rm_is_answer(h.air[i].p.op) >= rm_is_answer(first->p.op) &&
			    h.air[i].at <= h.c.now + together && (!next || h.air[i].at < next->at))
				next = &h.air[i];
		first = next;
	}
	rdma_payload(&h.c, NULL, p, n);
}

static void issue_all(void)
{
	for (unsigned k = 0; k < ISSUES; k++) {
		struct sp_issue *issue = h.issue[k];
		int r;

		if (!issue || nic_draw(1000) < nic.busy)
			continue;
		h.issue[k] = NULL;
		r = rdma_issue(&h.c, issue, 1 + nic_draw(32));
		if (k < RM_QPS)
			h.waits[k] = r == SP_ISSUE_WAIT;
		h.issue[k] = r == SP_ISSUE_MORE ? issue : h.issue[k];
		nic_look();
	}
}

static void ports_done(void)
{
	bool some = false;

	for (; h.back < h.lents && h.lent[h.back % IN_AIR] <= h.c.now; h.back++)
		some = true;
	for (unsigned k = 0; some && k < RM_QPS; k++)
		if (h.waits[k])
			h.issue[k] = &h.s.qp[k].issue;
}

static bool step(sp_time until)
{
	struct air *next = NULL;
	struct sp_timer *timer = NULL;
	sp_time at = until;
	bool more = false;

	issue_all();
	for (unsigned k = 0; k < ISSUES; k++)
		more |= h.issue[k] != NULL;
	if (more && h.c.now + SP_US < until)
		at = h.c.now + SP_US;
	while (h.airs && !h.air[h.airs - 1].used)
		h.airs--;
	for (unsigned i = 0; i < h.airs; i++)
		if (h.air[i].used && h.air[i].at < at) {
			next = &h.air[i];
			at = next->at;
		}
	for (unsigned i = 0; i < ISSUES; i++)
		if (h.timer[i] && h.timer[i]->armed && h.timer[i]->at < at) {
			timer = h.timer[i];
			at = timer->at;
		}
	if (h.back < h.lents && h.lent[h.back % IN_AIR] < at) {
		at = h.lent[h.back % IN_AIR];
		next = NULL;
		timer = NULL;
		more = true;
	}
	h.c.now = rm.now = at > h.c.now ? at : h.c.now;
	ports_done();
	if (timer) {
		timer->armed = 0;
		rdma_timer(&h.c, timer);
		nic_look();
	} else if (next) {
		deliver(next);
		nic_look();
	}
	return (next || timer || more) && h.c.now < until;
}

void nic_run(uint64_t time)
{
	const sp_time until = h.c.now + time;

	while (!rm.bad && step(until))
		;
	h.c.now = rm.now = until > h.c.now ? until : h.c.now;
	ports_done();
}

bool nic_idle(void)
{
	for (unsigned i = 0; i < h.airs; i++)
		if (h.air[i].used)
			return false;
	for (unsigned k = 0; k < RM_QPS; k++)
		if (h.issue[k] || h.waits[k])
			return false;
	return true;
}

void nic_forget(uint32_t qp)
{
	for (unsigned i = 0; i < h.airs; i++)
		if (h.air[i].p.to == qp || h.air[i].p.from == qp)
			h.air[i].used = false;
}

void nic_begin(uint64_t seed)
{
	const uint64_t random = seed * 2654435761u + 12345;

	memset(&h, 0, sizeof(h));
	nic.random = random;
	nic.memory = aligned_alloc(64, NIC_MEMORY);
	h.air = calloc(IN_AIR, sizeof(*h.air));
	if (!nic.memory || !h.air)
		abort();
	memset(nic.memory, 0, NIC_MEMORY);
	h.mem = (struct sp_mem){.base = nic.memory, .len = NIC_MEMORY};
	h.c = (struct sp_ctx){.state = &h.s, .counters = h.counters, .workers = 1, .now = SP_SEC};
	rm.now = SP_SEC;
	rm.real = nic.memory + NIC_ARENA;
	rdma_configure(&h.c, &(uint64_t){0});
	if (rdma_attach(&h.c))
		abort();
}

void nic_end(void)
{
	rdma_detach(&h.c);
	while (h.gave)
		free(h.given[--h.gave]);
	free(h.air);
	free(nic.memory);
}
