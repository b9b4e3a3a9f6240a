/* SPDX-License-Identifier: BSD-3-Clause */
/* A port of virtio-user and its peer, in one process: which buffers it sends from. */
#include "../lib/dut.h"

#include <rte_ethdev.h>

#include "../../pipeline/ports/port.h"
#include "../../pipeline/ports/vdev.h"

#define FRAMES 3000
#define BYTES  1000

static char vhost[96], user[128];

static int both(const char *size, struct sp_nic **nic)
{
	struct sp_error error = {.text = ""};
	int r;

	snprintf(vhost, sizeof(vhost), "vhost:/tmp/spindle-pair-%d.sock", (int)getpid());
	snprintf(user, sizeof(user), "virtio-user:%s%s", strchr(vhost, ':') + 1, size);
	dut_prepare(&dut, 1);
	dut.config.mtu = 1500;
	dut.config.port[0] = (struct sp_port_config){.device = vhost};
	dut.config.port[1] = (struct sp_port_config){.device = user};
	dut.config.ports = 2;
	r = sp_nic_create(&dut.config, &error, nic);
	if (r)
		printf("# %s: %s\n", user, error.text);
	return r;
}

/* vhost has a thread of its own: the link is up some time later. */
static bool up(const struct sp_port *port)
{
	struct rte_eth_link link = {0};

	for (unsigned i = 0; i < 10000; i++, usleep(1000))
		if (!rte_eth_link_get_nowait(port->ethdev, &link) && link.link_status)
			return true;
	return false;
}

static bool passes(struct sp_port *from, struct sp_port *to, struct rte_mbuf *m, uint8_t fill)
{
	struct rte_mbuf *got[SP_BURST];
	unsigned n = 0;
	bool right;

	memset(rte_pktmbuf_append(m, BYTES), fill, BYTES);
	if (sp_port_transmit(from, 0, &m, 1, 1) != 1)
		return false;
	for (unsigned i = 0; i < 100000 && !n; i++)
		n = sp_port_receive(to, 0, got, 1);
	right = n == 1 && *rte_pktmbuf_mtod_offset(got[0], uint8_t *, BYTES - 1) == fill;
	rte_pktmbuf_free_bulk(got, n);
	return right;
}

/* Sends one frame after the other, which the peer has read before the next one. Returns from how many buffers. */
static unsigned buffers(struct sp_port *from, struct sp_port *to)
{
	static struct rte_mbuf *used[FRAMES];
	unsigned n = 0;

	for (unsigned k = 0; k < FRAMES; k++) {
		struct rte_mbuf *m = sp_packet_alloc();
		unsigned i = 0;

		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		while (i < n && used[i] != m)
			i++;
		used[i] = m;
		n += i == n;
		CU_ASSERT_FATAL(passes(from, to, m, (uint8_t)k));
	}
	return n;
}

/* Not from as many as there are descriptors, one after the other: no cache nearby holds those. A ring too small for
 * that is left as it is. */
TEST(virtio_user_sends_from_few_buffers)
{
	static const struct {
		const char *size;
		unsigned most;
	} rings[] = {{"", 64}, {",queue_size=256", 64}, {",queue_size=64", 128}};
	struct sp_nic *nic;

	for (unsigned i = 0; i < 3; i++) {
		CU_ASSERT_EQUAL_FATAL(both(rings[i].size, &nic), 0);
		CU_ASSERT_FATAL(up(&nic->port[0]));

		const unsigned used = buffers(&nic->port[1], &nic->port[0]);

		printf("# %s: %u buffers\n", user, used);
		CU_ASSERT(used <= rings[i].most);
		sp_nic_destroy(nic);
	}
}

TEST(the_size_of_a_ring_is_found_among_the_arguments)
{
	CU_ASSERT_EQUAL(sp_vdev_queue_size("path=/s,queue_size=1024"), 1024);
	CU_ASSERT_EQUAL(sp_vdev_queue_size("path=/s"), 256); /* the driver's own */
	CU_ASSERT_EQUAL(sp_vdev_queue_size("path=/s,queue_size=x"), 0);
	CU_ASSERT_EQUAL(sp_vdev_queue_size(NULL), 256);
}
