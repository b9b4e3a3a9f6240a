/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SDR received by two worker threads in real time, read by the application while it fills. Each worker's port makes the
 * packets itself, from buffers that no other thread ever has: nothing here orders the threads but what is under test,
 * so that a thread sanitizer sees every order that the NIC and the library forget. What one worker waits for from the
 * application, and the application from the workers, goes through relaxed atomics for the same reason.
 */
#include <stdatomic.h>

#include <rte_mbuf.h>

#include "../../host-api/sdr.h"
#include "../../pipeline/nic.h"
#include "../../testbed/random.h"
#include "../lib/wire.h"
#include "../lib/suite.h"
#include "../lib/ports.h"

#define WORKERS	     2
#define SOURCE_BYTES (1u << 18)
#define LATE	     6u /* messages: how much later than its turn a packet may come */
#define PATIENCE     (60 * SP_SEC)
#define SETTLED	     (5 * SP_SEC) /* how long after all of its packets a message may not be what was sent: ample */

struct setup {
	uint32_t mtu, chunk, slots, generations, channels;
	uint64_t max_bytes, messages;
	unsigned lost, both, again; /* percent of packets: never sent, sent by both ports, sent once more later */
	unsigned early;		    /* percent of messages taken back before they are whole */
};

/* What one worker's port has still to deliver; its own but for `at`. */
struct feeder {
	struct rte_mempool *pool;
	struct sp_random random;
	uint64_t message, packet; /* next: packet counts through a permutation */
	_Atomic uint64_t at;	  /* all before this message is delivered and done with, relaxed */
	uint64_t packets;
} __attribute__((aligned(64)));

struct test {
	struct setup s;
	struct feeder feeder[WORKERS];
	_Atomic uint64_t credit; /* messages that clear-to-send has come for, relaxed */
	_Atomic bool ready;	 /* the ports may begin: what they need to know of the QP stands here */
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp, *idle;
	struct sdr_qp_info info;
	struct wire_address address[2];
	uint32_t id;
	uint64_t seed, done, exact;
};

static uint8_t source[SOURCE_BYTES];

static uint64_t mix(uint64_t seed, uint64_t k, uint64_t p)
{
	uint64_t x = seed ^ k * 0x9E3779B97F4A7C15u ^ p * 0xD1342543DE82EF95u;

	return sp_splitmix(&x);
}

/* A message's properties follow from its number: both ports and the application know them without asking. */
static uint64_t length_of(const struct test *t, uint64_t k)
{
	const uint64_t h = mix(t->seed, k, 1ull << 40);

	return h % 7 == 0 ? 0 : h % 5 == 0 ? t->s.max_bytes : (h >> 8) % (t->s.max_bytes + 1);
}

static uint64_t packets_of(const struct test *t, uint64_t k)
{
	const uint64_t len = length_of(t, k);

	return len ? (len + t->s.mtu - 1) / t->s.mtu : 1;
}

static const uint8_t *bytes_of(uint64_t k)
{
	return source + k * 4099 % (SOURCE_BYTES / 2);
}

static bool is_lost(const struct test *t, uint64_t k, uint64_t p)
{
	return mix(t->seed, k, p) % 100 < t->s.lost;
}

static bool is_sent_by(const struct test *t, uint64_t k, uint64_t p, unsigned worker)
{
	const uint64_t h = mix(t->seed, k, p);

	return h % 100 >= t->s.lost && ((h >> 20) % 100 < t->s.both || (h >> 40 & 1) == worker);
}

/* ---- the port ---- */
static struct rte_mbuf *packet_make(struct test *t, unsigned worker, uint64_t k, uint64_t p)
{
	const uint64_t len = length_of(t, k), at = p * t->s.mtu, id = k % t->s.slots;
	const uint32_t body = (uint32_t)(len - at < t->s.mtu ? len - at : t->s.mtu);
	const uint32_t generation = (uint32_t)(k / t->s.slots % t->s.generations);
	const uint32_t qp = t->info.qpn + generation * t->s.channels + (uint32_t)(p % t->s.channels);
	struct feeder *f = &t->feeder[worker];
	struct rte_mbuf *m = rte_pktmbuf_alloc(f->pool);
	uint8_t payload[20 + 1024];

