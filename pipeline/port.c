/* SPDX-License-Identifier: BSD-3-Clause */
#include "port.h"
#include "registry.h"

#define DESCRIPTORS 1024
/* Ethernet header and two VLAN tags; the port keeps the FCS to itself. */
#define L2_ROOM	    (RTE_ETHER_HDR_LEN + 8)

/* What the device says it can do at the most; ethdev itself counts header and FCS to a frame where drivers name no MTU.
 */
static uint32_t largest_mtu(const struct rte_eth_dev_info *info)
{
	const uint32_t l2 = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

	if (info->max_mtu && info->max_mtu != UINT16_MAX)
		return info->max_mtu;
	return info->max_rx_pktlen > l2 ? info->max_rx_pktlen - l2 : UINT32_MAX;
}

static int check_mtu(const char *device, uint32_t mtu, const struct rte_eth_dev_info *info, struct sp_error *error)
{
	if (mtu > largest_mtu(info)) /* before configuring: ethdev would print, and name no reason */
		return sp_error_set(error, ENOTSUP, "mtu", "port %s: MTU %u is beyond what it can do (at most %u)",
				    device, mtu, largest_mtu(info));
	return 0;
}

static int set_mtu(uint16_t id, const char *device, uint32_t mtu, const struct rte_eth_dev_info *info,
		   struct sp_error *error)
{
	uint16_t has = 0;
	int r;

	r = rte_eth_dev_set_mtu(id, (uint16_t)mtu);
	if (!r)
		return 0;
	/* Drivers without a set_mtu carry what they carry: take it only if that is known to be enough. */
	if (r == -ENOTSUP && !rte_eth_dev_get_mtu(id, &has) &&
	    (mtu <= has || (info->max_rx_pktlen >= mtu + L2_ROOM && info->max_rx_pktlen != 0)))
		return 0;
	return sp_error_set(error, ENOTSUP, "mtu", "port %s: MTU %u refused: %s (it has %u)", device, mtu, strerror(-r),
			    has);
}

static int open_ethdev(struct sp_port *port, const char *device, uint16_t queues, struct sp_error *error)
{
	const uint32_t mtu = port->nic->config.mtu;
	struct rte_eth_conf conf = {0};
	struct rte_eth_dev_info info;
	uint16_t descriptors_rx = DESCRIPTORS, descriptors_tx = DESCRIPTORS;
	int r;

	if (rte_eth_dev_get_port_by_name(device, &port->ethdev))
		return sp_error_set(error, ENODEV, "port",
				    "port %s does not exist (EAL arguments such as --vdev or -a make ports)", device);
	if (sp_registry_port_take(port->ethdev))
		return sp_error_set(error, EBUSY, "port", "port %s is in use by another NIC of this process", device);
	port->taken = true;
	r = rte_eth_dev_info_get(port->ethdev, &info);
	if (r)
		return sp_error_set(error, -r, "port", "port %s: no information: %s", device, strerror(-r));
	if (queues > info.max_rx_queues || queues > info.max_tx_queues)
		return sp_error_set(error, ENOTSUP, "workers",
				    "port %s has %u receive and %u transmit queues, %u workers need as many", device,
				    info.max_rx_queues, info.max_tx_queues, queues);
	if (queues > 1 && info.flow_type_rss_offloads) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
	}
	r = check_mtu(device, mtu, &info, error);
	if (r)
		return r;
	conf.rxmode.mtu = mtu;
	r = rte_eth_dev_configure(port->ethdev, queues, queues, &conf);
	if (r)
		return sp_error_set(error, -r, "port", "port %s: configuring %u queues: %s", device, queues,
				    strerror(-r));
	r = set_mtu(port->ethdev, device, mtu, &info, error);
	if (r)
		return r;
	r = rte_eth_dev_adjust_nb_rx_tx_desc(port->ethdev, &descriptors_rx, &descriptors_tx);
	if (r && r != -ENOTSUP)
		return sp_error_set(error, -r, "port", "port %s: descriptors: %s", device, strerror(-r));
	port->pool = sp_registry_port_pool(port->ethdev, mtu + L2_ROOM,
					   (uint32_t)queues * (descriptors_rx + descriptors_tx));
	if (!port->pool)
		return sp_error_set(error, ENOMEM, "port",
				    "port %s: no memory for packet buffers (EAL's -m is too small)", device);
	for (uint16_t q = 0; q < queues; q++) {
		r = rte_eth_rx_queue_setup(port->ethdev, q, descriptors_rx, SOCKET_ID_ANY, NULL, port->pool);
		if (!r)
			r = rte_eth_tx_queue_setup(port->ethdev, q, descriptors_tx, SOCKET_ID_ANY, NULL);
		if (r)
			return sp_error_set(error, -r, "port", "port %s: queue %u: %s", device, q, strerror(-r));
	}
	r = rte_eth_dev_start(port->ethdev);
	if (r)
		return sp_error_set(error, -r, "port", "port %s does not start: %s", device, strerror(-r));
	port->started = true;
	rte_eth_promiscuous_enable(port->ethdev); /* virtual devices may refuse; they deliver everything anyway */
	return 0;
}

int sp_port_open(struct sp_port *port, const struct sp_port_config *config, struct sp_nic *nic, uint16_t queues,
		 struct sp_error *error)
{
	int r;

	port->nic = nic;
	if (config->ops) {
		port->ops = config->ops;
		port->arg = config->ops_arg;
		return 0;
	}
	if (!config->device)
		return sp_error_set(error, EINVAL, "port", "a port needs a device");
	r = open_ethdev(port, config->device, queues, error);
	if (r)
		sp_port_close(port);
	return r;
}

void sp_port_close(struct sp_port *port)
{
	if (port->started)
		rte_eth_dev_stop(port->ethdev);
	port->started = false;
	if (port->taken)
		sp_registry_port_release(port->ethdev);
	port->taken = false;
}

int sp_port_mac(const struct sp_port *port, uint8_t mac[6])
{
	struct rte_ether_addr a;

	if (port->ops || rte_eth_macaddr_get(port->ethdev, &a) || rte_is_zero_ether_addr(&a))
		return -ENOTSUP;
	memcpy(mac, a.addr_bytes, 6);
	return 0;
}
