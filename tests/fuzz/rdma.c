/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An RDMA NIC against hostile peers and a hostile application. Two applications have RC, UC and UD QPs each. The first
 * behaves, with whatever luck; the second changes its requests and scribbles over its queues. An input is a list of
 * deeds: packets that are nearly right (PSNs, keys and addresses are near those that the NIC would take), answers to
 * what the NIC asks, work requests, changes of state, regions that end, ports that keep frames, time, applications that
 * end. The NIC lives on from input to input.
 * What must hold: received = taken + forwarded + dropped; no byte changes that no key opens; each work request of the
 * first application completes at most once, and not after RESET; no packet buffer is lost.
 */
#include "../../pipeline/context.h"
#include "rdma_world.h"
#ifdef FUZZ_STANDALONE
#include "standalone.h"
#endif

#define LIFE  20000 /* inputs that one NIC lives */
#define DEEDS 24    /* of an input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const uint8_t *draw_input;
size_t draw_left;
static unsigned age;

/* ---- deeds: packets ---- */
/* The region that what follows is about: mostly one that allows it. */
static void pick(struct app *a)
{
	static const uint8_t zones[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 4, 5, 6, 7};

	a->zone = zones[draw() % 16];
}

static uint64_t place(const struct app *a, uint64_t len)
{
	if (draw_one_of(32)) /* across its end */
		return VA + a->zone * ZONE + ROOM - draw() % 64;
	return VA + a->zone * ZONE + (draw() & 1 ? 0 : draw() * 8ull % (ROOM - len % ROOM));
}

static uint32_t key_of(const struct app *a)
{
	if (draw_one_of(16)) /* what is bound has one of few tags, in work() too */
		return (a->window[draw() & 1] & ~3u) | (draw() & 3);
	return draw_one_of(64) ? a->key[draw() % ZONES] ^ ((uint32_t)draw_one_of(2) << draw() % 32) : a->key[a->zone];
}

static uint32_t reth(uint8_t *x, uint64_t va, uint32_t key, uint64_t len)
{
	sp_store_be64(x, draw_near(va));
	sp_store_be32(x + 8, (uint32_t)draw_near(key));
	sp_store_be32(x + 12, (uint32_t)draw_near(len));
	return 16;
}

static uint32_t atomic(uint8_t *x, uint64_t va, uint32_t key)
{
	sp_store_be64(x, draw_near(va & ~7ull));
	sp_store_be32(x + 8, (uint32_t)draw_near(key));
	sp_store_be64(x + 12, draw_bytes(8));
	sp_store_be64(x + 20, draw_near(0));
	return 28;
}

/* A new message, or a lone packet; *payload: of it. */
static uint8_t begin(struct app *a, const struct rdma_qp *qp, uint8_t *x, uint32_t *ext, uint32_t *payload)
{
	static const uint8_t kinds[] = {SP_RC_SEND_FIRST,    SP_RC_SEND_ONLY,	   SP_RC_SEND_ONLY,
					SP_RC_SEND_ONLY_IMM, SP_RC_WRITE_FIRST,	   SP_RC_WRITE_ONLY,
					SP_RC_WRITE_ONLY,    SP_RC_WRITE_ONLY_IMM, SP_RC_READ_REQUEST,
					SP_RC_READ_REQUEST,  SP_RC_COMPARE_SWAP,   SP_RC_FETCH_ADD};
	const uint8_t opcode = draw_one_of(64) ? SP_RC_SEND_ONLY_INVALIDATE : kinds[draw() % 12];
	const uint32_t mtu = qp->mtu ? qp->mtu : 256;
	uint32_t key;

	pick(a);
	key = key_of(a);
	*payload = opcode == SP_RC_SEND_FIRST || opcode == SP_RC_WRITE_FIRST ? mtu : draw() * 4u % mtu;
	switch (opcode) {
	case SP_RC_WRITE_FIRST:
		*ext = reth(x, place(a, 3 * mtu), key, mtu + 1 + draw() * 4u % (2 * mtu));
		break;
	case SP_RC_WRITE_ONLY:
	case SP_RC_WRITE_ONLY_IMM:
		*ext = reth(x, place(a, *payload), key, *payload);
		break;
	case SP_RC_READ_REQUEST:
		*payload = 0;
		*ext = reth(x, place(a, 1024), key, draw() * 8u);
		break;
	case SP_RC_COMPARE_SWAP:
	case SP_RC_FETCH_ADD:
		*payload = 0;
		*ext = atomic(x, place(a, 8), key);
		break;
	case SP_RC_SEND_ONLY_INVALIDATE:
		sp_store_be32(x, key_of(a));
		*ext = 4;
		break;
	default:
		break;
	}
	if (opcode == SP_RC_SEND_ONLY_IMM || opcode == SP_RC_WRITE_ONLY_IMM)
		*ext += 4;
	return opcode;
}

