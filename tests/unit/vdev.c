/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports that the NIC makes itself: what their words may be, what follows from mtu and workers, that they carry frames,
 * and that they leave nothing behind. */
#include "../lib/dut.h"

#include <dirent.h>
#include <net/if.h>
#include <pcap/pcap.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "../../pipeline/config/config.h"
#include "../../pipeline/ports/kernel.h"
#include "../../pipeline/ports/port.h"
#include "../../pipeline/tx/transmit.h"

char *dut_eal[] = {"--no-pci", "--vdev=net_null0", "--vdev=net_af_packet7,iface=nosuch0", NULL};

static char dir[64];

static const char *path(const char *name)
{
	static char text[4][96];
	static unsigned turn;
	char *t = text[turn++ % 4];

	snprintf(t, 96, "%s/%s", dir, name);
	return t;
}

static const char *text(const char *format, const char *a, const char *b)
{
	static char t[2][SP_VDEV_TARGET];
	static unsigned turn;
	char *to = t[turn++ % 2];

	snprintf(to, SP_VDEV_TARGET, format, a, b);
	return to;
}

static unsigned entries(const char *directory)
{
	DIR *d = opendir(directory);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

struct left {
	unsigned ports, descriptors, threads, files;
};

static struct left count(void)
{
	return (struct left){rte_eth_dev_count_total(), entries("/proc/self/fd"), entries("/proc/self/task"),
			     entries(dir)};
}

static void same(struct left before, const char *after_what)
{
	struct left now = count();

	if (memcmp(&now, &before, sizeof(now)))
		printf("# after %s: ports %u -> %u, descriptors %u -> %u, threads %u -> %u, files %u -> %u\n",
		       after_what, before.ports, now.ports, before.descriptors, now.descriptors, before.threads,
		       now.threads, before.files, now.files);
	CU_ASSERT(!memcmp(&now, &before, sizeof(now)));
}

/* A NIC with these ports (NULL: none). */
static int create(const char *first, const char *second, uint16_t workers, uint32_t mtu, struct sp_nic **nic,
		  struct sp_error *error)
{
	dut_prepare(&dut, workers);
	dut.config.mtu = mtu;
	dut.config.port[0] = (struct sp_port_config){.device = first};
	dut.config.port[1] = (struct sp_port_config){.device = second};
	dut.config.ports = second ? 2 : 1;
	if (mtu == 1499) /* an address that the kernel has too */
		memcpy(dut.config.address[0].ip + 12, "\x7f\0\0\1", 4);
	return sp_nic_create(&dut.config, error, nic);
}

static void refused(int expected, const char *word, const char *first, const char *second, uint16_t workers,
		    uint32_t mtu)
{
	struct sp_error error;
	struct sp_nic *nic;
	struct left before = count();
	int r = create(first, second, workers, mtu, &nic, &error);

	if (r != expected || !strstr(error.text, word))
		printf("# %s, %s: %d '%s'; expected %d '%s'\n", first, second ? second : "", r, error.text, expected,
		       word);
	CU_ASSERT_EQUAL(r, expected);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, word));
	same(before, first);
}

/* ---- words ---- */

