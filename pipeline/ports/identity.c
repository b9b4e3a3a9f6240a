/* SPDX-License-Identifier: BSD-3-Clause */
#include "identity.h"
#include "../engine.h"
#include "../error.h"
#include "../value.h"
#include "kernel.h"
#include "netlink.h"
#include "port.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- who would answer ---- */

const char *sp_identity_recipe(const char *interface, char *text, size_t room)
{
	snprintf(text, room,
		 "sudo tc qdisc add dev %.15s clsact; sudo tc filter add dev %.15s ingress matchall action drop",
		 interface, interface);
	return text;
}

/* The kernel's interface at the exception port, in the process's own namespace; NULL: none there. */
static const char *behind(const struct sp_nic *nic, char name[IF_NAMESIZE])
{
	const struct sp_port_kernel k = sp_port_kernel(nic->exception);

	return nic->has_exception && k.interface ? if_indextoname(k.interface, name) : NULL;
}

/* The kernel owns an address of the NIC on an interface other than this one. */
static int check_owners(const struct sp_nic *nic, const char *except, struct sp_error *error)
{
	char owner[IF_NAMESIZE], ip[46];

	for (unsigned i = 0; i < nic->config.addresses; i++)
		if (sp_kernel_owns(nic->config.address[i].ip, except, owner)) {
			sp_format_ip(nic->config.address[i].ip, ip);
			return sp_error_set(error, EADDRINUSE, "ip",
					    "address %s is the kernel's too, on %s: it would answer the NIC's peers "
					    "with ICMP unreachable (sudo ip addr del %s/%u dev %s, or another address)",
					    ip, owner, ip, nic->config.address[i].prefix, owner);
		}
	return 0;
}

/* The kernel behind the exception port has the NIC's addresses: it must not see the port's frames before the NIC has
 * passed them on. */
static int check_port(const struct sp_port *port, const char *tap, struct sp_error *error)
{
	const struct sp_port_kernel k = sp_port_kernel(port);
	char name[IF_NAMESIZE], recipe[SP_IDENTITY_RECIPE];

	if (!k.shared || k.hidden || !if_indextoname(k.interface, name))
		return 0;
	if (k.tap)
		return sp_error_set(error, EADDRINUSE, "exception-address",
				    "port tap:%s: this kernel is the NIC's peer there, and cannot have the NIC's "
				    "addresses on %s as well",
				    name, tap);
	if (sp_netlink_drops_ingress(k.interface) > 0)
		return 0;
	return sp_error_set(error, EADDRINUSE, "exception-address",
			    "with the NIC's address on %s the kernel would answer what comes by %s, too: %s (or "
			    "exception-netns: see spindle-nic.ini(5))",
			    tap, name, sp_identity_recipe(name, recipe, sizeof(recipe)));
}

static int check(const struct sp_nic *nic, struct sp_error *error)
{
	char name[IF_NAMESIZE];
	const char *tap = nic->config.exception_netns ? NULL : behind(nic, name);
	bool shared = false, has = tap && nic->config.exception_address;
	int r;

	for (unsigned i = 0; i < nic->ports; i++)
		shared |= sp_port_kernel(&nic->port[i]).shared;
	if (!shared)
		return 0;
	r = check_owners(nic, tap, error);
	/* one that stays has kept its address */
	for (unsigned i = 0; tap && i < nic->config.addresses; i++)
		has |= sp_kernel_has(nic->config.address[i].ip, tap);
	for (unsigned i = 0; !r && has && i < nic->ports; i++)
		r = check_port(&nic->port[i], tap, error);
	return r;
}

/* ---- the exception port ---- */

static int open_port(struct sp_nic *nic, struct sp_error *error)
{
	const int r = sp_port_open(nic->exception, &nic->config.exception, nic, nic->workers, error);

	nic->has_exception = !r;
	nic->exception_most = nic->exception->ops ? UINT32_MAX : SP_PORT_FRAME(nic->config.mtu);
	if (!r && nic->config.exception_address && !sp_port_kernel(nic->exception).tap)
		return sp_error_set(error, ENOTSUP, "exception-address",
				    "exception-address = yes needs exception = tap:NAME, not %s",
				    nic->config.exception.device ? nic->config.exception.device : "a link");
	return r;
}

