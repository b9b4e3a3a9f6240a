/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK and its drivers; the configuration and its ports. */
#include <dirent.h>
#include <net/if.h>
#include <rte_build_config.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../pipeline/value.h"
#include "../../handlers/spindle-handler.h"
#include "../../pipeline/config/config.h"
#include "../../pipeline/ports/identity.h"
#include "../../pipeline/ports/kernel.h"
#include "../../pipeline/ports/netlink.h"
#include "../../pipeline/ports/vdev.h"
#include "../../pipeline/ports/xdp.h"
#include "finding.h"

#define ROCE_OVERHEAD4 64 /* around a packet's payload, see doctor.c */

/* ---- DPDK --------------------------------------------------------------------------------------- */
/* Network drivers that EAL finds as shared objects: "null pcap tap ...". */
static unsigned drivers(char *names, size_t room)
{
	DIR *dir = opendir(RTE_EAL_PMD_PATH);
	unsigned count = 0;

	*names = 0;
	for (struct dirent *e; dir && (e = readdir(dir));) {
		char name[32];
		int end = 0;
		if (sscanf(e->d_name, "librte_net_%31[a-z0-9_].so%n", name, &end) != 1 || !end || e->d_name[end])
			continue; /* links with a version name the same drivers */
		static const char *const told[] = {"af_packet", "af_xdp", "pcap",  "tap",
						   "null",	"memif",  "vhost", "virtio"};
		count++;
		for (unsigned i = 0; i < RTE_DIM(told); i++)
			if (!strcmp(told[i], name)) {
				size_t used = strlen(names);
				snprintf(names + used, room - used, " %s", name);
			}
	}
	if (dir)
		closedir(dir);
	return count;
}

/* EAL prints its usage to stdout if an argument is wrong; our output may be JSON. */
static int quiet_eal_init(struct doctor *d, struct sp_error *error)
{
	fflush(stdout);
	int out = dup(STDOUT_FILENO);
	if (out >= 0)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	int result = sp_eal_init(d->eal_argc, d->eal_argv, error);
	fflush(stdout);
	if (out >= 0) {
		dup2(out, STDOUT_FILENO);
		close(out);
	}
	return result;
}

/* EAL continues without a device that it could not create. name: the value of --vdev or -a, without its arguments. */
static bool device_made(const char *name, bool vdev)
{
	uint16_t id;

	if (!rte_eth_dev_get_port_by_name(name, &id))
		return true;
	if (vdev)
		return false;
	/* -a 0:0.0 means "no PCI device". The domain is optional; one device may have several ports. */
	if (!strcmp(name, "0:0.0") || !strcmp(name, "00:00.0") || !strcmp(name, "0000:00:00.0"))
		return true;
	if (!strncmp(name, "pci:", 4))
		name += 4;
	RTE_ETH_FOREACH_DEV(id)
	{
		char port[RTE_ETH_NAME_MAX_LEN];
		if (!rte_eth_dev_get_name_by_port(id, port) && strstr(port, name))
			return true;
	}
	return false;
}

static void check_devices(struct doctor *d)
{
	static const char *const options[] = {"--vdev", "--allow", "-a"};

	for (int i = 0; i < d->eal_argc; i++)
		for (unsigned k = 0; k < RTE_DIM(options); k++) {
			size_t len = strlen(options[k]);
			const char *value = d->eal_argv[i] + len;
			char name[RTE_ETH_NAME_MAX_LEN];
			if (strncmp(d->eal_argv[i], options[k], len) || (k < 2 && *value && *value != '='))
				continue;
			if (*value)
				value += *value == '=';
			else if (++i < d->eal_argc)
				value = d->eal_argv[i];
			else
				return;
			snprintf(name, sizeof(name), "%.*s", (int)strcspn(value, ","), value);
			if (!device_made(name, !k))
				doctor_say(d, PROBLEM, "dpdk", "look at DPDK's own messages above",
					   "device %s was not made (DPDK's own message says why)", name);
			break;
		}
}

