/* SPDX-License-Identifier: BSD-3-Clause */
/* nic.ini: what it may say, where each key stood, and that every mistake is named with file and line. */
#include "../lib/suite.h"

#include "../../pipeline/config/config.h"

static struct sp_error error;

static struct sp_config *parse(const char *text)
{
	struct sp_config *config = NULL;

	error = (struct sp_error){.key = ""};
	int result = sp_config_parse("nic.ini", text, strlen(text), &config, &error);
	if (result)
		printf("# %s\n", error.text);
	CU_ASSERT_EQUAL_FATAL(result, 0);
	CU_ASSERT_PTR_NOT_NULL_FATAL(config);
	return config;
}

/* Parsing, or reading [nic], must fail with a text that begins so and contains that. */
static void refused_bytes(const char *text, size_t len, const char *begins, const char *contains)
{
	struct sp_config *config = NULL;
	struct sp_nic_config nic = {0};

	error = (struct sp_error){.key = ""};
	int result = sp_config_parse("nic.ini", text, len, &config, &error);
	CU_ASSERT_EQUAL(config == NULL, result != 0);
	if (!result)
		result = sp_config_nic(config, &nic, &error);
	if (result != -EINVAL || strncmp(error.text, begins, strlen(begins)) || !strstr(error.text, contains))
		printf("# wanted '%s ... %s', have %d '%s'\n", begins, contains, result, error.text);
	CU_ASSERT_EQUAL(result, -EINVAL);
	CU_ASSERT(!strncmp(error.text, begins, strlen(begins)));
	CU_ASSERT(strstr(error.text, contains) != NULL);
	sp_config_free(config);
}

static void refused(const char *text, const char *begins, const char *contains)
{
	refused_bytes(text, strlen(text), begins, contains);
}

TEST(every_key_knows_its_line)
{
	struct sp_config *c = parse("; comment\n"
				    "[nic]\n"
				    "\n"
				    "mtu = 9000 ; jumbo\r\n"
				    "   name = left\n"
				    "# more\n"
				    "[ context  data ] ; the receiver\n"
				    "handler=sdr\n"
				    "filter = udp port 53 and host 10.0.0.1\n"
				    "qp: 0x20");

	CU_ASSERT_EQUAL_FATAL(c->sections, 2);
	CU_ASSERT_STRING_EQUAL(c->file, "nic.ini");
	CU_ASSERT_STRING_EQUAL(c->section[0].kind, "nic");
	CU_ASSERT_STRING_EQUAL(c->section[0].name, "");
	CU_ASSERT_EQUAL(c->section[0].line, 2);
	CU_ASSERT_EQUAL_FATAL(c->section[0].keys, 2);
	CU_ASSERT_STRING_EQUAL(c->section[0].key[0].name, "mtu");
	CU_ASSERT_STRING_EQUAL(c->section[0].key[0].value, "9000");
	CU_ASSERT_EQUAL(c->section[0].key[0].line, 4);
	CU_ASSERT_EQUAL(c->section[0].key[1].line, 5);
	CU_ASSERT_STRING_EQUAL(c->section[1].kind, "context");
	CU_ASSERT_STRING_EQUAL(c->section[1].name, "data");
	CU_ASSERT_EQUAL(c->section[1].line, 7);
	CU_ASSERT_EQUAL_FATAL(c->section[1].keys, 3);
	CU_ASSERT_STRING_EQUAL(c->section[1].key[1].value, "udp port 53 and host 10.0.0.1");
	CU_ASSERT_STRING_EQUAL(c->section[1].key[2].name, "qp");
	CU_ASSERT_STRING_EQUAL(c->section[1].key[2].value, "0x20");
	CU_ASSERT_EQUAL(c->section[1].key[2].line, 10);
	sp_config_free(c);
}

TEST(indented_line_is_a_key_not_a_continuation)
{
	struct sp_config *c = parse("[nic]\nmtu = 9000\n\tworkers = 2\n");

	CU_ASSERT_EQUAL_FATAL(c->section[0].keys, 2);
	CU_ASSERT_STRING_EQUAL(c->section[0].key[0].value, "9000");
	CU_ASSERT_STRING_EQUAL(c->section[0].key[1].name, "workers");
	sp_config_free(c);
	refused("[nic]\nmtu = 9000\n   more\n", "nic.ini:3: ", "KEY = VALUE");
}

