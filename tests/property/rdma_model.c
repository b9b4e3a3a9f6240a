/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rdma handler against a model of the specification, in virtual time: random verbs on random QPs over a link that
 * loses, repeats, delays, reorders and spoils, and with applications that err. Each packet that the NIC sends, each
 *byte that it writes, each completion and each event, and their order, is as the model says. SPINDLE_LONG=1
 *build/tests/test-property-rdma_model	1,000 seeds, some 260,000 operations SPINDLE_SEED=N
 *build/tests/test-property-rdma_model	one of them
 */
#include "rdma_model_world.h"

#include <errno.h>

#include "../lib/suite.h"

#define PAIRS	 (RM_QPS / 2)
#define PATIENCE (4000000 * RM_US) /* for a pair to end */

static struct {
	uint64_t runs, posts, completions, ended;
} sum;
static unsigned failures, by_chance;

/* Cells that the specification makes possible; *hit: of them. */
static unsigned cells(unsigned *hit)
{
	unsigned all = 0;

	*hit = 0;
	for (unsigned op = 0; op < RM_OPS; op++)
		for (unsigned nak = 0; nak < RM_NAKS; nak++)
			for (unsigned state = 0; state < RM_STATES; state++)
				for (unsigned loss = 0; loss < RM_LOSSES; loss++)
					if (rm_possible(op, nak, state, loss)) {
						all++;
						*hit += rm_cells[op][nak][state][loss] != 0;
					}
	return all;
}

/* ---- at random ---- */
static const uint8_t ops[] = {SP_RDMA_WR_WRITE, SP_RDMA_WR_WRITE_IMM, SP_RDMA_WR_SEND,	    SP_RDMA_WR_SEND_IMM,
			      SP_RDMA_WR_READ,	SP_RDMA_WR_CAS,	      SP_RDMA_WR_FETCH_ADD, SP_RDMA_WR_SEND_INV,
			      SP_RDMA_WR_READ,	SP_RDMA_WR_LOCAL_INV};

/* Requests that use a window, or end its key. */
static bool window_used(uint32_t qp, uint32_t key, bool local_inv)
{
	const struct rm_qp *q = &rm.qp[qp];

	for (uint32_t i = q->wait; i != q->posted; i++) {
		const struct rm_wr *w = &q->wr[i % RM_OLD];

		if (local_inv ? w->op == SP_RDMA_WR_LOCAL_INV && w->imm == key
			      : w->rkey == key || (w->op == SP_RDMA_WR_SEND_INV && w->imm == key))
			return true;
	}
	return false;
}

static bool window_valid(uint32_t key)
{
	for (unsigned i = 0; i < RM_KEYS; i++)
		if (rm.key[i].live && rm.key[i].key == key)
			return !rm.key[i].invalid;
	return false;
}

/* The peer's windows are what SEND_INV ends; ours, what LOCAL_INV does. While one is under way, nobody uses the key. */
static bool with_window(uint32_t qp, struct rm_wr *w)
{
	const struct world_key *peers = &world.window[qp ^ 1][nic_draw(2)], *own = &world.window[qp][nic_draw(2)];

	if (w->op == SP_RDMA_WR_LOCAL_INV) {
		if (window_used(qp ^ 1, own->key, false) || window_used(qp, own->key, true))
			return false;
		w->imm = own->key;
		w->bad = window_valid(own->key) ? 0 : SP_RDMA_LOC_PROT_ERR;
		return !w->bad || !nic_draw(20);
	}
	if (window_used(qp ^ 1, peers->key, true))
		return w->op != SP_RDMA_WR_SEND_INV;
	if (w->op == SP_RDMA_WR_SEND_INV) {
		w->imm = peers->key;
		return window_valid(peers->key) || !nic_draw(20);
	}
	if ((w->op <= SP_RDMA_WR_WRITE_IMM || w->op == SP_RDMA_WR_READ) && !nic_draw(6) && w->len <= 4096 &&
	    (window_valid(peers->key) || !nic_draw(20))) {
		w->rkey = peers->key;
		w->remote = peers->va + nic_draw(4096);
	}
	return true;
}

