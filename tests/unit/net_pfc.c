/* SPDX-License-Identifier: BSD-3-Clause */
/* PFC between hosts and their switches: when the first pause comes, how far a queue grows, and who stands still. Times
 * and bytes are worked out here. */
#include <string.h>

#include "../lib/net_traffic.h"
#include "../lib/suite.h"

#define BYTES  1024u
#define BYTE   20ull /* ps, at 400 Gbit/s */
#define PACKET (BYTES * BYTE)
#define FRAME  (84 * BYTE)
#define LINK   20000ull /* ps */
#define IN     30000ull
#define OUT    30000ull

static struct net_config config(void)
{
	struct net_config c;

	net_defaults(&c);
	c.crossbar = 1; /* so that what a queue loses to the crossbar is easy to say */
	c.pfc = (struct net_pfc){.on = true, .mtu = BYTES};
	return c;
}

/* What may come after xoff is reached, in bytes. */
static uint32_t headroom(sp_time link, sp_time response, bool store_forward)
{
	return BYTES * (1 + store_forward) + (uint32_t)((2 * link + IN + response + PACKET + FRAME + BYTE - 1) / BYTE);
}

/* Two hosts send to a third, in turn through the crossbar, which takes one packet in each PACKET. */
TEST(the_first_pause_comes_when_the_queue_has_reached_xoff)
{
	struct net_config c = config();
	struct net_counters n;
	struct traffic t;

	c.pfc.xoff = 16 * BYTES;
	traffic_open(&t, "star:3", c);
	for (uint32_t i = 0; i < 2000; i++)
		traffic_add(&t, i % 2, 2, BYTES, 0, 0);
	CU_ASSERT(traffic_run(&t));
	net_count(t.net, &n);
	/*
	 * At LINK + IN + k * PACKET both hosts' packet k comes, and k of the packets before have left, half of each
	 * host. So the one that is served second has k + 1 - floor(k / 2), which is 16 first at k = 29. The link to
	 * the host is idle, so that the frame goes at once.
	 */
	CU_ASSERT_EQUAL(n.first_pause, LINK + IN + 29 * PACKET);
	CU_ASSERT(n.pauses > 2 && n.pause_frames >= 2 * n.pauses - 2);
	CU_ASSERT(n.paused > 0);
	CU_ASSERT(n.highest_input <= c.pfc.xoff + headroom(LINK, 0, false));
	CU_ASSERT_EQUAL(t.drops, 0);
	/* The link of the third never waits: as without PFC, one packet each PACKET. */
	CU_ASSERT_EQUAL(t.end, 2 * LINK + IN + OUT + 2000 * PACKET);
	traffic_close(&t);
}

/* A switch that cannot send to host 0 pauses whoever sends there, and the bytes that come until then have room. Longer
 * links need more of it. */
TEST(no_queue_grows_beyond_xoff_and_its_headroom_and_nothing_is_lost)
{
	for (unsigned k = 0; k < 24; k++) {
		struct net_config c = config();
		struct net_counters n;
		struct traffic t;
		struct net_pfc numbers;
		uint32_t room;
		char why[256];

		c.link_delay = (k % 3) * 250 * SP_NS + LINK;
		c.pfc.response = k / 3 % 2 * 400 * SP_NS;
		c.store_forward = k / 6 % 2;
		c.crossbar = k / 12 ? 1.5 : 1;
		room = headroom(c.link_delay, c.pfc.response, c.store_forward);
		c.pfc.xoff = 8 * BYTES;
		c.input_buffer = c.pfc.xoff + room;
		CU_ASSERT_EQUAL(net_pfc_numbers(&c, &numbers, &room, why, sizeof(why)), 0);
		CU_ASSERT_EQUAL(room, c.input_buffer - c.pfc.xoff);
		traffic_open(&t, k % 2 ? "star:9" : "fattree:3,3:3", c);
		for (uint32_t i = 0; i < 8000; i++) {
			const uint32_t src = 1 + i % 8;

			/* Half of them send to each other, too: links to hosts are busy when a PAUSE is due. */
			traffic_add(&t, src, i % 16 < 8 ? 0 : 1 + (src + 2) % 8, i % 5 ? BYTES : 100, 0, 0);
		}
		CU_ASSERT(traffic_run(&t));
		net_count(t.net, &n);
		CU_ASSERT(n.pauses > 0);
		CU_ASSERT(n.highest_input <= c.input_buffer);
		CU_ASSERT_EQUAL(t.drops, 0);
		CU_ASSERT_EQUAL(n.delivered, 8000);
		traffic_close(&t);
	}
}

