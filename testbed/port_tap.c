/* SPDX-License-Identifier: BSD-3-Clause */
#include "port_tap.h"

#include <rte_mbuf.h>

static unsigned tap_receive(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned max, sp_time now)
{
	struct sp_port_tap *t = arg;

	return t->ops->receive(t->port, queue, packet, max, now);
}

/* One packet at a time: a packet that was sent may be gone, and one that was not sent must not be in the capture. */
static unsigned tap_transmit(void *arg, uint16_t queue, struct rte_mbuf **packet, unsigned count, sp_time now)
{
	struct sp_port_tap *t = arg;
	struct sp_pcap_port out = {.out = t->out, .interface = t->interface};
	unsigned n;

	for (n = 0; n < count; n++) {
		struct rte_mbuf *copy = rte_pktmbuf_copy(packet[n], packet[n]->pool, 0, UINT32_MAX);

		if (!copy) {
			sp_shortage_begin(&t->shortage, now);
			break; /* later: a capture with holes would be wrong */
		}
		sp_shortage_end(&t->shortage);
		if (!t->ops->transmit(t->port, queue, &packet[n], 1, now)) {
			rte_pktmbuf_free(copy);
			break;
		}
		sp_pcap_ops.transmit(&out, queue, &copy, 1, now);
	}
	return n;
}

static sp_time tap_next(void *arg, uint16_t queue, bool transmit_blocked)
{
	struct sp_port_tap *t = arg;

	const bool waits = transmit_blocked && t->shortage.on; /* waits for a buffer; the port behind was not asked */
	const sp_time next = t->ops->next(t->port, queue, transmit_blocked && !waits);
	const sp_time again = waits ? sp_shortage_next(&t->shortage) : SP_NEVER;

	return again < next ? again : next;
}

const struct sp_port_ops sp_port_tap_ops = {.receive = tap_receive, .transmit = tap_transmit, .next = tap_next};