static uint32_t random_length(uint32_t mtu)
{
	const uint32_t kinds[] = {0,	   1 + nic_draw(32),	  nic_draw(mtu + 1), mtu,
				  2 * mtu, 1 + nic_draw(5 * mtu), nic_draw(2 * mtu)};

	return kinds[nic_draw(7)];
}

static void post_one(uint32_t qp)
{
	const struct rm_qp *q = &rm.qp[qp];
	const uint8_t op = ops[nic_draw(sizeof(ops))];
	uint32_t len = random_length(q->mtu);
	struct rm_wr w;

	if (q->type == SP_RDMA_UD && len > q->mtu)
		len = q->mtu;
	w = world_request(qp, op, len);
	if (q->type != SP_RDMA_RC) {
		const bool has = op == SP_RDMA_WR_SEND || op == SP_RDMA_WR_SEND_IMM ||
				 (q->type == SP_RDMA_UC && op <= SP_RDMA_WR_WRITE_IMM);

		if (!has && nic_draw(100))
			return;
		w.bad = has ? 0 : SP_RDMA_LOC_QP_OP_ERR;
		if (q->type == SP_RDMA_UC && op == SP_RDMA_WR_LOCAL_INV) /* it may; but the key is none */
			w.bad = SP_RDMA_LOC_PROT_ERR;
	} else if (!with_window(qp, &w)) {
		return;
	}
	if (world.faults && !w.bad && !nic_draw(60))
		world_spoil(qp, &w, 1 + nic_draw(FAULTS - 1));
	world_post(qp, &w);
}

static void change_state(uint32_t qp)
{
	const uint8_t state = rm.qp[qp].state;

	if (state == SP_RDMA_RTS && nic_draw(2))
		world_modify(qp, SP_RDMA_SQD, nic_draw(2));
	else if (!nic_draw(4))
		world_modify(qp, SP_RDMA_ERR, false);
	else if (!nic_draw(6))
		world_modify(qp, SP_RDMA_RESET, false);
	else if (!nic_draw(6))
		world_destroy(qp);
}

/* SQD goes on; SQE, once all that was posted in it has been told. */
static void go_on(uint32_t qp)
{
	const struct rm_qp *q = &rm.qp[qp];

	if (q->state == SP_RDMA_SQD || (q->state == SP_RDMA_SQE && q->sent.head == q->sent.tail))
		world_modify(qp, SP_RDMA_RTS, false);
}

static void act(uint32_t qp)
{
	const struct rm_qp *q = &rm.qp[qp];

	if (!q->exists || q->state == SP_RDMA_RESET)
		return;
	if (!nic_draw(4))
		go_on(qp);
	for (unsigned n = nic_draw(8); n--;)
		if (q->state >= SP_RDMA_RTS)
			post_one(qp);
	for (unsigned n = nic_draw(6); n--;) {
		const bool bad = world.faults && !nic_draw(150);

		world_receive(q->rq, bad ? ENTRY_SHORT + nic_draw(3) : ENTRY_GOOD);
	}
	if (world.faults && !nic_draw(120))
		change_state(qp);
}

static void around(void)
{
	const uint32_t at = WORLD_HALF + nic_draw(WORLD_HALF - 64);

	if (!nic_draw(4)) /* an application writes to its memory */
		for (uint32_t i = at; i < at + 64; i++)
			rm.arena[i] = nic.memory[NIC_ARENA + i] = (uint8_t)nic_draw(256);
	if (!nic_draw(3))
		world_arm(nic_draw(RM_CQS), 1 + nic_draw(2));
	for (uint32_t qp = 0; qp < RM_QPS; qp++)
		for (unsigned k = 0; k < 2; k++)
			if ((!window_valid(world.window[qp][k].key) && !nic_draw(8)) ||
			    (world.faults && !nic_draw(2000)))
				if (!window_used(qp, world.window[qp][k].key, true))
					world_window_renew(qp, k);
}