TEST(section_without_keys_is_kept)
{
	struct sp_config *c = parse("[context a]\n[context b]\n");

	CU_ASSERT_EQUAL(c->sections, 2);
	CU_ASSERT_STRING_EQUAL(c->section[0].name, "a");
	CU_ASSERT_EQUAL(c->section[1].line, 2);
	sp_config_free(c);
}

TEST(empty_file_and_byte_order_mark_are_no_error)
{
	struct sp_nic_config nic = {0}, zero = {0};
	struct sp_config *c = parse("");

	CU_ASSERT_EQUAL(c->sections, 0);
	CU_ASSERT_EQUAL(sp_config_nic(c, &nic, &error), 0);
	CU_ASSERT(!memcmp(&nic, &zero, sizeof(nic)));
	sp_config_free(c);
	CU_ASSERT_EQUAL(sp_config_parse("nic.ini", NULL, 0, &c, NULL), 0);
	sp_config_free(c);
	c = parse("\xEF\xBB\xBF[nic]\nmtu = 1500\n");
	CU_ASSERT_EQUAL(c->section[0].keys, 1);
	CU_ASSERT_EQUAL(c->section[0].key[0].line, 2);
	sp_config_free(c);
}

TEST(broken_lines_are_named)
{
	refused("[nic]\nmtu 9000\n", "nic.ini:2: ", "KEY = VALUE");
	refused("mtu = 9000\n", "nic.ini:1: ", "before the first section");
	refused("[nic]\n\n= 5\n", "nic.ini:3: ", "without a key");
	refused("[nic\nmtu = 9000\n", "nic.ini:1: ", "']'");
	refused("[nic] mtu = 9000\n", "nic.ini:1: ", "behind ']'");
	refused("[nic]\nbad\n[host]\n", "nic.ini:2: ", "KEY = VALUE"); /* the first mistake, though inih reads on */
	refused_bytes("[nic]\nmtu = 90\00000\n", 18, "nic.ini:2: ", "control character 0x00");
	refused("[nic]\nmtu = \033[31m\n", "nic.ini:2: ", "control character 0x1b");
}

TEST(sections_are_checked)
{
	refused("[nic]\n[nik]\n", "nic.ini:2: ", "[nic]");
	refused("[nic]\nmtu = 9000\n[nic]\n", "nic.ini:3: ", "line 1");
	refused("[nic left]\n", "nic.ini:1: ", "no name");
	refused("[context]\n", "nic.ini:1: ", "needs a name");
	refused("[context a b]\n", "nic.ini:1: ", "letters");
	refused("[context a=b]\n", "nic.ini:1: ", "letters");
	refused("[context abcdefghijabcdefghijabcdefghijabcdefghij]\n", "nic.ini:1: ", "39");
	refused("[context a]\nhandler = sdr\n[nic]\n[context a]\n", "nic.ini:4: ", "line 1");
	refused("[contxt a]\n", "nic.ini:1: ", "is [context] meant");
}

TEST(long_line_is_refused_not_cut)
{
	char text[600] = "[context a]\nfilter = ";

	/* 198 bytes are inih's most */
	memset(text + strlen(text), 'x', 198 - 9);
	struct sp_config *c = parse(text);
	CU_ASSERT_EQUAL(strlen(c->section[0].key[0].value), 198 - 9);
	sp_config_free(c);
	strcat(text, "x\nqp = 2\n");
	refused(text, "nic.ini:2: ", "more than 198 bytes");
}

TEST(too_much_is_refused_quickly)
{
	size_t room = 300000, used;
	char *text = malloc(room);

	memset(text, '\n', room);
	refused_bytes(text, 100001, "nic.ini:100001: ", "100000 lines");
	used = (size_t)sprintf(text, "[context a]\n");
	for (unsigned i = 0; i < 257; i++)
		used += (size_t)sprintf(text + used, "key%u = 1\n", i);
	refused_bytes(text, used, "nic.ini:258: ", "256 keys");
	used = 0;
	for (unsigned i = 0; i < 5000; i++)
		used += (size_t)sprintf(text + used, "[context c%u]\n", i);
	refused_bytes(text, used, "nic.ini:4162: ", "4161 sections");
	free(text);
}

TEST(key_given_twice_is_refused_unless_it_may_repeat)
{
	refused("[nic]\nmtu = 1500\nmtu = 9000\n", "nic.ini:3: ", "line 2");
	refused("[context a]\nqp = 5\n\nqp = 6\n", "nic.ini:4: ", "line 2");
	refused("[context a]\nip = 10.0.0.1\nip = 10.0.0.2\n", "nic.ini:3: ", "line 2");
	sp_config_free(parse("[nic]\nip = 10.0.0.1\nip = 10.0.0.2\nneighbour = a\nneighbour = b\nport = a\nport = b\n"
			     "gateway = 10.0.0.9\ngateway = fe80::9\n"));
}

