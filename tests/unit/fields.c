/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields of frames: they cover the whole of any frame, and have the names and values that tshark gives them. */
#include <dirent.h>
#include <inttypes.h>

#include "../../handlers/wire/roce.h"
#include "../../testbed/fields.h"
#include "../../testbed/random.h"
#include "../lib/captures.h"
#include "../lib/frame.h"

#define FRAMES	 60000 /* random ones */
#define NAMES	 200
#define SNAPSHOT 262144

/* Ours alone; wireshark has no name for them, or another for every kind. */
static bool is_ours(const char *name)
{
	static const char *const ours[] = {
		"payload",	"padding",	 "infiniband.pad",  "ip.options",      "ipv6.ext.nxt",
		"ipv6.ext.len", "ipv6.ext.data", "icmpv6.opt.data", "icmpv6.reserved", NULL};

	for (int i = 0; ours[i]; i++)
		if (!strcmp(ours[i], name))
			return true;
	return false;
}

/* Every bit of the frame belongs to exactly one field. */
static bool covers(const uint8_t *frame, uint32_t len)
{
	struct sp_field field[SP_FIELDS];
	const unsigned n = sp_fields(frame, len, field);
	uint64_t bit = 0;
	char text[128];

	for (unsigned i = 0; i < n; i++) {
		const struct sp_field *f = &field[i];
		const uint64_t first = f->at * 8ull + (f->bits ? f->len * 8ull - f->shift - f->bits : 0);

		if (first != bit || !f->len || strcmp(f->name, sp_field_names[f->id]))
			return false;
		bit += f->bits ? f->bits : f->len * 8ull;
		sp_field_text(f, frame, text, sizeof(text));
		if (!*text)
			return false;
	}
	return n <= SP_FIELDS && bit == len * 8ull;
}

static bool exact(const uint8_t *bytes, uint32_t len) /* in memory of just that size, for ASan's sake */
{
	uint8_t *frame = calloc(1, len ? len : 1);
	char text[256];

	memcpy(frame, bytes, len);
	bool good = covers(frame, len);
	sp_frame_text(frame, len, text, sizeof(text));
	good &= *text != 0;
	sp_frame_text(frame, len, text, 7); /* little room */
	good &= strlen(text) < 7;
	free(frame);
	return good;
}

static void build(struct frame *f, struct sp_random *r)
{
	const uint64_t v = sp_random_next(r);
	struct frame_shape shape = {.tags = v % 3,
				    .ip = v / 3 % FRAME_IPS,
				    .roce = v >> 20 & 1,
				    .payload = (unsigned)(v >> 24) % 80,
				    .pad = (v >> 36) % 4};
	static const uint8_t protocols[] = {1, 6, 17, 58, 44, 0, 43, 60},
			     opcodes[] = {0x2B, 4, 0x64, 0x65, 0x13, 0x12, 0x11, 0xC7};

	if (!shape.roce)
		shape.pad = 0;
	frame_build(f, &shape);
	if (v >> 40 & 1) /* another protocol over the same bytes */
		f->bytes[f->l3 + (frame_is6(shape.ip) ? 6 : 9)] = protocols[v >> 41 & 7];
	if (shape.roce)
		f->bytes[f->l4 + 8] = opcodes[v >> 44 & 7];
}

TEST(fields_cover_all_of_any_frame_and_no_more)
{
	struct sp_random r;
	struct frame f;

	sp_random_seed(&r, 1, 0);
	CU_ASSERT(exact((const uint8_t *)"", 0));
	for (unsigned i = 0; i < FRAMES; i++) {
		build(&f, &r);
		for (unsigned changes = sp_random_next(&r) % 4; changes; changes--)
			f.bytes[sp_random_next(&r) % f.len] = (uint8_t)sp_random_next(&r);
		if (!exact(f.bytes, i % 2 ? f.len : (uint32_t)(sp_random_next(&r) % (f.len + 1)))) {
			CU_FAIL("a frame that the fields do not cover");
			printf("# frame %u\n", i);
			return;
		}
	}
	for (unsigned i = 0; i < FRAMES / 6; i++) { /* and noise behind every type */
		static const uint16_t types[] = {0x0800, 0x86DD, 0x0806, 0x8100, 0x88A8, 38};
		uint8_t noise[200];

		for (unsigned k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)sp_random_next(&r);
		noise[12] = (uint8_t)(types[i % 6] >> 8);
		noise[13] = (uint8_t)types[i % 6];
		if (i % 6 < 2)
			noise[14] = (uint8_t)((i % 6 ? 0x60 : 0x40) | (noise[14] & 15));
		if (!exact(noise, sp_random_next(&r) % sizeof(noise))) {
			CU_FAIL("noise that the fields do not cover");
			return;
		}
	}
}