	if (!m)
		return NULL;
	wire_put(payload, 8, id * t->s.max_bytes + at);
	wire_put(payload + 8, 4, t->info.rkey + (uint32_t)(k / t->s.slots / t->s.generations));
	wire_put(payload + 12, 4, body);
	/* the split is 10 + 18 + 4; the user's immediate is the message's number */
	wire_put(payload + 16, 4, id << 22 | p << 4 | (k >> p % 8 * 4 & 15));
	memcpy(payload + 20, bytes_of(k) + at, body);
	uint32_t bytes =
		wire_make(rte_pktmbuf_mtod(m, uint8_t *), &t->address[1], &t->address[0], (uint16_t)(0xC000 + worker),
			  WIRE_WRITE_ONLY_IMM, at + body == len, qp, (uint32_t)f->packets, payload, 20 + body);
	rte_pktmbuf_append(m, (uint16_t)bytes);
	f->packets++;
	return m;
}

static unsigned port_receive(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct test *t = port;
	struct feeder *f = &t->feeder[queue];
	const uint64_t credit = atomic_load_explicit(&t->credit, memory_order_relaxed);
	unsigned n = 0;
	/* The packets of the call before are done with. */
	atomic_store_explicit(&f->at, f->message, memory_order_relaxed);
	if (!atomic_load_explicit(&t->ready, memory_order_acquire))
		return 0;
	while (n + 1 < max && f->message < credit && f->message < t->s.messages) {
		const uint64_t k = f->message, all = packets_of(t, k);
		const uint64_t p = (f->packet * (queue ? 7 : 1) + k * queue) % all;
		/* 7 and the number of packets may share the factor 7: then in order, from elsewhere. */
		const uint64_t chosen = all % 7 ? p : (f->packet + k * queue) % all;

		if (is_sent_by(t, k, chosen, queue) && (packet[n] = packet_make(t, queue, k, chosen)))
			n++;
		if (sp_random_next(&f->random) % 100 < t->s.again) {
			const uint64_t back = sp_random_next(&f->random) % LATE, old = k > back ? k - back : 0;
			const uint64_t again = sp_random_next(&f->random) % packets_of(t, old);

			if (!is_lost(t, old, again) && (packet[n] = packet_make(t, queue, old, again)))
				n++;
		}
		if (++f->packet == all) {
			f->packet = 0;
			f->message++;
		}
	}
	return n;
}

/* Clear-to-send is all that the NIC sends. */
static unsigned port_transmit(void *port, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct test *t = port;
	struct wire_packet w;
	for (unsigned i = 0; i < count; i++) {
		if (wire_decode(rte_pktmbuf_mtod(packet[i], uint8_t *), packet[i]->data_len, &w) &&
		    w.opcode == WIRE_SEND_ONLY && w.len >= 32 && !memcmp(w.payload, "SDRC\1\1", 6) &&
		    wire_get(w.payload + 24, 8) > atomic_load_explicit(&t->credit, memory_order_relaxed))
			atomic_store_explicit(&t->credit, wire_get(w.payload + 24, 8), memory_order_relaxed);
		rte_pktmbuf_free(packet[i]);
	}
	return count;
}

static const struct sp_port_ops port_ops = {.receive = port_receive, .transmit = port_transmit, .next = port_always};

