/* SPDX-License-Identifier: BSD-3-Clause */
/* Explains why a port cannot start, and how to fix it; DPDK's drivers only return -1. */
#include "../error.h"
#include "kernel.h"
#include "../process.h"
#include "vdev.h"
#include "xdp.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_common.h>

#define TAP_MTU 1504 /* net_tap's frame limit is 1518 bytes without FCS */

static int lacks(struct sp_error *error, const char *port, const char *what, const char *capabilities)
{
	char setcap[160];

	return sp_error_set(error, EPERM, "port", "%.60s needs %s: run as root, or %s", port, what,
			    sp_kernel_setcap(capabilities, setcap, sizeof(setcap)));
}

/* ---- interfaces ---- */

int sp_vdev_check_interface(const char *name, struct sp_error *error)
{
	struct sp_kernel_interface i;
	char all[120];

	if (sp_kernel_interface(name, &i))
		return sp_error_set(error, ENODEV, "port", "there is no interface %s here; there are: %s", name,
				    sp_kernel_interfaces(all, sizeof(all)));
	if (!i.ethernet)
		return sp_error_set(error, ENOTSUP, "port", "interface %s is no Ethernet interface", name);
	if (!i.up)
		return sp_error_set(error, ENETDOWN, "port", "interface %s is down: sudo ip link set dev %s up", name,
				    name);
	return 0;
}

static int check_af_packet(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *w, struct sp_error *error)
{
	const uint32_t needed = sp_vdev_framesz_needed(w->mtu), page = (uint32_t)sysconf(_SC_PAGESIZE);
	char args[3 * SP_VDEV_TARGET];
	uint32_t framesz, blocksz;
	int r;

	if (sp_vdev_arguments(spec, w, args, sizeof(args)))
		return sp_error_set(error, E2BIG, "port", "af_packet: too many arguments");
	framesz = sp_vdev_framesz(args);
	if (framesz < needed || (framesz & (framesz - 1)) || framesz > 65536)
		return sp_error_set(error, EINVAL, "port",
				    "af_packet:%s: framesz=%u: a power of two is needed, at least %u for an MTU of %u "
				    "(and at most 65536)",
				    spec->target, framesz, needed, w->mtu);
	blocksz = (uint32_t)strtoul(strstr(args, "blocksz=") + 8, NULL, 10);
	if (blocksz < framesz || blocksz % page || blocksz % framesz || blocksz > 1u << 22)
		return sp_error_set(error, EINVAL, "port",
				    "af_packet:%s: blocksz=%u: a multiple of the page size (%u) and of framesz (%u) is "
				    "needed, at most 4194304",
				    spec->target, blocksz, page, framesz);
	r = sp_vdev_check_interface(spec->target, error);
	/* The driver sets the interface's flags at start, even if unchanged. */
	if (!r && !(sp_kernel_capable(CAP_NET_RAW) && sp_kernel_capable(CAP_NET_ADMIN)))
		r = lacks(error, spec->target, "CAP_NET_RAW and CAP_NET_ADMIN", "cap_net_raw,cap_net_admin");
	return r;
}

static int check_tap(const char *name, uint32_t mtu, struct sp_error *error)
{
	struct sp_kernel_interface i;

	if (mtu > TAP_MTU)
		return sp_error_set(error, ENOTSUP, "mtu",
				    "port tap:%s: MTU %u is beyond what DPDK's driver can do (at most %d); a veth pair "
				    "with af_packet: at one end carries more to this kernel",
				    name, mtu, TAP_MTU);
	if (access("/dev/net/tun", F_OK))
		return sp_error_set(error, ENODEV, "port", "tap:%s needs /dev/net/tun: sudo modprobe tun", name);
	if (!sp_kernel_capable(CAP_NET_ADMIN))
		return lacks(error, name, "CAP_NET_ADMIN (a TAP interface)", "cap_net_admin");
	if (access("/dev/net/tun", R_OK | W_OK))
		return sp_error_set(error, EACCES, "port",
				    "tap:%s: /dev/net/tun may not be opened: sudo chmod 666 /dev/net/tun", name);
	if (!sp_kernel_interface(name, &i) && !i.tap)
		return sp_error_set(error, EEXIST, "port",
				    "tap:%s: there is an interface of that name, but it is no TAP", name);
	return 0;
}

/* ---- sockets ---- */

/* 0: a process listens. Connecting with the wrong socket type is refused without the peer noticing, and the errno
 * differs for a live and a dead peer. */
