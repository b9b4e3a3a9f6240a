/* SPDX-License-Identifier: BSD-3-Clause */
/* Several ports with captures: interfaces of pcapng files, read and written; captures on one clock. */
#include <fcntl.h>
#include <sys/stat.h>

#include "../../testbed/interfaces.h"
#include "../../testbed/pcap_port.h"
#include "../../testbed/records.h"
#include "../lib/buffers.h"
#include "../lib/suite.h"

/* Captures are written here byte by byte, so that nothing of what is tested also makes the input. */
static uint8_t file[1 << 12];
static size_t used;
static char path[] = "/tmp/spindle-ports-XXXXXX";
static struct sp_error error;

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

static void save(void)
{
	static bool named;
	int fd = named ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : mkstemp(path);

	named = true;
	CU_ASSERT_FATAL(fd >= 0 && write(fd, file, used) == (ssize_t)used);
	close(fd);
}

static void pcap(const uint32_t time[][2], unsigned packets)
{
	const uint32_t header[] = {0xA1B2C3D4, 0x00040002, 0, 0, 262144, 1};
	uint8_t bytes[60];

	used = 0;
	put(header, sizeof(header));
	for (unsigned i = 0; i < packets; i++) {
		put(time[i], 8);
		put32(60);
		put32(60);
		memset(bytes, (int)i + 1, sizeof(bytes));
		put(bytes, sizeof(bytes));
	}
	save();
}

/* A section with two interfaces in nanoseconds. swapped: in the other byte order. */
static void section_of_two(bool swapped)
{
	const uint32_t word[] = {0x0A0D0D0A, 28, 0x1A2B3C4D, 0, 0xFFFFFFFF, 0xFFFFFFFF, 28};
	const uint8_t version[] = {swapped ? 0 : 1, swapped ? 1 : 0, 0, 0};
	const uint8_t option[] = {
		swapped ? 0 : 9, swapped ? 9 : 0, swapped ? 0 : 1, swapped ? 1 : 0, 9, 0, 0, 0, 0, 0, 0, 0};
	const uint8_t link[] = {swapped ? 0 : 1, swapped ? 1 : 0, 0, 0};

	for (unsigned i = 0; i < 7; i++)
		i == 3 ? put(version, 4) : put32(swapped ? __builtin_bswap32(word[i]) : word[i]);
	for (unsigned i = 0; i < 2; i++) {
		put32(swapped ? __builtin_bswap32(1) : 1);
		put32(swapped ? __builtin_bswap32(32) : 32);
		put(link, 4);
		put32(swapped ? __builtin_bswap32(262144) : 262144);
		put(option, sizeof(option));
		put32(swapped ? __builtin_bswap32(32) : 32);
	}
}

/* type 6: with an interface; 2: with one of 16 bits; 3: without. */
static void block_of(uint32_t type, uint32_t interface, bool swapped)
{
	const uint32_t head = type == 3 ? 1 : 5, size = 12 + 4 * head + 60;
	const uint32_t first = type == 3 ? 60 : type == 2 ? (swapped ? interface << 16 : interface) : interface;
	const uint32_t word[] = {type, size, first, 0, 1000, 60, 60};
	uint8_t bytes[60];

	memset(bytes, (int)interface, sizeof(bytes));
	for (unsigned i = 0; i < 2 + head; i++)
		put32(swapped ? __builtin_bswap32(word[i]) : word[i]);
	put(bytes, sizeof(bytes));
	put32(swapped ? __builtin_bswap32(size) : size);
}

