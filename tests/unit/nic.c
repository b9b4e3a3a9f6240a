/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC itself: its ports, settings that make none, and that none leaves anything behind. */
#include "../../pipeline/mem/machine.h"
#include "../lib/sender.h"

#include <sys/stat.h>

#include <rte_malloc.h>

char *dut_eal[] = {
	"--no-pci", "--vdev=net_null0", "--vdev=net_ring0", "--vdev=net_memif0", "--vdev=net_pcap0,tx_pcap=/dev/null",
	NULL};

static int try_device(const char *device, uint32_t mtu, uint16_t workers, struct sp_error *error)
{
	struct sp_nic *nic = NULL;

	dut_prepare(&dut, workers);
	dut.config.port[0] = (struct sp_port_config){.device = device};
	dut.config.mtu = mtu;
	int r = sp_nic_create(&dut.config, error, &nic);
	if (!r)
		sp_nic_destroy(nic);
	return r;
}

TEST(ports_that_cannot_do_what_is_asked_are_refused_with_the_reason)
{
	struct sp_error error;

	CU_ASSERT_EQUAL(try_device("net_none0", 0, 1, &error), -ENODEV);
	CU_ASSERT_STRING_EQUAL(error.key, "port");
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "net_none0"));
	CU_ASSERT_EQUAL(try_device("", 0, 1, &error), -ENODEV);
	CU_ASSERT_EQUAL(try_device(NULL, 0, 1, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "port");
	CU_ASSERT_EQUAL(try_device("net_memif0", 9000, 1, &error), -ENOTSUP); /* has 1518 bytes for a frame */
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "9000"));
	CU_ASSERT_EQUAL(try_device("net_pcap0", 0, 2, &error), -ENOTSUP); /* has one queue */
	CU_ASSERT_STRING_EQUAL(error.key, "workers");
	CU_ASSERT_EQUAL(try_device("net_null0", 0, SP_MAX_WORKERS + 1, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "workers");
	CU_ASSERT_EQUAL(try_device("net_null0", 255, 1, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	CU_ASSERT_EQUAL(try_device("net_null0", SP_PACKET_ROOM, 1, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "mtu");
	CU_ASSERT_EQUAL(try_device("net_none0", 0, 1, NULL), -ENODEV); /* the words are not obligatory */
	/* And after all that they still work. */
	CU_ASSERT_EQUAL(try_device("net_null0", 9000, 4, &error), 0);
	CU_ASSERT_EQUAL(try_device("net_null0", 0, 1, &error), 0);
}

TEST(one_port_belongs_to_one_nic)
{
	struct sp_error error;
	struct sp_nic *nic;

	dut_prepare(&dut, 1);
	dut.config.port[0] = (struct sp_port_config){.device = "net_ring0"};
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&dut.config, &error, &nic), 0);
	CU_ASSERT_EQUAL(try_device("net_ring0", 0, 1, &error), -EBUSY);
	CU_ASSERT_STRING_EQUAL(error.key, "port");
	sp_nic_destroy(nic);
	CU_ASSERT_EQUAL(try_device("net_ring0", 0, 1, &error), 0);
}

TEST(an_ethdev_carries_frames_both_ways)
{
	static const struct sp_neighbour_config known = {DUT_IP4(192, 0, 2, 1), {2, 0, 0, 0, 0, 2}};
	uint8_t payload[64] = {1};
	struct sp_send s = {.dest_qp = 16, .len = 64, .bytes = payload};
	struct sp_nic_totals t;

	dut_prepare(&dut, 1);
	dut.config.port[0] = (struct sp_port_config){.device = "net_ring0"}; /* what it sends comes back */
	dut.config.neighbour[0] = known;
	dut.config.neighbours = 1;
	dut_create(&dut);
	uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
	sender_job.send = &s;
	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
	for (unsigned i = 0; i < 5; i++)
		sp_nic_poll(dut.nic, 0, i);
	sp_nic_totals(dut.nic, &t);
	CU_ASSERT_EQUAL(t.sent, 10);
	CU_ASSERT_EQUAL(t.sent_bytes, 10 * (14 + 20 + 8 + 12 + 64 + 4));
	CU_ASSERT_EQUAL(t.received, 10);
	CU_ASSERT_EQUAL(t.bytes, t.sent_bytes);
	CU_ASSERT_EQUAL(dut_dropped("wrong-destination"), 10); /* with the right ICRC they were for the peer */
	dut_stop(&dut);
}

TEST(settings_that_make_no_nic_are_refused)
{
	struct sp_error error;
	struct sp_nic *nic;

	dut_prepare(&dut, 1);
	dut.config.addresses = SP_MAX_ADDRESSES + 1;
	CU_ASSERT_EQUAL(sp_nic_create(&dut.config, &error, &nic), -EINVAL);
	dut.config.addresses = 1;
	dut.config.ports = SP_MAX_PORTS + 1;
	CU_ASSERT_EQUAL(sp_nic_create(&dut.config, &error, &nic), -EINVAL);
	dut.config.ports = 1;
	dut.config.neighbours = SP_MAX_STATIC + 1;
	CU_ASSERT_EQUAL(sp_nic_create(&dut.config, &error, &nic), -EINVAL);
	dut.config.neighbours = 1; /* all zero: not a station's MAC */
	CU_ASSERT_EQUAL(sp_nic_create(&dut.config, &error, &nic), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "neighbour");
	sp_nic_destroy(NULL);
}

TEST(a_thousand_nics_come_and_go_and_leave_nothing)
{
	struct rte_malloc_socket_stats before, after;

	for (unsigned i = 0; i < 1000; i++) {
		probe_start();
		if (i == 10)
			rte_malloc_get_socket_stats(0, &before);
		dut_context(&dut, "a", "hashed", "qp=16;filter=udp port 7");
		dut_context(&dut, "b", "plain", "qp=17");
		probe_say(16, (struct probe_words){.key = 1});
		probe_say(17, (struct probe_words){.key = 1});
		probe_say_udp(7);
		dut_poll(&dut, 1);
		probe_stop();
	}
	rte_malloc_get_socket_stats(0, &after);
	CU_ASSERT(after.heap_allocsz_bytes <= before.heap_allocsz_bytes + 65536);
}

TEST(two_nics_with_one_seed_do_the_same_and_with_two_do_not)
{
	uint8_t bytes[3][2048];
	uint8_t payload[8] = {0};
	struct sp_send s = {.dest_qp = 16, .len = 8, .bytes = payload};

	for (unsigned i = 0; i < 3; i++) {
		dut_prepare(&dut, 1);
		dut.config.seed = i == 2 ? 8 : 7;
		memset(dut.config.mac, 0, 6); /* from the seed too */
		dut_create(&dut);
		uint32_t id = dut_context(&dut, "s", "sender", "qp=5;peer=4");
		sender_job.send = &s;
		CU_ASSERT_EQUAL(sender_call(id, CMD_SEND, 0, 0), 0);
		dut_settle(&dut, 1);
		CU_ASSERT_EQUAL_FATAL(dut.port.sents, 1);
		memcpy(bytes[i], dut.port.sent[0].bytes, 60);
		dut_stop(&dut);
	}
	CU_ASSERT(!memcmp(bytes[0], bytes[1], 42));
	CU_ASSERT(memcmp(bytes[0], bytes[2], 42) != 0);
}

/* directory/name, with that text. */
static void put(const char *directory, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	for (char *at = strchr(path + strlen(directory) + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(path, 0700);
		*at = '/';
	}
	FILE *f = fopen(path, "w");
	CU_ASSERT_PTR_NOT_NULL_FATAL(f);
	fputs(text, f);
	fclose(f);
}

TEST(memory_is_by_default_half_of_what_there_is)
{
	const char *tmp = getenv("TMPDIR");
	char root[256], command[300];

	dut_prepare(&dut, 1);
	dut_create(&dut);
	CU_ASSERT_EQUAL(dut.nic->config.memory_limit, sp_machine_memory() / 2);
	CU_ASSERT(sp_machine_memory() <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
	dut_stop(&dut);
	dut_prepare(&dut, 1);
	dut.config.memory_limit = 1ull << 50; /* what is said counts */
	dut_create(&dut);
	CU_ASSERT_EQUAL(dut.nic->config.memory_limit, 1ull << 50);
	dut_stop(&dut);

	snprintf(root, sizeof(root), "%s/machine-XXXXXX", tmp ? tmp : "/tmp");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(root));
	CU_ASSERT_EQUAL(sp_machine_group_limit(root), UINT64_MAX);
	put(root, "proc/self/cgroup", "0::/a/b\n");
	put(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
	CU_ASSERT_EQUAL(sp_machine_group_limit(root), UINT64_MAX);
	put(root, "sys/fs/cgroup/a/memory.max", "1000000\n"); /* above it */
	CU_ASSERT_EQUAL(sp_machine_group_limit(root), 1000000);
	put(root, "sys/fs/cgroup/a/b/memory.max", "500000\n");
	CU_ASSERT_EQUAL(sp_machine_group_limit(root), 500000);
	put(root, "proc/self/cgroup", "0::/not/here\n"); /* the group's name outside of a container */
	put(root, "sys/fs/cgroup/memory.max", "700000\n");
	CU_ASSERT_EQUAL(sp_machine_group_limit(root), 700000);
	put(root, "proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/x\nrubbish\n");
	put(root, "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "600000\n");
	CU_ASSERT_EQUAL(sp_machine_group_limit(root), 600000);
	snprintf(command, sizeof(command), "rm -r '%s'", root);
	CU_ASSERT_EQUAL(system(command), 0);
}