TEST(nic_section_becomes_the_configuration)
{
	static const uint8_t v4[3][4] = {{10, 0, 0, 1}, {10, 0, 0, 2}, {192, 168, 1, 1}}, left[6] = {2, 0, 0, 0, 0, 1};
	struct sp_config *c = parse("[nic]\n"
				    "name = left\n"
				    "ip = 10.0.0.1/16 , 10.0.0.2,2001:db8::5\n"
				    "ip = 192.168.1.1/30\n"
				    "mac = 02:00:00:00:00:01\n"
				    "mtu = 9000\n"
				    "gateway = 10.0.0.254\n"
				    "gateway = fe80::1\n"
				    "workers = 4\n"
				    "seed = 0x2A\n"
				    "icrc = no\n"
				    "port = net_pcap0\n"
				    "port = 0000:01:00.0\n"
				    "exception = net_tap0\n"
				    "exception-address = yes\n"
				    "exception-netns = apps\n"
				    "neighbour = 10.0.0.9 \t 02:00:00:00:00:09\n"
				    "neighbour = 2001:db8::9 02:00:00:00:00:0a\n"
				    "memory-limit = 2G\n"
				    "vlan = 4094\n"
				    "stall = 250ms\n"
				    "fault-capture = /tmp/faults.pcapng\n"
				    "idle = spin\n");
	struct sp_nic_config nic = {0};

	CU_ASSERT_EQUAL_FATAL(sp_config_nic(c, &nic, &error), 0);
	CU_ASSERT_STRING_EQUAL(nic.name, "left");
	CU_ASSERT_EQUAL(nic.stall, 250 * SP_MS);
	CU_ASSERT_STRING_EQUAL(nic.fault_capture, "/tmp/faults.pcapng");
	CU_ASSERT_EQUAL_FATAL(nic.addresses, 4);
	CU_ASSERT(!memcmp(nic.address[0].ip + 12, v4[0], 4) && nic.address[0].prefix == 16);
	CU_ASSERT(!memcmp(nic.address[1].ip + 12, v4[1], 4) && nic.address[1].prefix == 24);
	CU_ASSERT(nic.address[2].ip[0] == 0x20 && nic.address[2].ip[15] == 5 && nic.address[2].prefix == 64);
	CU_ASSERT(!memcmp(nic.address[3].ip + 12, v4[2], 4) && nic.address[3].prefix == 30);
	CU_ASSERT(!memcmp(nic.mac, left, 6));
	CU_ASSERT_EQUAL(nic.mtu, 9000);
	CU_ASSERT(nic.gateway4[10] == 0xFF && nic.gateway4[15] == 254);
	CU_ASSERT(nic.gateway6[0] == 0xFE && nic.gateway6[15] == 1);
	CU_ASSERT_EQUAL(nic.workers, 4);
	CU_ASSERT_EQUAL(nic.seed, 42);
	CU_ASSERT(nic.icrc_off);
	CU_ASSERT_EQUAL_FATAL(nic.ports, 2);
	CU_ASSERT_STRING_EQUAL(nic.port[0].device, "net_pcap0");
	CU_ASSERT_STRING_EQUAL(nic.port[1].device, "0000:01:00.0");
	CU_ASSERT_STRING_EQUAL(nic.exception.device, "net_tap0");
	CU_ASSERT(nic.exception_address);
	CU_ASSERT_STRING_EQUAL(nic.exception_netns, "apps");
	CU_ASSERT_EQUAL_FATAL(nic.neighbours, 2);
	CU_ASSERT(nic.neighbour[0].ip[15] == 9 && nic.neighbour[0].mac[5] == 9);
	CU_ASSERT(nic.neighbour[1].ip[0] == 0x20 && nic.neighbour[1].mac[5] == 10);
	CU_ASSERT_EQUAL(nic.memory_limit, 2147483648);
	CU_ASSERT_EQUAL(nic.vlan, 4094);
	CU_ASSERT_EQUAL(nic.idle, SP_IDLE_SPIN);
	sp_config_free(c);
}

