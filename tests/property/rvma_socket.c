/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets over RVMA under every seed; rvma_socket.h says what is compared with what. */
#include "../lib/rvma_echo.h"

#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/rvma_socket.h"

static struct echo t;
static struct rvma_socket_status sums;

static void echo_random(void)
{
	static const sp_time delays[] = {SP_US, 20 * SP_US, 500 * SP_US, 5 * SP_MS};
	const sp_time delay = delays[echo_below(&t, 4)];

	for (unsigned e = 0; e < 2; e++)
		t.link[e] = (struct sp_link_direction){.bandwidth = 1000000000ull << echo_below(&t, 6),
						       .delay = delay,
						       .jitter = echo_below(&t, 2) ? delay / 2 : 0,
						       .loss = echo_below(&t, 2) ? 0.03 : 0,
						       .duplicate = echo_below(&t, 2) ? 0.03 : 0,
						       .reorder = echo_below(&t, 2) ? 0.1 : 0,
						       .reorder_delay = 2 * delay};
	t.context = (struct rvma_attr){
		.mtu = 256u << echo_below(&t, 4), .timeout = 200 * SP_SEC, .ops = 8u << echo_below(&t, 6), .peers = 64};
	t.server_attr = (struct rvma_socket_attr){.port = 7,
						  .datagrams = true,
						  .backlog = 64,
						  .buffers = 2 + (uint32_t)echo_below(&t, 15),
						  .buffer_bytes = echo_below(&t, 2) ? 4 * t.context.mtu
										    : 16384u << echo_below(&t, 3),
						  .waiting = 172u << echo_below(&t, 4),
						  .sending = 16u << echo_below(&t, 5),
						  .streams = 64,
						  .window = 2 + (uint32_t)echo_below(&t, 63),
						  .timeout = 1000 * SP_SEC,
						  .seed = 1 + sp_random_next(&t.random) / 2};
	t.client_attr = t.server_attr;
	t.client_attr.port = 0;
	t.client_attr.seed = 2;
	t.client_attr.backlog = 0;
	t.one_by_one = echo_below(&t, 3) == 0;
	t.lazy = echo_below(&t, 2) ? echo_below(&t, 50 * SP_MS) : 0;
	t.clients = 1 + (unsigned)echo_below(&t, ECHO_CLIENTS);
	for (unsigned i = 0; i < t.clients; i++) {
		struct client *c = &t.client[i];

		c->calls = (unsigned)echo_below(&t, ECHO_STREAMS + 1);
		c->datagrams = echo_below(&t, 3) ? (unsigned)echo_below(&t, ECHO_DATAGRAMS + 1) : 0;
		for (unsigned k = 0; k < c->datagrams; k++)
			c->size[k] = (uint16_t)(1 + echo_below(&t, t.context.mtu - 64));
		for (unsigned k = 0; k < c->calls; k++) {
			static const uint32_t most[] = {1, 2, 2000, 60000};

			c->call[k].length = echo_below(&t, most[echo_below(&t, 4)]);
			c->call[k].source = echo_below(&t, ECHO_SOURCE - 60000);
		}
	}
}

/* Runs one() for `count` seeds. */
static void over_seeds(const char *rule, unsigned count, void (*one)(void))
{
	struct seeds s = seeds_begin(rule, count);

	echo_prepare();
	memset(&sums, 0, sizeof(sums));
	while (seeds_next(&s)) {
		sim_begin(&t.sim, sizeof(t), &s);
		echo_random();
		one();
		echo_expect(&t, seeds_whole(&s), "packet buffers are lost");
		seeds_told(&s, t.text);
	}
	printf("# %s: %llu records came to the server, in %llu buffers; %llu were sent again\n", rule, U(sums.received),
	       U(sums.posted), U(sums.again));
	CU_ASSERT_EQUAL(s.bad, 0);
}

