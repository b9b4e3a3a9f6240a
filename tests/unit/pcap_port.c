/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <sys/stat.h>

#include "../../testbed/pcap_port.h"
#include "../lib/buffers.h"
#include "../lib/suite.h"

/* Captures are written here byte by byte, so that nothing of what is tested also makes the input. */
static uint8_t file[1 << 16];
static size_t used;
static char path[] = "/tmp/spindle-capture-XXXXXX";

static void put(const void *bytes, size_t len)
{
	CU_ASSERT_FATAL(used + len <= sizeof(file));
	memcpy(file + used, bytes, len);
	used += len;
}

static void put32(uint32_t value)
{
	put(&value, 4);
}

static void pcap_start(uint32_t magic, uint32_t link)
{
	const uint16_t version[2] = {2, 4};

	used = 0;
	put32(magic);
	put(version, 4);
	put32(0);
	put32(0);
	put32(262144);
	put32(link);
}

#define MICRO 0xA1B2C3D4u
#define NANO  0xA1B23C4Du

static void pcap_packet(uint32_t seconds, uint32_t fraction, uint32_t caplen, uint32_t len, uint8_t fill)
{
	static uint8_t bytes[20000];

	memset(bytes, fill, sizeof(bytes));
	put32(seconds);
	put32(fraction);
	put32(caplen);
	put32(len);
	put(bytes, caplen);
}

/* pcapng: section header, one Ethernet interface with the given if_tsresol. */
static void pcapng_start(uint8_t resolution)
{
	const uint8_t option[] = {9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0};

	used = 0;
	put32(0x0A0D0D0A);
	put32(28);
	put32(0x1A2B3C4D);
	put32(1);
	put32(0xFFFFFFFF);
	put32(0xFFFFFFFF);
	put32(28);
	put32(1);
	put32(32);
	put32(1);
	put32(262144);
	put(option, sizeof(option));
	put32(32);
}

static void pcapng_packet(uint64_t stamp, uint32_t len, uint8_t fill)
{
	uint8_t bytes[256];

	memset(bytes, fill, sizeof(bytes));
	put32(6);
	put32(32 + len);
	put32(0);
	put32((uint32_t)(stamp >> 32));
	put32((uint32_t)stamp);
	put32(len);
	put32(len);
	put(bytes, len); /* a multiple of 4 here */
	put32(32 + len);
}

static void save(void)
{
	static bool named;
	int fd = named ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : mkstemp(path);

	named = true;
	CU_ASSERT_FATAL(fd >= 0 && write(fd, file, used) == (ssize_t)used);
	close(fd);
}

static struct sp_pcap_port port;
static struct sp_error error;

static int try_open(uint16_t queues)
{
	memset(&port, 0, sizeof(port));
	memset(&error, 0, sizeof(error));
	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	save();
	return sp_pcap_open(path, queues, &port.in, &error);
}

static void open_it(void)
{
	CU_ASSERT_EQUAL_FATAL(try_open(1), 0);
}

/* Takes what is there at `now`: how many, and the first byte and length of the last. */
static unsigned take(sp_time now, uint8_t *fill, uint32_t *len)
{
	struct rte_mbuf *m[8];
	unsigned n = sp_pcap_ops.receive(&port, 0, m, 8, now);

	for (unsigned i = 0; i < n; i++) {
		*fill = m[i]->data_len ? *rte_pktmbuf_mtod(m[i], uint8_t *) : 0;
		*len = m[i]->data_len;
		rte_pktmbuf_free(m[i]);
	}
	return n;
}

static void close_it(void)
{
	sp_pcap_close(port.in);
	unlink(path);
}

static sp_time next(void)
{
	return sp_pcap_ops.next(&port, 0, false);
}