/* What may come next in the message that the QP receives. */
static uint8_t go_on(const struct rdma_qp *qp, uint32_t *ext, uint32_t *payload)
{
	const bool write = qp->in.message == RDMA_MESSAGE_WRITE, imm = draw_one_of(4);
	const bool last = write ? qp->in.left <= qp->mtu : draw() & 1;

	*payload = !last ? qp->mtu : write ? qp->in.left : 1 + draw() * 4u % qp->mtu;
	if (!last)
		return write ? SP_RC_WRITE_MIDDLE : SP_RC_SEND_MIDDLE;
	*ext = imm ? 4 : 0;
	return imm ? write ? SP_RC_WRITE_LAST_IMM : SP_RC_SEND_LAST_IMM : write ? SP_RC_WRITE_LAST : SP_RC_SEND_LAST;
}

/* Once more what was answered, or a part of it. */
static uint8_t again(const struct rdma_qp *qp, uint8_t *x, uint32_t *psn, uint32_t *ext)
{
	const struct rdma_resource *r = &qp->in.resource[draw() % 4];
	const uint32_t part = r->len ? draw() % rdma_packets(r->len, qp->mtu) : 0;

	*psn = r->first + part;
	*ext = reth(x, r->va + part * qp->mtu, r->rkey, r->len - part * qp->mtu);
	if (r->kind == RDMA_RESOURCE_READ)
		return SP_RC_READ_REQUEST;
	*ext = atomic(x, r->va, r->rkey);
	return SP_RC_FETCH_ADD;
}

static void request(struct app *a, unsigned i)
{
	const struct rdma_qp *qp = state_of(a, i);
	uint8_t x[64] = {0}, opcode;
	uint32_t ext = 0, payload = 0, psn = qp->in.psn;
	const uint8_t how = draw();

	if (qp->type == SP_RDMA_UD) {
		sp_store_be32(x, (uint32_t)draw_near(QKEY));
		sp_store_be32(x + 4, draw());
		opcode = how & 1 ? SP_UD_SEND_ONLY : SP_UD_SEND_ONLY_IMM;
		world_packet(a, i, opcode, psn, x, how & 1 ? 8 : 12, draw() * 4u);
		return;
	}
	if (how >= 0xE8 && qp->type == SP_RDMA_RC && qp->mtu) {
		opcode = again(qp, x, &psn, &ext);
	} else if (how >= 0xE0) {
		psn -= draw();
		opcode = begin(a, qp, x, &ext, &payload);
	} else if (qp->in.message && qp->mtu && how >= 4) {
		opcode = go_on(qp, &ext, &payload);
	} else {
		opcode = begin(a, qp, x, &ext, &payload);
	}
	opcode |= qp->type == SP_RDMA_UC ? SP_ROCE_UC : 0;
	world_packet(a, i, opcode, (uint32_t)draw_near(psn), x, ext, (uint32_t)draw_near(payload) % 1100);
}

static void answer_read(struct app *a, unsigned i, const struct rdma_qp *qp, const struct rdma_op *op)
{
	const uint64_t number = qp->sq.una - op->seq, left = op->len - number * qp->mtu;
	const bool first = !number || draw_one_of(8), last = left <= qp->mtu;
	const uint8_t opcode = first  ? last ? SP_RC_READ_RESPONSE_ONLY : SP_RC_READ_RESPONSE_FIRST
			       : last ? SP_RC_READ_RESPONSE_LAST
				      : SP_RC_READ_RESPONSE_MIDDLE;
	const uint8_t aeth[4] = {draw_one_of(32) ? draw() : 0x1F};

	world_packet(a, i, opcode, (uint32_t)draw_near(qp->sq.una), aeth, first || last ? 4 : 0,
		     (uint32_t)draw_near(last ? left : qp->mtu) % 1100);
}