static void finish(void)
{
	struct rvma_socket_status s;

	rvma_socket_status(t.server, &s);
	sums.received += s.received;
	sums.posted += s.posted - s.buffers;
	sums.again += s.again;
	for (unsigned i = 0; i < t.clients; i++)
		if (!t.client[i].gone) {
			rvma_socket_status(t.client[i].socket, &s);
			sums.again += s.again;
		}
	echo_close(&t);
}

/* ---- streams and datagrams ---- */
static void whole(void)
{
	struct rvma_socket_status s;
	unsigned calls = 0;

	echo_open(&t);
	echo_run(&t, 1000 * SP_SEC);
	for (unsigned i = 0; i < t.clients; i++)
		for (unsigned k = 0; k < t.client[i].calls; k++, calls++)
			echo_expect(&t, !t.client[i].call[k].error, "client %u stream %u ended with %d", i, k,
				    t.client[i].call[k].error);
	rvma_socket_status(t.server, &s);
	echo_expect(&t, t.ended == calls && !t.broken && (t.leaving ? t.worn || !s.resets : !s.failed) && !s.refused,
		    "%u streams of %u ended well, %u did not; %llu datagrams failed, %llu connects were refused",
		    t.ended, calls, t.broken, U(s.failed), U(s.refused));
	finish();
}

TEST(puts_of_many_clients_to_one_mailbox_come_back_once_whole_and_in_order)
{
	over_seeds(__func__, 60, whole);
	if (!getenv("SPINDLE_SEED"))
		CU_ASSERT(sums.again > 0); /* or flow control was not needed */
}

/* The server's last records may find nobody who acknowledges them: what the client's NIC had to say of them got lost,
 * or was overtaken by the end of its session. */
static void whole_and_gone(void)
{
	t.leaving = true;
	t.worn = echo_below(&t, 2);
	t.context.timeout = 10 * SP_SEC; /* the server gives up what nobody acknowledges before it closes */
	for (unsigned e = 0; e < 2 && !t.worn; e++)
		t.link[e].jitter = 0, t.link[e].loss = t.link[e].duplicate = t.link[e].reorder = 0;
	whole();
}

TEST(a_client_that_goes_when_it_has_all_leaves_no_failed_stream)
{
	over_seeds(__func__, 100, whole_and_gone);
}

static void echo_simple(unsigned clients)
{
	echo_prepare();
	memset(&t, 0, sizeof(t));
	sp_random_seed(&t.random, 1, 0);
	t.server_attr = (struct rvma_socket_attr){
		.port = 7, .datagrams = true, .backlog = 16, .waiting = 1024, .sending = 256, .streams = 64, .seed = 1};
	t.client_attr = (struct rvma_socket_attr){.datagrams = true, .seed = 2};
	t.context.timeout = SP_SEC;
	t.clients = clients;
	for (unsigned e = 0; e < 2; e++)
		t.link[e] = (struct sp_link_direction){.bandwidth = 10000000000, .delay = 10 * SP_US};
}

static void good(void)
{
	echo_close(&t);
	if (t.text[0])
		printf("# %s\n", t.text);
	CU_ASSERT_STRING_EQUAL(t.text, "");
}

/* ---- clients that do harm ---- */
static bool others_over(void *arg)
{
	const struct echo *w = arg;

	for (unsigned i = 1; i < w->clients; i++)
		if (!w->client[i].call[0].over)
			return w->text[0];
	return true;
}

TEST(a_stream_that_nobody_reads_does_not_hold_up_the_others)
{
	echo_simple(4);
	t.server_attr.waiting = 172;
	t.deaf = true;
	t.done = others_over;
	for (unsigned i = 0; i < 4; i++) {
		t.client[i].calls = 1;
		t.client[i].call[0].length = 200000;
	}
	echo_open(&t);
	echo_run(&t, 100 * SP_SEC);
	for (unsigned i = 1; i < 4; i++)
		CU_ASSERT(!t.client[i].call[0].error && t.client[i].call[0].came == 200000);
	CU_ASSERT(!t.client[0].call[0].over && t.client[0].call[0].sent < 200000 && !t.client[0].call[0].came);
	good();
}