/* With a byte less than that, and a long link, the numbers are refused; the number that is named suffices. */
TEST(a_buffer_without_the_headroom_is_refused_with_the_number_needed)
{
	struct net_config c = config();
	struct net_pfc numbers;
	unsigned long needed;
	char why[256], *at;
	uint32_t room;

	c.link_delay = 10 * SP_US; /* 2 km */
	CU_ASSERT_EQUAL(net_pfc_numbers(&c, &numbers, &room, why, sizeof(why)), -EINVAL);
	at = strstr(why, "at least ");
	CU_ASSERT_PTR_NOT_NULL_FATAL(at);
	needed = strtoul(at + 9, NULL, 10);
	CU_ASSERT_EQUAL(needed, headroom(c.link_delay, 0, false) + BYTES);
	c.input_buffer = (uint32_t)needed;
	CU_ASSERT_EQUAL(net_pfc_numbers(&c, &numbers, &room, why, sizeof(why)), 0);
	CU_ASSERT_EQUAL(numbers.xoff, BYTES);
	CU_ASSERT_EQUAL(numbers.xon, BYTES / 2);
	c.pfc.xoff = BYTES + 1;
	CU_ASSERT_EQUAL(net_pfc_numbers(&c, &numbers, &room, why, sizeof(why)), -EINVAL);
	at = strstr(why, "at least ");
	CU_ASSERT_PTR_NOT_NULL_FATAL(at);
	CU_ASSERT_EQUAL(strtoul(at + 9, NULL, 10), needed + 1);
	c.pfc.xoff = BYTES;
	c.pfc.xon = BYTES;
	CU_ASSERT_EQUAL(net_pfc_numbers(&c, &numbers, &room, why, sizeof(why)), -EINVAL);
	c.pfc.xon = 0;
	/* Twice a packet and a frame on the link, of 512 bits: 2 * (1024 + 84) * 8 / 512 = 34.6. */
	c.pfc.quanta = 34;
	CU_ASSERT_EQUAL(net_pfc_numbers(&c, &numbers, &room, why, sizeof(why)), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(why, "must last 35 to 65535 quanta"));
	c.pfc.quanta = 35;
	CU_ASSERT_EQUAL(net_pfc_numbers(&c, &numbers, &room, why, sizeof(why)), 0);
}

/* A pause that lasts is repeated before it runs out: with short ones there are more frames, and the same times. */
TEST(a_pause_that_lasts_is_repeated_after_half_its_quanta)
{
	static const uint32_t quanta[] = {65535, 400, 40};
	sp_time end[3], paused[3];

	for (unsigned k = 0; k < 3; k++) {
		struct net_config c = config();
		struct net_counters n;
		struct traffic t;

		c.pfc.quanta = quanta[k];
		c.pfc.xoff = 20000;
		c.pfc.xon = 1000;
		traffic_open(&t, "star:17", c);
		for (uint32_t i = 0; i < 16 * 200; i++)
			traffic_add(&t, i % 16, 16, BYTES, 0, 0);
		CU_ASSERT(traffic_run(&t));
		net_count(t.net, &n);
		end[k] = t.end;
		paused[k] = n.paused;
		CU_ASSERT_EQUAL(t.drops, 0);
		/* Of each pause: begin, end, and a frame each half of its time. Frames of one port have a fixed rhythm
		 * that a new pause may find running: one more or less of each. */
		{
			const double half = quanta[k] * 512 / 2 * BYTE / 8.0, most = 2 * n.pauses + n.paused / half;

			CU_ASSERT(n.pause_frames <= most + n.pauses);
			CU_ASSERT(n.pause_frames + n.pauses >= most);
		}
		traffic_close(&t);
	}
	CU_ASSERT_EQUAL(end[0], end[2]);
	CU_ASSERT(paused[1] > paused[0] * 0.9 && paused[1] < paused[0] * 1.1);
	CU_ASSERT(paused[2] > paused[0] * 0.9 && paused[2] < paused[0] * 1.1);
}

/*
 * Hosts 1 to 7 send to host 0; host 1 also to host 8, whose link is idle. In one priority the victim waits behind what
 * is paused; in a priority of its own it does not. A host has a queue for each priority here, and sends of them in
 * turn.
 */
struct senders {
	struct net *net;
	uint32_t left[9][2]; /* to host 0, to host 8 */
	uint8_t priority;    /* of the latter */
	uint8_t turn[9];
	sp_time end;
	uint32_t drops;
};

static void send_more(void *arg, uint32_t host, sp_time now)
{
	struct senders *s = arg;

	for (bool sent = true; sent;) {
		sent = false;
		for (unsigned k = 0; k < 2 && !sent; k++) {
			const unsigned which = (s->turn[host] + k) % 2;
			const struct net_packet p = {
				.dst = which ? 8 : 0, .bytes = BYTES, .priority = which ? s->priority : 0};

			if (!s->left[host][which])
				continue;
			sent = net_send(s->net, host, &p, now);
			s->left[host][which] -= sent;
			s->turn[host] = sent ? !which : s->turn[host];
			if (!sent && !s->priority)
				return; /* one queue: nothing passes its head */
		}
	}
}

