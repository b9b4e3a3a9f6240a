/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys of [nic]: each has a setter, and stands in NIC_KEYS. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../value.h"
#include "config_private.h"
#include "../limits.h"
#include "../ports/vdev.h"

static bool is_zero(const uint8_t *bytes, size_t len)
{
	while (len && !bytes[len - 1])
		len--;
	return !len;
}

static bool is_ipv4(const uint8_t ip[16])
{
	return is_zero(ip, 10) && ip[10] == 0xFF && ip[11] == 0xFF;
}

/* An address that one machine can have. */
static int unicast_ip(struct sp_config_target *t, const char *text, uint8_t ip[16], uint8_t *prefix)
{
	int error = sp_parse_ip(text, ip, prefix);

	if (error == -ERANGE)
		return sp_config_refuse(t, "'%.60s': the prefix is too long", text);
	if (error)
		return sp_config_refuse(t, "'%.60s' is no IPv4 or IPv6 address%s", text,
					prefix ? "" : " (without /prefix)");
	if (is_ipv4(ip) ? is_zero(ip + 12, 4) : is_zero(ip, 16))
		return sp_config_refuse(t, "'%.60s' is the unspecified address", text);
	if (is_ipv4(ip) && !memcmp(ip + 12, "\xFF\xFF\xFF\xFF", 4))
		return sp_config_refuse(t, "'%.60s' is the broadcast address", text);
	if (is_ipv4(ip) ? ip[12] >> 4 == 0xE : ip[0] == 0xFF)
		return sp_config_refuse(t, "'%.60s' is a multicast address", text);
	return 0;
}

static int unicast_mac(struct sp_config_target *t, const char *text, uint8_t mac[6])
{
	if (sp_parse_mac(text, mac))
		return sp_config_refuse(t, "'%.40s' is no MAC address (02:00:00:00:00:01)", text);
	if (is_zero(mac, 6))
		return sp_config_refuse(t, "'%.40s' is all zero", text);
	if (mac[0] & 1)
		return sp_config_refuse(t, "'%.40s' is a multicast address", text);
	return 0;
}

/* Cuts "ADDRESS PORT" behind the address; without PORT it is 0. */
static int port_behind(struct sp_config_target *t, char *text, uint8_t *port, bool *given)
{
	char *word = text + strcspn(text, " \t");
	uint64_t value = 0;

	while (sp_config_blank(*word))
		*word++ = 0;
	*given = *word;
	if (*given && (sp_parse_uint(word, &value) || value >= SP_MAX_PORTS))
		return sp_config_refuse(t, "'%.40s' is no port: 0 to %d", word, SP_MAX_PORTS - 1);
	*port = (uint8_t)value;
	return 0;
}

static int set_ip(struct sp_config_target *t)
{
	struct sp_nic_config *nic = t->nic;

	for (const char *s = t->key->value;; s++) {
		char text[64];
		while (sp_config_blank(*s))
			s++;
		size_t len = strcspn(s, ","), used = len;
		while (used && sp_config_blank(s[used - 1]))
			used--;
		snprintf(text, sizeof(text), "%.*s", (int)used, s);
		s += len;

		struct sp_address address;
		bool given;
		int error = port_behind(t, text, &address.port, &given);
		if (!error)
			error = unicast_ip(t, text, address.ip, &address.prefix);
		if (error)
			return error;
		if (!address.prefix)
			return sp_config_refuse(t, "'%s': a prefix of 0 bits", text);
		for (unsigned i = 0; i < nic->addresses; i++)
			if (!memcmp(nic->address[i].ip, address.ip, 16))
				return sp_config_refuse(t, "'%s' is given twice", text);
		if (nic->addresses == SP_MAX_ADDRESSES)
			return sp_config_refuse(t, "more than %d addresses", SP_MAX_ADDRESSES);
		nic->address[nic->addresses++] = address;
		if (!*s)
			return 0;
	}
}

static int set_gateway(struct sp_config_target *t)
{
	uint8_t ip[16], port;
	char text[64];
	bool given;

	snprintf(text, sizeof(text), "%s", t->key->value);
	int error = port_behind(t, text, &port, &given);
	if (!error)
		error = unicast_ip(t, text, ip, NULL);
	if (error)
		return error;
	if (given && !(ip[0] == 0xFE && (ip[1] & 0xC0) == 0x80))
		return sp_config_refuse(t, "only a link-local one needs a port, '%s' is where its prefix is", text);
	uint8_t *gateway = is_ipv4(ip) ? t->nic->gateway4 : t->nic->gateway6;
	if (!is_zero(gateway, 16))
		return sp_config_refuse(t, "a second one for %s", is_ipv4(ip) ? "IPv4" : "IPv6");
	memcpy(gateway, ip, 16);
	if (given)
		t->nic->gateway6_port = port;
	return 0;
}

static int set_mac(struct sp_config_target *t)
{
	return unicast_mac(t, t->key->value, t->nic->mac);
}

static int set_mtu(struct sp_config_target *t)
{
	uint64_t value;
	int error = sp_config_number(t, 576, 9500, &value);

	t->nic->mtu = error ? 0 : (uint32_t)value;
	return error;
}