TEST(addresses_name_their_port_behind_them)
{
	struct sp_nic_config nic = {0};
	struct sp_config *c = parse("[nic]\n"
				    "ip = 10.0.0.1/16, 10.1.0.1/16 1 ,2001:db8::5 \t 0\n"
				    "ip = 192.168.1.1 2\n"
				    "gateway = fe80::1 2\n"
				    "port = a\nport = b\nport = c\n");

	CU_ASSERT_EQUAL_FATAL(sp_config_nic(c, &nic, &error), 0);
	CU_ASSERT_EQUAL_FATAL(nic.addresses, 4);
	CU_ASSERT(nic.address[0].port == 0 && nic.address[0].prefix == 16);
	CU_ASSERT(nic.address[1].port == 1 && nic.address[1].prefix == 16 && nic.address[1].ip[13] == 1);
	CU_ASSERT(nic.address[2].port == 0 && nic.address[2].prefix == 64);
	CU_ASSERT(nic.address[3].port == 2 && nic.address[3].prefix == 24);
	CU_ASSERT(nic.gateway6_port == 2 && nic.gateway6[0] == 0xFE);
	sp_config_free(c);
	memset(&nic, 0, sizeof(nic));
	c = parse("[nic]\nip = 10.0.0.1 3\n"); /* whoever reads it brings the ports */
	CU_ASSERT_EQUAL(sp_config_nic(c, &nic, &error), 0);
	CU_ASSERT_EQUAL(nic.address[0].port, 3);
	sp_config_free(c);
}

TEST(ports_that_do_not_exist_are_refused_with_their_line)
{
	refused("[nic]\nip = 10.0.0.1\nip = 10.1.0.1, 10.2.0.1 1\nport = a\n", "nic.ini:3: ", "there is no port 1");
	refused("[nic]\nip = 2001:db8::1\ngateway = fe80::1 3\nport = a\nport = b\n",
		"nic.ini:3: ", "there is no port 3");
	CU_ASSERT_STRING_EQUAL(error.key, "gateway");
	refused("[nic]\nip = 10.0.0.1/24 4\n", "nic.ini:2: ", "'4' is no port: 0 to 3");
	refused("[nic]\nip = 10.0.0.1/24 -1\n", "nic.ini:2: ", "'-1' is no port");
	refused("[nic]\nip = 10.0.0.1/24 1 1\n", "nic.ini:2: ", "'1 1' is no port");
	refused("[nic]\ngateway = 10.0.0.1 1\n", "nic.ini:2: ", "only a link-local one");
	refused("[nic]\ngateway = 2001:db8::1 1\n", "nic.ini:2: ", "only a link-local one");
}

TEST(unknown_key_is_refused_with_the_nearest)
{
	refused("[nic]\nip = 10.0.0.1\n\ngatway = 10.0.0.2\n", "nic.ini:4: ", "is gateway meant?");
	CU_ASSERT_STRING_EQUAL(error.key, "gatway");
	refused("[nic]\nneighbor = 10.0.0.2 02:00:00:00:00:01\n", "nic.ini:2: ", "is neighbour meant?");
	refused("[nic]\ncolour = red\n", "nic.ini:2: ", "has no key colour");
	CU_ASSERT_PTR_NULL(strstr(error.text, "meant"));
	refused("[nic]\nMTU = 9000\n", "nic.ini:2: ", "has no key MTU");
}

TEST(bad_values_are_refused)
{
	static const struct {
		const char *key, *values; /* with | between them */
	} wrong[] = {
		{"ip", "|10.0.0|10.0.0.1/33|10.0.0.1/0|10.0.0.1,|10.0.0.1,,10.0.0.2|10.0.0.1 10.0.0.2|"
		       "10.0.0.1, 10.0.0.1/16|0.0.0.0|224.0.0.1|239.1.1.1|255.255.255.255|::|ff02::1|"
		       "::ffff:224.0.0.1|"
		       "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7,10.0.0.8,10.0.0.9"},
		{"mac", "00:00:00:00:00:00|01:00:5e:00:00:01|ff:ff:ff:ff:ff:ff|02:00:00:00:01"},
		{"mtu", "575|9501|-1500|1500x|1500 # bytes|99999999999999999999999"},
		{"gateway", "10.0.0.1/24|224.0.0.1"},
		{"workers", "0|17"},
		{"seed", "0|soon"},
		{"icrc", "perhaps"},
		{"port", "|a b"},
		{"neighbour", "10.0.0.1|10.0.0.1 02:00:00:00:00|10.0.0.1 03:00:00:00:00:01|"
			      "255.255.255.255 02:00:00:00:00:01|10.0.0.1 02:00:00:00:00:01 x"},
		{"name", "|abcdefghijabcdefghijabcdefghij01"},
		{"memory-limit", "0"},
		{"vlan", "0|4095|no"},
		{"idle", "often"},
		{"stall", "9ms|soon|2h"},
		{"fault-capture", "faults.pcapng|/tmp/"},
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		char values[500], text[300], *rest = values;

		snprintf(values, sizeof(values), "%s", wrong[i].values);
		for (char *value; (value = strsep(&rest, "|"));) {
			snprintf(text, sizeof(text), "[context a]\nx = 1\n[nic]\n%s =%s%s\n", wrong[i].key,
				 *value ? " " : "", value);
			refused(text, "nic.ini:4: ", "");
			CU_ASSERT_STRING_EQUAL(error.key, wrong[i].key);
		}
	}
}

