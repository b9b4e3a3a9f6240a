/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports by AF_XDP that come and go within one process: the driver gives back neither its sockets nor its buffers. */
#include "../lib/dut.h"

#include <dirent.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <rte_ethdev.h>

#include "../../pipeline/ports/kernel.h"
#include "../../pipeline/ports/netlink.h"
#include "../../pipeline/ports/xdp.h"

char *dut_eal[] = {"--no-pci", NULL};

/* The driver frees its sockets' memory no more than the sockets. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:xsk_umem__create\n";
}

static unsigned descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* A namespace of our own with a veth, and AF_XDP in it: else why not. */
static const char *missing(void)
{
	int s;

	if (unshare(CLONE_NEWNET))
		return "no network namespace can be made here";
	if (system("ip link add x0 type veth peer name x1 && ip link set x0 up && ip link set x1 up"))
		return "no veth can be made here";
	s = socket(AF_XDP, SOCK_RAW, 0);
	if (s < 0)
		return "this kernel has no AF_XDP";
	close(s);
	return sp_kernel_capable(CAP_SYS_ADMIN) ? NULL : "no rights for AF_XDP";
}

static int create(struct sp_nic **nic, struct sp_error *error, uint32_t mtu)
{
	dut.config.mtu = mtu;
	dut.config.port[0] = (struct sp_port_config){.device = "af_xdp:x0"};
	dut.config.ports = 1;
	return sp_nic_create(&dut.config, error, nic);
}

TEST(a_port_can_be_made_many_times)
{
	struct sp_kernel_interface x0;
	struct sp_error error;
	struct sp_nic *nic;
	uint32_t program;
	const char *why;

	dut_prepare(&dut, 1);
	why = missing();
	if (why) {
		printf("# %s\n", why);
		return;
	}
	CU_ASSERT_EQUAL_FATAL(sp_kernel_interface("x0", &x0), 0);
	const unsigned before = descriptors();

	for (unsigned i = 0; i < 6; i++) {
		int r = create(&nic, &error, i & 1 ? 576 : 1500);

		if (r)
			printf("# turn %u: %s\n", i, error.text);
		CU_ASSERT_EQUAL_FATAL(r, 0);
		CU_ASSERT(!sp_netlink_xdp(x0.index, &program) && program);
		CU_ASSERT_EQUAL(create(&nic, &error, 1500), -EBUSY);
		CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "in use by a NIC of this process"));
		CU_ASSERT(!sp_netlink_xdp(x0.index, &program) && program);
		sp_nic_destroy(nic);
		CU_ASSERT(!sp_netlink_xdp(x0.index, &program) && !program);
		CU_ASSERT(descriptors() <= before + 2 * (i + 1)); /* libxdp 1.3 forgets a map and a program */
		CU_ASSERT_EQUAL(rte_eth_dev_count_total(), 0);
	}
}

TEST(an_mtu_beyond_a_page_is_refused_before_anything_is_made)
{
	const uint32_t most = sp_xdp_largest_mtu();
	struct sp_error error;
	struct sp_nic *nic;

	CU_ASSERT(most > 2132 && most < 9500);
	CU_ASSERT_EQUAL(create(&nic, &error, most + 1), -ENOTSUP);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "is beyond what AF_XDP can do"));
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	CU_ASSERT_EQUAL(rte_eth_dev_count_total(), 0);
}