/* A pair of which one has ended lasts until the other knows, and all has been told. */
static bool ended(uint32_t qp)
{
	const struct rm_qp *q = &rm.qp[qp];

	if (!q->exists || q->state <= SP_RDMA_RTR)
		return true;
	return q->wait == q->posted && q->sent.head == q->sent.tail &&
	       (q->state != SP_RDMA_ERR || q->received.head == q->received.tail);
}

static void pair_life(uint32_t pair)
{
	const uint32_t a = 2 * pair, b = a + 1;
	bool broken = false;

	for (uint32_t qp = a; qp <= b; qp++)
		broken |= !rm.qp[qp].exists || rm.qp[qp].state == SP_RDMA_RESET || rm.qp[qp].state == SP_RDMA_ERR;
	if (broken && !world.ending[pair])
		world.ending[pair] = rm.now;
	if (!world.ending[pair])
		return;
	for (uint32_t qp = a; qp <= b; qp++)
		if (rm.qp[qp].exists)
			go_on(qp);
	if (!ended(a) || !ended(b)) {
		RM_MUST(rm.now - world.ending[pair] < PATIENCE, "pair %u does not end", pair);
		return;
	}
	for (uint32_t qp = a; qp <= b; qp++)
		if (rm.qp[qp].exists)
			world_destroy(qp);
	sum.ended++;
	world_random_pair(pair);
}

static bool all_done(void)
{
	for (uint32_t qp = 0; qp < RM_QPS; qp++)
		if (!ended(qp))
			return false;
	return nic_idle();
}

static void settle(void)
{
	nic.loss = nic.repeat = nic.foul = nic.busy = 0;
	for (unsigned i = 0; i < 20000 && !rm.bad && !all_done(); i++) {
		for (uint32_t qp = 0; qp < RM_QPS; qp++) {
			const struct rm_qp *q = &rm.qp[qp];

			if (!q->exists || q->state == SP_RDMA_RESET)
				continue;
			go_on(qp);
			if (q->state != SP_RDMA_ERR)
				world_receive(q->rq, ENTRY_GOOD);
		}
		nic_run((i < 100 ? 50 : 500) * RM_US);
	}
	for (uint32_t qp = 0; qp < RM_QPS; qp++)
		rm_all_told(qp);
}

static bool told(uint64_t seed, const char *what)
{
	if (!rm.bad)
		return true;
	printf("# %s, seed %llu, at %llu us: %s\n", what, (unsigned long long)seed,
	       (unsigned long long)(rm.now / RM_US), rm.text);
	failures++;
	return false;
}

static void one(uint64_t seed)
{
	const unsigned rounds = 40;

	world_begin(seed);
	world.faults = seed % 4 != 0;
	nic.loss = nic_draw(2) ? nic_draw(60) : 0;
	nic.repeat = nic_draw(2) ? nic_draw(nic_draw(2) ? 60 : 400) : 0;
	nic.late = nic_draw(2) ? nic_draw(nic_draw(2) ? 60 : 400) : 0;
	nic.foul = nic_draw(2) ? nic_draw(40) : 0;
	nic.again = nic_draw(2) ? 20 : 0;
	nic.busy = nic_draw(2) ? nic_draw(900) : 0;
	for (uint32_t i = 0; i < PAIRS; i++)
		world_random_pair(i);
	for (unsigned i = 0; i < rounds && !rm.bad; i++) {
		for (uint32_t n = nic_draw(5); n--;)
			act(nic_draw(RM_QPS));
		around();
		for (uint32_t pair = 0; pair < PAIRS && !rm.bad; pair++)
			pair_life(pair);
		nic_run(nic_draw(nic_draw(4) ? 60 : 600) * RM_US);
	}
	settle();
	world_end();
	sum.runs++;
	sum.posts += world.posts;
	sum.completions += rm.completions;
	told(seed, "at random");
}

TEST(verbs_at_random)
{
	const char *only = getenv("SPINDLE_SEED");
	const uint64_t from = only ? strtoull(only, NULL, 0) : 1;
	const uint64_t count = only ? 1 : getenv("SPINDLE_LONG") ? 1000 : suite_times(300);

	failures = 0;
	memset(&sum, 0, sizeof(sum));
	for (uint64_t seed = from; seed < from + count && failures < 3; seed++)
		one(seed);
	cells(&by_chance);
	printf("# %llu seeds, %llu operations, %llu completions; %llu pairs of QPs have ended\n",
	       (unsigned long long)sum.runs, (unsigned long long)sum.posts, (unsigned long long)sum.completions,
	       (unsigned long long)sum.ended);
	CU_ASSERT_EQUAL(failures, 0);
}