TEST(values_that_clash_are_refused_at_the_second)
{
	refused("[nic]\nip = 10.0.0.1\nip = 10.0.0.2\nip = 10.0.0.1/16\n", "nic.ini:4: ", "twice");
	refused("[nic]\ngateway = 10.0.0.1\ngateway = 10.0.0.2\n", "nic.ini:3: ", "second");
	refused("[nic]\nport = net_tap0\nport = net_tap0\n", "nic.ini:3: ", "already");
	refused("[nic]\nport = net_tap0\nexception = net_tap0\n", "nic.ini:3: ", "already");
	refused("[nic]\nexception-address = 192.0.2.1\n", "nic.ini:2: ", "neither yes nor no");
	refused("[nic]\nexception = net_tap0\nport = net_tap0\n", "nic.ini:3: ", "already");
	refused("[nic]\nneighbour = fe80::1 02:00:00:00:00:01\nneighbour = fe80:0::1 02:00:00:00:00:02\n",
		"nic.ini:3: ", "twice");
	refused("[nic]\nport = a\nport = b\nport = c\nport = d\nport = e\n", "nic.ini:6: ", "4 ports");
}

TEST(file_is_read_and_named)
{
	const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
	char file[512], begins[520];
	struct sp_config *c = NULL;
	struct sp_nic_config nic = {0};

	snprintf(file, sizeof(file), "%s/spindle-config-XXXXXX", folder);
	int fd = mkstemp(file);
	CU_ASSERT_FATAL(fd >= 0 && write(fd, "[nic]\nmtu = 9000\nbogus = 1\n", 27) == 27);
	CU_ASSERT_EQUAL(sp_config_read(file, &c, &error), 0);
	CU_ASSERT_EQUAL(sp_config_nic(c, &nic, &error), -EINVAL);
	snprintf(begins, sizeof(begins), "%s:3: ", strrchr(file, '/'));
	CU_ASSERT(strstr(error.text, begins) != NULL); /* of a long path the end is told */
	sp_config_free(c);
	CU_ASSERT_EQUAL(ftruncate(fd, (8 << 20) + 1), 0);
	CU_ASSERT_EQUAL(sp_config_read(file, &c, &error), -EFBIG);
	CU_ASSERT_PTR_NULL(c);
	close(fd);
	unlink(file);
	CU_ASSERT_EQUAL(sp_config_read(file, &c, &error), -ENOENT);
	CU_ASSERT(strstr(error.text, strrchr(file, '/')) != NULL);
	CU_ASSERT_PTR_NULL(c);
	CU_ASSERT_EQUAL(sp_config_read(folder, &c, &error), -EISDIR);
	sp_config_free(NULL);
}

TEST(long_path_leaves_room_for_the_mistake)
{
	char name[1000];
	struct sp_config *c;

	memset(name, 'd', sizeof(name));
	strcpy(name + 900, "/the.ini");
	CU_ASSERT_EQUAL(sp_config_parse(name, "nothing\n", 8, &c, &error), -EINVAL);
	CU_ASSERT(strstr(error.text, "/the.ini:1: neither") != NULL);
}

/* Contexts of a real NIC, without ports. */
static int contexts(const char *text)
{
	struct sp_config *c = parse(text);
	struct sp_nic_config config = {0};
	struct sp_nic *nic = NULL;

	CU_ASSERT_EQUAL_FATAL(sp_eal_init(0, NULL, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_config_nic(c, &config, &error), 0);
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&config, &error, &nic), 0);
	int result = sp_config_contexts(c, nic, &error);
	if (!result) {
		uint32_t id;
		CU_ASSERT_EQUAL(sp_nic_context_find(nic, "a", &id), 0);
		CU_ASSERT_EQUAL(sp_nic_context_find(nic, "z", &id), -ENOENT);
	}
	sp_nic_destroy(nic);
	sp_config_free(c);
	return result;
}