TEST(a_device_that_eal_could_not_make_is_no_port)
{
	const char *tmp = getenv("TMPDIR");

	/* the path of a socket there must fit into 107 bytes */
	snprintf(dir, sizeof(dir), "%s/spindle-port-XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
	CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
	dut_prepare(&dut, 1);
	CU_ASSERT_EQUAL(rte_eth_dev_count_total(), 1);
}

TEST(the_words_of_a_port_are_taken_apart)
{
	static const struct {
		const char *text;
		enum sp_vdev_kind kind;
		const char *target, *out, *devargs;
	} good[] = {
		{"af_packet:eth0", SP_VDEV_AF_PACKET, "eth0", "", ""},
		{"af_packet:eth0.7,framesz=4096,blocksz=8192", SP_VDEV_AF_PACKET, "eth0.7", "",
		 "framesz=4096,blocksz=8192"},
		{"af_packet:a:b", SP_VDEV_AF_PACKET, "a:b", "", ""},
		{"af_xdp:eth0,force_copy=1", SP_VDEV_AF_XDP, "eth0", "", "force_copy=1"},
		{"tap:tap0,mac=02:00:00:00:00:05", SP_VDEV_TAP, "tap0", "", "mac=02:00:00:00:00:05"},
		{"virtio-user:/run/v.sock,server=1", SP_VDEV_VIRTIO_USER, "/run/v.sock", "", "server=1"},
		{"vhost:rel/v.sock", SP_VDEV_VHOST, "rel/v.sock", "", ""},
		{"ring:a-b_c.9", SP_VDEV_RING, "a-b_c.9", "", ""},
		{"pcap:in.pcap", SP_VDEV_PCAP, "in.pcap", "", ""},
		{"pcap:a=b.pcap,out.pcap,infinite_rx=1", SP_VDEV_PCAP, "a=b.pcap", "out.pcap", "infinite_rx=1"},
		{"pcap:in.pcap,infinite_rx=1", SP_VDEV_PCAP, "in.pcap", "", "infinite_rx=1"},
		{"pcap-iface:eth0", SP_VDEV_PCAP_IFACE, "eth0", "", ""},
		{"null:", SP_VDEV_NULL, "", "", ""},
		{"null:,no-rx=0,size=128", SP_VDEV_NULL, "", "", "no-rx=0,size=128"},
		{"net_pcap0", SP_VDEV_NONE, "net_pcap0", "", ""},
		{"af_packet", SP_VDEV_NONE, "af_packet", "", ""},
		{"0000:01:00.0", SP_VDEV_NONE, "0000:01:00.0", "", ""},
		{"01:00.0", SP_VDEV_NONE, "01:00.0", "", ""},
		{"pci:0000:01:00.0", SP_VDEV_NONE, "pci:0000:01:00.0", "", ""},
		{"0000:01:00.0_representor_vf1", SP_VDEV_NONE, "0000:01:00.0_representor_vf1", "", ""},
	};

	for (size_t i = 0; i < RTE_DIM(good); i++) {
		struct sp_vdev_spec s;
		struct sp_error error = {.text = ""};

		if (sp_vdev_parse(good[i].text, &s, &error))
			printf("# %s: %s\n", good[i].text, error.text);
		CU_ASSERT_STRING_EQUAL(error.text, "");
		CU_ASSERT_EQUAL(s.kind, good[i].kind);
		CU_ASSERT_STRING_EQUAL(s.target, good[i].target);
		CU_ASSERT_STRING_EQUAL(s.out, good[i].out);
		CU_ASSERT_STRING_EQUAL(s.devargs, good[i].devargs);
	}
	CU_ASSERT(sp_vdev_is_pci("0000:01:00.0") && sp_vdev_is_pci("01:00.0") && sp_vdev_is_pci("pci:0000:af:1f.7"));
	CU_ASSERT(!sp_vdev_is_pci("net_pcap0") && !sp_vdev_is_pci("0000:01:00.0x") && !sp_vdev_is_pci("1:2:3"));
}

TEST(words_that_make_no_port_are_refused_with_the_reason)
{
	static const struct {
		const char *texts, *word; /* texts with | between them */
	} bad[] = {
		{"af_packed:eth0", "is af_packet meant"},
		{"foo:bar", "no kind of port"},
		{"virtio_user:/s", "is virtio-user meant"},
		{"af_packet:|af_packet:sixteen-letters-|af_packet:a/b|af_packet:..|af_xdp:|tap:|pcap-iface:",
		 "interface's name"},
		{"af_packet:eth0,|af_packet:eth0,framesz=2048,", "behind the last ','"},
		{"af_packet:eth0,framesz|af_packet:eth0,framesz=", "has no value"},
		{"af_packet:eth0,frmesz=2048", "is framesz meant"},
		{"af_packet:eth0,iface=eth1|tap:t,iface=u", "take no 'iface'"},
		{"af_packet:eth0,qpairs=2|af_xdp:eth0,qpairs=2", "take no 'qpairs'"},
		{"af_packet:eth0,framesz=[1-2]", "cannot be part"},
		{"virtio-user:|vhost:", "path of a socket"},
		{"virtio-user:/s,queues=3", "take no 'queues'"},
		{"vhost:/s,server=1", "take no 'server'"},
		{"ring:|ring:a/b", "a name is needed"},
		{"ring:a,size=3", "take no 'size'"},
		{"pcap:", "path of a capture"},
		{"pcap:a,,", "second path is empty"},
		{"pcap:a,b,c", "take no 'c'"},
		{"null:eth0", "nothing stands behind"},
		{"net_null0,size=3", "no device name"},
		{"net null|net\nnull|\"net\"", "blanks"},
	};
	char longest[400];
	struct sp_vdev_spec s;
	struct sp_error error;

	for (size_t i = 0; i < RTE_DIM(bad); i++) {
		char texts[200], *rest = texts;

		snprintf(texts, sizeof(texts), "%s", bad[i].texts);
		for (char *text; (text = strsep(&rest, "|"));) {
			error = (struct sp_error){.text = ""};
			CU_ASSERT_EQUAL(sp_vdev_parse(text, &s, &error), -EINVAL);
			if (!strstr(error.text, bad[i].word))
				printf("# %s: '%s' lacks '%s'\n", text, error.text, bad[i].word);
			CU_ASSERT_PTR_NOT_NULL(strstr(error.text, bad[i].word));
			CU_ASSERT_STRING_EQUAL(error.key, "port");
		}
	}
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	CU_ASSERT_EQUAL(sp_vdev_parse(longest, &s, NULL), -EINVAL);
	memcpy(longest, "vhost:/", 7);
	longest[6 + 108] = 0;
	CU_ASSERT_EQUAL(sp_vdev_parse(longest, &s, NULL), -EINVAL);
	longest[6 + 107] = 0;
	CU_ASSERT_EQUAL(sp_vdev_parse(longest, &s, NULL), 0);
}

static int configured(const char *lines, struct sp_nic_config *nic, struct sp_error *error)
{
	struct sp_config *config;
	char file[512];

	memset(nic, 0, sizeof(*nic));
	snprintf(file, sizeof(file), "[nic]\n%s", lines);
	int r = sp_config_parse("nic.ini", file, strlen(file), &config, error);
	if (!r)
		r = sp_config_nic(config, nic, error);
	for (unsigned i = 0; i < nic->ports && !r; i++) /* the strings are the configuration's */
		CU_ASSERT_PTR_NOT_NULL(strstr(file, nic->port[i].device));
	sp_config_free(config);
	return r;
}

TEST(nic_ini_takes_ports_of_every_kind_and_says_where_one_is_wrong)
{
	struct sp_nic_config nic;
	struct sp_error error = {.text = ""};

	CU_ASSERT_EQUAL(configured("port = af_packet:eth0,framesz=4096\nport = virtio-user:/a b\n", &nic, &error),
			-EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "nic.ini:3: port: "));
	CU_ASSERT_EQUAL(
		configured("port = af_packet:eth0\nport = pcap:a,b\nport = 0000:01:00.0\nport = vhost:/s,client=1\n"
			   "exception = tap:tap0\n",
			   &nic, &error),
		0);
	CU_ASSERT_EQUAL(nic.ports, 4);
	CU_ASSERT_EQUAL(configured("port = ring:a\nport = ring:a\nport = null:\nexception = null:\n", &nic, &error), 0);
	CU_ASSERT_EQUAL(configured("port = tap:a\nexception = tap:a\n", &nic, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "nic.ini:3: exception: tap:a is a port already"));
	CU_ASSERT_EQUAL(configured("exception = ringg:a\n", &nic, &error), -EINVAL);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "nic.ini:2: exception: 'ringg' is no kind of port, is ring meant?"));
}