static void answer(struct app *a, unsigned i)
{
	static const uint8_t syndromes[] = {0x60, 0x60, 0x61, 0x62, 0x63, 0x20, 0x21, 0x2E, 0x3F, 0x40, 0x80, 0x64};
	const struct rdma_qp *qp = state_of(a, i);
	const struct rdma_op *op = qp->sq.wait;
	uint8_t x[12] = {0x1F, 0, 0, 1, draw(), draw()};
	const uint8_t how = draw();

	if (qp->type != SP_RDMA_RC || how >= 0xF8 || !qp->mtu) {
		x[0] = draw();
		world_packet(a, i, draw() & 1 ? SP_ROCE_CNP : SP_RC_READ_RESPONSE_FIRST + draw() % 6, draw(), x, 12,
			     draw());
	} else if (op && !op->status && op->begun && rdma_op_reads(op) && how < 0xE0) {
		if (op->op == SP_RDMA_WR_READ)
			answer_read(a, i, qp, op);
		else
			world_packet(a, i, SP_RC_ATOMIC_ACKNOWLEDGE, (uint32_t)draw_near(qp->sq.una), x, 12, 0);
	} else {
		const uint64_t out = qp->sq.end - qp->sq.una;

		if (draw_one_of(8))
			x[0] = syndromes[draw() % 12];
		world_packet(a, i, SP_RC_ACKNOWLEDGE, (uint32_t)(qp->sq.una + (out ? draw() % out : 0)), x, 4, 0);
	}
}

/* ---- deeds: the application ---- */
static uint32_t draw_sges(struct app *a, struct sp_rdma_sge *sge, unsigned most)
{
	const uint32_t n = draw() % (most + 1);

	for (uint32_t i = 0; i < n; i++) {
		const uint32_t len = draw_one_of(4) ? 1024 : draw() * 2u;

		pick(a);
		sge[i] = (struct sp_rdma_sge){draw_near(place(a, len)), (uint32_t)draw_near(len), key_of(a)};
	}
	return n;
}

static void work(struct app *a, unsigned i)
{
	static const uint8_t ops[] = {
		SP_RDMA_WR_SEND,      SP_RDMA_WR_SEND_IMM, SP_RDMA_WR_WRITE,	 SP_RDMA_WR_WRITE_IMM, SP_RDMA_WR_READ,
		SP_RDMA_WR_READ,      SP_RDMA_WR_CAS,	   SP_RDMA_WR_FETCH_ADD, SP_RDMA_WR_WRITE,     SP_RDMA_WR_SEND,
		SP_RDMA_WR_LOCAL_INV, SP_RDMA_WR_SEND_INV, SP_RDMA_WR_BIND_MW};
	struct sp_rdma_sge sge[2] = {{0}};
	struct sp_rdma_wqe w = {.op = draw_one_of(64) ? draw() : ops[draw() % 13],
				.flags = draw() & 15,
				.remote = draw_bytes(2),
				.rkey = draw(),
				.compare_add = draw(),
				.ah = (uint32_t)draw_near(a->ah),
				.remote_qp = draw(),
				.qkey = QKEY,
				.imm = key_of(a)};

	if (w.op == SP_RDMA_WR_BIND_MW) {
		pick(a);
		w.rkey = (a->window[draw() & 1] & ~3u) | (draw() & 3);
		w.imm = a->key[draw_one_of(8) ? draw() % ZONES : draw() & 1 ? 4 : 6];
		w.remote = draw_near(VA + (w.imm == a->key[4] ? 4 : 6) * ZONE);
		w.compare_add = draw_near(ROOM);
		w.swap = draw_near(draw() & 14);
	}
	if (w.op == SP_RDMA_WR_LOCAL_INV && draw() & 3)
		w.op = SP_RDMA_WR_SEND;
	w.sges = (uint8_t)draw_near(draw_sges(a, sge, 2));
	if (w.op == SP_RDMA_WR_CAS || w.op == SP_RDMA_WR_FETCH_ADD) {
		w.sges = 1;
		sge[0] = (struct sp_rdma_sge){place(a, 8), 8, key_of(a)};
	}
	w.length = w.flags & SP_RDMA_INLINED ? (uint32_t)draw_near(draw() % 64) : 0;
	world_post(a, i, &w, sge);
}

static void receive(struct app *a, unsigned i)
{
	struct sp_rdma_sge sge[2] = {{VA + 2 * ZONE, ROOM, a->key[2]}};
	uint32_t sges = 1;

	if (draw_one_of(8))
		sges = draw_sges(a, sge, 2);
	world_receive(a, i, sge, draw_one_of(64) ? draw() : sges);
}