static bool starts(const char *with)
{
	bool good = !strncmp(error.text, with, strlen(with));

	if (!good)
		printf("# wanted '%s...', have '%s'\n", with, error.text);
	return good;
}

TEST(context_errors_name_file_and_line)
{
#define NIC "[nic]\nip = 10.0.0.1\nmac = 02:00:00:00:00:01\n"
	CU_ASSERT_EQUAL(contexts(NIC "[context a]\nhandler = sdr\nqp = 0x100\nrkey = 1\n"), 0);
	/* two contexts on one QP */
	CU_ASSERT_EQUAL(contexts(NIC "[context a]\nhandler = sdr\nqp = 0x100\nrkey = 1\n\n"
				     "[context b]\nhandler = sdr\nrkey = 1\nqp = 0x100\n"),
			-EADDRINUSE);
	CU_ASSERT(starts("nic.ini:12: "));
	CU_ASSERT_STRING_EQUAL(error.key, "qp");
	/* a range that reaches into another's */
	CU_ASSERT_EQUAL(contexts(NIC "[context a]\nhandler = sdr\nqp = 0x100\nrkey = 1\n"
				     "[context b]\nhandler = sdr\nrkey = 1\nqp = 0xFF\ngenerations = 2\n"),
			-EADDRINUSE);
	CU_ASSERT(starts("nic.ini:11: "));
	CU_ASSERT(contexts(NIC "[context a]\nhandler = sdr\nqp = 1\nrkey = 1\n") < 0);
	CU_ASSERT(starts("nic.ini:6: "));
	CU_ASSERT(contexts(NIC "[context a]\nhandler = sdr\nqp = 16\nrkey = 1\nmtu = often\n") < 0);
	CU_ASSERT(starts("nic.ini:8: "));
	CU_ASSERT(contexts(NIC "[context a]\nhandler = sdr\nqp = 16\nrkey = 1\nnonsense = 5\n") < 0);
	CU_ASSERT(starts("nic.ini:8: "));
	CU_ASSERT(contexts(NIC "[context a]\nhandler = nosuch\nqp = 16\n") < 0);
	CU_ASSERT(starts("nic.ini:5: "));
	CU_ASSERT(contexts(NIC "\n[context a]\nqp = 16\n") < 0);
	CU_ASSERT(starts("nic.ini:5: "));
	CU_ASSERT(strstr(error.text, "handler") != NULL);
	CU_ASSERT(contexts(NIC "[context a]\nhandler = count\nfilter = udp prt 53\n") < 0);
	CU_ASSERT(starts("nic.ini:6: "));
}

/* ---- the server's part ---- */
static struct sp_server_config server;

static void served(const char *text)
{
	struct sp_config *c = parse(text);
	int result = sp_config_server(c, &server, &error);

	if (result)
		printf("# %s\n", error.text);
	CU_ASSERT_EQUAL(result, 0);
	server.path = NULL; /* ends with the configuration */
	sp_config_free(c);
}

static void not_served(const char *text, const char *begins, const char *contains)
{
	struct sp_config *c = parse(text);
	int result = sp_config_server(c, &server, &error);

	if (result != -EINVAL || strncmp(error.text, begins, strlen(begins)) || !strstr(error.text, contains))
		printf("# wanted '%s ... %s', have %d '%s'\n", begins, contains, result, error.text);
	CU_ASSERT_EQUAL(result, -EINVAL);
	CU_ASSERT(!strncmp(error.text, begins, strlen(begins)));
	CU_ASSERT(strstr(error.text, contains) != NULL);
	sp_config_free(c);
}