TEST(a_client_that_dies_ends_its_own_streams_alone)
{
	struct rvma_socket_address name;
	char context[32];
	uint32_t id;

	echo_simple(3);
	for (unsigned i = 0; i < 3; i++) {
		t.client[i].calls = 2;
		t.client[i].call[0].length = t.client[i].call[1].length = 200000;
	}
	echo_open(&t);
	sp_world_run(t.world, 300 * SP_US, NULL, NULL); /* in mid-stream */
	CU_ASSERT(t.client[0].call[0].sent && !t.client[0].call[0].over);
	/* The NIC ends the context as it does when an application dies: nothing of the socket is closed. */
	rvma_socket_name(t.client[0].socket, &name);
	snprintf(context, sizeof(context), "rvma-%u", name.address.qpn);
	CU_ASSERT_EQUAL_FATAL(sp_nic_context_find(t.nic[0], context, &id), 0);
	CU_ASSERT_EQUAL(sp_nic_context_remove(t.nic[0], id), 0);
	CU_ASSERT_EQUAL(rvma_socket_progress(t.client[0].socket, sp_world_now(t.world)), -ECONNRESET);
	t.client[0].gone = true;
	echo_run(&t, 100 * SP_SEC);
	CU_ASSERT_EQUAL(t.broken, 2);
	CU_ASSERT_EQUAL(t.ended, 4);
	for (unsigned i = 1; i < 3; i++)
		CU_ASSERT(t.client[i].call[0].came == 200000 && t.client[i].call[1].came == 200000);
	t.client[0].gone = false; /* the rest of it is let go of like all others */
	good();
}

/* Puts into the server's mailbox what no socket would. */
static struct {
	struct sp_dev *dev;
	struct rvma *rvma;
	struct rvma_address address;
	struct rvma_peer *peer;
	struct sp_mr *mr;
	struct rvma_op *op[64];
	unsigned ops;
} foe;

static void foe_open(void)
{
	echo_socket(&t, 0, &t.context, NULL, &foe.dev, &foe.rvma, NULL);
	if (rvma_address_get(foe.rvma, &foe.address) || rvma_peer_open(foe.rvma, &t.address.address, &foe.peer) ||
	    sp_mr_alloc(foe.dev, 64 * 1024, &foe.mr))
		abort();
}

static struct sp_rvma_record *foe_record(uint8_t type, uint16_t length, uint64_t stream, uint64_t source)
{
	struct sp_rvma_record *h = (void *)((uint8_t *)foe.mr->addr + foe.ops * 1024ull);

	memset(h, 0, 1024);
	h->type = type;
	h->version = SP_RVMA_RECORD_VERSION;
	sp_store_be16(h->length, length);
	sp_store_be16(h->port, 9);
	sp_store_be32(h->qpn, foe.address.qpn);
	memcpy(h->ip, foe.address.ip, 16);
	sp_store_be64(h->stream, stream);
	sp_store_be64(h->source, source);
	sp_store_be16(h->record, 960);
	sp_store_be32(h->limit, 1000);
	return h;
}

static void foe_put(uint64_t size)
{
	if (!rvma_put(foe.peer, RVMA_SOCKET_MAILBOX + 7, 0, foe.mr, foe.ops * 1024ull, size, &foe.op[foe.ops]))
		foe.ops++;
}

static void foe_wait(void)
{
	for (unsigned round = 0; foe.ops && round < 100; round++) {
		sp_world_run(t.world, sp_world_now(t.world) + 20 * SP_MS, NULL, NULL);
		for (unsigned i = 0; i < foe.ops;)
			if (rvma_op_test(foe.op[i]) == -EAGAIN)
				i++;
			else
				foe.op[i] = foe.op[--foe.ops];
	}
	CU_ASSERT_EQUAL(foe.ops, 0);
}