TEST(names_are_told_once_each)
{
	unsigned n = 0;

	for (; sp_field_names[n]; n++)
		for (unsigned k = 0; k < n; k++)
			CU_ASSERT_STRING_NOT_EQUAL(sp_field_names[n], sp_field_names[k]);
	CU_ASSERT(n > 90 && n < NAMES);
}

/* ---- tshark's opinion ---- */
static char all[] = "/tmp/spindle-fields-XXXXXX"; /* all captures in one, since tshark takes long to start */
static pcap_dumper_t *dumper;
static unsigned packets;

static void keep(const char *name, unsigned number, uint8_t *bytes, uint32_t len, void *arg)
{
	const struct pcap_pkthdr header = {.ts = {.tv_sec = packets++}, .caplen = len, .len = len};
	pcap_dump((u_char *)dumper, &header, bytes);
}

static void keep_file(const char *path)
{
	char error[PCAP_ERRBUF_SIZE];
	pcap_t *p = pcap_open_offline(path, error);
	struct pcap_pkthdr *head;
	const u_char *bytes;

	CU_ASSERT_PTR_NOT_NULL_FATAL(p);
	while (pcap_next_ex(p, &head, &bytes) == 1)
		keep(path, 0, (uint8_t *)(uintptr_t)bytes, head->caplen, NULL);
	pcap_close(p);
}

static void keep_directory(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *entry;
	char file[8192];

	while (d && (entry = readdir(d)))
		if (strstr(entry->d_name, ".pcap")) {
			snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
			keep_file(file);
		}
	if (d)
		closedir(d);
}

static void keep_built(void)
{
	struct frame f;

	for (unsigned tags = 0; tags < 3; tags++)
		for (enum frame_ip ip = 0; ip < FRAME_IPS; ip++)
			for (unsigned kind = 0; kind < 2; kind++) {
				const struct frame_shape shape = {
					.tags = tags, .ip = ip, .roce = kind, .payload = 40, .pad = kind ? 2 : 0};

				frame_build(&f, &shape);
				keep("", 0, f.bytes, f.len, NULL);
			}
}

static FILE *ask_tshark(const char *const *name, unsigned names)
{
	static char command[16384];
	int used = snprintf(command, sizeof(command),
			    "tshark -n -r %s -o ip.defragment:FALSE -o ipv6.defragment:FALSE -T fields -E occurrence=a "
			    "-E aggregator=, -E separator='|'",
			    all);

	for (unsigned i = 0; i < names; i++)
		used += snprintf(command + used, sizeof(command) - (size_t)used, " -e %s", name[i]);
	snprintf(command + used, sizeof(command) - (size_t)used, " 2>&1");
	return popen(command, "r");
}

static bool agree(const struct sp_field *f, const uint8_t *frame, const char *theirs)
{
	char ours[128];

	sp_field_text(f, frame, ours, sizeof(ours));
	switch (f->form) {
	case SP_FIELD_HEX:
		return strtoull(theirs, NULL, strcmp(f->name, "infiniband.bth.p_key") ? 16 : 10) ==
		       sp_field_value(f, frame);
	case SP_FIELD_NUMBER:
		if (!strcmp(theirs, "True") || !strcmp(theirs, "False"))
			return (*theirs == 'T') == sp_field_value(f, frame);
		return strtoull(theirs, NULL, 0) == sp_field_value(f, frame);
	case SP_FIELD_BYTES: /* tcp.options alone: hexadecimal, all of it */
		return strlen(theirs) == 2 * f->len && !strncmp(ours, theirs, f->len < 16 ? 2 * f->len : 32);
	default:
		return !strcmp(ours, theirs);
	}
}

/* What tshark has for one name of one packet, against ours; it may have more, of packets within packets. */
static bool agree_all(const char *name, const struct sp_field *field, unsigned n, const uint8_t *frame, char *theirs)
{
	char *rest = *theirs ? theirs : NULL;
	unsigned ours = 0;

	for (unsigned i = 0; i < n; i++) /* for tshark a routed packet's destination is the last one of its route */
		if (!strcmp(name, "ip.dst") && !strcmp(field[i].name, "ip.options"))
			return true;
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(field[i].name, name)) {
			const char *one = strsep(&rest, ",");

			ours++;
			if (!one || !agree(&field[i], frame, one)) {
				printf("# %s: tshark has %s\n", name, one ? one : "none");
				return false;
			}
		}
	if (!ours && rest && strcmp(name, "ip.version")) { /* which tshark has of IPv6, too */
		printf("# %s: tshark has %s, we have none\n", name, rest);
		return false;
	}
	return true;
}