/* ---- sizes ---- */

static const char *arguments(const char *device, uint32_t mtu, uint16_t workers)
{
	static char args[512];
	const struct sp_vdev_wants wants = {.mtu = mtu, .queues = workers};
	struct sp_vdev_spec s;

	CU_ASSERT_EQUAL_FATAL(sp_vdev_parse(device, &s, NULL), 0);
	CU_ASSERT_EQUAL_FATAL(sp_vdev_arguments(&s, &wants, args, sizeof(args)), 0);
	return args;
}

static unsigned number(const char *args, const char *key)
{
	const char *at = strstr(args, key);

	return at ? (unsigned)strtoul(at + strlen(key), NULL, 10) : 0;
}

TEST(an_af_packet_ring_has_room_for_every_mtu)
{
	/* packet_mmap: the frame begins at tp_mac, which is 66 for TPACKET_V2 and an Ethernet header, and is cut at the
	 * end of its slot; slots may not cross blocks, blocks are whole pages. */
	for (uint32_t mtu = 256; mtu <= 9536; mtu += 16)
		for (uint16_t workers = 1; workers <= 16; workers *= 4) {
			const char *args = arguments("af_packet:eth0", mtu, workers);
			unsigned framesz = number(args, "framesz="), blocksz = number(args, "blocksz=");

			CU_ASSERT(framesz >= 66 + 14 + 2 * 4 + mtu);
			CU_ASSERT(framesz % 16 == 0 && blocksz % framesz == 0 && blocksz % 4096 == 0);
			CU_ASSERT(number(args, "framecnt=") >= 256 && number(args, "framecnt=") <= 1024);
			CU_ASSERT_EQUAL(number(args, "qpairs="), workers);
		}
	CU_ASSERT_PTR_NOT_NULL(
		strstr(arguments("af_packet:eth0", 1500, 2), "iface=eth0,qpairs=2,framesz=2048,blocksz=4096,"));
	CU_ASSERT_PTR_NOT_NULL(strstr(arguments("af_packet:eth0", 1500, 2), ",qdisc_bypass=0"));
}

