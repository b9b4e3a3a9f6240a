/* SPDX-License-Identifier: BSD-3-Clause */
#include "line.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stddef.h>
#include <time.h>

#include "../../handlers/wire/roce.h"
#include "../../handlers/wire/rvma.h"
#include "../../handlers/wire/sdr.h"

enum { ETHER_IP4 = 0x0800, ETHER_ARP = 0x0806, ETHER_IP6 = 0x86DD, ETHER_VLAN = 0x8100, ETHER_QINQ = 0x88A8 };

/* What is left of the frame. */
struct rest {
	const uint8_t *at;
	size_t bytes;
};

/* The next n bytes; NULL: there are fewer. */
static const uint8_t *take(struct rest *r, size_t n)
{
	const uint8_t *found = r->at;

	if (r->bytes < n)
		return NULL;
	r->at += n;
	r->bytes -= n;
	return found;
}

static void cut(FILE *to, const char *protocol)
{
	fprintf(to, "[|%s]", protocol);
}

/* ---- RoCE ---- */

static const char *opcode_name(uint8_t opcode)
{
	static const char *const names[256] = {
		[SP_RC_SEND_FIRST] = "RC SEND First",
		[SP_RC_SEND_MIDDLE] = "RC SEND Middle",
		[SP_RC_SEND_LAST] = "RC SEND Last",
		[SP_RC_SEND_LAST_IMM] = "RC SEND Last Imm",
		[SP_RC_SEND_ONLY] = "RC SEND Only",
		[SP_RC_SEND_ONLY_IMM] = "RC SEND Only Imm",
		[SP_RC_WRITE_FIRST] = "RC WRITE First",
		[SP_RC_WRITE_MIDDLE] = "RC WRITE Middle",
		[SP_RC_WRITE_LAST] = "RC WRITE Last",
		[SP_RC_WRITE_LAST_IMM] = "RC WRITE Last Imm",
		[SP_RC_WRITE_ONLY] = "RC WRITE Only",
		[SP_RC_WRITE_ONLY_IMM] = "RC WRITE Only Imm",
		[SP_RC_READ_REQUEST] = "RC READ Request",
		[SP_RC_READ_RESPONSE_FIRST] = "RC READ Response First",
		[SP_RC_READ_RESPONSE_MIDDLE] = "RC READ Response Middle",
		[SP_RC_READ_RESPONSE_LAST] = "RC READ Response Last",
		[SP_RC_READ_RESPONSE_ONLY] = "RC READ Response Only",
		[SP_RC_ACKNOWLEDGE] = "RC Acknowledge",
		[SP_RC_ATOMIC_ACKNOWLEDGE] = "RC Atomic Acknowledge",
		[SP_RC_COMPARE_SWAP] = "RC Compare Swap",
		[SP_RC_FETCH_ADD] = "RC Fetch Add",
		[SP_RC_SEND_LAST_INVALIDATE] = "RC SEND Last Invalidate",
		[SP_RC_SEND_ONLY_INVALIDATE] = "RC SEND Only Invalidate",
		[SP_UC_SEND_FIRST] = "UC SEND First",
		[SP_UC_SEND_MIDDLE] = "UC SEND Middle",
		[SP_UC_SEND_LAST] = "UC SEND Last",
		[SP_UC_SEND_LAST_IMM] = "UC SEND Last Imm",
		[SP_UC_SEND_ONLY] = "UC SEND Only",
		[SP_UC_SEND_ONLY_IMM] = "UC SEND Only Imm",
		[SP_UC_WRITE_FIRST] = "UC WRITE First",
		[SP_UC_WRITE_MIDDLE] = "UC WRITE Middle",
		[SP_UC_WRITE_LAST] = "UC WRITE Last",
		[SP_UC_WRITE_LAST_IMM] = "UC WRITE Last Imm",
		[SP_UC_WRITE_ONLY] = "UC WRITE Only",
		[SP_UC_WRITE_ONLY_IMM] = "UC WRITE Only Imm",
		[SP_UD_SEND_ONLY] = "UD SEND Only",
		[SP_UD_SEND_ONLY_IMM] = "UD SEND Only Imm",
		[SP_ROCE_CNP] = "CNP",
		[SP_RVMA_PUT] = "RVMA PUT",
		[SP_RVMA_GET] = "RVMA GET",
		[SP_RVMA_DATA] = "RVMA DATA",
		[SP_RVMA_POLL] = "RVMA POLL",
		[SP_RVMA_ACK] = "RVMA ACK",
		[SP_RVMA_NACK] = "RVMA NACK",
		[SP_RVMA_HELLO] = "RVMA HELLO",
		[SP_RVMA_WELCOME] = "RVMA WELCOME",
		[SP_RVMA_BYE] = "RVMA BYE",
	};

	return names[opcode];
}