/* Three packets: at 0, 1.5 us and 2 s after the first. */
static void expect_three(uint64_t start)
{
	uint8_t fill = 0;
	uint32_t len = 0;

	CU_ASSERT_EQUAL(sp_pcap_start(port.in), start);
	CU_ASSERT_EQUAL(next(), 0);
	CU_ASSERT_EQUAL(take(0, &fill, &len), 1);
	CU_ASSERT(fill == 1 && len == 60);
	CU_ASSERT_EQUAL(next(), 15 * SP_US);
	CU_ASSERT_EQUAL(take(15 * SP_US - 1, &fill, &len), 0);
	CU_ASSERT_EQUAL(take(15 * SP_US, &fill, &len), 1);
	CU_ASSERT(fill == 2 && len == 64);
	CU_ASSERT_EQUAL(next(), 2 * SP_SEC);
	CU_ASSERT(!sp_pcap_ended(port.in));
	CU_ASSERT_EQUAL(take(2 * SP_SEC, &fill, &len), 1);
	CU_ASSERT(fill == 3 && len == 100);
	CU_ASSERT_EQUAL(next(), SP_NEVER);
	CU_ASSERT(sp_pcap_ended(port.in));
	CU_ASSERT_EQUAL(sp_pcap_status(port.in, &error), 0);
	close_it();
}

TEST(packets_of_a_microsecond_pcap_come_at_their_times)
{
	pcap_start(MICRO, 1);
	pcap_packet(1700000000, 999990, 60, 60, 1);
	pcap_packet(1700000001, 5, 64, 64, 2);
	pcap_packet(1700000002, 999990, 100, 100, 3);
	open_it();
	expect_three(1700000000999990000);
}

TEST(packets_of_a_nanosecond_pcap_come_at_their_times)
{
	pcap_start(NANO, 1);
	pcap_packet(1700000000, 999990001, 60, 60, 1);
	pcap_packet(1700000001, 5001, 64, 64, 2);
	pcap_packet(1700000002, 999990001, 100, 100, 3);
	open_it();
	expect_three(1700000000999990001);
}

TEST(packets_of_a_pcapng_come_at_their_times_whatever_its_resolution)
{
	pcapng_start(6);
	pcapng_packet(1700000000999990, 60, 1);
	pcapng_packet(1700000001000005, 64, 2);
	pcapng_packet(1700000002999990, 100, 3);
	open_it();
	expect_three(1700000000999990000);
	pcapng_start(9);
	pcapng_packet(1700000000999990001, 60, 1);
	pcapng_packet(1700000001000005001, 64, 2);
	pcapng_packet(1700000002999990001, 100, 3);
	open_it();
	expect_three(1700000000999990001);
}

TEST(time_never_goes_back)
{
	struct sp_pcap_counters n;
	uint32_t len;
	uint8_t fill;

	pcap_start(NANO, 1);
	pcap_packet(10, 500, 60, 60, 1);
	pcap_packet(10, 400, 60, 60, 2); /* before the first */
	pcap_packet(10, 900, 60, 60, 3);
	pcap_packet(10, 800, 60, 60, 4);
	open_it();
	CU_ASSERT_EQUAL(take(0, &fill, &len), 2);
	CU_ASSERT_EQUAL(next(), 400 * SP_NS);
	CU_ASSERT_EQUAL(take(400 * SP_NS, &fill, &len), 2);
	CU_ASSERT_EQUAL(fill, 4);
	sp_pcap_count(port.in, &n);
	CU_ASSERT_EQUAL(n.backwards, 2);
	CU_ASSERT_EQUAL(n.packets, 4);
	CU_ASSERT_EQUAL(n.bytes, 240);
	CU_ASSERT_EQUAL(sp_pcap_status(port.in, &error), 0);
	close_it();
}

TEST(a_file_cut_off_gives_what_came_before_and_then_says_so)
{
	uint32_t len;
	uint8_t fill;

	for (unsigned cut = 1; cut < 76; cut += 15) { /* within the record's header and within its bytes */
		pcap_start(NANO, 1);
		pcap_packet(10, 0, 60, 60, 1);
		pcap_packet(10, 100, 60, 60, 2);
		used -= cut;
		open_it();
		CU_ASSERT_EQUAL(take(SP_SEC, &fill, &len), 1);
		CU_ASSERT(sp_pcap_ended(port.in));
		CU_ASSERT_EQUAL(sp_pcap_status(port.in, &error), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "cut off"));
		CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "after packet 1)"));
		CU_ASSERT_PTR_NOT_NULL(strstr(error.text, path));
		close_it();
	}
	pcapng_start(9);
	pcapng_packet(1, 60, 1);
	pcapng_packet(2, 60, 2);
	used -= 30;
	open_it();
	CU_ASSERT_EQUAL(take(SP_SEC, &fill, &len), 1);
	CU_ASSERT_EQUAL(sp_pcap_status(port.in, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "cut off"));
	close_it();
}