/* ---- making and ending ---- */
static void start(struct test *t, const struct setup *s, uint64_t seed)
{
	static struct rte_mempool *pool[WORKERS];
	struct sp_nic_config config = {.addresses = 1,
				       .workers = WORKERS,
				       .neighbours = 1,
				       .ports = 1,
				       .port = {{.ops = &port_ops, .ops_arg = t}}};
	const struct sdr_context_attr channels = {.channels = s->channels};
	const struct sdr_qp_attr attr = {.mtu = s->mtu,
					 .chunk_bytes = s->chunk,
					 .max_message_bytes = s->max_bytes,
					 .max_messages = s->slots,
					 .generations = s->generations,
					 .nonce = seed,
					 .max_packet_life = SP_US,
					 .cts_interval = 100 * SP_US};
	struct sdr_qp_status status;
	struct sp_error error;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	memset(t, 0, sizeof(*t));
	t->s = *s;
	t->seed = seed;
	for (unsigned w = 0; w < WORKERS; w++) {
		char name[16];

		snprintf(name, sizeof(name), "feeder%u", w);
		if (!pool[w])
			pool[w] = rte_pktmbuf_pool_create(name, 511, 0, 0, 2048, SOCKET_ID_ANY);
		CU_ASSERT_PTR_NOT_NULL_FATAL(pool[w]);
		t->feeder[w].pool = pool[w];
		sp_random_seed(&t->feeder[w].random, seed, w);
	}
	for (unsigned e = 0; e < 2; e++) {
		memcpy(t->address[e].ip + 10, (const uint8_t[]){0xFF, 0xFF, 10, 9, 0, (uint8_t)(1 + e)}, 6);
		memcpy(t->address[e].mac, (const uint8_t[]){2, 0, 0, 0, 9, (uint8_t)(1 + e)}, 6);
	}
	memcpy(config.address[0].ip, t->address[0].ip, 16);
	config.address[0].prefix = 24;
	memcpy(config.mac, t->address[0].mac, 6);
	memcpy(config.neighbour[0].ip, t->address[1].ip, 16);
	memcpy(config.neighbour[0].mac, t->address[1].mac, 6);
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&config, &error, &t->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(t->nic, false, &t->dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(t->nic), 0);
	CU_ASSERT_EQUAL_FATAL(sdr_context_create(t->dev, &channels, &t->context), 0);
	if (seed & 1) /* the next one gets the other worker as its home */
		CU_ASSERT_EQUAL_FATAL(sdr_qp_create(t->context, &(struct sdr_qp_attr){.nonce = 1}, &t->idle, &error),
				      0);
	CU_ASSERT_EQUAL_FATAL(sdr_qp_create(t->context, &attr, &t->qp, &error), 0);
	sdr_qp_info_get(t->qp, &t->info);
	sdr_qp_status(t->qp, &status);
	t->id = status.id;
	struct sdr_qp_info peer = t->info;
	memcpy(peer.ip, t->address[1].ip, 16);
	peer.nonce = seed + 1;
	CU_ASSERT_EQUAL_FATAL(sdr_qp_connect(t->qp, &peer), 0);
	atomic_store_explicit(&t->ready, true, memory_order_release);
}

static uint64_t counter(const struct test *t, const char *name)
{
	return sp_nic_context_counter(t->nic, t->id, name);
}

/* Counters are read once the workers have stopped: they are plain numbers of theirs. */
static void stop(struct test *t)
{
	struct sp_nic_totals n;

	sp_nic_stop(t->nic);
	sp_nic_totals(t->nic, &n);
	CU_ASSERT_EQUAL(n.received, t->feeder[0].packets + t->feeder[1].packets);
	CU_ASSERT_EQUAL(n.received, n.taken + n.forwarded + n.dropped);
	if (t->qp) {
		printf("# seed %llu: %llu messages, %llu found exact; %llu packets: %llu placed, %llu duplicates, %llu "
		       "late\n",
		       (unsigned long long)t->seed, (unsigned long long)t->done, (unsigned long long)t->exact,
		       (unsigned long long)n.received, (unsigned long long)counter(t, "placed_packets"),
		       (unsigned long long)counter(t, "duplicates"), (unsigned long long)counter(t, "late"));
		CU_ASSERT_EQUAL(counter(t, "not-posted"), 0);
		CU_ASSERT_EQUAL(counter(t, "beyond-end"), 0);
		CU_ASSERT_EQUAL(counter(t, "placed_packets") + counter(t, "duplicates") + counter(t, "late"),
				n.received);
	}
	CU_ASSERT_EQUAL(sdr_qp_destroy(t->qp), 0);
	CU_ASSERT_EQUAL(sdr_qp_destroy(t->idle), 0);
	CU_ASSERT_EQUAL(sdr_context_destroy(t->context), 0);
	sp_dev_close(t->dev);
	sp_nic_destroy(t->nic);
	CU_ASSERT_EQUAL(rte_mempool_avail_count(t->feeder[0].pool), 511);
	CU_ASSERT_EQUAL(rte_mempool_avail_count(t->feeder[1].pool), 511);
}