TEST(server_keys_and_limits_become_the_servers_configuration)
{
	struct sp_config *c =
		parse("[nic]\nsocket = /run/x/y\nsocket-mode = 0660\nsocket-group = 7\napplications = 3\n"
		      "[limits one]\nuser = 1000\nmemory = 64M\ncontexts = 4\nqps = 128\nmessages = 1K\nfilters = yes\n"
		      "applications = 2\n"
		      "[context a]\nhandler = count\n"
		      "[limits two]\nuser = root\nmemory = 1\n"
		      "[limits rest]\nrefuse = yes\nuser = everyone\n");
	struct sp_nic_config nic = {0};

	CU_ASSERT_EQUAL_FATAL(sp_config_server(c, &server, &error), 0);
	CU_ASSERT_STRING_EQUAL(server.path, "/run/x/y");
	CU_ASSERT_EQUAL(server.mode, 0660);
	CU_ASSERT_EQUAL(server.group, 7);
	CU_ASSERT_EQUAL(server.applications, 3);
	CU_ASSERT_EQUAL_FATAL(server.users, 3);
	CU_ASSERT(!server.user[0].everyone && server.user[0].uid == 1000 && !server.user[0].refused);
	CU_ASSERT_EQUAL(server.user[0].limits.memory, 64 << 20);
	CU_ASSERT_EQUAL(server.user[0].limits.contexts, 4);
	CU_ASSERT_EQUAL(server.user[0].limits.qps, 128);
	CU_ASSERT_EQUAL(server.user[0].limits.messages, 1024);
	CU_ASSERT(server.user[0].applications == 2 && !server.user[1].applications);
	CU_ASSERT(server.user[0].filters && !server.user[1].filters);
	CU_ASSERT(!server.user[1].everyone && server.user[1].uid == 0 && server.user[1].limits.memory == 1);
	CU_ASSERT_EQUAL(server.user[1].limits.contexts, 0);
	CU_ASSERT(server.user[2].everyone && server.user[2].refused);
	CU_ASSERT_EQUAL(sp_config_nic(c, &nic, &error), 0); /* does not mind them */
	sp_config_free(c);
	served("[limits a]\nuser = 5\nweight = 7\nworker-time = 150%\npackets = 1.5M/s\nbytes = 2G\n");
	CU_ASSERT(server.user[0].weight == 7 && server.user[0].worker_time == 150);
	CU_ASSERT(server.user[0].packets == 1500000 && server.user[0].bytes == 2000000000);
	served("[nic]\nmtu = 1500\n"); /* nothing said: the group is as it comes, the rest default */
	CU_ASSERT(server.group == -1 && !server.mode && !server.users && !server.applications);
	served("[nic]\nsocket-group = root\n");
	CU_ASSERT_EQUAL(server.group, 0);
}

TEST(server_mistakes_are_named_with_their_line)
{
	not_served("[nic]\nsocket = here/y\n", "nic.ini:2: socket: ", "absolute");
	not_served("[nic]\nsocket = /run/x/\n", "nic.ini:2: socket: ", "directory");
	not_served("[nic]\nsocket = /0123456789012345678901234567890123456789012345678901234567890123456789"
		   "01234567890123456789012345678901234567\n",
		   "nic.ini:2: socket: ", "107");
	not_served("[nic]\n\nsocket-mode = 0860\n", "nic.ini:3: socket-mode: ", "0860");
	not_served("[nic]\nsocket-mode = 1660\n", "nic.ini:2: socket-mode: ", "1660");
	not_served("[nic]\nsocket-mode = 0060\n", "nic.ini:2: socket-mode: ", "0060");
	not_served("[nic]\nsocket-mode = rw\n", "nic.ini:2: socket-mode: ", "rw");
	not_served("[nic]\nsocket-group = no/such\n", "nic.ini:2: socket-group: ", "no/such");
	not_served("[nic]\napplications = 0\n", "nic.ini:2: applications: ", "range");
	not_served("[limits a]\nuser = no/such\n", "nic.ini:2: user: ", "no/such");
	not_served("[limits a]\nuser = 4294967295\n", "nic.ini:2: user: ", "4294967295");
	not_served("[limits a]\nuser = 0\nmemory = much\n", "nic.ini:3: memory: ", "much");
	not_served("[limits a]\nuser = 0\nmemory = 0\n", "nic.ini:3: memory: ", "range");
	not_served("[limits a]\nuser = 0\ncontexts = 4097\n", "nic.ini:3: contexts: ", "1 to 4096");
	not_served("[limits a]\nuser = 0\napplications = 4097\n", "nic.ini:3: applications: ", "1 to 4096");
	not_served("[limits a]\nuser = 0\nqps = 131073\n", "nic.ini:3: qps: ", "1 to 131072");
	not_served("[limits a]\nuser = 0\nmessages = 4G\n", "nic.ini:3: messages: ", "range");
	not_served("[limits a]\nuser = 0\nrefuse = perhaps\n", "nic.ini:3: refuse: ", "perhaps");
	not_served("[limits a]\nuser = 0\nfilters = 2\n", "nic.ini:3: filters: ", "2");
	not_served("[limits a]\nuser = 0\nweight = 1001\n", "nic.ini:3: weight: ", "1 to 1000");
	not_served("[limits a]\nuser = 0\nworker-time = 20\n", "nic.ini:3: worker-time: ", "20%");
	not_served("[limits a]\nuser = 0\nworker-time = 0%\n", "nic.ini:3: worker-time: ", "range");
	not_served("[limits a]\nuser = 0\nworker-time = 1601%\n", "nic.ini:3: worker-time: ", "1600%");
	not_served("[limits a]\nuser = 0\npackets = 0\n", "nic.ini:3: packets: ", "range");
	not_served("[limits a]\nuser = 0\npackets = 5/m\n", "nic.ini:3: packets: ", "1M/s");
	not_served("[limits a]\nuser = 0\nbytes = 2T/s\n", "nic.ini:3: bytes: ", "1T/s");
	not_served("[limits a]\nuser = 0\nmemori = 5\n", "nic.ini:3: ", "is memory meant?");
	not_served("[nic]\n[limits a]\nmemory = 5\n", "nic.ini:2: ", "user");
	refused("[limits]\nuser = 0\n", "nic.ini:1: ", "needs a name");
	refused("[limit a]\nuser = 0\n", "nic.ini:1: ", "is [limits] meant?");
	refused("[nic]\nsocket-mod = 0600\n", "nic.ini:2: ", "is socket-mode meant?");
}