TEST(files_that_are_no_captures_are_refused_by_name)
{
	used = 0;
	CU_ASSERT_EQUAL(try_open(1), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "empty file"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, path));
	put("this is a letter, not a capture, and a long one at that", 50);
	CU_ASSERT_EQUAL(try_open(1), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "not a capture"));
	pcap_start(MICRO, 1);
	used = 11;
	CU_ASSERT_EQUAL(try_open(1), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "cut off"));
	pcap_start(MICRO, 113); /* Linux cooked */
	CU_ASSERT_EQUAL(try_open(1), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "LINUX_SLL"));
	unlink(path);
	CU_ASSERT_EQUAL(sp_pcap_open(path, 1, &port.in, &error), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, path));
	CU_ASSERT_EQUAL(sp_pcap_open("/", 1, &port.in, &error), -EISDIR);
}

TEST(a_capture_without_packets_is_fine)
{
	pcap_start(MICRO, 1);
	open_it();
	CU_ASSERT(sp_pcap_ended(port.in));
	CU_ASSERT_EQUAL(next(), SP_NEVER);
	CU_ASSERT_EQUAL(sp_pcap_status(port.in, &error), 0);
	close_it();
}

TEST(snapped_packets_come_as_they_are_and_oversized_ones_are_an_error)
{
	struct sp_pcap_counters n;
	uint32_t len;
	uint8_t fill;

	pcap_start(NANO, 1);
	pcap_packet(10, 0, 50, 1500, 1);
	pcap_packet(10, 0, 12000, 12000, 2);
	pcap_packet(10, 0, 9600, 9600, 3);
	pcap_packet(10, 0, 0, 0, 4);
	open_it();
	CU_ASSERT_EQUAL(take(0, &fill, &len), 3);
	sp_pcap_count(port.in, &n);
	CU_ASSERT_EQUAL(n.packets, 3);
	CU_ASSERT_EQUAL(n.bytes, 9650);
	CU_ASSERT_EQUAL(n.snapped, 1);
	CU_ASSERT_EQUAL(n.oversized, 1);
	CU_ASSERT_EQUAL(sp_pcap_status(port.in, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "1 packets larger than 9600 bytes"));
	close_it();
}

TEST(a_time_stamp_years_away_ends_the_capture_instead_of_wrapping)
{
	uint32_t len;
	uint8_t fill;

	pcap_start(NANO, 1);
	pcap_packet(10, 0, 60, 60, 1);
	pcap_packet(2000000000, 0, 60, 60, 2);
	open_it();
	CU_ASSERT_EQUAL(take(SP_NEVER - 1, &fill, &len), 1);
	CU_ASSERT_EQUAL(sp_pcap_status(port.in, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "packet 2 is due more than 200 days after the first one"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "--rate"));
	close_it();
}

TEST(a_rate_in_place_of_the_time_stamps_knows_no_years)
{
	const struct sp_pcap_pace pace = {.packets = 1000};
	uint32_t len;
	uint8_t fill;

	pcap_start(NANO, 1);
	pcap_packet(10, 0, 60, 60, 1);
	pcap_packet(2000000000, 0, 60, 60, 2);
	pcap_packet(20, 0, 60, 60, 3);
	open_it();
	CU_ASSERT_EQUAL(sp_pcap_pace(port.in, &pace, &error), 0);
	CU_ASSERT_EQUAL(take(2 * SP_MS, &fill, &len), 3);
	CU_ASSERT_EQUAL(sp_pcap_status(port.in, &error), 0);
	close_it();
}