static void show_reth(FILE *to, struct rest *r)
{
	const struct sp_reth *h = (const void *)take(r, sizeof(*h));

	if (!h) {
		fputs(", ", to);
		cut(to, "RETH");
		return;
	}
	fprintf(to, ", va 0x%" PRIx64 ", rkey 0x%" PRIx32 ", len %" PRIu32, sp_load_be64(h->va), sp_load_be32(h->rkey),
		sp_load_be32(h->dma_len));
}

static void show_deth(FILE *to, struct rest *r)
{
	const struct sp_deth *h = (const void *)take(r, sizeof(*h));

	if (h)
		fprintf(to, ", src qp 0x%" PRIx32, sp_load_be24(h->source_qp));
}

static void show_aeth(FILE *to, struct rest *r)
{
	static const char *const codes[] = {"ack", "rnr nak", "reserved", "nak"};
	const struct sp_aeth *h = (const void *)take(r, sizeof(*h));

	if (h)
		fprintf(to, ", %s %u, msn %" PRIu32, codes[h->syndrome >> 5 & 3], h->syndrome & 0x1F,
			sp_load_be24(h->msn));
}

static void show_immediate(FILE *to, struct rest *r, bool sdr)
{
	const struct sp_immdt *h = (const void *)take(r, sizeof(*h));
	struct sp_sdr_split split;
	uint32_t imm;

	if (!h)
		return;
	imm = sp_load_be32(h->imm);
	fprintf(to, ", imm 0x%" PRIx32, imm);
	/* The split is not on the wire: this is the default one. */
	if (sdr && !sp_sdr_split_parse(SP_SDR_SPLIT_DEFAULT, &split))
		fprintf(to, " (SDR: message %" PRIu32 ", packet %" PRIu32 ")", sp_sdr_imm_id(split, imm),
			sp_sdr_imm_packet(split, imm));
}

static bool has_reth(uint8_t opcode)
{
	switch (opcode) {
	case SP_RC_WRITE_FIRST:
	case SP_RC_WRITE_ONLY:
	case SP_RC_WRITE_ONLY_IMM:
	case SP_RC_READ_REQUEST:
	case SP_UC_WRITE_FIRST:
	case SP_UC_WRITE_ONLY:
	case SP_UC_WRITE_ONLY_IMM:
		return true;
	default:
		return false;
	}
}

static bool has_aeth(uint8_t opcode)
{
	return opcode == SP_RC_READ_RESPONSE_FIRST || opcode == SP_RC_READ_RESPONSE_LAST ||
	       opcode == SP_RC_READ_RESPONSE_ONLY || opcode == SP_RC_ACKNOWLEDGE || opcode == SP_RC_ATOMIC_ACKNOWLEDGE;
}

static bool has_immediate(uint8_t opcode)
{
	switch (opcode) {
	case SP_RC_SEND_LAST_IMM:
	case SP_RC_SEND_ONLY_IMM:
	case SP_RC_WRITE_LAST_IMM:
	case SP_RC_WRITE_ONLY_IMM:
	case SP_UC_SEND_LAST_IMM:
	case SP_UC_SEND_ONLY_IMM:
	case SP_UC_WRITE_LAST_IMM:
	case SP_UC_WRITE_ONLY_IMM:
	case SP_UD_SEND_ONLY_IMM:
		return true;
	default:
		return false;
	}
}

static void show_rvma(FILE *to, uint8_t opcode, struct rest r)
{
	const struct sp_rvma_head *h = (const void *)r.at;

	if (opcode == SP_RVMA_NACK && r.bytes >= sizeof(struct sp_rvma_nack)) {
		const struct sp_rvma_nack *n = (const void *)r.at;

		fprintf(to, ", transfer %" PRIu64 ", blocks %" PRIu32 ", reason %u", sp_load_be64(n->transfer),
			sp_load_be32(n->blocks), n->reason);
		return;
	}
	if (opcode > SP_RVMA_DATA)
		return;
	if (r.bytes < sizeof(*h)) {
		fputs(", ", to);
		cut(to, "RVMA");
		return;
	}
	fprintf(to, ", transfer %" PRIu64 ", packet %" PRIu32, sp_load_be64(h->transfer), sp_load_be32(h->packet));
	if (opcode != SP_RVMA_DATA && r.bytes >= sizeof(struct sp_rvma_put)) {
		const struct sp_rvma_put *p = (const void *)r.at; /* a get begins like a put */
		const uint64_t offset = sp_load_be64(p->offset);

		fprintf(to, ", mailbox 0x%" PRIx64 ", ", sp_load_be64(p->mailbox));
		if (offset == SP_RVMA_APPEND)
			fputs("append", to);
		else
			fprintf(to, "offset %" PRIu64, offset);
		fprintf(to, ", len %" PRIu64, sp_load_be64(p->length));
	}
}