TEST(keys_of_the_process_are_read_and_checked)
{
	static const char *const wrong[][2] = {{"user = no/such", "there is no user 'no/such' (a name, a number)"},
					       {"group = no/such", "there is no group"},
					       {"sandbox = off-ish", "neither yes nor no"},
					       {"live-handlers = 7", "neither yes nor no"},
					       {"plugin-directory = here", "no absolute path"}};
	struct sp_run_config run;
	struct sp_config *c = parse("[nic]\nuser = root\ngroup = 7\nsandbox = no\nlive-handlers = no\n"
				    "plugin-directory = /a\nplugin-directory = /b\n");
	char text[128];

	CU_ASSERT_EQUAL_FATAL(sp_config_run(c, &run, &error), 0);
	CU_ASSERT(run.user == 0 && run.group == 7 && run.no_sandbox && run.no_live_handlers && run.directories == 2);
	CU_ASSERT_STRING_EQUAL(run.directory[1], "/b");
	sp_config_free(c);
	c = parse("[nic]\nmtu = 1500\n");
	CU_ASSERT_EQUAL_FATAL(sp_config_run(c, &run, &error), 0);
	CU_ASSERT(run.user == -1 && run.group == -1 && !run.no_sandbox && !run.no_live_handlers && !run.directories);
	sp_config_free(c);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		snprintf(text, sizeof(text), "[nic]\n%s\n", wrong[i][0]);
		c = parse(text);
		CU_ASSERT_EQUAL(sp_config_run(c, &run, &error), -EINVAL);
		CU_ASSERT(!strncmp(error.text, "nic.ini:2: ", 11) && strstr(error.text, wrong[i][1]) != NULL);
		sp_config_free(c);
	}
}

TEST(limits_that_could_never_count_are_refused)
{
	not_served("[limits a]\nuser = 5\n[limits b]\nmemory = 1\nuser = 5\n", "nic.ini:5: user: ", "this user");
	not_served("[limits a]\nuser = everyone\n[limits b]\nuser = 5\n", "nic.ini:4: user: ", "everyone");
	served("[limits a]\nuser = 5\n[limits b]\nuser = everyone\n");
	CU_ASSERT_EQUAL(server.users, 2);
}

TEST(as_many_limits_as_there_is_room_for)
{
	char text[8192];
	int used = 0;

	for (unsigned i = 0; i <= SP_MAX_USERS; i++) {
		if (i == SP_MAX_USERS) {
			served(text);
			CU_ASSERT_EQUAL(server.users, SP_MAX_USERS);
			CU_ASSERT_EQUAL(server.user[SP_MAX_USERS - 1].uid, SP_MAX_USERS - 1);
		}
		used += snprintf(text + used, sizeof(text) - (size_t)used, "[limits l%u]\nuser = %u\n", i, i);
	}
	not_served(text, "nic.ini:129: ", "64 sections");
}
