/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the text of a port, and derives the driver's arguments. */
#include "../value.h"
#include "../nic.h"
#include "../error.h"
#include "kernel.h"
#include "../process.h"
#include "vdev.h"

#include <ctype.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_common.h>

#define FRAMES	     1024 /* per af_packet ring, if RLIMIT_MEMLOCK allows */
#define FRAMES_LEAST 256

const struct sp_vdev_type sp_vdev_types[] = {
	[SP_VDEV_NONE] = {"", "", false, {NULL}},
	[SP_VDEV_AF_PACKET] = {"af_packet", "net_af_packet", true, {"framesz", "blocksz", "framecnt", "qdisc_bypass"}},
	[SP_VDEV_AF_XDP] = {"af_xdp", "net_af_xdp", true, {"start_queue", "force_copy", "busy_budget", "xdp_prog"}},
	[SP_VDEV_TAP] = {"tap", "net_tap", true, {"mac", "remote"}},
	[SP_VDEV_VIRTIO_USER] = {"virtio-user",
				 "net_virtio_user",
				 true,
				 {"server", "mac", "queue_size", "mrg_rxbuf", "in_order", "packed_vq", "speed",
				  "vectorized"}},
	[SP_VDEV_VHOST] = {"vhost",
			   "net_vhost",
			   true,
			   {"client", "iommu-support", "postcopy-support", "tso", "linear-buffer", "ext-buffer"}},
	[SP_VDEV_RING] = {"ring", "net_ring", false, {NULL}},
	[SP_VDEV_PCAP] = {"pcap", "net_pcap", false, {"infinite_rx"}},
	[SP_VDEV_PCAP_IFACE] = {"pcap-iface", "net_pcap", true, {NULL}},
	[SP_VDEV_NULL] = {"null", "net_null", false, {"size", "copy", "no-rx"}},
};

/* ---- parser ---- */

static const char *key_find(const char *args, const char *key)
{
	size_t len = strlen(key);

	while (args && *args) {
		if (!strncmp(args, key, len) && args[len] == '=')
			return args + len + 1;
		args = strchr(args, ',');
		args += args != NULL;
	}
	return NULL;
}

static uint64_t key_number(const char *args, const char *key, uint64_t otherwise)
{
	const char *value = key_find(args, key);
	char *end;
	uint64_t n;

	if (!value || !isdigit((unsigned char)*value))
		return value ? 0 : otherwise;
	n = strtoull(value, &end, 10);
	return *end && *end != ',' ? 0 : n;
}