/* ---- the application ---- */
struct receive {
	struct sdr_recv *handle; /* NULL: none */
	uint64_t k, posted, seen;
	uint8_t *buffer, fill;
	bool asked;
	unsigned looks;
	sp_time since; /* all of its packets have been delivered; 0: not yet */
};

static void fail(const char *what, uint64_t k)
{
	printf("# message %llu: %s\n", (unsigned long long)k, what);
	CU_FAIL(what);
}

static bool all_are(const uint8_t *b, uint64_t n, uint8_t value)
{
	return !n || (b[0] == value && !memcmp(b, b + 1, n - 1));
}

/* Looks at the chunks whose bits are there now: all their bytes are, at this very moment. Returns how many. */
static uint64_t look(const struct test *t, const struct receive *x)
{
	const uint64_t *bitmap;
	uint64_t chunks, count = 0, length = length_of(t, x->k);

	sdr_recv_bitmap_get(x->handle, &bitmap, &chunks);
	for (uint64_t i = 0; i < chunks; i++) {
		const uint64_t at = i * t->s.chunk;

		if (!sdr_recv_chunk(bitmap, i))
			continue;
		count++;
		if (at < length &&
		    memcmp(x->buffer + at, bytes_of(x->k) + at, length - at < t->s.chunk ? length - at : t->s.chunk))
			fail("a chunk's bit is set before its bytes", x->k);
	}
	return count;
}

/* Everything has been delivered: the bitmap says what, and the same of bytes, immediate and counts. NULL: it does. */
static const char *differs(const struct test *t, const struct receive *x)
{
	const uint64_t packets = packets_of(t, x->k), per_chunk = t->s.chunk / t->s.mtu;
	const bool ends = !is_lost(t, x->k, packets - 1); /* the packet that tells the length */
	const uint64_t length = ends ? length_of(t, x->k) : x->posted;
	const uint64_t known = length ? (length + t->s.mtu - 1) / t->s.mtu : 1;
	struct sdr_recv_status status;
	const uint64_t *bitmap;
	uint64_t chunks, came = 0, whole = 0;
	uint32_t immediate, mask, expected = 0;

	for (uint64_t p = 0; p < packets; p++)
		if (!is_lost(t, x->k, p)) {
			came++;
			expected |= 15u << p % 8 * 4;
		}
	sdr_recv_status(x->handle, &status);
	sdr_recv_bitmap_get(x->handle, &bitmap, &chunks);
	sdr_recv_imm_get(x->handle, &immediate, &mask);
	if (status.packets != came)
		return "not as many packets as were delivered";
	if ((came && (status.length_known != ends || status.length != length)) ||
	    chunks != (length ? (length + t->s.chunk - 1) / t->s.chunk : 1))
		return "another length";
	if (mask != expected || immediate != ((uint32_t)x->k & mask))
		return "another immediate";
	for (uint64_t i = 0; i < chunks; i++) {
		bool full = came != 0;

		for (uint64_t p = i * per_chunk; p < (i + 1) * per_chunk && p < known; p++)
			full = full && p < packets && !is_lost(t, x->k, p);
		if (sdr_recv_chunk(bitmap, i) != full)
			return full ? "a chunk is there, and its bit is not" : "a chunk's bit is there, and it is not";
		whole += full;
	}
	if (status.complete != (whole == chunks))
		return whole == chunks ? "all chunks, but not complete" : "complete without all chunks";
	return NULL;
}

/* Every byte the source's or untouched, packet by packet. */
static void check_buffer(const struct test *t, const struct receive *x)
{
	const uint64_t length = length_of(t, x->k);

	for (uint64_t p = 0, at = 0; at < t->s.max_bytes; at = ++p * t->s.mtu) {
		const uint64_t room = t->s.max_bytes - at < t->s.mtu ? t->s.max_bytes - at : t->s.mtu;
		const uint64_t len = at >= length ? 0 : length - at < room ? length - at : room;

		if (!all_are(x->buffer + at + len, room - len, x->fill))
			fail("bytes changed beyond the end", x->k);
		if (all_are(x->buffer + at, len, x->fill))
			continue;
		if (memcmp(x->buffer + at, bytes_of(x->k) + at, len) || is_lost(t, x->k, p))
			fail("wrong bytes in the buffer", x->k);
	}
}

