/* SPDX-License-Identifier: BSD-3-Clause */
#include "ports.h"

#include <errno.h>
#include <string.h>

#include "../../testbed/interfaces.h"
#include "link.h"

/* The interfaces of a file are the ports: it has at most, or exactly, as many. */
static int check_interfaces(struct replay *r, const char *option, const char *file, bool exactly)
{
	const int64_t n = sp_interfaces_count(file);

	if (n == -EINVAL) {
		replay_complain(r, "%s%s: no regular file, and its interfaces are read beside its packets", option,
				file);
		return -EINVAL;
	}
	if (n < 0) {
		replay_complain(r, "%s%s: %s", option, file, strerror((int)-n));
		return (int)n;
	}
	if (n <= r->ports && (!exactly || n == r->ports))
		return 0;
	replay_complain(r, "%s%s: it has %lld interface%s, and the NIC %u ports%s", option, file, (long long)n,
			replay_s((uint64_t)n), r->ports, exactly ? " (--expect N=FILE is for port N alone)" : "");
	return -EINVAL;
}

static int check_expected(struct replay *r)
{
	for (unsigned i = r->ports; i < SP_MAX_PORTS; i++)
		if (r->expect_port[i]) {
			replay_complain(r, "--expect %u=%s: there is no port %u, the NIC has %u port%s", i,
					r->expect_port[i], i, r->ports, replay_s(r->ports));
			return -EINVAL;
		}
	return r->expect_file && r->ports > 1 ? check_interfaces(r, "--expect ", r->expect_file, true) : 0;
}

/* The configuration may have none of the ports, and so not have looked at this itself. */
static int check_addresses(struct replay *r)
{
	const struct sp_nic_config *nic = r->nic_config;
	unsigned port = nic->gateway6_port;

	for (unsigned i = 0; i < nic->addresses; i++)
		port = nic->address[i].port > port ? nic->address[i].port : port;
	if (r->ports == 1 || port < r->ports)
		return 0;
	replay_complain(r, "%s: there is no port %u, the NIC has %u ports", r->config_file, port, r->ports);
	return -EINVAL;
}

int replay_ports_count(struct replay *r)
{
	const unsigned configured = r->nic_config->ports;
	int err = 0;

	if (r->ports_asked)
		r->ports = r->ports_asked;
	else if (r->captures > 1)
		r->ports = configured ? configured : r->captures;
	else
		r->ports = 1; /* whatever the configuration says: the capture takes the place of all its ports */
	if (r->captures > r->ports) {
		replay_complain(r, "%s: %u captures, and the NIC has %u port%s (--ports N gives it others)",
				r->config_file, r->captures, r->ports, replay_s(r->ports));
		return -EINVAL;
	}
	if (r->captures == 1 && r->ports > 1)
		err = check_interfaces(r, "", r->capture_file[0], false);
	if (!err)
		err = check_addresses(r);
	return err ? err : check_expected(r);
}

/* The ports in the file belong to the real NIC: captures replace them. An exception port takes everything. */
int replay_ports_set(struct replay *r)
{
	struct sp_nic_config *nic = r->nic_config;
	int err = 0;

	memset(nic->port, 0, sizeof(nic->port));
	nic->ports = r->ports;
	for (unsigned i = 0; i < r->ports; i++)
		nic->port[i] = (struct sp_port_config){.ops = &sp_pcap_ops, .ops_arg = &r->port[i]};
	for (unsigned i = 0; r->ports == 1 && i < nic->addresses; i++)
		nic->address[i].port = 0;
	if (r->ports == 1)
		nic->gateway6_port = 0;
	if (nic->exception.device)
		nic->exception = (struct sp_port_config){.ops = &sp_pcap_ops, .ops_arg = &r->sink};
	nic->exception_address = false;
	nic->exception_netns = NULL;
	nic->any_source = true;
	for (unsigned i = 0; r->linked && i < r->ports && !err; i++)
		err = replay_link_open(r, i, nic->workers ? nic->workers : 1, &nic->port[i]);
	return err;
}
