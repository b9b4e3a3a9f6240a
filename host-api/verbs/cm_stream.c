/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stream of an rsocket. Each end writes into the other's ring of bytes, by RDMA WRITE with immediate data. A ring
 * has two halves; the reader tells of one that is free again in the writer's table of targets. A message needs a
 * receive request of the peer: how many there are, it tells as credits. A few messages beyond them may ask for patience
 * (RNR). What a peer writes is not trusted: its table of targets is read once for each of its entries, and what it says
 * it sent must have had room.
 */
#include "cm_rsocket.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define MOST   65536 /* bytes of a message */
#define INLINE 64    /* at least: targets and maps are sent so */
#define BATCH  32

/* Numbers of requests: what it is above, and the bytes of the send buffer. */
enum { RECEIVE, DATA, MESSAGE, CONTROL };
#define NUMBER(kind, bytes) ((uint64_t)(kind) << 32 | (bytes))

/* ---- making ---- */
static size_t whole_pages(size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

static int make_memory(struct shim_rs *rs)
{
	const size_t targets =
		whole_pages(SHIM_RS_TARGETS * sizeof(struct shim_rs_place) + rs->maps * sizeof(struct shim_rs_mapped));
	const size_t recv = whole_pages(rs->recv_size), send = whole_pages(rs->send_size);
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	void *at = mmap(NULL, targets + recv + send, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return -1;
	rs->memory = at;
	rs->memory_size = targets + recv + send;
	rs->targets = at;
	rs->maps_of_peer = (struct shim_rs_mapped *)(rs->targets + SHIM_RS_TARGETS);
	rs->recv_buffer = rs->memory + targets;
	rs->send_buffer = rs->recv_buffer + recv;
	rs->target_mr = ibv_reg_mr(rs->id->pd, rs->memory, targets, access);
	rs->recv_mr = rs->target_mr ? ibv_reg_mr(rs->id->pd, rs->recv_buffer, recv, access) : NULL;
	rs->send_mr = rs->recv_mr ? ibv_reg_mr(rs->id->pd, rs->send_buffer, send, IBV_ACCESS_LOCAL_WRITE) : NULL;
	rs->message = calloc(rs->recv_entries, sizeof(*rs->message));
	return rs->send_mr && rs->message ? 0 : -1;
}

static int make_qp(struct shim_rs *rs)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1};
	struct ibv_device_attr device;
	const uint32_t wanted = rs->inlined < INLINE ? INLINE : rs->inlined;
	int error = ibv_query_device(rs->id->verbs, &device);

	if (error)
		return shim_cm_fail(error);
	if (rs->send_entries > (uint32_t)device.max_qp_wr)
		rs->send_entries = (uint32_t)device.max_qp_wr;
	if (rs->recv_entries > (uint32_t)device.max_qp_wr)
		rs->recv_entries = (uint32_t)device.max_qp_wr;
	rs->completions = ibv_create_comp_channel(rs->id->verbs);
	if (!rs->completions || fcntl(rs->completions->fd, F_SETFL, O_NONBLOCK))
		return -1;
	rs->cq = ibv_create_cq(rs->id->verbs, (int)(rs->send_entries + rs->recv_entries), rs, rs->completions, 0);
	if (!rs->cq)
		return -1;
	attr.send_cq = attr.recv_cq = rs->cq;
	for (uint32_t inlined = wanted;; inlined = INLINE) {
		attr.cap = (struct ibv_qp_cap){.max_send_wr = rs->send_entries,
					       .max_recv_wr = rs->recv_entries,
					       .max_send_sge = 1,
					       .max_recv_sge = 1,
					       .max_inline_data = inlined};
		if (!rdma_create_qp(rs->id, NULL, &attr))
			break;
		if (inlined == INLINE)
			return -1;
	}
	/* The NIC may have more room than was asked for, but what the peer hears must be what is posted. */
	rs->inlined = attr.cap.max_inline_data < wanted ? attr.cap.max_inline_data : wanted;
	return 0;
}