TEST(arguments_given_win_over_those_derived)
{
	CU_ASSERT_STRING_EQUAL(arguments("af_packet:e,framesz=8192,framecnt=64,qdisc_bypass=1", 1500, 1),
			       "iface=e,qpairs=1,blocksz=8192,framesz=8192,framecnt=64,qdisc_bypass=1");
	CU_ASSERT_STRING_EQUAL(arguments("tap:t0", 1500, 2), "iface=t0");
	CU_ASSERT_STRING_EQUAL(arguments("virtio-user:/s", 4180, 3), "path=/s,queues=3,queue_size=1024");
	CU_ASSERT_STRING_EQUAL(arguments("virtio-user:/s,queue_size=256,server=1", 4180, 1),
			       "path=/s,queues=1,queue_size=256,server=1");
	CU_ASSERT_STRING_EQUAL(arguments("vhost:/s,client=1", 1500, 4), "iface=/s,queues=4,client=1");
	CU_ASSERT_STRING_EQUAL(arguments("pcap:in,out", 1500, 1), "rx_pcap=in,tx_pcap=out");
	CU_ASSERT_STRING_EQUAL(arguments("pcap-iface:e", 1500, 1), "rx_iface_in=e,tx_iface=e");
	CU_ASSERT_STRING_EQUAL(arguments("null:", 1500, 1), "no-rx=1");
	CU_ASSERT_STRING_EQUAL(arguments("null:,no-rx=0", 1500, 1), "no-rx=0");
}