static void show_roce(FILE *to, struct rest r, size_t udp_bytes)
{
	const struct sp_bth *h = (const void *)take(&r, sizeof(*h));
	const char *name;

	if (!h) {
		cut(to, "RoCE");
		return;
	}
	name = opcode_name(h->opcode);
	fputs("RoCE ", to);
	if (name)
		fputs(name, to);
	else
		fprintf(to, "opcode 0x%02x", h->opcode);
	fprintf(to, ", qp 0x%" PRIx32 ", psn %" PRIu32, sp_load_be24(h->dest_qp), sp_load_be24(h->psn));
	if (h->ack_req & SP_BTH_ACK_REQ)
		fputs(", ack req", to);
	if (SP_ROCE_TRANSPORT(h->opcode) == SP_ROCE_UD)
		show_deth(to, &r);
	if (has_reth(h->opcode))
		show_reth(to, &r);
	if (has_aeth(h->opcode))
		show_aeth(to, &r);
	if (has_immediate(h->opcode))
		show_immediate(to, &r, h->opcode == SP_UC_WRITE_ONLY_IMM);
	if (h->opcode >= SP_RVMA_PUT && h->opcode <= SP_RVMA_BYE)
		show_rvma(to, h->opcode, r);
	fprintf(to, ", length %zu", udp_bytes);
}

/* ---- IP ---- */

static void address(FILE *to, int family, const uint8_t *bytes)
{
	char text[INET6_ADDRSTRLEN];

	fputs(inet_ntop(family, bytes, text, sizeof(text)) ? text : "?", to);
}

/* "A > B: ", with ports if there are. */
static void show_ends(FILE *to, int family, const uint8_t *from, const uint8_t *dest, const uint8_t *ports)
{
	address(to, family, from);
	if (ports)
		fprintf(to, ".%u", sp_load_be16(ports));
	fputs(" > ", to);
	address(to, family, dest);
	if (ports)
		fprintf(to, ".%u", sp_load_be16(ports + 2));
	fputs(": ", to);
}

static void show_tcp(FILE *to, const struct rest *r, size_t bytes)
{
	static const char letters[] = "FSRP.UEW"; /* as tcpdump: . is ACK */
	size_t head;

	if (r->bytes < 20) {
		cut(to, "TCP");
		return;
	}
	fputs("TCP [", to);
	for (unsigned i = 0; letters[i]; i++)
		if (r->at[13] >> i & 1)
			putc(letters[i], to);
	head = (size_t)(r->at[12] >> 4) * 4;
	fprintf(to, "], seq %" PRIu32 ", ack %" PRIu32 ", length %zu", sp_load_be32(r->at + 4), sp_load_be32(r->at + 8),
		bytes > head ? bytes - head : 0);
}

static void show_icmp(FILE *to, const struct rest *r, size_t bytes, bool six)
{
	const uint8_t request = six ? 128 : 8, reply = six ? 129 : 0;
	const char *name = six ? "ICMP6" : "ICMP";

	if (r->bytes < 8) {
		cut(to, name);
		return;
	}
	if (r->at[0] == request || r->at[0] == reply)
		fprintf(to, "%s echo %s, id %u, seq %u", name, r->at[0] == request ? "request" : "reply",
			sp_load_be16(r->at + 4), sp_load_be16(r->at + 6));
	else if (six && (r->at[0] == 135 || r->at[0] == 136) && r->bytes >= 24) {
		fprintf(to, "ICMP6 neighbor %s, ", r->at[0] == 135 ? "solicitation, who has" : "advertisement, tgt is");
		address(to, AF_INET6, r->at + 8);
	} else
		fprintf(to, "%s type %u, code %u", name, r->at[0], r->at[1]);
	fprintf(to, ", length %zu", bytes);
}

