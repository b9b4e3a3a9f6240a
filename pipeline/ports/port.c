/* SPDX-License-Identifier: BSD-3-Clause */
#include "../value.h"
#include "port.h"
#include "../nic.h"
#include "../engine.h"
#include "../error.h"
#include "kernel.h"
#include "../process.h"
#include "wake.h"
#include "xdp.h"

#include <linux/capability.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <rte_bus.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_errno.h>

#define DESCRIPTORS	  1024
#define JUMBO_DESCRIPTORS (DESCRIPTORS / 4) /* the same bytes in jumbo frames as 1024 buffers of 2048 */
#define KEPT		  32 /* buffers that its peer has read and virtio-user still has, at most; then it takes them back */

/* Facts about the driver that ethdev does not report. [control] */
struct sp_port_below {
	enum { HIDDEN, NOTHING /* no kernel below */, SOCKETS, MISSED, TAP } drops;
	bool external, mapped, shared, tap;
	bool xdp, takes_all; /* net_af_xdp; ... and the kernel gets nothing of what the interface receives */
	struct sp_xdp_sockets xdp_sockets;
	int promiscuous;    /* a socket that keeps the interface so, or -1 */
	unsigned interface; /* kernel's ifindex; 0: none */
	uint32_t mtu;	    /* of the interface, at opening */
	uint32_t framesz;   /* net_af_packet's ring slot */
	unsigned sockets;
	int fd[SP_KERNEL_SOCKETS]; /* the driver closes them when the port stops */
	_Atomic uint64_t dropped;
};

/* ---- the driver ---- */

static bool is(const struct rte_eth_dev_info *info, const char *driver)
{
	return info->driver_name && !strcmp(info->driver_name, driver);
}

static const char *driver_args(const struct rte_eth_dev_info *info)
{
	const struct rte_devargs *a = info->device ? rte_dev_devargs(info->device) : NULL;

	return a ? a->args : NULL;
}

static bool on_pci(const struct rte_eth_dev_info *info)
{
	const struct rte_bus *bus = rte_bus_find_by_name("pci");

	return bus && info->device && rte_dev_bus(info->device) == bus;
}

static struct sp_port_below *below_new(const struct rte_eth_dev_info *info)
{
	struct sp_port_below *b = calloc(1, sizeof(*b));
	struct sp_kernel_interface i;
	char name[IF_NAMESIZE];
	const bool packet = is(info, "net_af_packet"), pcap = is(info, "net_pcap");
	const char *args = driver_args(info);

	if (!b)
		return NULL;
	/* net_pcap does not report its ifindex */
	if ((info->if_index ? if_indextoname(info->if_index, name) != NULL
			    : pcap && sp_vdev_pcap_interface(driver_args(info), name, sizeof(name))) &&
	    !sp_kernel_interface(name, &i)) {
		b->interface = i.index;
		b->mtu = i.mtu;
	}
	b->tap = is(info, "net_tap");
	b->xdp = is(info, "net_af_xdp");
	b->promiscuous = -1;
	b->shared = b->interface && (packet || pcap || b->tap || b->xdp);
	/* Zero copy needs a driver that is done with external memory before it frees the mbuf. af_packet, pcap and null
	 * are. virtio-user's peer maps EAL's memory only; the peer of a ring or a vhost port may hold packets for any
	 * time. A PCI device reads memory that is mapped for it (sp_port_map), by virtual address. */
	b->mapped = on_pci(info) && rte_eal_iova_mode() == RTE_IOVA_VA &&
		    info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	/* With copy=1, null copies its configured packet size from the first segment, even if that is shorter. */
	b->external = packet || pcap || (is(info, "net_null") && !(args && strstr(args, "copy=1"))) || b->mapped;
	if (packet) {
		b->framesz = sp_vdev_framesz(driver_args(info));
		b->sockets = sp_kernel_sockets(info->if_index, b->fd);
		b->drops = b->sockets ? SOCKETS : HIDDEN;
	} else if (pcap) {
		b->drops = b->interface ? MISSED : NOTHING;
	} else if (b->xdp) {
		b->drops = MISSED;
	} else if (is(info, "net_null") || is(info, "net_ring")) {
		b->drops = NOTHING;
	} else if (b->tap && b->interface) {
		b->drops = TAP;
	}
	return b;
}