static int set_vlan(struct sp_config_target *t)
{
	uint64_t value;
	int error = sp_config_number(t, 1, 4094, &value);

	t->nic->vlan = error ? 0 : (uint16_t)value;
	return error;
}

static int set_workers(struct sp_config_target *t)
{
	uint64_t value;
	int error = sp_config_number(t, 1, SP_MAX_WORKERS, &value);

	t->nic->workers = error ? 0 : (uint16_t)value;
	return error;
}

static int set_seed(struct sp_config_target *t)
{
	return sp_config_number(t, 1, UINT64_MAX, &t->nic->seed);
}

static int set_memory_limit(struct sp_config_target *t)
{
	return sp_config_number(t, 1, UINT64_MAX, &t->nic->memory_limit);
}

static int set_icrc(struct sp_config_target *t)
{
	uint64_t on;

	if (sp_parse_bool(t->key->value, &on))
		return sp_config_refuse(t, "'%.40s' is neither yes nor no", t->key->value);
	t->nic->icrc_off = !on;
	return 0;
}

static int device(struct sp_config_target *t, struct sp_port_config *port)
{
	const char *name = t->key->value;
	struct sp_vdev_spec spec;
	struct sp_error error;

	if (sp_vdev_parse(name, &spec, &error))
		return sp_config_refuse(t, "%s", error.text);
	/* a cable has two ends, and null: is no resource */
	const bool again = spec.kind == SP_VDEV_RING || spec.kind == SP_VDEV_NULL;
	for (unsigned i = 0; i < t->nic->ports && !again; i++)
		if (!strcmp(t->nic->port[i].device, name))
			return sp_config_refuse(t, "%s is a port already", name);
	if (!again && t->nic->exception.device && !strcmp(t->nic->exception.device, name))
		return sp_config_refuse(t, "%s is the exception port already", name);
	port->device = name;
	return 0;
}

static int set_port(struct sp_config_target *t)
{
	if (t->nic->ports == SP_MAX_PORTS)
		return sp_config_refuse(t, "more than %d ports", SP_MAX_PORTS);
	int error = device(t, &t->nic->port[t->nic->ports]);
	t->nic->ports += !error;
	return error;
}

static int set_exception(struct sp_config_target *t)
{
	return device(t, &t->nic->exception);
}

static int set_exception_address(struct sp_config_target *t)
{
	uint64_t on;

	if (sp_parse_bool(t->key->value, &on))
		return sp_config_refuse(t, "'%.40s' is neither yes nor no", t->key->value);
	t->nic->exception_address = on;
	return 0;
}

static int set_exception_netns(struct sp_config_target *t)
{
	if (!*t->key->value)
		return sp_config_refuse(t, "a name under /run/netns, or a path");
	t->nic->exception_netns = t->key->value;
	return 0;
}

static int set_neighbour(struct sp_config_target *t)
{
	struct sp_nic_config *nic = t->nic;
	struct sp_neighbour_config *neighbour = &nic->neighbour[nic->neighbours];
	const char *value = t->key->value, *mac = value + strcspn(value, " \t");
	char ip[64];

	if (nic->neighbours == SP_MAX_STATIC)
		return sp_config_refuse(t, "more than %d", SP_MAX_STATIC);
	snprintf(ip, sizeof(ip), "%.*s", (int)(mac - value), value);
	while (sp_config_blank(*mac))
		mac++;
	if (!*mac)
		return sp_config_refuse(t, "two values are needed: IP MAC");
	int error = unicast_ip(t, ip, neighbour->ip, NULL);
	if (!error)
		error = unicast_mac(t, mac, neighbour->mac);
	if (error)
		return error;
	for (unsigned i = 0; i < nic->neighbours; i++)
		if (!memcmp(nic->neighbour[i].ip, neighbour->ip, 16))
			return sp_config_refuse(t, "'%s' is given twice", ip);
	nic->neighbours++;
	return 0;
}

static int set_name(struct sp_config_target *t)
{
	const char *name = t->key->value;

	if (!*name || strlen(name) >= sizeof(t->nic->name))
		return sp_config_refuse(t, "1 to %zu bytes", sizeof(t->nic->name) - 1);
	snprintf(t->nic->name, sizeof(t->nic->name), "%s", name);
	return 0;
}

static int set_idle(struct sp_config_target *t)
{
	static const char *const words[] = {
		[SP_IDLE_SLEEP] = "sleep", [SP_IDLE_YIELD] = "yield", [SP_IDLE_SPIN] = "spin"};

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(t->key->value, words[i])) {
			t->nic->idle = i;
			return 0;
		}
	return sp_config_refuse(t, "'%.40s' is none of sleep, yield, spin", t->key->value);
}

#define STALL_LEAST (10 * SP_MS) /* a machine that is busy keeps a thread waiting for as long */
#define STALL_MOST  (3600 * SP_SEC)