static int post_receives(struct shim_rs *rs, uint32_t count)
{
	struct ibv_recv_wr wr[BATCH], *bad;

	while (count) {
		const uint32_t n = count < BATCH ? count : BATCH;

		for (uint32_t i = 0; i < n; i++)
			wr[i] = (struct ibv_recv_wr){.wr_id = NUMBER(RECEIVE, 0),
						     .next = i + 1 < n ? &wr[i + 1] : NULL};
		const int error = ibv_post_recv(rs->id->qp, wr, &bad);

		if (error)
			return shim_cm_fail(error);
		count -= n;
	}
	return 0;
}

int shim_rs_setup(struct shim_rs *rs)
{
	rs->send_size = rs->send_size < 2 * SHIM_RS_LEAST ? 2 * SHIM_RS_LEAST : rs->send_size;
	rs->recv_size = rs->recv_size < 2 * SHIM_RS_LEAST ? 2 * SHIM_RS_LEAST : rs->recv_size & ~1u;
	if (make_qp(rs) || make_memory(rs) || post_receives(rs, rs->recv_entries))
		return -1;
	rs->send_room = rs->send_size;
	rs->entries = rs->send_entries - SHIM_RS_CONTROLS;
	rs->controls = SHIM_RS_CONTROLS;
	rs->granted = rs->free_bytes = rs->give_at = rs->recv_size / 2;
	rs->granted_messages = (uint16_t)(rs->recv_entries / 2);
	rs->reads = rs->writes = rs->peer_writes = true;
	return 0;
}

void shim_rs_teardown(struct shim_rs *rs)
{
	while (rs->mapped) {
		struct shim_rs_map *map = rs->mapped;

		rs->mapped = map->next;
		ibv_dereg_mr(map->mr);
		free(map);
	}
	if (rs->id && rs->id->qp)
		rdma_destroy_qp(rs->id);
	if (rs->cq)
		ibv_destroy_cq(rs->cq);
	if (rs->completions)
		ibv_destroy_comp_channel(rs->completions);
	if (rs->send_mr)
		ibv_dereg_mr(rs->send_mr);
	if (rs->recv_mr)
		ibv_dereg_mr(rs->recv_mr);
	if (rs->target_mr)
		ibv_dereg_mr(rs->target_mr);
	if (rs->memory)
		munmap(rs->memory, rs->memory_size);
	free(rs->message);
}

/* ---- private data ---- */
#define VERSION	  1
#define FLAG_BIG  1
#define FLAG_MAPS 2

static bool big_endian(void)
{
	return htobe16(1) == 1;
}

static void place_to_wire(struct shim_rs_place *to, const void *at, uint32_t rkey, uint32_t len)
{
	*to = (struct shim_rs_place){htobe64((uintptr_t)at), htobe32(rkey), htobe32(len)};
}

static void place_from_wire(struct shim_rs_place *to, const struct shim_rs_place *from)
{
	*to = (struct shim_rs_place){be64toh(from->addr), be32toh(from->rkey), be32toh(from->len)};
}

void shim_rs_hello(struct shim_rs *rs, struct shim_rs_hello *to)
{
	*to = (struct shim_rs_hello){.version = VERSION,
				     .flags = (uint8_t)(FLAG_MAPS | (big_endian() ? FLAG_BIG : 0)),
				     .credits = htobe16((uint16_t)rs->recv_entries),
				     .maps = (uint8_t)rs->maps};
	place_to_wire(&to->targets, rs->targets, rs->target_mr->rkey, SHIM_RS_TARGETS);
	place_to_wire(&to->first, rs->recv_buffer, rs->recv_mr->rkey, rs->recv_size / 2);
}

int shim_rs_learn(struct shim_rs *rs, const void *private_data, size_t len)
{
	struct shim_rs_hello h;

	if (!private_data || len < sizeof(h))
		return shim_cm_fail(EPROTO);
	memcpy(&h, private_data, sizeof(h));
	place_from_wire(&rs->peer_targets, &h.targets);
	place_from_wire(&rs->room, &h.first);
	if (h.version != VERSION || !rs->peer_targets.len)
		return shim_cm_fail(EPROTO);
	rs->swap = big_endian() != ((h.flags & FLAG_BIG) != 0);
	rs->may_send = be16toh(h.credits);
	/* The first target is in use: both ends go on with the second. */
	rs->next_target = 1;
	rs->peer_target = 1 % rs->peer_targets.len;
	if (h.flags & FLAG_MAPS) {
		rs->peer_maps = rs->peer_targets;
		rs->peer_maps.addr += (uint64_t)rs->peer_targets.len * sizeof(struct shim_rs_place);
		/* From 128 on in steps of 256. */
		rs->peer_maps.len = h.maps <= 128 ? h.maps : (h.maps & 127u) << 8;
	}
	return 0;
}