TEST(flows_are_spread_over_the_queues_and_stay_in_order)
{
	unsigned count[3] = {0}, total = 0;
	uint32_t last[3] = {0};
	int queue_of[16];

	memset(queue_of, -1, sizeof(queue_of));
	pcap_start(NANO, 1);
	for (uint32_t i = 0; i < 160; i++) {
		pcap_packet(10, i / 8, 60, 60, 0); /* eight at a time */
		uint8_t *p = file + used - 60;
		p[12] = 8;
		p[14] = 0x45;
		p[23] = 17;
		p[35] = (uint8_t)(i % 16); /* UDP source port */
		memcpy(p + 56, &i, 4);
	}
	CU_ASSERT_EQUAL_FATAL(try_open(3), 0);
	for (unsigned round = 0; round < 1000 && !sp_pcap_ended(port.in); round++)
		for (uint16_t q = 0; q < 3; q++) {
			struct rte_mbuf *m[4];
			unsigned n = sp_pcap_ops.receive(&port, q, m, 4, SP_US);

			for (unsigned k = 0; k < n; k++) {
				uint32_t i;

				memcpy(&i, rte_pktmbuf_mtod_offset(m[k], uint8_t *, 56), 4);
				CU_ASSERT(queue_of[i % 16] == -1 || queue_of[i % 16] == q);
				CU_ASSERT(!count[q] || i > last[q]);
				queue_of[i % 16] = q;
				last[q] = i;
				count[q]++;
				total++;
				rte_pktmbuf_free(m[k]);
			}
		}
	CU_ASSERT_EQUAL(total, 160);
	CU_ASSERT(count[0] && count[1] && count[2]);
	close_it();
}

TEST(without_buffers_packets_wait_and_time_goes_on)
{
	uint8_t fill;
	uint32_t len;

	pcap_start(NANO, 1);
	pcap_packet(10, 0, 60, 60, 1);
	pcap_packet(10, 3000, 60, 60, 2);
	open_it();
	buffers_take_all();
	for (sp_time now = 0; now < 10 * SP_US; now += SP_US) {
		CU_ASSERT_EQUAL_FATAL(take(now, &fill, &len), 0);
		CU_ASSERT_EQUAL_FATAL(sp_pcap_ops.next(&port, 0, false), now + SP_US);
	}
	buffers_give_back();
	CU_ASSERT_EQUAL(take(10 * SP_US, &fill, &len), 2);
	CU_ASSERT_EQUAL(fill, 2);
	CU_ASSERT(sp_pcap_ended(port.in));
	CU_ASSERT_EQUAL(sp_pcap_ops.next(&port, 0, false), SP_NEVER);
	close_it();
}

TEST(what_is_sent_is_written_with_its_time)
{
	const uint32_t header[] = {NANO, 0x00040002, 0, 0, 262144, 1};
	const uint32_t record[] = {1700000000, 999999999, 60, 60, 1700000001, 0, 60, 60};
	struct rte_mbuf *m;
	uint8_t bytes[60];

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	memset(&port, 0, sizeof(port));
	CU_ASSERT_EQUAL_FATAL(sp_pcap_create(path, 1700000000999999990, &port.out, &error), 0);
	for (unsigned i = 0; i < 2; i++) {
		m = sp_packet_alloc();
		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		memset(rte_pktmbuf_append(m, 60), (int)i + 1, 60);
		CU_ASSERT_EQUAL(sp_pcap_ops.transmit(&port, 0, &m, 1, (9 + i) * SP_NS), 1);
	}
	CU_ASSERT_EQUAL(sp_pcap_finish(port.out, &error), 0);
	int fd = open(path, O_RDONLY);
	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(read(fd, file, sizeof(file)), 24 + 2 * 76);
	close(fd);
	CU_ASSERT_EQUAL(memcmp(file, header, 24), 0);
	for (unsigned i = 0; i < 2; i++) {
		memset(bytes, (int)i + 1, 60);
		CU_ASSERT_EQUAL(memcmp(file + 24 + i * 76, record + i * 4, 16), 0);
		CU_ASSERT_EQUAL(memcmp(file + 40 + i * 76, bytes, 60), 0);
	}
	unlink(path);
}

TEST(a_full_disk_is_told_and_stops_nobody)
{
	memset(&port, 0, sizeof(port));
	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_pcap_create("/dev/full", 0, &port.out, &error), 0);
	for (unsigned i = 0; i < 200; i++) {
		struct rte_mbuf *m = sp_packet_alloc();

		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		memset(rte_pktmbuf_append(m, 1000), 0, 1000);
		CU_ASSERT_EQUAL(sp_pcap_ops.transmit(&port, 0, &m, 1, i), 1);
	}
	CU_ASSERT_EQUAL(sp_pcap_finish(port.out, &error), -ENOSPC);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "/dev/full: No space left"));
	CU_ASSERT_EQUAL(sp_pcap_create("/nonexistent/x.pcap", 0, &port.out, &error), -ENOENT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "/nonexistent/x.pcap"));
}