static void foe_close(void)
{
	CU_ASSERT_EQUAL(rvma_close(foe.rvma), 0);
	sp_dev_close(foe.dev);
}

TEST(records_that_no_socket_sends_change_nothing)
{
	struct rvma_socket_status s;

	echo_simple(2);
	t.client[0].calls = t.client[1].calls = 2;
	for (unsigned i = 0; i < 4; i++)
		t.client[i / 2].call[i % 2].length = 60000;
	echo_open(&t);
	foe_open();
	sp_world_run(t.world, 100 * SP_US, NULL, NULL);
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 48; i++) {
			/* length beyond what there is or can be; unknown streams; unknown kinds; zeros that are none */
			struct sp_rvma_record *h = foe_record(
				(uint8_t)echo_below(&t, 10),
				(uint16_t)(echo_below(&t, 3) ? 0 : 961 + echo_below(&t, 60000)),
				echo_below(&t, 2) ? sp_random_next(&t.random) : echo_below(&t, 8), echo_below(&t, 3));

			if (h->type == SP_RVMA_RECORD_DATAGRAM)
				h->version = 0;
			if (!echo_below(&t, 8))
				h->zero3[echo_below(&t, 6)] = 1;
			if (!echo_below(&t, 8))
				sp_store_be32(h->qpn, (uint32_t)sp_random_next(&t.random));
			sp_store_be32(h->sequence, (uint32_t)sp_random_next(&t.random));
			foe_put(echo_below(&t, 4) ? 64 : echo_below(&t, 64)); /* also less than a header */
		}
		foe_wait();
	}
	foe_close();
	echo_run(&t, 100 * SP_SEC);
	rvma_socket_status(t.server, &s);
	CU_ASSERT(s.strays > 100);
	CU_ASSERT_EQUAL(t.ended, 4);
	for (unsigned i = 0; i < 4; i++)
		CU_ASSERT(t.client[i / 2].call[i % 2].came == 60000 && !t.client[i / 2].call[i % 2].error);
	good();
}

static bool never(void *arg)
{
	return ((struct echo *)arg)->text[0];
}

/* Whoever has the key can take the place of a record behind its own by lying about its length: then streams end, and
 * none of them has wrong bytes (call_step). */
TEST(a_record_that_lies_about_its_length_ends_streams_at_the_worst)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		echo_simple(2);
		sp_random_seed(&t.random, seed, 7);
		t.server_attr.timeout = t.client_attr.timeout = 2 * SP_SEC;
		t.client[0].calls = t.client[1].calls = 2;
		for (unsigned i = 0; i < 4; i++)
			t.client[i / 2].call[i % 2].length = 60000;
		t.one_by_one = true;
		echo_open(&t);
		foe_open();
		for (unsigned round = 0; round < 10; round++) {
			for (unsigned i = 0; i < 8; i++) {
				foe_record((uint8_t)(1 + echo_below(&t, 7)), (uint16_t)echo_below(&t, 961),
					   sp_random_next(&t.random), 1);
				foe_put(64 + echo_below(&t, 4) * 16);
			}
			sp_world_run(t.world, sp_world_now(t.world) + 50 * SP_US, NULL, NULL);
			foe_wait();
		}
		foe_close();
		/* datagrams that were never sent come back to nobody: the foe has no socket */
		echo_run(&t, 100 * SP_SEC);
		good();
	}
}