/* ---- each opcode, NAK, state of the responder, and position of the loss ---- */
static bool is_send(uint8_t op)
{
	return op == SP_RDMA_WR_SEND || op == SP_RDMA_WR_SEND_IMM || op == SP_RDMA_WR_SEND_INV;
}

/* The request is in the send queue of QP 0, and nothing of it is sent. */
static void lose(const struct rm_wr *w, unsigned nak, unsigned loss)
{
	const uint32_t first = rm_psn(w->first), last = rm_psn(w->first + w->packets - 1);
	const bool responses = w->op == SP_RDMA_WR_READ && loss >= RM_LOST_FIRST && loss <= RM_LOST_LAST;
	struct nic_rule *r = nic.rule;

	/* What is missing for a moment makes a sequence NAK, if more comes behind. */
	if (nak == RM_NAK_SEQUENCE && (loss == RM_LOST_NOT || loss == RM_LOST_ACK || responses))
		*r++ = (struct nic_rule){.on = true, .late = true, .op = 0xFF, .psn = first};
	if (loss == RM_LOST_NOT)
		return;
	*r = (struct nic_rule){.on = true, .op = 0xFF, .psn = RM_ANY};
	if (loss == RM_LOST_ACK || responses) {
		r->from = 1;
		r->answer = true;
		r->op = responses ? (uint8_t)(RM_RESPONSE_FIRST + loss - RM_LOST_FIRST) : 0xFF;
	} else {
		r->psn = loss == RM_LOST_LAST ? last : loss == RM_LOST_MIDDLE ? rm_psn(first + 1) : first;
		r->more = nak == RM_NAK_NONE ? rm_psn(last - r->psn) : 0; /* who gets no more has no NAK to send */
	}
}

static void spoil(struct rm_wr *w, unsigned nak, bool window)
{
	const bool atomic = w->op == SP_RDMA_WR_CAS || w->op == SP_RDMA_WR_FETCH_ADD;

	if (w->op == SP_RDMA_WR_SEND_INV)
		w->imm = world.window[1][0].key ^ (nak == RM_NAK_ACCESS ? 0x40000000 : 0);
	else if (nak == RM_NAK_ACCESS && !window)
		world_spoil(0, w, FAULT_KEY);
	if (window) {
		w->rkey = world.window[1][0].key;
		w->remote = world.window[1][0].va;
	}
	if (nak == RM_NAK_OPERATION && atomic)
		world_spoil(0, w, FAULT_MEMORY);
}

static void cell(uint8_t op, unsigned nak, uint8_t state, unsigned loss, uint64_t seed)
{
	const bool read = op == SP_RDMA_WR_READ, dropped = state < SP_RDMA_RTR || state == SP_RDMA_ERR;
	/* The key of a READ ends while it is answered. */
	const bool window = read && nak == RM_NAK_ACCESS && loss >= RM_LOST_FIRST && loss <= RM_LOST_LAST;
	const struct world_pair pair = {.type = SP_RDMA_RC,
					.mtu = 256,
					.access = nak == RM_NAK_INVALID && !is_send(op) ? SP_RDMA_LOCAL_WRITE : 15,
					.max_rd = 4,
					.max_dest = 4,
					.rnr_retry = 7,
					.retry = dropped ? 1 : 7,
					.timeout = 5};
	const bool one_packet = loss == RM_LOST_ONLY || (read && loss == RM_LOST_ACK);
	struct rm_wr w;

	world_begin(seed);
	world_make(0, &pair, SP_RDMA_RTS, state);
	w = world_request(0, op, one_packet ? 256 : 5 * 256);
	spoil(&w, nak, window);
	for (unsigned n = 0; nak != RM_NAK_RNR && n < 2; n++)
		world_receive(1, nak == RM_NAK_INVALID && is_send(op) ? ENTRY_SHORT
				 : nak == RM_NAK_OPERATION	      ? ENTRY_MALFORMED
								      : ENTRY_GOOD);
	world_post(0, &w);
	lose(&rm.qp[0].wr[0], nak, loss);
	if (nak == RM_NAK_SEQUENCE) {
		w = world_request(0, SP_RDMA_WR_WRITE, 0);
		w.flags &= (uint8_t)~SP_RDMA_FENCE;
		world_post(0, &w);
	}
	nic_run(9 * RM_US);
	if (window)
		world_window_renew(1, 0);
	for (unsigned i = 0; i < 400 && !rm.bad && !(ended(0) && nic_idle()); i++) {
		nic_run(50 * RM_US);
		if (nak == RM_NAK_RNR && i > 5)
			world_receive(1, ENTRY_GOOD);
	}
	RM_MUST(ended(0), "the request does not end");
	world_end();
}