static void receive(struct test *t, struct receive *x, sp_time *progress, uint64_t *exact)
{
	const uint64_t at0 = atomic_load_explicit(&t->feeder[0].at, memory_order_relaxed);
	const uint64_t at1 = atomic_load_explicit(&t->feeder[1].at, memory_order_relaxed);

	if (!x->asked) {
		const bool delivered = at0 > x->k && at1 > x->k,
			   early = mix(t->seed, x->k, 1ull << 41) % 100 < t->s.early;
		const uint64_t seen = look(t, x);
		const char *wrong = delivered ? differs(t, x) : NULL;

		if (seen < x->seen)
			fail("a chunk's bit has gone", x->k);
		x->seen = seen;
		x->since = delivered && !x->since ? sp_clock() : x->since;
		if (delivered && !wrong) {
			(*exact)++;
			look(t, x);
		} else if (wrong && sp_clock() - x->since > SETTLED) {
			fail(wrong, x->k);
		} else if (!(early && x->looks++ > mix(t->seed, x->k, 1ull << 42) % 200)) {
			return;
		}
		x->asked = true;
	}
	int rc = sdr_recv_complete(x->handle);
	if (rc == -EAGAIN)
		return;
	if (rc)
		fail("sdr_recv_complete", x->k);
	check_buffer(t, x);
	x->fill = (uint8_t)(x->fill + 13);
	memset(x->buffer, x->fill, t->s.max_bytes); /* ours: nothing writes to it */
	x->handle = NULL;
	*progress = sp_clock();
}

/* All messages, through t->s.slots buffers; until: stops posting and looking there. */
static void receive_all(struct test *t, uint8_t *memory, struct sp_mr *mr, uint64_t until)
{
	struct receive *x = calloc(t->s.slots, sizeof(*x));
	const uint64_t lap = (uint64_t)t->s.slots * t->s.generations;
	uint64_t posted = 0, done = 0, exact = 0;
	sp_time progress = sp_clock();

	for (uint32_t i = 0; i < t->s.slots; i++) {
		x[i].buffer = memory + i * t->s.max_bytes;
		x[i].fill = (uint8_t)(i + 1);
		memset(x[i].buffer, x[i].fill, t->s.max_bytes);
	}
	while (done < until && sp_clock() - progress < PATIENCE && CU_get_number_of_failures() < 20) {
		for (uint32_t i = 0; i < t->s.slots; i++)
			if (x[i].handle) {
				receive(t, &x[i], &progress, &exact);
				done += !x[i].handle;
			}
		while (posted < until) {
			struct receive *y = &x[posted % t->s.slots];
			uint64_t slowest = UINT64_MAX;

			for (unsigned w = 0; w < WORKERS; w++) {
				const uint64_t at = atomic_load_explicit(&t->feeder[w].at, memory_order_relaxed);

				slowest = at < slowest ? at : slowest;
			}
			/* What may still come is told from what is new only within S*G messages. */
			if (y->handle || posted + LATE >= slowest + lap)
				break;
			if (!all_are(y->buffer, t->s.max_bytes, y->fill))
				fail("a buffer was written to that had been given back", posted);
			y->k = posted;
			y->posted = mix(t->seed, posted, 1ull << 43) % 3 ? length_of(t, posted) : t->s.max_bytes;
			y->asked = false;
			y->seen = y->looks = 0;
			y->since = 0;
			int rc = sdr_recv_post(t->qp, mr, (uint64_t)(y->buffer - memory), y->posted, &y->handle);
			if (rc == -EAGAIN) {
				y->handle = NULL;
				break;
			}
			CU_ASSERT_EQUAL_FATAL(rc, 0);
			posted++;
		}
	}
	CU_ASSERT_EQUAL(done, until);
	CU_ASSERT(exact > 0);
	t->done = done;
	t->exact = exact;
	for (uint32_t i = 0; i < t->s.slots && until == t->s.messages; i++)
		if (!all_are(x[i].buffer, t->s.max_bytes, x[i].fill))
			fail("a buffer was written to that had been given back", i);
	free(x);
}