static int socket_state(const char *path)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct stat st;
	int s, r;

	if (stat(path, &st))
		return -errno;
	if (!S_ISSOCK(st.st_mode))
		return S_ISCHR(st.st_mode) ? -ENODEV : -ENOTSOCK;
	s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return -errno;
	memcpy(at.sun_path, path, strnlen(path, sizeof(at.sun_path) - 1));
	r = connect(s, (const struct sockaddr *)&at, sizeof(at)) ? -errno : 0;
	close(s);
	return r == -EPROTOTYPE ? 0 : r;
}

static int check_listening(const char *port, const char *path, struct sp_error *error)
{
	char dir[SP_VDEV_TARGET];
	char *slash;

	switch (socket_state(path)) {
	case 0:
		return sp_error_set(error, EADDRINUSE, "port", "%s:%s: the socket is in use by another process", port,
				    path);
	case -ENOTSOCK:
	case -ENODEV:
		return sp_error_set(error, EEXIST, "port", "%s:%s exists, but is no socket", port, path);
	case -EACCES:
		return sp_error_set(error, EACCES, "port", "%s:%s: the socket is another user's", port, path);
	default:
		break;
	}
	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash == dir)
		slash++;
	if (slash)
		*slash = 0;
	else
		strcpy(dir, ".");
	if (access(dir, W_OK | X_OK))
		return sp_error_set(error, errno, "port", "%s:%s: no socket can be made in %s: %s", port, path, dir,
				    strerror(errno));
	return 0;
}

static int check_connecting(const char *port, const char *path, struct sp_error *error)
{
	int r = socket_state(path);

	switch (r) {
	case 0:
		return 0;
	case -ENODEV: /* character device: the kernel's vhost-net */
		if (!access(path, R_OK | W_OK))
			return 0;
		return sp_error_set(error, EACCES, "port", "%s:%s may not be opened: %s", port, path, strerror(errno));
	case -ENOENT:
		return sp_error_set(error, ENOENT, "port",
				    "%s:%s: there is no such socket; the other side makes it (vhost:, QEMU, OVS) and "
				    "starts first, or server=1 is given here",
				    port, path);
	case -ECONNREFUSED:
		return sp_error_set(error, ECONNREFUSED, "port",
				    "%s:%s: nobody listens on that socket; the other side starts first", port, path);
	default:
		return sp_error_set(error, -r, "port", "%s:%s: %s", port, path,
				    r == -ENOTSOCK ? "is no socket" : strerror(-r));
	}
}

/* ---- captures ---- */

static int check_capture(const struct sp_vdev_spec *spec, struct sp_error *error)
{
	struct stat in, out;

	if (stat(spec->target, &in))
		return sp_error_set(error, errno, "port", "pcap:%s: %s", spec->target, strerror(errno));
	if (S_ISDIR(in.st_mode) || access(spec->target, R_OK))
		return sp_error_set(error, S_ISDIR(in.st_mode) ? EISDIR : errno, "port", "pcap:%s: %s", spec->target,
				    strerror(S_ISDIR(in.st_mode) ? EISDIR : errno));
	if (*spec->out && !stat(spec->out, &out) && out.st_dev == in.st_dev && out.st_ino == in.st_ino)
		return sp_error_set(error, EINVAL, "port", "pcap:%s: the output would go over the input", spec->target);
	return 0;
}

int sp_vdev_check(const struct sp_vdev_spec *spec, const struct sp_vdev_wants *wants, struct sp_error *error)
{
	int r;

	switch (spec->kind) {
	case SP_VDEV_AF_PACKET:
		return check_af_packet(spec, wants, error);
	case SP_VDEV_AF_XDP:
		return sp_xdp_check(spec, wants, error);
	case SP_VDEV_TAP:
		return check_tap(spec->target, wants->mtu, error);
	case SP_VDEV_VIRTIO_USER:
		return sp_vdev_listens(spec) ? check_listening("virtio-user", spec->target, error)
					     : check_connecting("virtio-user", spec->target, error);
	case SP_VDEV_VHOST: /* a client waits for its server */
		return sp_vdev_listens(spec) ? check_listening("vhost", spec->target, error) : 0;
	case SP_VDEV_PCAP:
		return check_capture(spec, error);
	case SP_VDEV_PCAP_IFACE:
		r = sp_vdev_check_interface(spec->target, error);
		if (!r && !sp_kernel_capable(CAP_NET_RAW))
			r = lacks(error, spec->target, "CAP_NET_RAW (packet sockets)", "cap_net_raw");
		return r;
	default:
		return 0;
	}
}

/* ---- devices in EAL's arguments ---- */