static const char *const op_names[RM_OPS] = {"WRITE", "WRITE_IMM", "SEND",	"SEND_IMM", "READ",
					     "CAS",   "FETCH_ADD", "LOCAL_INV", "",	    "SEND_INV"};
static const char *const nak_names[] = {"none", "sequence", "RNR", "invalid", "access", "operation"};
static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
static const char *const loss_names[] = {"nothing", "first", "middle", "last", "only", "ACK"};

TEST(each_opcode_with_each_nak_in_each_state_with_each_loss)
{
	failures = 0;
	for (unsigned i = 0; i < RM_OPS * RM_NAKS * RM_STATES * RM_LOSSES && failures < 3; i++) {
		const unsigned loss = i % RM_LOSSES, state = i / RM_LOSSES % RM_STATES;
		const unsigned nak = i / RM_LOSSES / RM_STATES % RM_NAKS, op = i / RM_LOSSES / RM_STATES / RM_NAKS;
		char text[128];

		if (!rm_possible(op, nak, state, loss))
			continue;
		snprintf(text, sizeof(text), "%s, NAK %s, responder %s, lost %s", op_names[op], nak_names[nak],
			 state_names[state], loss_names[loss]);
		cell((uint8_t)op, nak, (uint8_t)state, loss, 2 * i);
		told(2 * i, text);
	}
	CU_ASSERT_EQUAL(failures, 0);
}

TEST(nothing_that_can_be_was_left_out)
{
	unsigned hit, all = cells(&hit);

	printf("# of %u cells (opcode, NAK, state of the responder, loss): %u by chance, %u in all\n", all, by_chance,
	       hit);
	for (unsigned op = 0; op < RM_OPS; op++) {
		uint64_t nak[RM_NAKS] = {0}, loss[RM_LOSSES] = {0}, state[RM_STATES] = {0};

		for (unsigned n = 0; n < RM_NAKS; n++)
			for (unsigned s = 0; s < RM_STATES; s++)
				for (unsigned l = 0; l < RM_LOSSES; l++) {
					nak[n] += rm_cells[op][n][s][l];
					state[s] += rm_cells[op][n][s][l];
					loss[l] += rm_cells[op][n][s][l];
					if (rm_possible(op, n, s, l) && !rm_cells[op][n][s][l])
						printf("# never: %s, NAK %s, responder %s, lost %s\n", op_names[op],
						       nak_names[n], state_names[s], loss_names[l]);
				}
		if (!rm_possible(op, RM_NAK_NONE, SP_RDMA_RTS, RM_LOST_NOT))
			continue;
		printf("# %-9s", op_names[op]);
		for (unsigned n = 0; n < RM_NAKS; n++)
			printf(" %s %llu", nak_names[n], (unsigned long long)nak[n]);
		printf("; lost:");
		for (unsigned l = 0; l < RM_LOSSES; l++)
			printf(" %s %llu", loss_names[l], (unsigned long long)loss[l]);
		printf(";");
		for (unsigned s = 0; s < RM_STATES; s++)
			printf(" %s %llu", state_names[s], (unsigned long long)state[s]);
		printf("\n");
	}
	CU_ASSERT_EQUAL(hit, all);
}
