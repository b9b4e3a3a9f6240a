/* SPDX-License-Identifier: BSD-3-Clause */
/* Taps when packet buffers are scarce: alone, and between two NICs whose link holds as many as there are. */
#include "../../testbed/link.h"
#include "../../testbed/port_tap.h"
#include "../../testbed/world.h"
#include "../lib/buffers.h"
#include "../lib/dut.h"

#define PACKETS 20000

/* ---- a handler that sends PACKETS packets as fast as it can, and counts what it gets ---- */
struct flood {
	struct sp_issue issue;
	struct sp_path *path;
	uint32_t sent, received;
};

static const struct sp_param flood_params[] = {{"peer", SP_UINT, "1", 1, 2, "192.0.2.N"}, {NULL}};

static int flood_attach(struct sp_ctx *c)
{
	struct flood *f = c->state;
	uint8_t ip[16];

	memcpy(ip, dut_own4, 16);
	ip[15] = (uint8_t)sp_param_uint(c, "peer");
	sp_issue_start(c, &f->issue);
	return sp_path_open(c, ip, false, &f->path);
}

static int flood_issue(struct sp_ctx *c, struct sp_issue *i, unsigned budget)
{
	static const uint8_t zero[1000];
	struct flood *f = c->state;
	for (; budget && f->sent < PACKETS; budget--, f->sent++) {
		const struct sp_send send = {.dest_qp = 16, .psn = f->sent, .len = sizeof(zero), .bytes = zero};

		if (sp_send_roce(c, f->path, &send))
			return SP_ISSUE_MORE;
	}
	return f->sent < PACKETS ? SP_ISSUE_MORE : SP_ISSUE_DONE;
}

static uint32_t flood_payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	struct flood *f = c->state;
	f->received++;
	return SP_DONE;
}

static const struct sp_handler flood = {
	SP_HANDLER_HEAD,	.name = "flood",	  .params = flood_params, .ctx_size = sizeof(struct flood),
	.attach = flood_attach, .payload = flood_payload, .issue = flood_issue};
SP_HANDLER(flood)

/* ---- the tests ---- */

TEST(without_a_buffer_for_its_copy_the_packet_waits_and_time_goes_on)
{
	struct sp_link *link;
	struct sp_error error;
	struct rte_mbuf *m, *got = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_link_create(&(struct sp_link_config){.seed = 1}, &link), 0);
	struct sp_port_tap tap = {.ops = &sp_link_ops, .port = sp_link_port(link, 0)};

	m = sp_packet_alloc();
	CU_ASSERT_PTR_NOT_NULL_FATAL(m);
	memset(rte_pktmbuf_append(m, 100), 0, 100);
	buffers_take_all();
	for (sp_time now = 0; now < 10 * SP_US; now += SP_US) {
		CU_ASSERT_EQUAL_FATAL(sp_port_tap_ops.transmit(&tap, 0, &m, 1, now), 0);
		CU_ASSERT_EQUAL_FATAL(sp_port_tap_ops.next(&tap, 0, true), now + SP_US);
		CU_ASSERT_EQUAL(sp_port_tap_ops.next(&tap, 0, false), SP_NEVER);
	}
	buffers_give_back();
	CU_ASSERT_EQUAL_FATAL(sp_port_tap_ops.transmit(&tap, 0, &m, 1, 10 * SP_US), 1);
	CU_ASSERT_EQUAL(sp_link_ops.receive(sp_link_port(link, 1), 0, &got, 1, 10 * SP_US), 1);
	CU_ASSERT_EQUAL(got->pkt_len, 100);
	rte_pktmbuf_free(got);
	sp_link_destroy(link);
}

TEST(a_link_that_holds_all_buffers_in_both_directions_brings_everything_through)
{
	const struct sp_link_direction fat = {.bandwidth = 100000000000, .delay = 10 * SP_MS};
	struct sp_link_counters n;
	struct sp_world *world;
	struct sp_link *link;
	struct dut dut[2];
	struct sp_port_tap tap[2];
	uint32_t id[2];

	CU_ASSERT_EQUAL_FATAL(sp_world_create(&world), 0);
	for (unsigned e = 0; e < 2; e++)
		dut_prepare(&dut[e], 1);
	CU_ASSERT_EQUAL_FATAL(sp_link_create(&(struct sp_link_config){.direction = {fat, fat}}, &link), 0);
	for (unsigned e = 0; e < 2; e++) { /* 192.0.2.2 and 192.0.2.1 */
		struct sp_nic_config *c = &dut[e].config;

		tap[e] = (struct sp_port_tap){.ops = &sp_link_ops, .port = sp_link_port(link, e)};
		c->port[0] = (struct sp_port_config){.ops = &sp_port_tap_ops, .ops_arg = &tap[e]};
		c->addresses = 1;
		c->neighbours = 1;
		memcpy(c->mac, e ? dut_peer_mac : dut_mac, 6);
		memcpy(c->address[0].ip, e ? dut_peer4 : dut_own4, 16);
		memcpy(c->neighbour[0].mac, e ? dut_mac : dut_peer_mac, 6);
		memcpy(c->neighbour[0].ip, e ? dut_own4 : dut_peer4, 16);
		dut_create(&dut[e]);
		id[e] = dut_context(&dut[e], "flood", "flood", e ? "qp=16;peer=2" : "qp=16;peer=1");
		CU_ASSERT_EQUAL_FATAL(sp_world_add_nic(world, dut[e].nic), 0);
	}
	CU_ASSERT_EQUAL(sp_world_run(world, SP_SEC, NULL, NULL), 0);
	for (unsigned e = 0; e < 2; e++) {
		const struct flood *f = sp_context_by_id(dut[e].nic, id[e])->state;

		sp_link_count(link, e, &n);
		CU_ASSERT_EQUAL(n.lost, 0);
		CU_ASSERT_EQUAL(n.offered, PACKETS);
		CU_ASSERT_EQUAL(f->sent, PACKETS);
		CU_ASSERT_EQUAL(f->received, PACKETS);
		CU_ASSERT_EQUAL(sp_nic_dropped(dut[e].nic, "tx-full"), 0);
	}
	for (unsigned e = 0; e < 2; e++)
		dut_stop(&dut[e]);
	sp_world_destroy(world);
	sp_link_destroy(link);
}