void doctor_dpdk(struct doctor *d)
{
	const char *probe = "net_null_doctor";
	struct sp_error error = {.key = ""};
	char names[256];

	if (quiet_eal_init(d, &error)) {
		doctor_say(d, PROBLEM, "dpdk",
			   d->eal_argc ? "look at the EAL arguments behind --" : "look at DPDK's own messages above",
			   "%s: %s", rte_version(), error.text);
		return;
	}
	d->eal_runs = true;
	doctor_say(d, FINE, "dpdk", NULL, "%s runs", rte_version());
	check_devices(d);
	unsigned count = drivers(names, sizeof(names));
	/* a driver that can be probed shows that EAL loads drivers from there */
	int result = rte_eal_hotplug_add("vdev", probe, "");
	if (!result)
		rte_eal_hotplug_remove("vdev", probe);
	if (result)
		doctor_say(d, PROBLEM, "drivers", "install Debian's packages libdpdk-dev and librte-meta-net",
			   "%u in %s, but net_null does not start: %s", count, RTE_EAL_PMD_PATH, strerror(-result));
	else
		doctor_say(d, FINE, "drivers", NULL, "%u network drivers, among them:%s", count, names);
}

/* ---- ports -------------------------------------------------------------------------------------- */
static void existing_ports(char *text, size_t room)
{
	uint16_t id;

	snprintf(text, room,
		 "make it with EAL arguments, as in: spindle doctor -c FILE -- --vdev=net_af_packet0,iface=eth1; ports "
		 "now:");
	size_t none = strlen(text);
	RTE_ETH_FOREACH_DEV(id)
	{
		char name[RTE_ETH_NAME_MAX_LEN];
		size_t used = strlen(text);
		if (!rte_eth_dev_get_name_by_port(id, name))
			snprintf(text + used, room - used, " %s", name);
	}
	if (strlen(text) == none)
		snprintf(text + none, room - none, " none");
}

static void port_mtu(struct doctor *d, const char *item, uint16_t id, const struct rte_eth_dev_info *info,
		     uint32_t wanted)
{
	char name[IF_NAMESIZE] = "", advice[128];
	struct sp_kernel_interface kernel;
	uint16_t mtu = 0;

	if (rte_eth_dev_get_mtu(id, &mtu))
		mtu = 0;
	if (info->if_index && if_indextoname(info->if_index, name) && !sp_kernel_interface(name, &kernel))
		mtu = kernel.mtu && kernel.mtu <= UINT16_MAX ? (uint16_t)kernel.mtu : mtu;
	if (info->max_mtu && info->max_mtu < wanted) {
		doctor_say(d, PROBLEM, item, "set a smaller mtu in [nic], or take another port",
			   "mtu = %u, and the port can do %u", wanted, info->max_mtu);
	} else if (mtu < wanted && !strcmp(info->driver_name, "net_tap")) {
		doctor_say(d, FINE, item, NULL, "the NIC will set its MTU from %u to %u", mtu, wanted);
	} else if (*name && mtu < wanted) {
		snprintf(advice, sizeof(advice), "sudo ip link set dev %s mtu %u, or set a smaller mtu in [nic]", name,
			 wanted);
		doctor_say(d, PROBLEM, item, advice, "mtu = %u, and its interface %s has %u", wanted, name, mtu);
	} else if (mtu && mtu < wanted) {
		doctor_say(d, ATTENTION, item, "nothing, unless the NIC says that the port refuses it",
			   "mtu = %u, the port stands at %u and would be asked for more", wanted, mtu);
	} else {
		doctor_say(d, FINE, item, NULL, "MTU %u carries mtu = %u", mtu ? mtu : info->max_mtu, wanted);
	}
}

static void offload_names(uint64_t set, const char *(*name)(uint64_t), char *text, size_t room)
{
	*text = 0;
	for (; set; set &= set - 1) {
		size_t used = strlen(text);
		snprintf(text + used, room - used, "%s%s", used ? " " : "", name(set & -set));
	}
	if (!*text)
		snprintf(text, room, "none");
}

