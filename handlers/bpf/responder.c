/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * responder: answers ICMP echo requests (RFC 792) with their replies. The same as responder.bpf.c, in C, to compare.
 *
 * Swaps MAC and IPv4 addresses, sets a fresh TTL, turns type 8 into 0. Checksums are updated for what changed, so a
 * wrong one stays wrong (RFC 1624). Other packets are drops with their reasons: no echo request, a fragment, or a group
 * or unspecified address at either end. `limit` bounds the data that are answered, against amplification.
 */
#include <spindle-handler.h>

enum { NOT_ICMP, NOT_ECHO, FRAGMENT, NOT_UNICAST, TOO_LONG, NOT_SENT };
static const char *const drops[] = {"not-icmp", "not-echo", "fragment", "not-unicast", "too-long", "not-sent", NULL};
enum { ECHOED };
static const char *const counters[] = {"echoed", NULL};

enum { IP = 14, ICMP = IP + 20, ECHO_REQUEST = 8, FRESH_TTL = 64, PROTOCOL_ICMP = 1 };

struct responder {
	uint64_t limit;
};

static int attach(struct sp_ctx *c)
{
	struct responder *s = c->state;

	s->limit = sp_param_uint(c, "limit");
	return 0;
}

static uint32_t get16(const uint8_t *b)
{
	return (uint32_t)(b[0] << 8 | b[1]);
}

static bool unicast(const uint8_t *ip)
{
	return ip[0] != 0 && ip[0] != 127 && ip[0] < 224;
}

static void swap(uint8_t *a, uint8_t *b, size_t len)
{
	uint8_t t[6];

	memcpy(t, a, len);
	memcpy(a, b, len);
	memcpy(b, t, len);
}

static void checksum_fix(uint8_t *at, uint32_t was, uint32_t is)
{
	uint32_t sum = (~get16(at) & 0xFFFF) + (~was & 0xFFFF) + is;

	sum = (sum & 0xFFFF) + (sum >> 16);
	sum += sum >> 16;
	at[0] = (uint8_t)(~sum >> 8);
	at[1] = (uint8_t)~sum;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	const struct responder *s = c->state;
	uint8_t *f = p->frame, *ip = f + IP, *icmp = f + ICMP;

	(void)none;
	if (p->l3 != IP || p->flags & SP_PKT_IPV6 || get16(f + 12) != 0x0800 || ip[9] != PROTOCOL_ICMP)
		return SP_DROP(NOT_ICMP);
	if (get16(ip + 6) & 0x3FFF)
		return SP_DROP(FRAGMENT);
	if (ip[0] != 0x45 || p->len < 8 || get16(icmp) != ECHO_REQUEST << 8)
		return SP_DROP(NOT_ECHO);
	if ((f[0] | f[6]) & 1 || !unicast(ip + 12) || !unicast(ip + 16))
		return SP_DROP(NOT_UNICAST);
	if (p->len > s->limit)
		return SP_DROP(TOO_LONG);
	const uint32_t ttl = get16(ip + 8);
	swap(f, f + 6, 6);
	swap(ip + 12, ip + 16, 4);
	ip[8] = FRESH_TTL;
	checksum_fix(ip + 10, ttl, FRESH_TTL << 8 | (ttl & 0xFF));
	icmp[0] = 0;
	checksum_fix(icmp + 2, ECHO_REQUEST << 8, 0);
	if (sp_packet_send(c, p))
		return SP_DROP(NOT_SENT);
	c->counters[ECHOED]++;
	return SP_SENT;
}

static const struct sp_param params[] = {
	{"limit", SP_UINT, "1500", 0, 0, "bytes of ICMP that are answered"},
	{NULL},
};

static const struct sp_handler responder = {
	SP_HANDLER_HEAD,    .name = "responder",  .doc = "answers ICMP echo requests",	.params = params,
	.drops = drops,	    .counters = counters, .ctx_size = sizeof(struct responder), .attach = attach,
	.payload = payload,
};
SP_HANDLER(responder)