TEST(a_flood_of_connects_takes_what_was_set_aside_and_no_more)
{
	struct rvma_socket_status s;

	echo_simple(1);
	t.server_attr.backlog = 8;
	t.server_attr.streams = 32;
	t.server_attr.timeout = 2 * SP_SEC;
	t.silent = true; /* nobody accepts */
	t.done = never;
	echo_open(&t);
	foe_open();
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < 48; i++) {
			struct sp_rvma_record *h = foe_record(SP_RVMA_RECORD_CONNECT, 0, 0, 1 + i);

			if (i % 3 == 1) /* from somebody who is not there */
				sp_store_be32(h->qpn, 0x20000 + round * 48 + i);
			foe_put(64);
		}
		foe_wait();
		rvma_socket_status(t.server, &s);
		CU_ASSERT(s.streams <= 8 && s.memory == t.status.memory);
	}
	CU_ASSERT(s.refused > 300);
	foe_close();
	sp_world_run(t.world, 20 * SP_SEC, NULL, NULL); /* they have been found out */
	rvma_socket_status(t.server, &s);
	CU_ASSERT_EQUAL(s.streams, 0);
	t.client[0].calls = 1;
	t.client[0].call[0].length = 50000;
	CU_ASSERT_EQUAL(rvma_socket_connect(t.client[0].socket, &t.address, &t.client[0].call[0].stream), 0);
	t.done = NULL;
	t.silent = false;
	rvma_socket_progress(t.client[0].socket, sp_world_now(t.world));
	echo_run(&t, 100 * SP_SEC);
	CU_ASSERT(t.client[0].call[0].came == 50000 && !t.client[0].call[0].error);
	good();
}

/* ---- ends ---- */
static int connected(const struct rvma_stream *st)
{
	for (unsigned i = 0; i < 100 && rvma_stream_connected(st) == -EAGAIN; i++)
		sp_world_run(t.world, sp_world_now(t.world) + 100 * SP_MS, NULL, NULL);
	return rvma_stream_connected(st);
}

TEST(a_connect_to_nobody_is_refused)
{
	struct rvma_stream *st;

	echo_simple(1);
	echo_open(&t);
	struct rvma_socket_address to = t.address;
	to.port = 8; /* no mailbox */
	CU_ASSERT_EQUAL(rvma_socket_connect(t.client[0].socket, &to, &st), 0);
	CU_ASSERT_EQUAL(connected(st), -ECONNREFUSED);
	CU_ASSERT_EQUAL(rvma_stream_send(st, "x", 1), -ECONNREFUSED);
	rvma_stream_close(st);
	rvma_socket_name(t.client[0].socket, &to); /* a socket without backlog: our own, of the same context */
	to.address = t.address.address;
	to.port = 0;
	CU_ASSERT_EQUAL(rvma_socket_connect(t.client[0].socket, &to, &st), -EINVAL);
	to = t.address;
	to.address.qpn += 5; /* no context */
	CU_ASSERT_EQUAL(rvma_socket_connect(t.client[0].socket, &to, &st), 0);
	CU_ASSERT_EQUAL(connected(st), -ECONNRESET);
	rvma_stream_close(st);
	good();
}