static void arrived(void *arg, const struct net_packet *p, sp_time now)
{
	struct senders *s = arg;

	if (p->dst == 8)
		s->end = now;
}

static void lost(void *arg, const struct net_packet *p, enum net_drop why, sp_time now)
{
	((struct senders *)arg)->drops++;
}

static sp_time victim(uint8_t priority, bool incast, struct net_counters *n)
{
	struct senders s = {.priority = priority};
	struct net_config c = config();
	struct net_topology *topology;
	char why[256];

	CU_ASSERT_EQUAL_FATAL(net_topology_parse("star:9", &topology, why, sizeof(why)), 0);
	c.topology = topology;
	c.priorities = priority + 1u;
	c.deliver = arrived;
	c.room = send_more;
	c.drop = lost;
	c.arg = &s;
	CU_ASSERT_EQUAL_FATAL(net_create(&c, &s.net, why, sizeof(why)), 0);
	for (uint32_t h = 1; h < 8; h++)
		s.left[h][0] = incast ? 100 : 0;
	s.left[1][1] = 100;
	for (uint32_t h = 1; h < 8; h++)
		send_more(&s, h, 0);
	net_run(s.net, SP_NEVER);
	net_count(s.net, n);
	CU_ASSERT_EQUAL(s.drops, 0);
	CU_ASSERT_EQUAL(n->delivered, incast ? 800 : 100);
	net_destroy(s.net);
	net_topology_destroy(topology);
	return s.end;
}

TEST(a_victim_waits_in_the_paused_priority_and_not_in_its_own)
{
	struct net_counters n;
	const sp_time alone = victim(0, false, &n), same = victim(0, true, &n);
	sp_time other;

	CU_ASSERT_EQUAL(alone, 100 * PACKET + 2 * LINK + IN + OUT);
	CU_ASSERT(n.pauses > 0);
	/* It goes where host 1's packets to host 0 go, of which one in seven passes, but for what queues hold. */
	CU_ASSERT(same > 5 * alone);
	other = victim(1, true, &n);
	CU_ASSERT(n.pauses > 0);
	printf("# victim, us: alone %.2f, in the paused priority %.2f, in its own %.2f\n", alone / 1e6, same / 1e6,
	       other / 1e6);
	CU_ASSERT(other < 2 * alone + 10 * PACKET); /* it has half of host 1's link, and no more to wait for */
}

/* Without room at the switch, credits stop a host by themselves, and pauses by frames: both lose nothing, and are as
 * fast where a link is full. */
TEST(pfc_is_as_fast_as_credits_under_incast)
{
	sp_time end[2];

	for (unsigned pfc = 0; pfc < 2; pfc++) {
		struct net_config c = config();
		struct traffic t;

		c.pfc.on = pfc;
		traffic_open(&t, "star:17", c);
		for (uint32_t i = 0; i < 16 * 300; i++)
			traffic_add(&t, i % 16, 16, BYTES, 0, 0);
		CU_ASSERT(traffic_run(&t));
		end[pfc] = t.end;
		CU_ASSERT_EQUAL(t.drops, 0);
		traffic_close(&t);
	}
	CU_ASSERT_EQUAL(end[0], 16 * 300 * PACKET + 2 * LINK + IN + OUT);
	CU_ASSERT_EQUAL(end[0], end[1]);
}

static void nobody(void *arg, const struct net_packet *p, sp_time now)
{
}

TEST(what_pfc_and_priorities_cannot_be_is_refused)
{
	static const struct {
		struct net_pfc pfc;
		uint32_t priorities, vcs;
		bool lossless;
		const char *words;
	} bad[] = {{{.on = true}, 1, 0, false, "lossless"},
		   {{.on = false}, 9, 0, true, "priorities"},
		   {{.on = false}, 8, 9, true, "64 queues"},
		   {{.on = true, .mtu = NET_MAX_BYTES + 1}, 1, 0, true, "more than"},
		   {{.on = true, .response = 2 * SP_SEC}, 1, 0, true, "1 s"}};

	for (unsigned k = 0; k < sizeof(bad) / sizeof(*bad); k++) {
		struct net_config c = config();
		struct net_topology *topology;
		struct net *n = NULL;
		char why[256] = "";

		CU_ASSERT_EQUAL_FATAL(net_topology_parse("star:2", &topology, why, sizeof(why)), 0);
		c.topology = topology;
		c.deliver = nobody;
		c.pfc = bad[k].pfc;
		c.priorities = bad[k].priorities;
		c.vcs = bad[k].vcs;
		c.lossless = bad[k].lossless;
		CU_ASSERT_EQUAL(net_create(&c, &n, why, sizeof(why)), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(why, bad[k].words));
		net_destroy(n);
		net_topology_destroy(topology);
	}
}