/* ---- the end ---- */
void shim_rs_end(struct shim_rs *rs, int error)
{
	if (rs->state != SHIM_RS_ENDED && !rs->error)
		rs->error = error;
	rs->state = SHIM_RS_ENDED;
	rs->peer_writes = false;
}

/* ---- messages that go ---- */
static int post(struct shim_rs *rs, uint64_t number, enum ibv_wr_opcode opcode, const void *at, uint32_t len,
		uint64_t addr, uint32_t rkey, uint32_t message)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = len, .lkey = rs->send_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = number,
				 .sg_list = &sge,
				 .num_sge = len ? 1 : 0,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED | (len && len <= rs->inlined ? IBV_SEND_INLINE : 0),
				 .imm_data = htobe32(message),
				 .wr.rdma = {.remote_addr = addr, .rkey = rkey}},
			   *bad;
	const int error = ibv_post_send(rs->id->qp, &wr, &bad);

	if (!error)
		return 0;
	shim_rs_end(rs, ECONNRESET);
	return shim_cm_fail(error);
}

static int say(struct shim_rs *rs, uint64_t number, const struct shim_rs_place *to, const void *at, uint32_t len,
	       uint32_t what, uint32_t value)
{
	return post(rs, number, IBV_WR_RDMA_WRITE_WITH_IMM, at, len, to ? to->addr : 0, to ? to->rkey : 0,
		    what << 29 | value);
}

static struct shim_rs_place place_for_peer(const struct shim_rs *rs, const void *at, uint32_t rkey, uint32_t len)
{
	struct shim_rs_place p = {(uintptr_t)at, rkey, len};

	if (rs->swap)
		p = (struct shim_rs_place){__builtin_bswap64(p.addr), __builtin_bswap32(rkey), __builtin_bswap32(len)};
	return p;
}

void shim_rs_give_credits(struct shim_rs *rs)
{
	const uint32_t half = rs->recv_size / 2;
	const bool room = rs->free_bytes >= half;
	struct shim_rs_place to = rs->peer_targets, given;

	if (rs->state != SHIM_RS_CONNECTED || !rs->peer_writes || !rs->controls ||
	    (!room && (int16_t)(uint16_t)(rs->received - rs->granted_messages) < 0))
		return;
	rs->controls--;
	rs->granted_messages = (uint16_t)(rs->received + rs->recv_entries / 2);
	if (!room) {
		say(rs, NUMBER(CONTROL, 0), NULL, NULL, 0, SHIM_RS_CREDITS,
		    (uint16_t)(rs->received + rs->recv_entries));
		return;
	}
	given = place_for_peer(rs, rs->recv_buffer + rs->give_at, rs->recv_mr->rkey, half);
	to.addr += rs->peer_target * sizeof(struct shim_rs_place);
	rs->peer_target = (rs->peer_target + 1) % rs->peer_targets.len;
	rs->give_at = (rs->give_at + half) % (2 * half);
	rs->free_bytes -= half;
	rs->granted += half;
	say(rs, NUMBER(CONTROL, 0), &to, &given, sizeof(given), SHIM_RS_CREDITS,
	    (uint16_t)(rs->received + rs->recv_entries));
}

int shim_rs_control(struct shim_rs *rs, uint32_t what)
{
	rs->controls--;
	return say(rs, NUMBER(CONTROL, 0), NULL, NULL, 0, SHIM_RS_CONTROL, what);
}

bool shim_rs_all_sent(const struct shim_rs *rs)
{
	return rs->entries == rs->send_entries - SHIM_RS_CONTROLS && rs->controls == SHIM_RS_CONTROLS;
}

bool shim_rs_can_send(const struct shim_rs *rs)
{
	return rs->state == SHIM_RS_CONNECTED && rs->entries && rs->send_room >= SHIM_RS_LEAST &&
	       rs->sent != rs->may_send && rs->room.len;
}