/* Those of port 0, by which the exception port's packets leave. */
static int give_addresses(struct sp_nic *nic, struct sp_error *error)
{
	char name[IF_NAMESIZE], ip[46];
	const char *tap = behind(nic, name);
	int r;

	if (!tap)
		return sp_error_set(error, ENODEV, "exception-address", "the exception port's interface is gone");
	r = check_owners(nic, tap, error); /* in that namespace */
	if (r)
		return r;
	r = sp_port_set_mac(nic->exception, nic->port[0].mac);
	if (r)
		return sp_error_set(error, -r, "exception-address", "%s does not take the NIC's MAC address: %s", tap,
				    strerror(-r));
	for (unsigned i = 0; i < nic->config.addresses; i++) {
		const struct sp_address *a = &nic->config.address[i];

		if (a->port)
			continue;
		r = sp_netlink_add_address(sp_port_kernel(nic->exception).interface, a->ip, a->prefix);
		sp_format_ip(a->ip, ip);
		if (r)
			return sp_error_set(error, -r, "exception-address", "%s does not get the address %s: %s%s", tap,
					    ip, strerror(-r), r == -EACCES ? " (is IPv6 off there?)" : "");
	}
	return 0;
}

/* All that looks at the exception port's interface happens where that is. */
static int there(struct sp_nic *nic, int (*call)(struct sp_nic *, struct sp_error *), struct sp_error *error)
{
	const char *netns = nic->config.exception_netns;
	int back, r, stuck;

	if (!netns)
		return call(nic, error);
	r = sp_kernel_enter(netns, &back);
	if (r)
		return sp_error_set(error, -r, "exception-netns", "network namespace %.100s: %s", netns,
				    r == -EEXIST  ? "it is the NIC's own"
				    : r == -EPERM ? "to make a TAP there needs CAP_SYS_ADMIN: run as root"
						  : strerror(-r));
	r = call(nic, error);
	stuck = sp_kernel_leave(back);
	if (stuck)
		return sp_error_set(error, -stuck, "exception-netns", "the way back from %.100s: %s", netns,
				    strerror(-stuck));
	return r;
}

static int check_words(const struct sp_nic_config *c, struct sp_error *error)
{
	struct sp_vdev_spec spec = {0};
	const char *key = c->exception_netns ? "exception-netns" : "exception-address";

	if (!c->exception_netns && !c->exception_address)
		return 0;
	if (!c->exception.device && !c->exception.ops)
		return sp_error_set(error, EINVAL, key, "%s needs exception = tap:NAME: there is no exception port",
				    key);
	/* EAL has made its own devices before. */
	if (c->exception_netns &&
	    (!c->exception.device || sp_vdev_parse(c->exception.device, &spec, NULL) || spec.kind != SP_VDEV_TAP))
		return sp_error_set(error, ENOTSUP, key, "exception-netns needs exception = tap:NAME, not %s",
				    c->exception.device ? c->exception.device : "a link");
	if (c->exception_address && c->vlan)
		return sp_error_set(error, ENOTSUP, key,
				    "exception-address with vlan = %u: the address belongs on a VLAN interface of the "
				    "TAP (ip link add link TAP name TAP.%u type vlan id %u)",
				    c->vlan, c->vlan, c->vlan);
	return 0;
}

int sp_identity_open(struct sp_nic *nic, struct sp_error *error)
{
	const struct sp_nic_config *c = &nic->config;
	int r = check_words(c, error);

	if (!r && (c->exception.device || c->exception.ops))
		r = there(nic, open_port, error);
	if (!r)
		r = check(nic, error);
	if (!r && c->exception_address)
		r = there(nic, give_addresses, error);
	if (nic->has_exception && c->exception_netns)
		sp_port_set_abroad(nic->exception);
	nic->config.exception_netns = NULL; /* the caller's; it is not asked again */
	return r;
}