/* ---- frames ---- */

static const uint8_t other_mac[6] = {2, 0, 0, 0, 9, 9};

/* Who has the NIC's address? */
static uint32_t arp_request(uint8_t frame[60], const uint8_t target[4])
{
	static const uint8_t head[] = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2, 0, 0, 0, 9,
				       9,    8,	   6,	 0,    1,    8,	   0, 6, 4, 0, 1};

	memset(frame, 0, 60);
	memcpy(frame, head, sizeof(head));
	memcpy(frame + 22, other_mac, 6);
	memcpy(frame + 28, target, 3); /* the sender's: on the same network */
	frame[31] = 77;
	memcpy(frame + 38, target, 4);
	return 60;
}

TEST(a_pcap_port_reads_one_capture_and_writes_another)
{
	uint8_t frame[60];
	struct sp_nic_totals t;
	struct sp_error error;
	struct sp_nic *nic;
	char why[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr header = {.caplen = 60, .len = 60}, *found;
	const u_char *bytes;
	pcap_t *p = pcap_open_dead(DLT_EN10MB, 65536);
	pcap_dumper_t *d = pcap_dump_open(p, path("in.pcap"));

	arp_request(frame, dut_own4 + 12);
	pcap_dump((u_char *)d, &header, frame);
	pcap_dump_close(d);
	pcap_close(p);
	struct left before = count();
	before.files++; /* out.pcap */
	CU_ASSERT_EQUAL_FATAL(create(text("pcap:%s,%s", path("in.pcap"), path("out.pcap")), NULL, 1, 0, &nic, &error),
			      0);
	for (unsigned i = 0; i < 8; i++)
		sp_nic_poll(nic, 0, i);
	sp_nic_totals(nic, &t);
	CU_ASSERT_EQUAL(t.received, 1);
	CU_ASSERT_EQUAL(t.answered, 1);
	sp_nic_destroy(nic);
	same(before, "a pcap port");
	p = pcap_open_offline(path("out.pcap"), why);
	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	CU_ASSERT_EQUAL_FATAL(pcap_next_ex(p, &found, &bytes), 1);
	CU_ASSERT(!memcmp(bytes, other_mac, 6) && !memcmp(bytes + 6, dut_mac, 6));
	CU_ASSERT(bytes[12] == 8 && bytes[13] == 6 && bytes[21] == 2); /* an ARP reply */
	CU_ASSERT(!memcmp(bytes + 28, dut_own4 + 12, 4));
	pcap_close(p);
}

static struct sp_nic *ringed(const char *name, uint8_t last)
{
	struct sp_error error = {.text = ""};
	struct sp_nic *nic = NULL;

	dut_prepare(&dut, 1);
	dut.config.port[0] = (struct sp_port_config){.device = name};
	dut.config.address[0].ip[15] = last;
	dut.config.addresses = 1;
	dut.config.mac[5] = last;
	if (sp_nic_create(&dut.config, &error, &nic))
		printf("# %s: %s\n", name, error.text);
	CU_ASSERT_PTR_NOT_NULL_FATAL(nic);
	return nic;
}

static uint64_t received(struct sp_nic *nic)
{
	struct sp_nic_totals t;

	sp_nic_totals(nic, &t);
	return t.received;
}

static void ask(struct sp_nic *from, uint8_t last)
{
	uint8_t frame[60], target[4];

	memcpy(target, dut_own4 + 12, 4);
	target[3] = last;
	CU_ASSERT_EQUAL(sp_transmit_frame(from->worker[0], 0, frame, arp_request(frame, target)), 0);
	sp_nic_poll(from, 0, 1);
}

TEST(a_ring_joins_two_nics_crosswise)
{
	struct left before = count();
	unsigned in_use = rte_mempool_in_use_count(sp_process_pool());
	struct sp_error error;
	struct sp_nic *a = ringed("ring:cable", 1), *b = ringed("ring:cable", 2), *other = ringed("ring:other", 3),
		      *none;

	CU_ASSERT_EQUAL(create("ring:cable", NULL, 1, 0, &none, &error), -EBUSY);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "both are in use"));
	ask(a, 2);
	sp_nic_poll(b, 0, 2);
	sp_nic_poll(a, 0, 3); /* the answer, and nothing of its own */
	CU_ASSERT_EQUAL(received(b), 1);
	CU_ASSERT_EQUAL(received(a), 1);
	sp_nic_poll(other, 0, 3);
	CU_ASSERT_EQUAL(received(other), 0);
	/* One goes: what the other sends meanwhile is lost, as on a cable; then somebody takes its place. */
	sp_nic_destroy(b);
	CU_ASSERT_EQUAL(create("ring:cable", NULL, 2, 0, &none, &error), -EINVAL);
	CU_ASSERT_STRING_EQUAL(error.key, "workers");
	ask(a, 2);
	b = ringed("ring:cable", 2);
	sp_nic_poll(b, 0, 4);
	CU_ASSERT_EQUAL(received(b), 0);
	ask(b, 1);
	sp_nic_poll(a, 0, 5);
	sp_nic_poll(b, 0, 6);
	CU_ASSERT_EQUAL(received(b), 1);
	ask(a, 2); /* stays in the ring */
	sp_nic_destroy(other);
	sp_nic_destroy(a);
	sp_nic_destroy(b);
	same(before, "rings");
	CU_ASSERT_EQUAL(rte_mempool_in_use_count(sp_process_pool()), in_use);
}