TEST(a_stream_is_shut_in_each_direction_by_itself)
{
	struct rvma_stream *st, *server = NULL;
	char bytes[8];

	echo_simple(1);
	t.silent = true; /* this rule is the server */
	t.done = never;
	echo_open(&t);
	CU_ASSERT_EQUAL(rvma_socket_connect(t.client[0].socket, &t.address, &st), 0);
	CU_ASSERT_EQUAL(rvma_stream_send(st, "x", 1), -ENOTCONN);
	CU_ASSERT_EQUAL(connected(st), 0);
	CU_ASSERT_EQUAL(rvma_socket_accept(t.server, &server, NULL), 0);
	CU_ASSERT_EQUAL(rvma_stream_send(st, "hello", 5), 5);
	CU_ASSERT_EQUAL(rvma_stream_shutdown(st), 0);
	CU_ASSERT_EQUAL(rvma_stream_send(st, "x", 1), -EPIPE);
	sp_world_run(t.world, sp_world_now(t.world) + SP_SEC, NULL, NULL);
	CU_ASSERT_EQUAL(rvma_stream_recv(server, bytes, 3), 3);
	CU_ASSERT_EQUAL(rvma_stream_recv(server, bytes, 8), 2);
	CU_ASSERT_EQUAL(rvma_stream_recv(server, bytes, 8), 0);
	CU_ASSERT_EQUAL(rvma_stream_recv(server, bytes, 8), 0);
	CU_ASSERT_EQUAL(rvma_stream_recv(st, bytes, 8), -EAGAIN); /* the other way is open */
	CU_ASSERT_EQUAL(rvma_stream_send(server, "world", 5), 5);
	rvma_stream_close(server);
	sp_world_run(t.world, sp_world_now(t.world) + SP_SEC, NULL, NULL);
	CU_ASSERT_EQUAL(rvma_stream_recv(st, bytes, 8), 5);
	CU_ASSERT_EQUAL(memcmp(bytes, "world", 5), 0);
	CU_ASSERT_EQUAL(rvma_stream_recv(st, bytes, 8), 0);
	rvma_stream_close(st);
	sp_world_run(t.world, sp_world_now(t.world) + SP_SEC, NULL, NULL);
	good();
}

TEST(data_for_a_closed_stream_is_answered_by_a_reset)
{
	struct rvma_stream *st, *server = NULL;
	char bytes[8];

	echo_simple(1);
	t.silent = true;
	t.done = never;
	echo_open(&t);
	CU_ASSERT_EQUAL(rvma_socket_connect(t.client[0].socket, &t.address, &st), 0);
	CU_ASSERT_EQUAL(connected(st), 0);
	CU_ASSERT_EQUAL(rvma_socket_accept(t.server, &server, NULL), 0);
	rvma_stream_close(server);
	sp_world_run(t.world, sp_world_now(t.world) + SP_SEC, NULL, NULL);
	CU_ASSERT_EQUAL(rvma_stream_recv(st, bytes, 8), 0);
	CU_ASSERT_EQUAL(rvma_stream_send(st, "x", 1), 1);
	sp_world_run(t.world, sp_world_now(t.world) + SP_SEC, NULL, NULL);
	CU_ASSERT_EQUAL(rvma_stream_send(st, "x", 1), -ECONNRESET);
	rvma_stream_close(st);
	good();
}

TEST(arguments_out_of_their_range_are_refused_by_name)
{
	static const struct {
		struct rvma_socket_attr attr;
		const char *key;
	} bad[] = {{{.record = 63}, "record"},
		   {{.record = 961}, "record"},
		   {{.buffers = 1}, "buffers"},
		   {{.buffer_bytes = 4032}, "buffer_bytes"},
		   {{.buffer_bytes = 65537}, "buffer_bytes"},
		   {{.waiting = 681}, "waiting"},
		   {{.sending = 65537}, "sending"},
		   {{.streams = 65537}, "streams"},
		   {{.window = 1}, "window"},
		   {{.timeout = 1}, "timeout"},
		   {{.probe = 3601 * SP_SEC}, "probe"}};
	const struct rvma_socket_attr port = {.port = 7};
	struct rvma_socket *s;
	struct sp_error error;
	char bytes[1000] = "";

	echo_simple(1);
	echo_open(&t);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		CU_ASSERT_EQUAL(rvma_socket_open(t.client[0].rvma, &bad[i].attr, &s, &error), -EINVAL);
		CU_ASSERT_STRING_EQUAL(error.key, bad[i].key);
	}
	CU_ASSERT_EQUAL(rvma_socket_open(t.rvma, &port, &s, NULL), -EADDRINUSE);
	CU_ASSERT_EQUAL(rvma_socket_sendto(t.client[0].socket, bytes, 961, &t.address), -EMSGSIZE);
	CU_ASSERT_EQUAL(rvma_socket_sendto(t.client[0].socket, bytes, 960, &t.address), 0);
	good();
}