static int explain_vdev(const char *device, const char *args, struct sp_error *error)
{
	static const struct {
		const char *driver, *key;
		enum sp_vdev_kind kind;
	} known[] = {
		{"net_af_packet", "iface=", SP_VDEV_AF_PACKET}, {"eth_af_packet", "iface=", SP_VDEV_AF_PACKET},
		{"net_af_xdp", "iface=", SP_VDEV_AF_XDP},	{"net_tap", "iface=", SP_VDEV_TAP},
		{"net_vhost", "iface=", SP_VDEV_VHOST},		{"net_virtio_user", "path=", SP_VDEV_VIRTIO_USER},
		{"net_pcap", "iface=", SP_VDEV_PCAP_IFACE},	{"net_pcap", "rx_pcap=", SP_VDEV_PCAP},
	};
	const struct sp_vdev_wants wants = {.mtu = 256, .queues = 1}; /* any values: not checked here */
	struct sp_vdev_spec spec = {0};

	for (unsigned i = 0; i < RTE_DIM(known); i++) {
		const char *value = strstr(args, known[i].key);

		if (strncmp(device, known[i].driver, strlen(known[i].driver)) || !value)
			continue;
		value += strlen(known[i].key);
		spec.kind = known[i].kind;
		snprintf(spec.target, sizeof(spec.target), "%.*s", (int)strcspn(value, ","), value);
		if (spec.kind == SP_VDEV_AF_XDP) /* which of the queues is for EAL's arguments to say */
			strcpy(spec.devargs, "start_queue=0");
		return sp_vdev_check(&spec, &wants, error);
	}
	return 0;
}

int sp_vdev_explain(const char *device, int argc, char **argv, struct sp_error *error)
{
	size_t len = strlen(device);

	if (sp_vdev_is_pci(device))
		return sp_vdev_explain_pci(device, error);
	for (int i = 0; i < argc; i++) {
		const char *value = argv[i];

		if (strncmp(value, "--vdev", 6))
			continue;
		value = value[6] == '=' ? value + 7 : i + 1 < argc ? argv[i + 1] : "";
		if (strncmp(value, device, len) || (value[len] != ',' && value[len]))
			continue;
		return explain_vdev(device, value + len, error);
	}
	return 0;
}

/* ---- PCI ---- */

int sp_vdev_explain_pci(const char *device, struct sp_error *error)
{
	char address[32], path[96], link[256];
	const char *name;
	struct rlimit limit;
	ssize_t n;

	if (!strncmp(device, "pci:", 4))
		device += 4;
	snprintf(address, sizeof(address), "%s%s", strlen(device) < 12 ? "0000:" : "", device);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", address);
	if (access(path, F_OK))
		return sp_error_set(error, ENODEV, "port", "there is no PCI device %s (lspci -D lists them)", address);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", address);
	n = readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = 0;
	name = strrchr(link, '/') ? strrchr(link, '/') + 1 : "nothing";
	if (strcmp(name, "vfio-pci") && strncmp(name, "mlx", 3)) /* mlx NICs keep the kernel's driver */
		return sp_error_set(error, EBUSY, "port",
				    "PCI device %s is bound to %s: sudo modprobe vfio-pci; sudo dpdk-devbind.py -b "
				    "vfio-pci %s (the kernel loses its interface)",
				    address, name, address);
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/iommu_group", address);
	n = readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = 0;
	if (n <= 0)
		return sp_error_set(error, ENODEV, "port",
				    "PCI device %s is behind no IOMMU: turn it on in the firmware, and boot with "
				    "intel_iommu=on iommu=pt (or amd_iommu=on)",
				    address);
	snprintf(path, sizeof(path), "/dev/vfio/%.20s", strrchr(link, '/') ? strrchr(link, '/') + 1 : link);
	if (!strcmp(name, "vfio-pci") && access(path, R_OK | W_OK))
		return sp_error_set(error, EACCES, "port", "PCI device %s: %s: %s (sudo chown $USER %s)", address, path,
				    strerror(errno), path);
	if (!sp_kernel_capable(CAP_IPC_LOCK) && !getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur < 1ull << 30)
		return sp_error_set(error, ENOMEM, "port",
				    "PCI device %s: only %llu KiB of memory may be locked, too little for its DMA: "
				    "ulimit -l unlimited (LimitMEMLOCK=infinity)",
				    address, (unsigned long long)limit.rlim_cur >> 10);
	return sp_error_set(error, ENODEV, "port", "PCI device %s: EAL does not use it: add -a %s after --", address,
			    address);
}