/* The next bytes of the program's, at most so many, and how many. */
static uint8_t *step(struct shim_rs_cursor *c, size_t most, size_t *bytes)
{
	uint8_t *at;

	while (c->skip == c->iov->iov_len) {
		c->iov++;
		c->skip = 0;
	}
	at = (uint8_t *)c->iov->iov_base + c->skip;
	*bytes = c->iov->iov_len - c->skip < most ? c->iov->iov_len - c->skip : most;
	c->skip += *bytes;
	return at;
}

static void copy_from(struct shim_rs_cursor *c, uint8_t *to, size_t bytes)
{
	for (size_t n; bytes; bytes -= n, to += n) {
		const uint8_t *at = step(c, bytes, &n);

		memcpy(to, at, n);
	}
}

static void copy_to(struct shim_rs_cursor *c, const uint8_t *from, size_t bytes)
{
	for (size_t n; bytes; bytes -= n, from += n) {
		uint8_t *at = step(c, bytes, &n);

		memcpy(at, from, n);
	}
}

/* Puts up to `most` bytes into the buffer; *at is where. What goes inline is of the buffer only until it is posted. */
static uint32_t fill(struct shim_rs *rs, struct shim_rs_cursor *from, size_t most, uint8_t **at)
{
	uint32_t n = most < MOST ? (uint32_t)most : MOST;

	n = n < rs->send_room ? n : rs->send_room;
	n = n < rs->send_size - rs->send_at ? n : rs->send_size - rs->send_at;
	*at = rs->send_buffer + rs->send_at;
	copy_from(from, *at, n);
	rs->send_at = (rs->send_at + n) % rs->send_size;
	rs->send_room -= n;
	rs->entries--;
	return n;
}

/* The table is the peer's to write: an entry counts once, when the room before it is used up. */
static void next_target(struct shim_rs *rs)
{
	struct shim_rs_place *at = &rs->targets[rs->next_target];
	const uint32_t len = __atomic_load_n(&at->len, __ATOMIC_ACQUIRE);

	if (rs->room.len || !len)
		return;
	rs->room = *at;
	rs->room.len = len;
	at->len = 0;
	rs->next_target = (rs->next_target + 1) % SHIM_RS_TARGETS;
}

ssize_t shim_rs_put(struct shim_rs *rs, struct shim_rs_cursor *from, size_t left)
{
	uint8_t *at;
	const uint32_t n = fill(rs, from, left < rs->room.len ? left : rs->room.len, &at);
	const struct shim_rs_place to = rs->room;

	rs->room.addr += n;
	rs->room.len -= n;
	rs->sent++;
	next_target(rs);
	return say(rs, NUMBER(DATA, n), &to, at, n, SHIM_RS_DATA, n) ? -1 : (ssize_t)n;
}

ssize_t shim_rs_put_at(struct shim_rs *rs, struct shim_rs_cursor *from, size_t left, uint64_t offset)
{
	struct shim_rs_mapped m;
	uint8_t *at;
	uint32_t n;

	for (uint32_t i = 0;; i++) {
		if (i == rs->maps)
			return shim_cm_fail(EINVAL);
		m = rs->maps_of_peer[i];
		if (offset >= m.offset && offset - m.offset < m.place.len)
			break;
	}
	n = fill(rs, from, left < m.place.len - (offset - m.offset) ? left : m.place.len - (offset - m.offset), &at);
	return post(rs, NUMBER(DATA, n), IBV_WR_RDMA_WRITE, at, n, m.place.addr + (offset - m.offset), m.place.rkey, 0)
		       ? -1
		       : (ssize_t)n;
}

void shim_rs_tell_maps(struct shim_rs *rs)
{
	for (struct shim_rs_map *map = rs->mapped; map; map = map->next) {
		struct shim_rs_place to = rs->peer_maps;
		struct shim_rs_mapped m;

		if (map->told || map->index < 0)
			continue;
		if (!shim_rs_can_send(rs))
			return;
		m.offset = rs->swap ? __builtin_bswap64(map->offset) : map->offset;
		m.place = place_for_peer(rs, map->buf, map->mr->rkey, (uint32_t)map->len);
		to.addr += (uint32_t)map->index * sizeof(m);
		map->told = true;
		rs->sent++;
		rs->entries--;
		if (say(rs, NUMBER(MESSAGE, 0), &to, &m, sizeof(m), SHIM_RS_MAPPED, (uint32_t)map->index))
			return;
	}
}