/* ---- sizes ---- */

/* The device's largest MTU. Where drivers name none, ethdev's limit includes header and FCS. */
static uint32_t largest_mtu(const struct rte_eth_dev_info *info)
{
	const uint32_t l2 = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

	if (info->max_mtu && info->max_mtu != UINT16_MAX)
		return info->max_mtu;
	return info->max_rx_pktlen > l2 ? info->max_rx_pktlen - l2 : UINT32_MAX;
}

static int check_sizes(const struct sp_port *port, const char *device, uint16_t queues,
		       const struct rte_eth_dev_info *info, struct sp_error *error)
{
	const uint32_t mtu = port->nic->config.mtu, needed = sp_vdev_framesz_needed(mtu);

	if (queues > info->max_rx_queues || queues > info->max_tx_queues)
		return sp_error_set(error, ENOTSUP, "workers",
				    "port %s has %u receive and %u transmit queues, %u workers need as many", device,
				    info->max_rx_queues, info->max_tx_queues, queues);
	/* Check before configuring: ethdev would print and give no reason. net_af_packet reports 1500, but carries as
	 * much as its ring's slots hold. */
	if (!port->below->framesz && mtu > largest_mtu(info))
		return sp_error_set(error, ENOTSUP, "mtu", "port %s: MTU %u is beyond what it can do (at most %u)",
				    device, mtu, largest_mtu(info));
	if (!port->below->framesz)
		return 0;
	if (port->below->framesz < needed)
		return sp_error_set(
			error, ENOTSUP, "mtu",
			"port %s: its framesz=%u is too small for an MTU of %u: %u bytes are needed (a power "
			"of two, that divides blocksz)",
			device, port->below->framesz, mtu, needed);
	/* The kernel spreads packets over all sockets, even those that no queue polls. */
	if (queues < info->max_rx_queues)
		return sp_error_set(error, ENOTSUP, "workers",
				    "port %s has %u queue pairs for %u workers: packets on the others would be lost "
				    "(qpairs=%u)",
				    device, info->max_rx_queues, queues, queues);
	return 0;
}

static int set_mtu(const struct sp_port *port, const char *device, const struct rte_eth_dev_info *info,
		   struct sp_error *error)
{
	const uint32_t mtu = port->nic->config.mtu;
	const struct sp_port_below *b = port->below;
	uint16_t has = 0;
	char name[IF_NAMESIZE];
	int r;

	/* A larger MTU of the kernel's interface is harmless, and changing it needs a capability. The kernel behind a
	 * TAP must know the MTU. */
	if (b->interface && b->mtu >= mtu && !b->tap)
		return 0;
	/* ethdev refuses more than net_af_packet reports, so set the interface's MTU as the driver would. */
	if (b->framesz && if_indextoname(b->interface, name))
		r = sp_kernel_set_mtu(name, mtu);
	else
		r = rte_eth_dev_set_mtu(port->ethdev, (uint16_t)mtu);
	if (!r)
		return 0;
	if (b->interface && b->mtu < mtu && if_indextoname(b->interface, name))
		return sp_error_set(error, ENOTSUP, "mtu",
				    "port %s: its interface has an MTU of %u, not %u: sudo ip link set dev %s mtu %u",
				    device, b->mtu, mtu, name, mtu);
	/* A driver without set_mtu has a fixed limit: accept it only if it is known to be enough. */
	if (r == -ENOTSUP && !rte_eth_dev_get_mtu(port->ethdev, &has) &&
	    (mtu <= has || (info->max_rx_pktlen >= SP_PORT_FRAME(mtu) && info->max_rx_pktlen != 0)))
		return 0;
	return sp_error_set(error, ENOTSUP, "mtu", "port %s: MTU %u refused: %s (it has %u)", device, mtu, strerror(-r),
			    has);
}

/* ---- opening ---- */

static int find_ethdev(struct sp_port *port, const char *device, struct sp_error *error)
{
	char **argv;
	int argc, r;

	if (!rte_eth_dev_get_port_by_name(device, &port->ethdev))
		return 0;
	argc = sp_process_arguments(&argv);
	r = sp_vdev_explain(device, argc, argv, error);
	return r ? r
		 : sp_error_set(error, ENODEV, "port",
				"port %s does not exist (port = KIND:TARGET makes one, or EAL arguments such as --vdev "
				"or -a)",
				device);
}

