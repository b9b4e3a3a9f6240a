/* SPDX-License-Identifier: BSD-3-Clause */
/* The parsers of values: what they take, what they refuse, and that a refused value leaves the output alone. */
#include "../../pipeline/value.h"
#include "../lib/suite.h"

#include "../../pipeline/nic.h"

#define KEEP 0xDEADBEEFu

struct expected {
	const char *text;
	int error;
	uint64_t value;
};

static void check(int (*parse)(const char *, uint64_t *), const struct expected *row)
{
	for (; row->text; row++) {
		uint64_t value = KEEP;
		int error = parse(row->text, &value);
		if (error != row->error || value != (row->error ? KEEP : row->value))
			printf("# \"%s\": %d, %llu\n", row->text, error, (unsigned long long)value);
		CU_ASSERT_EQUAL(error, row->error);
		CU_ASSERT_EQUAL(value, row->error ? KEEP : row->value);
	}
	uint64_t value = KEEP;
	CU_ASSERT_EQUAL(parse(NULL, &value), -EINVAL);
	CU_ASSERT_EQUAL(value, KEEP);
}

/* texts: with | between them */
static void refuse(int (*parse)(const char *, uint64_t *), int error, const char *texts)
{
	char copy[500], *rest = copy;

	CU_ASSERT_FATAL(snprintf(copy, sizeof(copy), "%s", texts) < (int)sizeof(copy));
	for (char *text; (text = strsep(&rest, "|"));)
		check(parse, (const struct expected[]){{text, error}, {NULL}});
}

TEST(uint_takes_decimal_hex_and_binary_units)
{
	check(sp_parse_uint, (const struct expected[]){{"0", 0, 0},
						       {"12", 0, 12},
						       {"010", 0, 10}, /* not octal */
						       {"0x1F", 0, 31},
						       {"0Xff", 0, 255},
						       {"64K", 0, 65536},
						       {"64k", 0, 65536},
						       {"1M", 0, 1048576},
						       {"2G", 0, 2147483648},
						       {"3T", 0, 3298534883328},
						       {"18446744073709551615", 0, UINT64_MAX},
						       {"0xFFFFFFFFFFFFFFFF", 0, UINT64_MAX},
						       {"16777215T", 0, 18446742974197923840u},
						       {NULL}});
}

TEST(uint_refuses_sign_blank_rubbish_and_overflow)
{
	refuse(sp_parse_uint, -EINVAL, "|-1|+1| 1|1 |1x|1KB|1.5K|K|0x|0x1G|0x-1|x10|1e3");
	refuse(sp_parse_uint, -ERANGE, "18446744073709551616|99999999999999999999999|0x10000000000000000|16777216T");
}

TEST(bool_takes_the_eight_words_only)
{
	check(sp_parse_bool, (const struct expected[]){{"yes", 0, 1},
						       {"no", 0, 0},
						       {"on", 0, 1},
						       {"off", 0, 0},
						       {"true", 0, 1},
						       {"false", 0, 0},
						       {"1", 0, 1},
						       {"0", 0, 0},
						       {"Yes", 0, 1},
						       {NULL}});
	refuse(sp_parse_bool, -EINVAL, "|y|2|01|yes |maybe");
}

TEST(time_is_in_picoseconds_and_exact)
{
	check(sp_parse_time, (const struct expected[]){{"10ps", 0, 10},
						       {"5ns", 0, 5000},
						       {"1.5us", 0, 1500000},
						       {"20ms", 0, 20000000000},
						       {"3s", 0, 3000000000000},
						       {"0.000000000001s", 0, 1},
						       {"1.50000000000000000000us", 0, 1500000},
						       {"0", 0, 0},
						       {"0s", 0, 0},
						       {"18446744073709551614ps", 0, UINT64_MAX - 1},
						       {NULL}});
}

TEST(time_refuses_what_it_cannot_hold)
{
	refuse(sp_parse_time, -EINVAL, "|10|us|1.us|.5us|-1us|1 us|1us2|1.2.3us|1min|0.5ps|1.01ps|1.0001ns");
	refuse(sp_parse_time, -ERANGE, "18446744073709551615ps|18446745s|18446744073709551.616ns");
}

TEST(rate_counts_in_powers_of_1000)
{
	check(sp_parse_rate, (const struct expected[]){{"1000", 0, 1000},
						       {"10k", 0, 10000},
						       {"10K", 0, 10000},
						       {"2.5M", 0, 2500000},
						       {"400G", 0, 400000000000},
						       {"1.6T", 0, 1600000000000},
						       {"0", 0, 0},
						       {NULL}});
	refuse(sp_parse_rate, -EINVAL, "|1.5|10Gbit|-1G|G");
	refuse(sp_parse_rate, -ERANGE, "20000000T");
}

static void ip4(const char *text, int error, uint32_t address, uint8_t bits)
{
	uint8_t ip[16], want[16] = {[10] = 0xff, [11] = 0xff}, prefix = 77;

	for (unsigned i = 0; i < 4; i++)
		want[12 + i] = (uint8_t)(address >> (24 - 8 * i));
	memset(ip, 0xAA, sizeof(ip));
	CU_ASSERT_EQUAL(sp_parse_ip(text, ip, &prefix), error);
	if (!error) {
		CU_ASSERT(!memcmp(ip, want, 16));
		CU_ASSERT_EQUAL(prefix, bits);
	} else {
		CU_ASSERT(ip[0] == 0xAA && ip[15] == 0xAA);
		CU_ASSERT_EQUAL(prefix, 77);
	}
}