/* ---- messages that come ---- */
static void take_data(struct shim_rs *rs, uint32_t len)
{
	if (!len || len > rs->granted || rs->messages == rs->recv_entries) {
		shim_rs_end(rs, EPROTO);
		return;
	}
	rs->granted -= len;
	rs->recv_bytes += len;
	rs->message[(rs->first + rs->messages++) % rs->recv_entries] = len;
}

static void take_message(struct shim_rs *rs, uint32_t message)
{
	const uint32_t value = message & 0x1FFFFFFF;

	if (rs->state == SHIM_RS_ACCEPTING)
		rs->state = SHIM_RS_CONNECTED; /* who sends is ready */
	switch (message >> 29) {
	case SHIM_RS_DATA:
		take_data(rs, value);
		break;
	case SHIM_RS_CREDITS:
		rs->may_send = (uint16_t)value;
		next_target(rs);
		break;
	case SHIM_RS_MAPPED:
		rs->received++;
		break;
	case SHIM_RS_CONTROL:
		if (value == SHIM_RS_DISCONNECT || (value == SHIM_RS_SHUTDOWN && !rs->writes))
			shim_rs_end(rs, 0);
		else if (value == SHIM_RS_SHUTDOWN)
			rs->peer_writes = false;
		break;
	default:
		break;
	}
}

static void sent(struct shim_rs *rs, const struct ibv_wc *wc)
{
	if (wc->wr_id >> 32 == CONTROL) {
		rs->controls++;
	} else {
		rs->entries++;
		rs->send_room += (uint32_t)wc->wr_id;
	}
	if (wc->status != IBV_WC_SUCCESS && shim_rs_has_peer(rs))
		shim_rs_end(rs, wc->status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET);
}

bool shim_rs_take_completions(struct shim_rs *rs)
{
	struct ibv_wc wc[BATCH];
	uint32_t receives = 0;
	bool any = false;
	int n;

	if (!rs->cq)
		return false;
	while ((n = ibv_poll_cq(rs->cq, BATCH, wc)) > 0) {
		any = true;
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id >> 32 != RECEIVE) {
				sent(rs, &wc[i]);
			} else if (wc[i].status == IBV_WC_SUCCESS) {
				receives++;
				take_message(rs,
					     wc[i].wc_flags & IBV_WC_WITH_IMM ? be32toh(wc[i].imm_data) : UINT32_MAX);
			} else if (shim_rs_has_peer(rs)) {
				shim_rs_end(rs, ECONNRESET);
			}
		}
	}
	if (shim_rs_has_peer(rs) && (n < 0 || (receives && post_receives(rs, receives)))) {
		shim_rs_end(rs, n < 0 ? ENODEV : ECONNRESET);
		return true;
	}
	return any;
}

static void forget(struct shim_rs *rs, uint32_t bytes)
{
	rs->recv_at = (rs->recv_at + bytes) % rs->recv_size;
	rs->recv_bytes -= bytes;
	rs->free_bytes += bytes;
	while (bytes) {
		uint32_t *len = &rs->message[rs->first];
		const uint32_t n = *len < bytes ? *len : bytes;

		*len -= n;
		bytes -= n;
		if (*len)
			break;
		rs->first = (rs->first + 1) % rs->recv_entries;
		rs->messages--;
		rs->received++;
	}
}

size_t shim_rs_get(struct shim_rs *rs, struct shim_rs_cursor *to, size_t left, bool peek)
{
	const uint32_t n = left < rs->recv_bytes ? (uint32_t)left : rs->recv_bytes;
	const uint32_t first = n < rs->recv_size - rs->recv_at ? n : rs->recv_size - rs->recv_at;

	copy_to(to, rs->recv_buffer + rs->recv_at, first);
	copy_to(to, rs->recv_buffer, n - first);
	if (!peek)
		forget(rs, n);
	return n;
}