/* virtio-user takes back what its peer has read only when it needs room, unless it is told to begin before. The next
 * packets go into what was taken back last: into a few buffers, which stay in a cache, instead of into as many as there
 * are descriptors, one after the other. */
static int setup_transmit(struct sp_port *port, uint16_t queue, uint16_t descriptors,
			  const struct rte_eth_dev_info *info)
{
	const uint32_t ring = sp_vdev_queue_size(driver_args(info));
	struct rte_eth_txconf conf = info->default_txconf;
	const bool early = is(info, "net_virtio_user") && ring >= 4 * KEPT && ring <= UINT16_MAX;

	if (early)
		conf.tx_free_thresh = (uint16_t)(ring - KEPT);
	return rte_eth_tx_queue_setup(port->ethdev, queue, descriptors, SOCKET_ID_ANY, early ? &conf : NULL);
}

static int setup_queues(struct sp_port *port, const char *device, uint16_t queues, const struct rte_eth_dev_info *info,
			struct sp_error *error)
{
	/* virtio puts its own header into the buffer. */
	uint32_t room = SP_PORT_FRAME(port->nic->config.mtu) + sizeof(struct virtio_net_hdr_mrg_rxbuf);
	uint16_t descriptors_rx, descriptors_tx;
	uint32_t least = 0;
	char name[IF_NAMESIZE], peer[IF_NAMESIZE], hint[96] = "";
	bool abroad;
	int r;

	/* The kernel takes no program then, and libxdp says no more than that. */
	if (port->below->xdp && if_indextoname(port->below->interface, name) && sp_kernel_veth(name, peer, &abroad))
		snprintf(hint, sizeof(hint), " (is the MTU at the other end of this veth larger than %u?)",
			 sp_xdp_largest_mtu());
	else if (port->below->xdp)
		snprintf(hint, sizeof(hint), " (has its driver no XDP? xdp_prog does without, af_packet: too)");
	if (port->below->framesz) /* net_af_packet needs room for a full ring slot */
		room = RTE_MAX(room, port->below->framesz - (uint32_t)(TPACKET2_HDRLEN - sizeof(struct sockaddr_ll)));
	if (port->below->xdp)
		room += SP_XDP_HEADROOM;
	if (room > UINT16_MAX - RTE_PKTMBUF_HEADROOM)
		return sp_error_set(error, ENOTSUP, "port", "port %s: frames of %u bytes are too large", device, room);
	descriptors_rx = descriptors_tx = room > SP_JUMBO_ROOM ? JUMBO_DESCRIPTORS : DESCRIPTORS;
	if (port->below->xdp) {
		descriptors_rx = descriptors_tx = SP_XDP_DESCRIPTORS;
		least = 2u * SP_XDP_DESCRIPTORS * queues; /* what the kernel has at the end is lost */
	}
	r = rte_eth_dev_adjust_nb_rx_tx_desc(port->ethdev, &descriptors_rx, &descriptors_tx);
	if (r && r != -ENOTSUP)
		return sp_error_set(error, -r, "port", "port %s: descriptors: %s", device, strerror(-r));
	port->pool = sp_process_port_pool(port->ethdev, room,
					  (uint32_t)queues * (descriptors_rx + descriptors_tx + SP_BACKLOG), least);
	if (!port->pool)
		return sp_error_set(error, ENOMEM, "port",
				    "port %s: no memory for %u byte packet buffers of %u queues (give EAL more with "
				    "-m, or take fewer workers or a smaller mtu)",
				    device, room, queues);
	for (uint16_t q = 0; q < queues; q++) {
		r = rte_eth_rx_queue_setup(port->ethdev, q, descriptors_rx, SOCKET_ID_ANY, NULL, port->pool);
		if (!r)
			r = setup_transmit(port, q, descriptors_tx, info);
		if (r)
			return sp_error_set(error, -r, "port", "port %s: queue %u: %s%s", device, q, strerror(-r),
					    hint);
	}
	return 0;
}