TEST(the_interface_of_each_packet_is_found_in_every_kind_of_block_and_either_byte_order)
{
	static const uint32_t type[] = {6, 6, 2, 3, 2}, interface[] = {1, 0, 1, 0, 0};
	struct sp_interfaces *all;

	for (unsigned swapped = 0; swapped < 2; swapped++) {
		used = 0;
		section_of_two(swapped);
		for (unsigned i = 0; i < 5; i++)
			block_of(type[i], interface[i], swapped);
		section_of_two(!swapped); /* another section, another order */
		block_of(6, 1, !swapped);
		save();
		CU_ASSERT_EQUAL(sp_interfaces_count(path), 2);
		CU_ASSERT_EQUAL_FATAL(sp_interfaces_open(path, &all), 0);
		CU_ASSERT_PTR_NOT_NULL_FATAL(all);
		for (unsigned i = 0; i < 5; i++)
			CU_ASSERT_EQUAL(sp_interfaces_next(all), interface[i]);
		CU_ASSERT_EQUAL(sp_interfaces_next(all), 1);
		CU_ASSERT_EQUAL(sp_interfaces_next(all), -1);
		sp_interfaces_close(all);
	}
	pcap(NULL, 0);
	CU_ASSERT_EQUAL(sp_interfaces_count(path), 1);
	CU_ASSERT_EQUAL(sp_interfaces_count("/nonexistent"), -ENOENT);
	CU_ASSERT_EQUAL(sp_interfaces_count("/dev/null"), -EINVAL);
	unlink(path);
}

TEST(blocks_that_are_cut_off_or_lie_about_their_length_end_the_interfaces)
{
	static const uint32_t length[] = {0, 11, 0x7FFFFFFC, 0xFFFFFFFF};
	struct sp_interfaces *all;

	for (unsigned i = 0; i < 4; i++) {
		used = 0;
		section_of_two(false);
		block_of(6, 1, false);
		memcpy(file + 28 + 2 * 32 + 4, &length[i], 4);
		save();
		CU_ASSERT_EQUAL_FATAL(sp_interfaces_open(path, &all), 0);
		for (unsigned n = 0; n < 2 && sp_interfaces_next(all) >= 0; n++)
			CU_ASSERT(n == 0);
		sp_interfaces_close(all);
	}
	unlink(path);
}

TEST(a_port_gets_the_packets_of_its_interface_with_their_numbers_in_the_file)
{
	struct sp_records *records;
	struct sp_record record;

	used = 0;
	section_of_two(false);
	for (unsigned i = 0; i < 6; i++)
		block_of(6, i % 3 == 2, false);
	save();
	CU_ASSERT_EQUAL_FATAL(sp_records_open_interface(path, 1, &records, &error), 0);
	for (uint64_t number = 3; number <= 6; number += 3) {
		CU_ASSERT_EQUAL(sp_records_next(records, &record, &error), 1);
		CU_ASSERT_EQUAL(sp_records_count(records), number);
		CU_ASSERT_EQUAL(*record.bytes, 1);
	}
	CU_ASSERT_EQUAL(sp_records_next(records, &record, &error), 0);
	sp_records_close(records);
	CU_ASSERT_EQUAL(sp_records_open_interface("/dev/null", 1, &records, &error), -EINVAL);
	unlink(path);
}