TEST(a_null_port_takes_all_and_gives_nothing)
{
	struct sp_error error;
	struct sp_nic_totals t;
	struct sp_nic *nic, *more;
	struct left before = count();

	CU_ASSERT_EQUAL_FATAL(create("null:", "null:", 2, 9000, &nic, &error), 0);
	CU_ASSERT_EQUAL_FATAL(create("null:", NULL, 1, 0, &more, &error), 0); /* it is no resource */
	ask(nic, 9);
	for (unsigned i = 0; i < 10; i++)
		sp_nic_poll(nic, 0, i);
	sp_nic_totals(nic, &t);
	CU_ASSERT_EQUAL(t.sent, 1);
	CU_ASSERT_EQUAL(t.received, 0);
	sp_nic_destroy(more);
	sp_nic_destroy(nic);
	same(before, "null ports");
}

/* ---- refusals ---- */

TEST(missing_parts_of_a_port_are_named_before_it_is_made)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	FILE *f = fopen(path("file"), "w");

	fclose(f);
	refused(-ENODEV, "no interface nosuch0", "af_packet:nosuch0", NULL, 1, 0);
	refused(-ENODEV, "there are: lo", "af_packet:nosuch0", NULL, 1, 0);
	refused(-ENODEV, "no interface nosuch0", "pcap-iface:nosuch0", NULL, 1, 0);
	refused(-ENODEV, "no interface nosuch0", "net_af_packet7", NULL, 1, 0); /* EAL's, that it did not make */
	refused(-EINVAL, "for an MTU of 9000", "af_packet:lo,framesz=8192", NULL, 1, 9000);
	refused(-EINVAL, "at least 1588", "af_packet:lo,framesz=1024", NULL, 1, 1500);
	refused(-EINVAL, "at least 1588", "af_packet:lo,framesz=3000", NULL, 1, 1500);
	refused(-EINVAL, "framesz=0", "af_packet:lo,framesz=many", NULL, 1, 1500);
	refused(-EINVAL, "blocksz=6144", "af_packet:lo,blocksz=6144", NULL, 1, 1500);
	refused(-EINVAL, "blocksz=1024", "af_packet:lo,blocksz=1024", NULL, 1, 1500);
	refused(-ENOENT, "no such socket", text("virtio-user:%s", path("none.sock"), ""), NULL, 1, 0);
	refused(-ENOTSOCK, "is no socket", text("virtio-user:%s", path("file"), ""), NULL, 1, 0);
	refused(-EEXIST, "is no socket", text("vhost:%s", path("file"), ""), NULL, 1, 0);
	refused(-ENOENT, "no socket can be made", text("vhost:%s/x.sock", path("nowhere"), ""), NULL, 1, 0);
	refused(-ENOENT, "No such file", text("pcap:%s", path("none.pcap"), ""), NULL, 1, 0);
	refused(-EISDIR, "Is a directory", text("pcap:%s", dir, ""), NULL, 1, 0);
	refused(-EINVAL, "over the input", text("pcap:%s,%s", path("file"), path("file")), NULL, 1, 0);
	refused(-ENODEV, "no PCI device ffff:1f:1f.7", "ffff:1f:1f.7", NULL, 1, 0);
	refused(-ENODEV, "does not exist", "net_none3", NULL, 1, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path("s.sock"));
	CU_ASSERT_EQUAL_FATAL(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	CU_ASSERT_EQUAL_FATAL(listen(s, 1), 0);
	refused(-EADDRINUSE, "in use by another process", text("vhost:%s", at.sun_path, ""), NULL, 1, 0);
	refused(-EADDRINUSE, "in use by another process", text("virtio-user:%s,server=1", at.sun_path, ""), NULL, 1, 0);
	close(s);
	refused(-ECONNREFUSED, "nobody listens", text("virtio-user:%s", at.sun_path, ""), NULL, 1, 0);
	unlink(at.sun_path);
}