static void change(struct app *a, unsigned i)
{
	const uint8_t how = draw();

	if (a->qp[i].lost || how >= 0xF0)
		world_anew(a, i);
	else if (rdma_state(state_of(a, i)) == SP_RDMA_ERR || rdma_state(state_of(a, i)) == SP_RDMA_SQE || how >= 0xE8)
		world_reset(a, i);
	else if (how >= 0xE0)
		world_state(a, i, SP_RDMA_ERR);
	else if (how >= 0xD8)
		world_state(a, i, draw() & 1 ? SP_RDMA_SQD : SP_RDMA_RTS);
	else if (how >= 0xC8)
		world_region_anew(a, draw() % ZONES);
	else if (how >= 0xC0)
		world_window_anew(a, draw() & 1);
}

static void hostile(struct app *a)
{
	const uint8_t how = draw();

	if (how < 0xC0) { /* its queues, at any moment */
		uint8_t *at = a->memory + GUARD + (draw_bytes(3) % DATA & ~3ull);
		const uint32_t v = draw() & 1 ? draw() : (uint32_t)draw_bytes(4);

		memcpy(at, &v, sizeof(v));
		for (unsigned i = 0; i < QPS && how & 1; i++)
			world_ring(a, i);
	} else { /* any request */
		static uint8_t bytes[SP_CONTROL_BYTES];
		const uint32_t len = (uint32_t)draw_bytes(2) % (draw() & 3 ? 200 : sizeof(bytes));

		for (uint32_t i = 0; i < len; i++)
			bytes[i] = i < 32 || draw() & 1 ? draw() : 0;
		world_ask(a, draw() % 20, draw() & 1 ? 0 : a->qp[draw() % QPS].number + draw() / 200, how & 1, bytes,
			  len, NULL, draw());
	}
}

static void deed(void)
{
	const uint8_t what = draw(), which = draw();
	struct app *a = &apps[which >= 0xC0];
	const unsigned i = which % QPS;
	struct sp_nic_totals t;

	if (what < 0x50)
		request(a, i);
	else if (what < 0x70)
		answer(a, i);
	else if (what < 0x98)
		work(a, i);
	else if (what < 0xB8)
		receive(a, i);
	else if (what < 0xD0)
		change(a, i);
	else if (what < 0xE0)
		hostile(&apps[1]);
	else if (what < 0xE8)
		world_keep(draw());
	else if (what < 0xFE)
		world_pass((what & 1 ? 30 : 2000) * SP_US);
	else if (what == 0xFE && draw_one_of(8)) /* at any moment, with whatever ports still have */
		world_close(a), world_open(a);
	world_pass(100 * SP_NS);
	world_poll(&apps[0]);
	world_poll(&apps[1]);
	sp_nic_totals(nic, &t);
	PROMISE(t.received == t.taken + t.forwarded + t.dropped);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!nic)
		world_begin();
	draw_input = data;
	draw_left = size;
	for (unsigned i = 0; i < DEEDS && draw_left; i++)
		deed();
	world_check();
	if (++age == LIFE) {
		world_end();
		age = 0;
	}
	draw_left = 0; /* the input is the caller's again */
	return 0;
}

#ifdef FUZZ_STANDALONE
int main(int argc, char **argv)
{
	static uint8_t seed[64][400];
	const uint8_t *list[64];
	size_t len[64];
	uint64_t state = 7;
	char count[] = "40000";
	char *own[] = {argv[0], count, NULL};

	for (unsigned i = 0; i < 64; i++) {
		for (unsigned k = 0; k < sizeof(seed[i]); k++)
			seed[i][k] = (uint8_t)(fuzz_random(&state) >> 32);
		list[i] = seed[i];
		len[i] = sizeof(seed[i]);
	}
	int r = fuzz_standalone(argc > 1 ? argc : 2, argc > 1 ? argv : own, list, len, 64);
	if (nic)
		world_end();
	/* All of it must have been met, or the fuzzer looks at nothing. */
	for (unsigned k = 0; world_counters[k]; k++) {
		if (argc < 2 && !world_sums[k]) {
			printf("no %s\n", world_counters[k]);
			r = r ? r : 1;
		}
		if (argc > 3)
			printf("%s %llu\n", world_counters[k], (unsigned long long)world_sums[k]);
	}
	return r;
}
#endif
