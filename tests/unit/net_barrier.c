/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Barriers of real NICs over a switch, by dissemination: in round r a frame to the 2^r-th next. In handlers, which send
 * the next frame as soon as the last one has come; and by hosts, which their NICs tell of each frame and which send by
 * a command. Hosts stand still now and then (testbed/motif/stalls.h): handlers must not notice.
 */
#include <rte_mempool.h>

#include "../../handlers/spindle-handler.h"
#include "../../testbed/motif/stalls.h"
#include "../../testbed/net/nics.h"
#include "../../testbed/world.h"
#include "../lib/suite.h"

#define MOST	      1024u
#define MOST_BARRIERS 40u
#define HEAD	      42u /* Ethernet, IPv4, UDP; then which barrier, and which round, a byte each */
#define FRAME	      60u
#define WIRE	      (96 * 20 * (SP_NS / 1000))    /* FRAME + 24 bytes in flits of 32, 20 ps each */
#define WAY	      (2 * 20 * SP_NS + 60 * SP_NS) /* two links and a switch */
#define SEND	      SP_CMD_OWN
#define CAME	      SP_EVENT_OWN

/* Who is where in the barriers: in the handler, or in the host. */
struct member {
	uint32_t barrier, round;
	uint32_t come[2]; /* a bit per round: of this barrier, and of the next */
	sp_time ended[MOST_BARRIERS];
	sp_time begun[MOST_BARRIERS];
	uint32_t id;   /* of the context */
	sp_time awake; /* of the host, if it stands still */
};

static struct member member[MOST];
static uint32_t members, rounds, barriers = MOST_BARRIERS;
static bool by_hosts;
static struct net_topology *topology;
static struct net_nics *nics;
static struct sp_world *world;
static struct sp_nic *nic[MOST];
static struct sp_dev *dev[MOST];
static struct goal_detours detours;
static struct stalls stalls;

/* ---- the algorithm ---- */
static void go_on(uint32_t rank, sp_time now, void (*send)(void *arg, uint32_t rank), void *arg)
{
	struct member *m = &member[rank];

	while (m->barrier < barriers && m->come[m->barrier % 2] >> m->round & 1) {
		if (++m->round == rounds) {
			m->come[m->barrier % 2] = 0;
			m->round = 0;
			m->ended[m->barrier++] = now;
			if (m->barrier < barriers)
				m->begun[m->barrier] = now;
		}
		if (m->barrier < barriers)
			send(arg, rank);
	}
}

static void came(uint32_t rank, uint32_t barrier, uint32_t round)
{
	CU_ASSERT(barrier == member[rank].barrier || barrier == member[rank].barrier + 1);
	member[rank].come[barrier % 2] |= 1u << round;
}

/* ---- the handler ---- */
struct state {
	uint32_t rank;
	struct sp_timer begin;
};

static void mac_of(uint32_t host, uint8_t mac[6])
{
	memcpy(mac, (uint8_t[]){2, 0, 0, 0, (uint8_t)((1 + host) >> 8), (uint8_t)(1 + host)}, 6);
}

static void send_frame(void *ctx, uint32_t rank)
{
	const struct member *m = &member[rank];
	const uint32_t to = (rank + (1u << m->round)) % members;
	const uint8_t ip[20] = {0x45,
				0,
				0,
				30,
				[8] = 64,
				17,
				0,
				0,
				10,
				0,
				(uint8_t)((1 + rank) >> 8),
				(uint8_t)(1 + rank),
				10,
				0,
				(uint8_t)((1 + to) >> 8),
				(uint8_t)(1 + to)};
	uint8_t frame[FRAME] = {[12] = 8,	  [34] = 0x1B, 0x58, 0x1B, 0x58, 0, 10, 0, 0, (uint8_t)m->barrier,
				(uint8_t)m->round};
	struct sp_ctx *c = ctx;
	uint16_t sum;

	mac_of(to, frame);
	mac_of(rank, frame + 6);
	memcpy(frame + 14, ip, 20);
	sum = sp_checksum(ip, 20, 0);
	memcpy(frame + 24, &sum, 2);
	CU_ASSERT_EQUAL(sp_send_frame(c, 0, frame, FRAME), 0);
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *message, struct sp_packet *p)
{
	const struct state *s = c->state;

	if (by_hosts) {
		const struct sp_event e = {.type = CAME, .arg = {p->frame[HEAD], p->frame[HEAD + 1]}};

		CU_ASSERT_EQUAL(sp_event_post(c, &e), 0);
		return SP_DONE;
	}
	came(s->rank, p->frame[HEAD], p->frame[HEAD + 1]);
	go_on(s->rank, c->now, send_frame, c);
	return SP_DONE;
}