/* A port that the NIC itself would create. */
static void check_vdev(struct doctor *d, const char *item, const struct sp_vdev_spec *spec, unsigned workers,
		       uint32_t mtu)
{
	const struct sp_vdev_wants wants = {.mtu = mtu, .queues = (uint16_t)workers};
	struct sp_error error;
	char args[3 * SP_VDEV_TARGET];

	if (sp_vdev_check(spec, &wants, &error))
		doctor_say(d, PROBLEM, item, "as it says; spindle-nic.ini(5) has the kinds of ports", "%s", error.text);
	else if (!sp_vdev_arguments(spec, &wants, args, sizeof(args)))
		doctor_say(d, FINE, item, NULL, "can be made%s%s", *args ? ": " : "", args);
}

static void check_port(struct doctor *d, const char *device, unsigned workers, uint32_t mtu)
{
	struct rte_eth_dev_info info;
	struct sp_vdev_spec spec;
	struct sp_error error;
	char item[96], text[400];
	uint16_t id;

	snprintf(item, sizeof(item), "port %s", device);
	if (!sp_vdev_parse(device, &spec, &error) && spec.kind != SP_VDEV_NONE) {
		check_vdev(d, item, &spec, workers, mtu);
		return;
	}
	if (!d->eal_runs) {
		doctor_say(d, ATTENTION, item, "mend DPDK first", "not looked at");
		return;
	}
	if (rte_eth_dev_get_port_by_name(device, &id) || rte_eth_dev_info_get(id, &info)) {
		existing_ports(text, sizeof(text));
		doctor_say(d, PROBLEM, item, text, "there is no such port");
		return;
	}
	unsigned queues = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	if (queues < workers)
		doctor_say(d, PROBLEM, item,
			   "fewer workers in [nic], or more queues (for a vdev: an EAL argument such as qpairs=N)",
			   "driver %s, %u queues, workers = %u", info.driver_name, queues, workers);
	else
		doctor_say(d, FINE, item, NULL, "driver %s, %u receive and %u transmit queues", info.driver_name,
			   info.max_rx_queues, info.max_tx_queues);
	if (workers > 1 && !info.flow_type_rss_offloads)
		doctor_say(d, ATTENTION, item, "one worker, or a port with RSS",
			   "no RSS: how packets spread over the workers is up to the driver");
	port_mtu(d, item, id, &info, mtu);
	offload_names(info.rx_offload_capa, rte_eth_dev_rx_offload_name, text, sizeof(text));
	doctor_say(d, FINE, item, NULL, "receive offloads: %s", text);
	offload_names(info.tx_offload_capa, rte_eth_dev_tx_offload_name, text, sizeof(text));
	doctor_say(d, FINE, item, NULL, "transmit offloads: %s", text);
}

/* ---- configuration ------------------------------------------------------------------------------ */
static void check_addresses(struct doctor *d, const struct sp_nic_config *nic)
{
	struct sp_vdev_spec exception = {0};
	const char *behind = NULL; /* the kernel behind the exception port may have the NIC's addresses */

	if (nic->exception.device && !sp_vdev_parse(nic->exception.device, &exception, NULL))
		behind = sp_vdev_interface(&exception);
	for (unsigned i = 0; i < nic->addresses; i++) {
		char text[46], interface[IF_NAMESIZE];
		sp_format_ip(nic->address[i].ip, text);
		if (sp_kernel_owns(nic->address[i].ip, behind, interface))
			doctor_say(d, PROBLEM, "address",
				   "give the NIC an address of its own: the kernel would answer its peers with ICMP "
				   "unreachable",
				   "%s is also the kernel's, on %s", text, interface);
		else
			doctor_say(d, FINE, "address", NULL, "%s is not one of the kernel's", text);
	}
	if (!nic->addresses)
		doctor_say(d, ATTENTION, "address", "add ip = ADDRESS to [nic]",
			   "the NIC has none: no RoCE packet is for it");
}