/* The driver's sockets, one for each queue; NULL: it has none. */
static const int *sockets_of(const struct sp_port *port, uint16_t queues, int socket[SP_MAX_WORKERS])
{
	const struct sp_port_below *b = port->below;

	if (b->sockets == queues)
		return b->fd;
	if (b->xdp_sockets.count != queues)
		return NULL;
	for (uint16_t q = 0; q < queues; q++)
		socket[q] = b->xdp_sockets.of[q].fd;
	return socket;
}

static int start(struct sp_port *port, const char *device, uint16_t queues, struct sp_error *error)
{
	struct rte_eth_conf conf = {0};
	struct rte_eth_dev_info info;
	int socket[SP_MAX_WORKERS];
	int r;

	r = rte_eth_dev_info_get(port->ethdev, &info);
	if (r)
		return sp_error_set(error, -r, "port", "port %s: no information: %s", device, strerror(-r));
	port->below = below_new(&info);
	if (!port->below)
		return sp_error_set(error, ENOMEM, "port", "no memory for a port");
	r = check_sizes(port, device, queues, &info, error);
	if (r)
		return r;
	if (queues > 1 && info.flow_type_rss_offloads) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
	}
	conf.rxmode.mtu = RTE_MIN(port->nic->config.mtu, largest_mtu(&info));
	if (port->below->external) /* headers, payload, ICRC */
		conf.txmode.offloads |= info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	port->wake = sp_port_wake_create(port->ethdev, &info, queues, &conf);
	if (!port->wake)
		return sp_error_set(error, ENOMEM, "port", "no memory for a port");
	r = rte_eth_dev_configure(port->ethdev, queues, queues, &conf);
	if (r)
		return sp_error_set(error, -r, "port", "port %s: configuring %u queues: %s", device, queues,
				    strerror(-r));
	r = set_mtu(port, device, &info, error);
	if (port->below->xdp)
		sp_xdp_begin();
	if (!r)
		r = setup_queues(port, device, queues, &info, error);
	if (port->below->xdp)
		sp_xdp_end(&port->below->xdp_sockets);
	if (r)
		return r;
	r = rte_eth_dev_start(port->ethdev);
	if (r)
		return sp_error_set(error, -r, "port", "port %s does not start: %s", device, strerror(-r));
	port->started = true;
	sp_port_wake_started(port->wake, sockets_of(port, queues, socket));
	/* A packet socket's promiscuous mode needs no extra capability, and leaves the interface unchanged. Virtual
	 * devices may refuse; they deliver every frame anyway. */
	for (unsigned i = 0; i < port->below->sockets; i++)
		sp_kernel_socket_promiscuous(port->below->fd[i], port->below->interface);
	if (port->below->xdp)
		port->below->promiscuous = sp_kernel_promiscuous(port->below->interface);
	else if (!port->below->sockets)
		rte_eth_promiscuous_enable(port->ethdev);
	return 0;
}

static int open_ethdev(struct sp_port *port, const char *text, uint16_t queues, struct sp_error *error)
{
	/* Peers know the kernel behind a TAP exception port by the NIC's MAC address. */
	const struct sp_vdev_wants wants = {
		.mtu = port->nic->config.mtu,
		.queues = queues,
		.mac = port == port->nic->exception ? port->nic->port[0].mac : NULL,
	};
	struct sp_vdev_spec spec;
	const char *device = text;
	char said[128];
	int r;

	r = sp_vdev_parse(text, &spec, error);
	if (r)
		return r;
	if (spec.kind != SP_VDEV_NONE) {
		r = sp_vdev_make(&spec, &wants, error, &port->vdev);
		if (r)
			return r;
		device = sp_vdev_name(port->vdev);
	}
	r = find_ethdev(port, device, error);
	if (r)
		return r;
	if (sp_process_port_take(port->ethdev))
		return sp_error_set(error, EBUSY, "port", "port %s is in use by another NIC of this process", text);
	port->taken = true;
	sp_process_log_hold();
	sp_process_log_peers(true);
	r = start(port, text, queues, error);
	if (!r && spec.kind == SP_VDEV_AF_XDP)
		port->below->takes_all = sp_xdp_takes_all(&spec);
	sp_process_log_peers(false);
	sp_process_log_release(said, sizeof(said));
	if (r && error && *said && strlen(error->text) + strlen(said) + 20 < sizeof(error->text))
		snprintf(error->text + strlen(error->text), sizeof(error->text) - strlen(error->text),
			 "; DPDK says: %s", said);
	return r;
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

/* ---- closing ---- */

/* virtio-user may write to a dead peer, which raises SIGPIPE in this thread: block and consume it. */
static void without_sigpipe(void (*fn)(struct sp_port *), struct sp_port *port)
{
	const struct timespec none = {0};
	sigset_t pipe, before, pending;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe, &before);
	fn(port);
	if (!sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe, NULL, &none) == SIGPIPE)
			;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void halt(struct sp_port *port)
{
	sp_process_log_hold();
	if (port->started)
		rte_eth_dev_stop(port->ethdev);
	port->started = false;
	sp_process_log_release(NULL, 0);
}