static int command(struct sp_ctx *c, const struct sp_command *cmd, struct sp_event *result)
{
	const struct state *s = c->state;

	CU_ASSERT_EQUAL(cmd->op, SEND);
	send_frame(c, s->rank);
	return 0;
}

static void begin(struct sp_ctx *c, struct sp_timer *timer)
{
	const struct state *s = c->state;

	member[s->rank].begun[0] = c->now;
	send_frame(c, s->rank);
}

static int attach(struct sp_ctx *c)
{
	struct state *s = c->state;

	s->rank = (uint32_t)sp_param_uint(c, "rank");
	return by_hosts ? 0 : sp_timer_arm(c, &s->begin, SP_US);
}

static const struct sp_param params[] = {{"rank", SP_UINT, NULL, 0, MOST - 1, "which member"}, {NULL}};
static const struct sp_handler barrier = {
	SP_HANDLER_HEAD,  .name = "barrier",  .params = params,	  .ctx_size = sizeof(struct state),
	.attach = attach, .payload = payload, .command = command, .timer = begin};
SP_HANDLER(barrier)

/* ---- hosts ---- */
static void send_command(void *arg, uint32_t rank)
{
	const struct sp_command c = {.op = SEND, .context = member[rank].id};

	/* The handler sends what `member` says when it runs, so it runs before the host goes on. */
	CU_ASSERT_EQUAL(sp_command_post(dev[rank], &c), 0);
	CU_ASSERT(sp_nic_poll(nic[rank], 0, *(sp_time *)arg) > 0);
}

/* A host that stands still does nothing before it is awake. */
static void host_step(uint32_t rank, sp_time now)
{
	struct member *m = &member[rank];
	struct sp_event e;

	m->awake = stalls_stretch(&stalls, rank, 0, now, 0);
	if (m->awake > now)
		return;
	m->awake = SP_NEVER;
	if (!m->begun[0] && now >= SP_US) {
		m->begun[0] = now;
		send_command(&now, rank);
	}
	while (sp_event_take(dev[rank], m->id, &e) == 1) {
		CU_ASSERT_EQUAL(e.type, CAME);
		came(rank, (uint32_t)e.arg[0], (uint32_t)e.arg[1]);
	}
	if (m->begun[0])
		go_on(rank, now, send_command, &now);
}

static void step(void *arg, sp_time now)
{
	for (uint32_t rank = 0; rank < members; rank++)
		host_step(rank, now);
}

static sp_time next(void *arg)
{
	sp_time first = SP_NEVER;

	for (uint32_t rank = 0; rank < members; rank++) {
		const sp_time at = member[rank].begun[0]					  ? member[rank].awake
				   : member[rank].awake == SP_NEVER || member[rank].awake < SP_US ? SP_US
												  : member[rank].awake;

		first = at < first ? at : first;
	}
	return first;
}