/* bytes: of the IP packet behind its header, as the header says. */
static void show_transport(FILE *to, struct rest r, int family, const uint8_t *from, uint8_t protocol, size_t bytes)
{
	const uint8_t *dest = from + (family == AF_INET ? 4 : 16);
	const uint8_t *udp = r.at;

	if (r.bytes > bytes) /* Ethernet's padding */
		r.bytes = bytes;
	show_ends(to, family, from, dest,
		  (protocol == IPPROTO_UDP || protocol == IPPROTO_TCP) && r.bytes >= 4 ? r.at : NULL);
	switch (protocol) {
	case IPPROTO_UDP:
		if (!take(&r, 8)) {
			cut(to, "UDP");
			break;
		}
		bytes -= 8; /* r had as many at least */
		if (sp_load_be16(udp + 2) == SP_ROCE_PORT)
			show_roce(to, r, bytes);
		else
			fprintf(to, "UDP, length %zu", bytes);
		break;
	case IPPROTO_TCP:
		show_tcp(to, &r, bytes);
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		show_icmp(to, &r, bytes, protocol == IPPROTO_ICMPV6);
		break;
	default:
		fprintf(to, "protocol %u, length %zu", protocol, bytes);
	}
}

static void show_ip4(FILE *to, struct rest r)
{
	const uint8_t *h = r.at;
	const size_t head = r.bytes ? (size_t)(h[0] & 0xF) * 4 : 0;
	size_t total;
	unsigned fragment;

	fputs("IP ", to);
	if (head < 20 || !take(&r, head)) {
		cut(to, "IP");
		return;
	}
	total = sp_load_be16(h + 2);
	total = total > head ? total - head : 0;
	fragment = sp_load_be16(h + 6) & 0x1FFF;
	if (!fragment) {
		show_transport(to, r, AF_INET, h + 12, h[9], total);
		return;
	}
	show_ends(to, AF_INET, h + 12, h + 16, NULL);
	fprintf(to, "protocol %u, fragment at %u, length %zu", h[9], fragment * 8, total);
}

static void show_ip6(FILE *to, struct rest r)
{
	const uint8_t *h = take(&r, 40);

	fputs("IP6 ", to);
	if (!h)
		cut(to, "IP6");
	else /* extension headers are shown by their number */
		show_transport(to, r, AF_INET6, h + 8, h[6], sp_load_be16(h + 4));
}

static void show_arp(FILE *to, const struct rest *r)
{
	const uint8_t *h = r->at;

	fputs("ARP, ", to);
	if (r->bytes < 28) {
		cut(to, "ARP");
		return;
	}
	if (sp_load_be16(h + 6) == 1) {
		fputs("Request who-has ", to);
		address(to, AF_INET, h + 24);
		fputs(" tell ", to);
		address(to, AF_INET, h + 14);
	} else {
		fputs("Reply ", to);
		address(to, AF_INET, h + 14);
		fprintf(to, " is-at %02x:%02x:%02x:%02x:%02x:%02x", h[8], h[9], h[10], h[11], h[12], h[13]);
	}
}

static void show_frame(FILE *to, const struct capture_line *line)
{
	struct rest r = {line->frame, line->captured};
	const uint8_t *tag = take(&r, 14);
	unsigned type;

	if (!tag) {
		cut(to, "Ethernet");
		return;
	}
	for (type = sp_load_be16(tag + 12); type == ETHER_VLAN || type == ETHER_QINQ; type = sp_load_be16(tag + 2)) {
		tag = take(&r, 4);
		if (!tag) {
			cut(to, "VLAN");
			return;
		}
		fprintf(to, "vlan %u, ", sp_load_be16(tag) & 0xFFF);
	}
	switch (type) {
	case ETHER_IP4:
		show_ip4(to, r);
		break;
	case ETHER_IP6:
		show_ip6(to, r);
		break;
	case ETHER_ARP:
		show_arp(to, &r);
		break;
	default:
		fprintf(to, "ethertype 0x%04x, length %" PRIu32, type, line->length);
	}
}

int capture_line_print(FILE *to, const struct capture_line *line)
{
	const time_t seconds = (time_t)(line->time / 1000000000u);
	struct tm tm = {0};

	localtime_r(&seconds, &tm);
	errno = 0;
	fprintf(to, "%02d:%02d:%02d.%09u %s %s ", tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned)(line->time % 1000000000u), line->port, line->outgoing ? "Out" : "In ");
	show_frame(to, line);
	fprintf(to, " [%s]\n", line->fate);
	return ferror(to) ? errno ? -errno : -EIO : 0;
}