/* The kernel behind the exception port is to have the NIC's addresses: it must not see what the ports receive. */
static void check_identity(struct doctor *d, const struct sp_nic_config *nic)
{
	struct sp_vdev_spec spec;
	struct sp_kernel_interface interface;
	char recipe[SP_IDENTITY_RECIPE];

	for (unsigned i = 0; nic->exception_address && !nic->exception_netns && i < nic->ports; i++) {
		const char *name = sp_vdev_parse(nic->port[i].device, &spec, NULL) ? NULL : sp_vdev_interface(&spec);

		if (!name || spec.kind == SP_VDEV_TAP || sp_kernel_interface(name, &interface))
			continue;
		if (sp_netlink_drops_ingress(interface.index) > 0 ||
		    (spec.kind == SP_VDEV_AF_XDP && sp_xdp_takes_all(&spec)))
			doctor_say(d, FINE, "exception-address", NULL, "the kernel does not see what %s receives",
				   name);
		else
			doctor_say(d, PROBLEM, "exception-address", sp_identity_recipe(name, recipe, sizeof(recipe)),
				   "the kernel would answer for the NIC's addresses by %s, too", name);
	}
}

static void check_context(struct doctor *d, const struct sp_config *config, const struct sp_config_section *section,
			  uint32_t mtu)
{
	char item[64];
	const char *handler = NULL;
	uint64_t path_mtu;

	snprintf(item, sizeof(item), "context %s", section->name);
	for (size_t k = 0; k < section->keys; k++) {
		const struct sp_config_key *key = &section->key[k];
		if (!strcmp(key->name, "handler"))
			handler = key->value;
		if (!strcmp(key->name, "mtu") && !sp_parse_uint(key->value, &path_mtu) &&
		    path_mtu + ROCE_OVERHEAD4 > mtu)
			doctor_say(d, PROBLEM, item, "a smaller mtu here, or a larger one in [nic]",
				   "%s:%u: mtu = %s needs %llu bytes of the port's MTU (IPv6: 20 more), which is %u",
				   config->file, key->line, key->value, (unsigned long long)path_mtu + ROCE_OVERHEAD4,
				   mtu);
	}
	if (!handler)
		doctor_say(d, PROBLEM, item, "add handler = NAME", "%s:%u: no handler", config->file, section->line);
	else if (!sp_handler_find(handler))
		doctor_say(d, PROBLEM, item, "spindle handler list", "%s:%u: there is no handler %s", config->file,
			   section->line, handler);
	else
		doctor_say(d, FINE, item, NULL, "handler %s", handler);
}

void doctor_config(struct doctor *d)
{
	struct sp_nic_config nic = {0};
	struct sp_config *config = NULL;
	struct sp_error error = {.key = ""};

	if (!d->config_file)
		return;
	int result = sp_config_read(d->config_file, &config, &error);
	if (!result)
		result = sp_config_nic(config, &nic, &error);
	if (!result)
		result = sp_config_plugins(config, &error);
	if (result) {
		doctor_say(d, PROBLEM, "configuration",
			   !strcmp(error.key, "plugin") ? "is it there, and built for this version?"
			   : result == -EINVAL		? "correct that line"
							: "is that the right file?",
			   "%s", error.text);
		sp_config_free(config);
		return;
	}
	uint32_t mtu = nic.mtu ? nic.mtu : 1500;
	doctor_say(d, FINE, "configuration", NULL, "%s: %zu section%s", config->file, config->sections,
		   config->sections == 1 ? "" : "s");
	check_addresses(d, &nic);
	check_identity(d, &nic);
	for (unsigned i = 0; i < nic.ports; i++)
		check_port(d, nic.port[i].device, nic.workers ? nic.workers : 1, mtu);
	if (nic.exception.device)
		check_port(d, nic.exception.device, nic.workers ? nic.workers : 1, mtu);
	if (!nic.ports)
		doctor_say(d, ATTENTION, "port", "add port = DEVICE to [nic], unless it is for replay only",
			   "the NIC has none");
	for (size_t i = 0; i < config->sections; i++)
		if (!strcmp(config->section[i].kind, "context"))
			check_context(d, config, &config->section[i], mtu);
	sp_config_free(config);
}