/* DDDD:BB:DD.F or BB:DD.F, optionally after "pci:" */
bool sp_vdev_is_pci(const char *device)
{
	unsigned domain, bus, slot, function;
	int end = 0;

	if (!strncmp(device, "pci:", 4))
		device += 4;
	if (sscanf(device, "%4x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) == 4 && !device[end])
		return true;
	end = 0;
	return sscanf(device, "%2x:%2x.%1x%n", &bus, &slot, &function, &end) == 3 && !device[end];
}

static int refuse(struct sp_error *error, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int refuse(struct sp_error *error, int err, const char *format, ...)
{
	char text[sizeof(error->text)];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return sp_error_set(error, err, "port", "%s", text);
}

static int parse_devargs(struct sp_vdev_spec *spec, struct sp_error *error)
{
	const struct sp_vdev_type *kind = &sp_vdev_types[spec->kind];

	for (const char *s = spec->devargs; *s;) {
		size_t len = strcspn(s, ","), name = strcspn(s, "=,");
		char key[32];
		unsigned i = 0;

		snprintf(key, sizeof(key), "%.*s", (int)RTE_MIN(name, sizeof(key) - 1), s);
		while (kind->keys[i] && strcmp(kind->keys[i], key))
			i++;
		if (!kind->keys[i]) {
			const char *near = sp_nearest(key, kind->keys);

			if (near)
				return refuse(error, EINVAL, "%s: ports take no '%s'; is %s meant?", kind->name, key,
					      near);
			return refuse(error, EINVAL, "%s: ports take no '%s' (or the NIC derives it from [nic])",
				      kind->name, key);
		}
		if (name + 1 >= len)
			return refuse(error, EINVAL, "%s: '%s' has no value", kind->name, key);
		s += len;
		s += *s == ',';
		if (s[-1] == ',' && !*s)
			return refuse(error, EINVAL, "%s: nothing behind the last ','", kind->name);
	}
	return 0;
}

static bool plain_name(const char *s)
{
	return *s && !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")];
}

static int parse_target(struct sp_vdev_spec *spec, struct sp_error *error)
{
	const struct sp_vdev_type *kind = &sp_vdev_types[spec->kind];
	const char *t = spec->target;

	switch (spec->kind) {
	case SP_VDEV_AF_PACKET:
	case SP_VDEV_AF_XDP:
	case SP_VDEV_PCAP_IFACE:
	case SP_VDEV_TAP:
		if (*t && strlen(t) < IF_NAMESIZE && !strchr(t, '/') && strcmp(t, ".") && strcmp(t, ".."))
			return 0;
		return refuse(error, EINVAL, "%s:%.40s: an interface's name is needed, 1 to %d bytes", kind->name, t,
			      IF_NAMESIZE - 1);
	case SP_VDEV_VIRTIO_USER:
	case SP_VDEV_VHOST:
		if (*t && strlen(t) < 108) /* sun_path */
			return 0;
		return refuse(error, EINVAL, "%s:%.40s: the path of a socket is needed, 1 to 107 bytes", kind->name, t);
	case SP_VDEV_RING:
		if (plain_name(t) && strlen(t) < 32)
			return 0;
		return refuse(error, EINVAL, "ring:%.40s: a name is needed, 1 to 31 letters, digits, _ . -", t);
	case SP_VDEV_PCAP:
		return *t ? 0 : refuse(error, EINVAL, "pcap: the path of a capture is needed");
	case SP_VDEV_NULL:
		return !*t ? 0 : refuse(error, EINVAL, "null:%.40s: nothing stands behind null:", t);
	default:
		return 0;
	}
}

int sp_vdev_parse(const char *device, struct sp_vdev_spec *spec, struct sp_error *error)
{
	static const char *const words[] = {"af_packet", "af_xdp", "tap",	 "virtio-user", "vhost",
					    "ring",	 "pcap",   "pcap-iface", "null",	NULL};
	const char *colon = strchr(device, ':'), *comma;
	char word[32];

	*spec = (struct sp_vdev_spec){0};
	if (strlen(device) >= SP_VDEV_TARGET)
		return refuse(error, EINVAL, "a port of more than %d bytes", SP_VDEV_TARGET - 1);
	if (!*device)
		return refuse(error, ENODEV, "a port needs a device");
	for (const char *s = device; *s; s++)
		/* DPDK parses brackets and quotes as lists, and does not accept spaces */
		if (iscntrl((unsigned char)*s) || strchr(" []\"", *s))
			return refuse(error, EINVAL, "'%.60s': blanks, [, ] and \" cannot be part of a port", device);
	snprintf(word, sizeof(word), "%.*s", colon ? (int)RTE_MIN(colon - device, 31) : 0, device);
	for (unsigned i = 1; colon && i < RTE_DIM(sp_vdev_types); i++)
		if (!strcmp(sp_vdev_types[i].name, word))
			spec->kind = i;
	if (spec->kind == SP_VDEV_NONE) {
		const char *near;

		if (strchr(device, ','))
			return refuse(error, EINVAL, "'%.60s' is no device name (net_pcap0, 0000:01:00.0)", device);
		/* Addresses on other buses have colons too: hexadecimal words, or the bus's name. */
		if (!colon || strspn(word, "0123456789abcdefABCDEF") == strlen(word) || !strcmp(word, "pci")) {
			snprintf(spec->target, sizeof(spec->target), "%s", device);
			return 0;
		}
		near = sp_nearest(word, words);
		return refuse(
			error, EINVAL,
			"'%.40s' is no kind of port%s%s%s; there are af_packet, af_xdp, tap, virtio-user, vhost, ring, "
			"pcap, pcap-iface, null, and the names of DPDK's devices",
			word, near ? ", is " : "", near ? near : "", near ? " meant?" : "");
	}
	colon++;
	comma = colon + strcspn(colon, ",");
	snprintf(spec->target, sizeof(spec->target), "%.*s", (int)(comma - colon), colon);
	if (*comma && spec->kind == SP_VDEV_PCAP && strcspn(comma + 1, "=") >= strcspn(comma + 1, ",")) {
		const char *out = comma + 1;

		comma = out + strcspn(out, ",");
		if (comma == out)
			return refuse(error, EINVAL, "pcap: the second path is empty");
		snprintf(spec->out, sizeof(spec->out), "%.*s", (int)(comma - out), out);
	}
	if (*comma && !comma[1])
		return refuse(error, EINVAL, "%s: nothing behind the last ','", word);
	snprintf(spec->devargs, sizeof(spec->devargs), "%s", *comma ? comma + 1 : "");
	int r = parse_target(spec, error);
	return r ? r : parse_devargs(spec, error);
}

const char *sp_vdev_interface(const struct sp_vdev_spec *spec)
{
	switch (spec->kind) {
	case SP_VDEV_AF_PACKET:
	case SP_VDEV_AF_XDP:
	case SP_VDEV_PCAP_IFACE:
	case SP_VDEV_TAP:
		return spec->target;
	default:
		return NULL;
	}
}

bool sp_vdev_listens(const struct sp_vdev_spec *spec)
{
	return spec->kind == SP_VDEV_VHOST ? key_number(spec->devargs, "client", 0) == 0
					   : key_number(spec->devargs, "server", 0) == 1;
}

/* ---- sizes ---- */

uint32_t sp_vdev_framesz_needed(uint32_t mtu)
{
	/* The kernel puts its header and an address before the frame, aligning the layer 3 header (packet(7)'s tp_mac).
	 * The driver needs less for sending. */
	return SP_PORT_FRAME(mtu) + TPACKET_ALIGN(TPACKET2_HDRLEN + 16) - RTE_ETHER_HDR_LEN;
}

uint32_t sp_vdev_framesz(const char *args)
{
	return (uint32_t)key_number(args, "framesz", 2048);
}

uint32_t sp_vdev_queue_size(const char *args)
{
	return (uint32_t)key_number(args, "queue_size", 256);
}

bool sp_vdev_pcap_interface(const char *args, char *name, size_t room)
{
	static const char *const keys[] = {"iface", "rx_iface_in", "rx_iface"};
	const char *value = NULL;

	for (unsigned i = 0; i < RTE_DIM(keys) && !value; i++)
		value = key_find(args, keys[i]);
	if (value)
		snprintf(name, room, "%.*s", (int)strcspn(value, ","), value);
	return value != NULL;
}

/* As many frames as RLIMIT_MEMLOCK allows: the driver locks both rings of each queue pair. */
static uint32_t framecnt(uint32_t framesz, uint16_t queues)
{
	struct rlimit limit;
	uint32_t n = FRAMES;

	if (sp_kernel_capable(CAP_IPC_LOCK) || getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return n;
	while (n > FRAMES_LEAST && 2ull * n * framesz * queues > limit.rlim_cur * 3 / 4)
		n /= 2;
	return n;
}

struct args {
	char *text;
	size_t room, used;
	const char *given; /* devargs, which override the defaults */
};

static void __attribute__((format(printf, 3, 4))) args_add(struct args *a, const char *key, const char *format, ...)
{
	va_list ap;

	if (key_find(a->given, key) || a->used >= a->room)
		return;
	a->used += (size_t)snprintf(a->text + a->used, a->room - a->used, "%s%s=", a->used ? "," : "", key);
	if (a->used >= a->room)
		return;
	va_start(ap, format);
	a->used += (size_t)vsnprintf(a->text + a->used, a->room - a->used, format, ap);
	va_end(ap);
}

static void af_packet_arguments(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *w, struct args *a)
{
	uint32_t framesz = RTE_MAX(rte_align32pow2(sp_vdev_framesz_needed(w->mtu)), 2048u);

	framesz = (uint32_t)key_number(spec->devargs, "framesz", framesz);
	args_add(a, "iface", "%s", spec->target);
	args_add(a, "qpairs", "%u", w->queues);
	args_add(a, "framesz", "%u", framesz);
	/* The driver reads frames back to back, so frames must fill each block. */
	args_add(a, "blocksz", "%u", RTE_MAX(framesz, (uint32_t)sysconf(_SC_PAGESIZE)));
	args_add(a, "framecnt", "%u", framecnt(framesz, w->queues));
	/* Without the queueing discipline a full device drops packets; with it the ring fills up instead. */
	args_add(a, "qdisc_bypass", "0");
}

int sp_vdev_arguments(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *w, char *text, size_t room)
{
	struct args a = {.text = text, .room = room, .given = spec->devargs};

	*text = 0;
	switch (spec->kind) {
	case SP_VDEV_AF_PACKET:
		af_packet_arguments(spec, w, &a);
		break;
	case SP_VDEV_AF_XDP: /* zero copy, where the interface's driver has it */
		args_add(&a, "iface", "%s", spec->target);
		args_add(&a, "queue_count", "%u", w->queues);
		break;
	case SP_VDEV_TAP:
		args_add(&a, "iface", "%s", spec->target);
		if (w->mac)
			args_add(&a, "mac", RTE_ETHER_ADDR_PRT_FMT, w->mac[0], w->mac[1], w->mac[2], w->mac[3],
				 w->mac[4], w->mac[5]);
		break;
	case SP_VDEV_VIRTIO_USER:
		args_add(&a, "path", "%s", spec->target);
		args_add(&a, "queues", "%u", w->queues);
		args_add(&a, "queue_size", "1024");
		break;
	case SP_VDEV_VHOST:
		args_add(&a, "iface", "%s", spec->target);
		args_add(&a, "queues", "%u", w->queues);
		break;
	case SP_VDEV_PCAP:
		args_add(&a, "rx_pcap", "%s", spec->target);
		if (*spec->out)
			args_add(&a, "tx_pcap", "%s", spec->out);
		break;
	case SP_VDEV_PCAP_IFACE: /* iface= would receive its own packets */
		args_add(&a, "rx_iface_in", "%s", spec->target);
		args_add(&a, "tx_iface", "%s", spec->target);
		break;
	case SP_VDEV_NULL: /* by default it receives empty frames without end */
		args_add(&a, "no-rx", "1");
		break;
	default:
		break;
	}
	if (*spec->devargs && a.used < room)
		a.used += (size_t)snprintf(text + a.used, room - a.used, "%s%s", a.used ? "," : "", spec->devargs);
	return a.used < room ? 0 : -E2BIG;
}