TEST(a_create_that_fails_takes_back_what_it_has_made)
{
	struct sp_error error;
	struct sp_nic *nic;

	/* DPDK's vhost has a thread and two descriptors of its own from the first port to the end of the process. */
	CU_ASSERT_EQUAL_FATAL(create(text("vhost:%s", path("v.sock"), ""), NULL, 1, 0, &nic, &error), 0);
	sp_nic_destroy(nic);
	CU_ASSERT(access(path("v.sock"), F_OK) != 0);
	refused(-ENOTSUP, "2 workers need as many", text("pcap:%s", path("in.pcap"), ""), NULL, 2, 0);
	for (unsigned i = 0; i < 20; i++) {
		refused(-ENODEV, "net_none3", "null:", "net_none3", 1, 0);
		refused(-ENODEV, "net_none3", "ring:a", "net_none3", 2, 0);
		refused(-ENODEV, "net_none3", text("pcap:%s", path("in.pcap"), ""), "net_none3", 1, 0);
		refused(-ENODEV, "net_none3", text("vhost:%s", path("v.sock"), ""), "net_none3", 1, 4180);
		refused(-EBUSY, "in use by a NIC of this process", text("vhost:%s", path("v.sock"), ""),
			text("vhost:%s", path("v.sock"), ""), 1, 0);
	}
	dut_prepare(&dut, 1);
	dut.config.neighbours = 1; /* all zero: refused after the ports are open */
	dut.config.port[0] = (struct sp_port_config){.device = "null:"};
	dut.config.exception = (struct sp_port_config){.device = "ring:a"};
	CU_ASSERT_EQUAL(sp_nic_create(&dut.config, &error, &nic), -EINVAL);
	CU_ASSERT_EQUAL(rte_eth_dev_count_total(), 1); /* net_null0 */
}