static const struct setup setups[] = {
	{.mtu = 64,
	 .chunk = 64,
	 .slots = 8,
	 .generations = 4,
	 .channels = 2,
	 .max_bytes = 64 * 30 + 7,
	 .messages = 1500,
	 .both = 50,
	 .again = 5,
	 .lost = 3,
	 .early = 10},
	{.mtu = 256,
	 .chunk = 1024,
	 .slots = 16,
	 .generations = 2,
	 .channels = 1,
	 .max_bytes = 256 * 70,
	 .messages = 700,
	 .both = 100,
	 .again = 5,
	 .lost = 0,
	 .early = 0},
	{.mtu = 64,
	 .chunk = 640,
	 .slots = 2,
	 .generations = 8,
	 .channels = 4,
	 .max_bytes = 64 * 200 + 1,
	 .messages = 400,
	 .both = 30,
	 .again = 10,
	 .lost = 1,
	 .early = 60},
	{.mtu = 128,
	 .chunk = 512,
	 .slots = 32,
	 .generations = 1,
	 .channels = 1,
	 .max_bytes = 128 * 3,
	 .messages = 3000,
	 .both = 80,
	 .again = 10,
	 .lost = 5,
	 .early = 30},
};

static void run(unsigned which, bool abandon)
{
	const char *more = getenv("SPINDLE_LONG"), *only = getenv("SPINDLE_SEED");
#ifdef __SANITIZE_THREAD__
	const uint64_t few = 1; /* what is not ordered is told the first time */
#else
	const uint64_t few = 2;
#endif
	const uint64_t seeds = more && *more && strcmp(more, "0") ? 20 : few;

	for (uint64_t i = 0; i < SOURCE_BYTES; i++)
		source[i] = (uint8_t)(mix(1, i, 0) >> 8);
	for (uint64_t i = 1; i <= seeds; i++) {
		const uint64_t seed = only ? strtoull(only, NULL, 0) : i;
		struct test *t = aligned_alloc(64, (sizeof(*t) + 63) / 64 * 64);
		const struct setup *s = &setups[which];
		uint8_t *memory = malloc(s->slots * s->max_bytes);
		const unsigned before = CU_get_number_of_failures();
		struct sp_mr *mr;

		if (!t || !memory)
			abort();
		start(t, s, seed);
		CU_ASSERT_EQUAL_FATAL(sdr_mr_reg(t->context, memory, s->slots * s->max_bytes, &mr), 0);
		receive_all(t, memory, mr, abandon ? s->messages / 4 : s->messages);
		if (abandon) {
			/* The QP goes while both workers are full of packets for it. */
			struct sdr_recv *handle;

			for (unsigned k = 0; k < s->slots; k++)
				if (sdr_recv_post(t->qp, mr, k * s->max_bytes, s->max_bytes, &handle))
					break;
			for (sp_time now = sp_clock(); sp_clock() - now < 2 * SP_MS;)
				;
			CU_ASSERT_EQUAL(sdr_qp_destroy(t->qp), 0);
			t->qp = NULL;
			memset(memory, 0x99, s->slots * s->max_bytes);
		}
		CU_ASSERT_EQUAL(sdr_mr_dereg(mr), 0);
		atomic_store_explicit(&t->ready, false, memory_order_relaxed);
		stop(t);
		CU_ASSERT(!abandon || all_are(memory, s->slots * s->max_bytes, 0x99));
		if (CU_get_number_of_failures() != before)
			printf("# seed %llu failed; alone: SPINDLE_SEED=%llu\n", (unsigned long long)seed,
			       (unsigned long long)seed);
		free(memory);
		free(t);
		if (only)
			break;
	}
}

TEST_CALL(a_chunks_bytes_come_before_its_bit_with_chunks_of_one_packet, run(0, false))
TEST_CALL(a_chunks_bytes_come_before_its_bit_with_every_packet_on_both_queues, run(1, false))
TEST_CALL(a_chunks_bytes_come_before_its_bit_with_long_messages_and_few_slots, run(2, false))
TEST_CALL(a_chunks_bytes_come_before_its_bit_with_one_generation_and_short_messages, run(3, false))

TEST(a_QP_ends_under_load_and_its_memory_is_left_alone)
{
	for (unsigned which = 0; which < sizeof(setups) / sizeof(*setups); which++)
		run(which, true);
}