/* ---- runs ---- */
static void make_nic(uint32_t h)
{
	struct sp_nic_config c = {.addresses = 1,
				  .seed = h + 1,
				  .ports = 1,
				  .port = {{.ops = &net_nics_ops, .ops_arg = net_nics_port(nics, h)}}};
	const struct sp_setting settings[] = {{"filter", "udp dst port 7000"}, {"rank", (char[5]){0}}};
	const uint8_t ip[16] = {[10] = 0xFF, 0xFF, 10, 0, (uint8_t)((1 + h) >> 8), (uint8_t)(1 + h)};
	struct sp_error error = {.text = ""};

	memcpy(c.address[0].ip, ip, 16);
	mac_of(h, c.mac);
	c.address[0].prefix = 16;
	snprintf(c.name, sizeof(c.name), "net%u", h);
	snprintf((char *)settings[1].value, 5, "%u", h);
	CU_ASSERT_EQUAL_FATAL(net_nics_mac(nics, h, c.mac), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&c, &error, &nic[h]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(nic[h], false, &dev[h]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev[h], "barrier", "barrier", settings, 2, &member[h].id, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_add_nic(world, nic[h]), 0);
}

static bool all_ended(void *arg)
{
	for (uint32_t rank = 0; rank < members; rank++)
		if (member[rank].barrier < barriers)
			return false;
	return true;
}

/* Makes all barriers; when the last member ended the last one, from when they began. */
static sp_time run(uint32_t n, bool hosts)
{
	struct net_config net;
	char why[256] = "", star[16];
	sp_time last = 0;

	members = n;
	by_hosts = hosts;
	for (rounds = 0; 1u << rounds < n; rounds++)
		;
	memset(member, 0, sizeof(member));
	for (uint32_t rank = 0; rank < n; rank++)
		member[rank].awake = SP_NEVER;
	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, NULL), 0);
	snprintf(star, sizeof(star), "star:%u", n);
	CU_ASSERT_EQUAL_FATAL(net_topology_parse(star, &topology, why, sizeof(why)), 0);
	net_defaults(&net);
	net.topology = topology;
	CU_ASSERT_EQUAL_FATAL(net_nics_create(&(struct net_nics_config){.net = net}, &nics, why, sizeof(why)), 0);
	CU_ASSERT_EQUAL_FATAL(sp_world_create(&world), 0);
	for (uint32_t h = 0; h < n; h++)
		make_nic(h);
	if (hosts)
		CU_ASSERT_EQUAL(sp_world_add_host(world, &(struct sp_world_host){.step = step, .next = next}), 0);
	CU_ASSERT_EQUAL(sp_world_run(world, SP_SEC, all_ended, NULL), 1);
	for (uint32_t h = 0; h < n; h++) {
		sp_dev_close(dev[h]);
		sp_nic_destroy(nic[h]);
		last = member[h].ended[barriers - 1] > last ? member[h].ended[barriers - 1] : last;
	}
	sp_world_destroy(world);
	net_nics_destroy(nics);
	net_topology_destroy(topology);
	return last - SP_US;
}

/* No member ends a barrier before all have begun it. */
static void check_order(void)
{
	unsigned wrong = 0;

	for (uint32_t k = 0; k < barriers; k++)
		for (uint32_t a = 0; a < members; a++)
			for (uint32_t b = 0; b < members; b++)
				wrong += member[a].ended[k] < member[b].begun[k];
	CU_ASSERT_EQUAL(wrong, 0);
}

/* Of each 40 us: 4 us at 10 us, and 1 us at 30 us; or next to nothing. */
static void noise(bool loud, uint64_t seed)
{
	const sp_time at[] = {10 * SP_US, 30 * SP_US, 39 * SP_US};
	const sp_time length[] = {loud ? 4 * SP_US : 1, loud ? SP_US : 1, loud ? SP_US : 1};

	CU_ASSERT_EQUAL_FATAL(goal_detours_set(&detours, at, length, 3), 0);
	CU_ASSERT_EQUAL_FATAL(stalls_create(&stalls, &detours, MOST, !loud, seed), 0);
}

static void quiet(void)
{
	stalls_free(&stalls);
	goal_detours_free(&detours);
}

TEST(a_barrier_of_handlers_takes_the_way_of_a_frame_for_each_round_and_one_by_idle_hosts_no_more)
{
	for (uint32_t n = 2; n <= 32; n *= 2) {
		sp_time exact;

		noise(false, 1);
		exact = run(n, false);
		CU_ASSERT_EQUAL(exact, barriers * rounds * (WAY + WIRE));
		check_order();
		/* Hosts without noise take no time either; detours here are a ps. */
		CU_ASSERT(run(n, true) < exact + barriers * rounds * 4);
		check_order();
		quiet();
	}
}

TEST(noise_of_hosts_delays_their_barriers_more_the_more_they_are_and_those_of_handlers_not_at_all)
{
	double before = 0;

	for (uint32_t n = 4; n <= 32; n *= 8) {
		double slow;
		sp_time silent;

		noise(true, n);
		silent = run(n, false);
		CU_ASSERT_EQUAL(silent, barriers * rounds * (WAY + WIRE));
		slow = (double)run(n, true) / (double)silent;
		check_order();
		CU_ASSERT(slow > 1.2 && slow > before);
		before = slow;
		quiet();
	}
}

/* (Hosts that stand still make so many different times that 1024 of them would take a minute.) */
TEST(handlers_of_1024_nics_take_10_ways_of_a_frame)
{
	barriers = 2;
	CU_ASSERT_EQUAL(run(1024, false), 2 * 10 * (WAY + WIRE));
	check_order();
	barriers = MOST_BARRIERS;
}

TEST(any_number_of_members_has_barriers)
{
	noise(true, 5);
	for (uint32_t n = 3; n <= 13; n += 5)
		for (unsigned hosts = 0; hosts < 2; hosts++) {
			run(n, hosts);
			check_order();
		}
	quiet();
}