static void take_down(struct sp_port *port)
{
	struct sp_port_below *b = port->below;

	halt(port);
	sp_process_log_hold();
	if (b && b->sockets && port->vdev) {
		/* The driver closes its sockets in stop(), which ethdev calls only for a started port. */
		b->sockets = sp_kernel_sockets(b->interface, b->fd);
		for (unsigned i = 0; i < b->sockets; i++)
			close(b->fd[i]);
	}
	if (b && b->promiscuous >= 0)
		close(b->promiscuous);
	sp_vdev_remove(port->vdev);
	if (b && port->vdev)
		sp_xdp_close(&b->xdp_sockets);
	sp_process_log_release(NULL, 0);
}

void sp_port_stop(struct sp_port *port)
{
	if (!port->ops)
		without_sigpipe(halt, port);
}

void sp_port_close(struct sp_port *port)
{
	if (port->ops)
		return;
	sp_port_wake_destroy(port->wake);
	port->wake = NULL;
	without_sigpipe(take_down, port);
	port->vdev = NULL;
	free(port->below);
	port->below = NULL;
	if (port->taken)
		sp_process_port_release(port->ethdev);
	port->taken = false;
}

/* ---- port properties ---- */

int sp_port_mac(const struct sp_port *port, uint8_t mac[6])
{
	struct rte_ether_addr a;

	/* a TAP's MAC belongs to the kernel at the other end */
	if (port->ops || port->below->tap || rte_eth_macaddr_get(port->ethdev, &a) || rte_is_zero_ether_addr(&a))
		return -ENOTSUP;
	memcpy(mac, a.addr_bytes, 6);
	return 0;
}

bool sp_port_external(const struct sp_port *port)
{
	return port->ops ? port->ops->external : port->below && port->below->external;
}

bool sp_port_kernel_drops(const struct sp_port *port, uint64_t *drops)
{
	struct sp_port_below *b = port->below;
	struct rte_eth_stats s;

	*drops = 0;
	switch (b ? b->drops : HIDDEN) {
	case NOTHING:
		return true;
	case SOCKETS: /* reading empties the kernel's counter */
		for (unsigned i = 0; i < b->sockets && port->started; i++)
			b->dropped += sp_kernel_socket_drops(b->fd[i]);
		*drops = b->dropped;
		return true;
	case MISSED:
		if (rte_eth_stats_get(port->ethdev, &s))
			return false;
		*drops = s.imissed;
		return true;
	case TAP:
		return !sp_kernel_tap_drops(b->interface, drops);
	default:
		return false;
	}
}

bool sp_port_reads_memory(const struct sp_port *port)
{
	return port->below && port->below->mapped;
}

/* ---- the kernel ---- */

struct sp_port_kernel sp_port_kernel(const struct sp_port *port)
{
	const struct sp_port_below *b = port->below;

	return b ? (struct sp_port_kernel){b->interface, b->shared, b->tap, b->takes_all} : (struct sp_port_kernel){0};
}

int sp_port_set_mac(const struct sp_port *port, const uint8_t mac[6])
{
	struct rte_ether_addr address;

	if (port->ops)
		return -ENOTSUP;
	memcpy(address.addr_bytes, mac, 6);
	return rte_eth_dev_default_mac_addr_set(port->ethdev, &address);
}

void sp_port_set_abroad(struct sp_port *port)
{
	if (!port->below)
		return;
	port->below->interface = 0;
	port->below->drops = HIDDEN;
}