TEST(ip_takes_both_families_with_default_prefixes)
{
	static const uint8_t want[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
	uint8_t ip[16], prefix = 0;

	ip4("10.1.2.3", 0, 0x0A010203, 24);
	ip4("10.1.2.3/8", 0, 0x0A010203, 8);
	ip4("10.1.2.3/32", 0, 0x0A010203, 32);
	ip4("::ffff:10.1.2.3", 0, 0x0A010203, 24); /* is the same address */
	ip4("::ffff:10.1.2.3/120", 0, 0x0A010203, 24);
	CU_ASSERT_EQUAL(sp_parse_ip("2001:db8::1", ip, &prefix), 0);
	CU_ASSERT(!memcmp(ip, want, 16));
	CU_ASSERT_EQUAL(prefix, 64);
	CU_ASSERT_EQUAL(sp_parse_ip("2001:DB8:0::1/128", ip, &prefix), 0);
	CU_ASSERT_EQUAL(prefix, 128);
}

TEST(ip_refuses_what_is_no_address)
{
	uint8_t ip[16], prefix;

	ip4("", -EINVAL, 0, 0);
	ip4("10.1.2", -EINVAL, 0, 0);
	ip4("10.1.2.3.4", -EINVAL, 0, 0);
	ip4("10.1.2.256", -EINVAL, 0, 0);
	ip4("10.1.2.3/", -EINVAL, 0, 0);
	ip4("10.1.2.3/33", -ERANGE, 0, 0);
	ip4("10.1.2.3/-1", -EINVAL, 0, 0);
	ip4("10.1.2.3/8x", -EINVAL, 0, 0);
	ip4("10.1.2.3/99999999999999999999", -ERANGE, 0, 0);
	ip4("::ffff:10.1.2.3/24", -ERANGE, 0, 0);
	ip4("10.1.2.3 ", -EINVAL, 0, 0);
	ip4("localhost", -EINVAL, 0, 0);
	CU_ASSERT_EQUAL(sp_parse_ip("2001:db8::1/129", ip, &prefix), -ERANGE);
	CU_ASSERT_EQUAL(sp_parse_ip("fe80::1%eth0", ip, &prefix), -EINVAL);
	CU_ASSERT_EQUAL(sp_parse_ip("1:2:3:4:5:6:7:8:9", ip, &prefix), -EINVAL);
	CU_ASSERT_EQUAL(sp_parse_ip("1111:1111:1111:1111:1111:1111:1111:1111:1111:1111", ip, &prefix), -EINVAL);
	CU_ASSERT_EQUAL(sp_parse_ip("10.1.2.3/8", ip, NULL), -EINVAL); /* no prefix asked for */
	CU_ASSERT_EQUAL(sp_parse_ip("10.1.2.3", ip, NULL), 0);
	CU_ASSERT_EQUAL(sp_parse_ip(NULL, ip, NULL), -EINVAL);
}

TEST(ip_is_written_as_it_is_read)
{
	static const char *const texts[] = {"10.1.2.3", "0.0.0.0",   "2001:db8::1",
					    "::",	"fe80::1:2", "1111:2222:3333:4444:5555:6666:7777:8888"};
	for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		uint8_t ip[16];
		char text[46];
		CU_ASSERT_EQUAL_FATAL(sp_parse_ip(texts[i], ip, NULL), 0);
		sp_format_ip(ip, text);
		CU_ASSERT_STRING_EQUAL(text, texts[i]);
	}
}

TEST(mac_is_six_pairs_of_hex)
{
	static const uint8_t want[6] = {0x02, 0x00, 0x5E, 0xAB, 0xcd, 0xff};
	static const char *const wrong[] = {"",
					    "02:00:5E:AB:cd",
					    "02:00:5E:AB:cd:ff:00",
					    "02:00:5E:AB:cd:f",
					    "02:00:5E:AB:cd:fg",
					    "02-00:5E:AB:cd:ff",
					    "0200.5EAB.cdff",
					    "2:0:5E:AB:cd:ff",
					    "02:00:5E:AB:cd:ff ",
					    "02:00:5E:AB:cd:-1"};
	uint8_t mac[6] = {0};

	CU_ASSERT_EQUAL(sp_parse_mac("02:00:5E:AB:cd:ff", mac), 0);
	CU_ASSERT(!memcmp(mac, want, 6));
	memset(mac, 0, 6);
	CU_ASSERT_EQUAL(sp_parse_mac("02-00-5e-ab-CD-FF", mac), 0);
	CU_ASSERT(!memcmp(mac, want, 6));
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		CU_ASSERT_EQUAL(sp_parse_mac(wrong[i], mac), -EINVAL);
		CU_ASSERT(!memcmp(mac, want, 6));
	}
	CU_ASSERT_EQUAL(sp_parse_mac(NULL, mac), -EINVAL);
}

TEST(nearest_word_is_found_when_close)
{
	static const char *const words[] = {"gateway", "mtu", "ip", "workers", NULL};
	char giant[1000];

	CU_ASSERT_STRING_EQUAL(sp_nearest("gatway", words), "gateway");
	CU_ASSERT_STRING_EQUAL(sp_nearest("gateawy", words), "gateway");
	CU_ASSERT_STRING_EQUAL(sp_nearest("mut", words), "mtu");
	CU_ASSERT_STRING_EQUAL(sp_nearest("worker", words), "workers");
	CU_ASSERT_STRING_EQUAL(sp_nearest("ips", words), "ip");
	CU_ASSERT_PTR_NULL(sp_nearest("colour", words));
	CU_ASSERT_PTR_NULL(sp_nearest("", words));
	memset(giant, 'g', sizeof(giant));
	giant[sizeof(giant) - 1] = 0;
	CU_ASSERT_PTR_NULL(sp_nearest(giant, words));
}