static int set_stall(struct sp_config_target *t)
{
	sp_time stall;

	if (sp_parse_time(t->key->value, &stall) || stall < STALL_LEAST || stall > STALL_MOST)
		return sp_config_refuse(t, "'%.40s' is no time between 10ms and 3600s", t->key->value);
	t->nic->stall = stall;
	return 0;
}

static int set_fault_capture(struct sp_config_target *t)
{
	const char *path = t->key->value;

	if (*path != '/' || path[strlen(path) - 1] == '/')
		return sp_config_refuse(t, "'%.60s' is no absolute path of a file", path);
	t->nic->fault_capture = path;
	return 0;
}

#define NIC_KEYS(X)                                                                                                    \
	X("ip", set_ip)                                                                                                \
	X("mac", set_mac)                                                                                              \
	X("mtu", set_mtu)                                                                                              \
	X("vlan", set_vlan)                                                                                            \
	X("gateway", set_gateway)                                                                                      \
	X("workers", set_workers)                                                                                      \
	X("seed", set_seed)                                                                                            \
	X("icrc", set_icrc)                                                                                            \
	X("port", set_port)                                                                                            \
	X("exception", set_exception)                                                                                  \
	X("exception-address", set_exception_address)                                                                  \
	X("exception-netns", set_exception_netns)                                                                      \
	X("neighbour", set_neighbour)                                                                                  \
	X("plugin", sp_config_set_plugin)                                                                              \
	X("name", set_name)                                                                                            \
	X("memory-limit", set_memory_limit)                                                                            \
	X("idle", set_idle)                                                                                            \
	X("stall", set_stall)                                                                                          \
	X("fault-capture", set_fault_capture)

/* Keys for the server of attached applications. */
#define SERVER_KEYS(X)                                                                                                 \
	X("socket", sp_config_set_socket)                                                                              \
	X("socket-mode", sp_config_set_socket_mode)                                                                    \
	X("socket-group", sp_config_set_socket_group)                                                                  \
	X("applications", sp_config_set_applications)

/* Keys for the process of `spindle run`. */
#define RUN_KEYS(X)                                                                                                    \
	X("user", sp_config_set_run_user)                                                                              \
	X("group", sp_config_set_run_group)                                                                            \
	X("sandbox", sp_config_set_sandbox)                                                                            \
	X("live-handlers", sp_config_set_live_handlers)                                                                \
	X("plugin-directory", sp_config_set_plugin_directory)

static int nic_key(struct sp_config_target *t)
{
#define X(name, set) name,
	static const char *const names[] = {NIC_KEYS(X) SERVER_KEYS(X) RUN_KEYS(X) NULL};
#undef X
#define X(name, set) set,
	static int (*const nic_setters[])(struct sp_config_target *) = {NIC_KEYS(X)};
	static int (*const server_setters[])(struct sp_config_target *) = {SERVER_KEYS(X)};
	static int (*const run_setters[])(struct sp_config_target *) = {RUN_KEYS(X)};
#undef X
	const size_t first = sizeof(nic_setters) / sizeof(*nic_setters);
	const size_t second = first + sizeof(server_setters) / sizeof(*server_setters);

	for (size_t i = 0; names[i]; i++) {
		if (strcmp(names[i], t->key->name))
			continue;
		if (i < first)
			return t->nic ? nic_setters[i](t) : 0;
		if (i < second)
			return t->server ? server_setters[i - first](t) : 0;
		return t->run ? run_setters[i - second](t) : 0;
	}
	return sp_config_unknown(t, "nic", names);
}

int sp_config_nic_keys(struct sp_config_target *t)
{
	for (size_t i = 0; i < t->config->sections; i++) {
		const struct sp_config_section *section = &t->config->section[i];
		for (size_t k = 0; !strcmp(section->kind, "nic") && k < section->keys; k++) {
			t->key = &section->key[k];
			int result = nic_key(t);
			if (result)
				return result;
		}
	}
	return 0;
}

/* Checked last, as ports may follow their addresses. A program brings the ports if the file has none. */
static int check_ports(struct sp_config_target *t)
{
	const struct sp_nic_config *nic = t->nic;
	unsigned at = 0;

	for (size_t i = 0; nic->ports && i < t->config->sections; i++) {
		const struct sp_config_section *section = &t->config->section[i];
		for (size_t k = 0; !strcmp(section->kind, "nic") && k < section->keys; k++) {
			t->key = &section->key[k];
			if (!strcmp(t->key->name, "gateway") && strchr(t->key->value, ':') &&
			    nic->gateway6_port >= nic->ports)
				return sp_config_refuse(t, "there is no port %u", nic->gateway6_port);
			if (strcmp(t->key->name, "ip"))
				continue;
			for (const char *s = t->key->value; s; at++) {
				if (nic->address[at].port >= nic->ports)
					return sp_config_refuse(t, "there is no port %u", nic->address[at].port);
				s = strchr(s, ',');
				s += s != NULL;
			}
		}
	}
	return 0;
}

int sp_config_nic(const struct sp_config *config, struct sp_nic_config *nic, struct sp_error *error)
{
	struct sp_config_target t = {.config = config, .nic = nic, .error = error};
	int result = sp_config_nic_keys(&t);

	return result ? result : check_ports(&t);
}