TEST(what_several_ports_send_is_one_pcapng_with_an_interface_for_each)
{
	struct sp_pcap_port port = {.interface = 0}, other = {.interface = 1};
	uint32_t word[4];

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_pcap_create_ports(path, 1000, 2, &port.out, &error), 0);
	other.out = port.out;
	for (unsigned i = 0; i < 3; i++) {
		struct rte_mbuf *m = sp_packet_alloc();

		CU_ASSERT_PTR_NOT_NULL_FATAL(m);
		memset(rte_pktmbuf_append(m, 60), (int)i, 60);
		CU_ASSERT_EQUAL(sp_pcap_ops.transmit(i == 1 ? &port : &other, 0, &m, 1, i * SP_NS), 1);
	}
	CU_ASSERT_EQUAL(sp_pcap_finish(port.out, &error), 0);
	CU_ASSERT_EQUAL(sp_interfaces_count(path), 2);
	for (unsigned interface = 0; interface < 2; interface++) {
		struct sp_records *records;
		struct sp_record record;

		CU_ASSERT_EQUAL_FATAL(sp_records_open_interface(path, (int)interface, &records, &error), 0);
		for (unsigned i = 1 - interface; i < 3; i += interface ? 2 : 3) {
			CU_ASSERT_EQUAL_FATAL(sp_records_next(records, &record, &error), 1);
			CU_ASSERT_EQUAL(record.ns, 1000 + i);
			CU_ASSERT_EQUAL(*record.bytes, i);
			CU_ASSERT_EQUAL(record.len, 60);
		}
		CU_ASSERT_EQUAL(sp_records_next(records, &record, &error), 0);
		sp_records_close(records);
	}
	const int fd = open(path, O_RDONLY);
	CU_ASSERT_FATAL(fd >= 0);
	CU_ASSERT_EQUAL(read(fd, word, sizeof(word)), sizeof(word));
	CU_ASSERT_EQUAL(word[0], 0x0A0D0D0A);
	close(fd);
	unlink(path);
	CU_ASSERT_EQUAL_FATAL(sp_pcap_create_ports("/dev/full", 0, 2, &port.out, &error), 0);
	CU_ASSERT_EQUAL(sp_pcap_finish(port.out, &error), -ENOSPC);
	CU_ASSERT_EQUAL(sp_pcap_create_ports("/nonexistent/x", 0, 2, &port.out, &error), -ENOENT);
}

/* Two packets, 5 us apart. */
static struct sp_pcap *pair_at(const char *name, uint32_t seconds, uint32_t us)
{
	const uint32_t time[][2] = {{seconds, us}, {seconds, us + 5}};
	struct sp_pcap *c;

	pcap(time, 2);
	CU_ASSERT_EQUAL_FATAL(rename(path, name), 0);
	CU_ASSERT_EQUAL_FATAL(sp_pcap_open(name, 1, &c, &error), 0);
	return c;
}

/* The next packet comes at that time, and not before. */
static void comes(struct sp_pcap *c, sp_time at, uint8_t fill)
{
	struct sp_pcap_port port = {.in = c};
	struct rte_mbuf *m[2];

	CU_ASSERT_EQUAL(sp_pcap_ops.next(&port, 0, false), at);
	CU_ASSERT(!at || !sp_pcap_ops.receive(&port, 0, m, 2, at - 1));
	CU_ASSERT_EQUAL_FATAL(sp_pcap_ops.receive(&port, 0, m, 2, at), 1);
	CU_ASSERT_EQUAL(*rte_pktmbuf_mtod(m[0], uint8_t *), fill);
	rte_pktmbuf_free(m[0]);
}

TEST(joined_captures_have_one_clock_and_begin_each_pass_together)
{
	char name[2][64];
	struct sp_pcap *c[2];
	const struct sp_pcap_pace twice = {.passes = 2};

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	save(); /* path gets its name */
	for (unsigned i = 0; i < 2; i++) {
		snprintf(name[i], sizeof(name[i]), "%s-%u", path, i);
		c[i] = pair_at(name[i], 1, i ? 0 : 10);
		CU_ASSERT_EQUAL(sp_pcap_pace(c[i], &twice, &error), 0);
	}
	CU_ASSERT_EQUAL_FATAL(sp_pcap_join(c, 2, &error), 0);
	for (unsigned i = 0; i < 2; i++) { /* all last 15 us; a third of that later, again */
		const sp_time first = i ? 0 : 10 * SP_US;

		CU_ASSERT_EQUAL(sp_pcap_start(c[i]), 1000000000);
		comes(c[i], first, 1);
		comes(c[i], first + 5 * SP_US, 2);
		comes(c[i], first + 20 * SP_US, 1);
		comes(c[i], first + 25 * SP_US, 2);
		CU_ASSERT(sp_pcap_ended(c[i]));
		sp_pcap_close(c[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		c[i] = pair_at(name[i], i ? 1 : 201 * 86400, 0);
	CU_ASSERT_EQUAL(sp_pcap_join(c, 2, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "more than 200 days after"));
	for (unsigned i = 0; i < 2; i++) {
		sp_pcap_close(c[i]);
		unlink(name[i]);
	}
}