/* It looks for no ICRC behind headers that it does not know. */
static bool is_manufacturer_s(const struct sp_field *field, unsigned n, const uint8_t *frame)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(field[i].name, "infiniband.bth.opcode"))
			return sp_field_value(&field[i], frame) >= SP_ROCE_MANUFACTURER_FIRST;
	return false;
}

static const char *tshark_missing(void)
{
	return system("command -v tshark >/dev/null 2>&1") ? "tshark is not installed" : NULL;
}

TEST_IF(tshark_missing, values_are_tshark_s)
{
	const char *root = getenv("MESON_SOURCE_ROOT"), *name[NAMES];
	unsigned names = 0, wrong = 0, packet = 0, compared = 0;
	char path[4096], error[PCAP_ERRBUF_SIZE], *line = NULL, *rest, *theirs;
	size_t room = 0;
	struct pcap_pkthdr *head;
	const u_char *bytes;
	pcap_t *dead = pcap_open_dead(DLT_EN10MB, SNAPSHOT), *p;
	int fd = mkstemp(all);

	CU_ASSERT_FATAL(fd >= 0);
	dumper = pcap_dump_fopen(dead, fdopen(fd, "wb"));
	CU_ASSERT_PTR_NOT_NULL_FATAL(dumper);
	snprintf(path, sizeof(path), "%s/pcaps", root ? root : ".");
	keep_directory(path);
	keep_directory(captures_directory()); /* where there is one */
	keep_built();
	pcap_dump_close(dumper);
	pcap_close(dead);
	for (unsigned i = 0; sp_field_names[i]; i++)
		if (!is_ours(sp_field_names[i]))
			name[names++] = sp_field_names[i];
	p = pcap_open_offline(all, error);
	FILE *tshark = ask_tshark(name, names);
	CU_ASSERT_FATAL(p && tshark);
	while (getline(&line, &room, tshark) > 0) {
		struct sp_field field[SP_FIELDS];

		if (!strncmp(line, "Running as", 10))
			continue;
		if (!strchr(line, '|') || pcap_next_ex(p, &head, &bytes) != 1) {
			printf("# tshark: %s", line); /* for one, that a name is none of its own */
			wrong++;
			continue;
		}
		packet++;
		line[strcspn(line, "\n")] = '\0';
		unsigned n = sp_fields(bytes, head->caplen, field);
		rest = line;
		for (unsigned i = 0; i < names && (theirs = strsep(&rest, "|")); i++) {
			compared += *theirs != 0;
			if (!*theirs && !strcmp(name[i], "infiniband.invariant.crc") &&
			    is_manufacturer_s(field, n, bytes))
				continue;
			if (!agree_all(name[i], field, n, bytes, theirs) && ++wrong < 10)
				printf("# packet %u of all captures\n", packet);
		}
	}
	pclose(tshark);
	pcap_close(p);
	free(line);
	unlink(all);
	CU_ASSERT_EQUAL(wrong, 0);
	CU_ASSERT_EQUAL(packet, packets);
	CU_ASSERT(packet > 150 && compared > 20 * packet);
}

/* ---- words ---- */
TEST(frames_are_told_in_a_line)
{
	static const uint8_t arp[] = {255, 255, 255, 255, 255, 255, 2, 0,   0, 0, 0, 2, 8, 6, 0, 1, 8, 0,   6, 4, 0,
				      1,   2,	0,   0,	  0,   0,   2, 192, 0, 2, 2, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1};
	struct frame_shape shape = {.payload = 16};
	struct frame f;
	char text[256];

	frame_build(&f, &shape);
	f.bytes[f.l4] = 0x0F, f.bytes[f.l4 + 1] = 0xA0;
	f.bytes[f.l4 + 2] = 0, f.bytes[f.l4 + 3] = 9;
	sp_frame_text(f.bytes, f.len, text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "192.0.2.1 > 192.0.2.2 UDP 4000 > 9, 16 bytes");
	shape.roce = true;
	frame_build(&f, &shape);
	f.bytes[f.l4 + 8] = 0x2B;
	sp_frame_text(f.bytes, f.len, text, sizeof(text));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "RoCE UC WRITE only, immediate QP 0x"));
	f.bytes[f.l4 + 8] = 0xC1;
	sp_frame_text(f.bytes, f.len, text, sizeof(text));
	CU_ASSERT_PTR_NOT_NULL(strstr(text, "RoCE opcode 0xc1 QP 0x"));
	sp_frame_text(arp, sizeof(arp), text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "ARP who has 192.0.2.1? Tell 192.0.2.2");
	sp_frame_text(arp, 14, text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "02:00:00:00:00:02 > ff:ff:ff:ff:ff:ff type 0x0806, 0 bytes");
	sp_frame_text(arp, 13, text, sizeof(text));
	CU_ASSERT_STRING_EQUAL(text, "13 bytes, too short for Ethernet");
}