TEST(a_packet_port_that_fails_later_leaves_no_socket)
{
	struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int s = -1;

	if (!unshare(CLONE_NEWNET))
		s = socket(AF_INET, SOCK_DGRAM, 0);
	if (s < 0 || ioctl(s, SIOCSIFFLAGS, &up)) {
		printf("# no network namespace can be made here: %s\n", strerror(errno));
		return;
	}
	close(s);
	for (unsigned i = 0; i < 5; i++) {
		refused(-ENODEV, "net_none3", "af_packet:lo", "net_none3", 2, 1500);
		refused(-ENOTSUP, "65504 bytes are too large", "af_packet:lo,framesz=65536,framecnt=4", NULL, 2,
			1500); /* made, and never started */
		refused(-EBUSY, "in use by a NIC of this process", "af_packet:lo", "af_packet:lo", 1, 1500);
		refused(-ENODEV, "net_none3", "pcap-iface:lo", "net_none3", 1, 1500);
	}
	refused(-EADDRINUSE, "127.0.0.1", "af_packet:lo", NULL, 1, 1499);
}

/* ---- what is known of a port ---- */

TEST(external_buffers_go_only_to_drivers_known_to_copy)
{
	struct sp_error error;
	struct sp_nic *nic;
	uint64_t drops = 9;
	uint8_t memory[100];

	CU_ASSERT_EQUAL_FATAL(create("null:", "ring:a", 1, 0, &nic, &error), 0);
	CU_ASSERT(sp_port_external(&nic->port[0]));
	CU_ASSERT(!sp_port_external(&nic->port[1]));
	CU_ASSERT(!sp_port_reads_memory(&nic->port[0]) && !sp_port_reads_memory(&nic->port[1]));
	CU_ASSERT_EQUAL(sp_port_map(nic, memory, sizeof(memory)), 0); /* no device here reads by itself */
	sp_port_unmap(nic, memory, sizeof(memory));
	CU_ASSERT(sp_port_kernel_drops(&nic->port[0], &drops));
	CU_ASSERT_EQUAL(drops, 0);
	sp_nic_destroy(nic);
	CU_ASSERT_EQUAL_FATAL(create(text("vhost:%s", path("v.sock"), ""), NULL, 1, 0, &nic, &error), 0);
	CU_ASSERT(!sp_port_external(&nic->port[0]));
	CU_ASSERT(!sp_port_kernel_drops(&nic->port[0], &drops)); /* the peer's: not to be seen from here */
	sp_nic_destroy(nic);
	CU_ASSERT_EQUAL_FATAL(create(text("pcap:%s", path("in.pcap"), ""), NULL, 1, 0, &nic, &error), 0);
	CU_ASSERT(sp_port_external(&nic->port[0]));
	sp_nic_destroy(nic);
	dut_prepare(&dut, 1); /* ports of the testbed keep packets */
	dut_create(&dut);
	CU_ASSERT(!sp_port_external(&dut.nic->port[0]));
	CU_ASSERT(!sp_port_kernel_drops(&dut.nic->port[0], &drops));
	dut_stop(&dut);
}

TEST(the_kernels_addresses_are_known_by_interface)
{
	static const uint8_t loopback[16] = {[10] = 0xFF, [11] = 0xFF, 127, 0, 0, 1},
			     documentation[16] = {0x20, 1, 0x0D, 0xB8, [15] = 1};
	struct sp_kernel_interface i;
	char name[IF_NAMESIZE] = "";

	if (sp_kernel_interface("lo", &i) || !i.up)
		return; /* nothing to go by */
	CU_ASSERT(i.ethernet && i.mtu >= 1500 && i.index > 0);
	CU_ASSERT(sp_kernel_owns(loopback, NULL, name));
	CU_ASSERT_STRING_EQUAL(name, "lo");
	CU_ASSERT(!sp_kernel_owns(loopback, "lo", name));
	CU_ASSERT(!sp_kernel_owns(documentation, NULL, name));
}

TEST(nothing_else_was_written)
{
	static const char *const files[] = {"in.pcap", "out.pcap", "file"};

	for (unsigned i = 0; i < RTE_DIM(files); i++)
		unlink(path(files[i]));
	CU_ASSERT_EQUAL(rmdir(dir), 0); /* nothing else is there */
}
