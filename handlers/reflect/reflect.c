/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reflect: answers UDP datagrams with themselves.
 *
 * Swaps MAC addresses, IP addresses and ports, sets a fresh TTL or hop limit, and recomputes the checksums. VLAN tags,
 * payload and bytes after the datagram stay. A UDP checksum of 0 over IPv4 ("none") stays 0.
 *
 * An answer with a fresh TTL can travel for ever between two echo services. So a datagram whose source port is 7 (the
 * echo service), or the port answered here, is the drop `reflect-loop`. Two NICs that reflect every port must not face
 * each other.
 */
#include "../spindle-handler.h"

enum { NOT_UDP, ROCE, OTHER_PORT, NO_SOURCE_PORT, NOT_UNICAST, REFLECT_LOOP, IP_OPTIONS, BAD_CHECKSUM, NOT_SENT };
static const char *const drops[] = {"not-udp",	    "roce",	  "other-port",	  "no-source-port", "not-unicast",
				    "reflect-loop", "ip-options", "bad-checksum", "not-sent",	    NULL};
enum { ECHOED };
static const char *const counters[] = {"echoed", NULL};

enum { ECHO_PORT = 7, FRESH_TTL = 64, UDP_HEADER = 8, UDP = 17 };

struct reflect {
	uint16_t port; /* 0: all */
	bool verify;
};

static int attach(struct sp_ctx *c)
{
	struct reflect *s = c->state;

	s->port = (uint16_t)sp_param_uint(c, "port");
	s->verify = sp_param_uint(c, "verify");
	return 0;
}

static uint16_t get16(const uint8_t *b)
{
	return (uint16_t)(b[0] << 8 | b[1]);
}

static void swap(uint8_t *a, uint8_t *b, size_t len)
{
	uint8_t t[16];

	memcpy(t, a, len);
	memcpy(a, b, len);
	memcpy(b, t, len);
}

/* True: an answer can go to this address. It is neither a group nor a loopback or unspecified address. */
static bool unicast(const uint8_t *ip, bool v6)
{
	static const uint8_t loopback[16] = {[15] = 1};

	if (v6) /* :: and ::1 differ in the last bit */
		return ip[0] != 0xFF && (memcmp(ip, loopback, 15) || ip[15] > 1);
	return ip[0] != 0 && ip[0] != 127 && ip[0] < 224;
}

/* The Internet checksum of pseudo-header and datagram. It writes the pseudo-header over the end of the IP header, where
 * the addresses already are. The caller writes those header bytes again afterwards. */
static uint16_t checksum(const struct sp_packet *p, bool v6, uint32_t udp_len)
{
	uint8_t *ip = p->frame + p->l3;
	uint8_t *pseudo = ip + (v6 ? 4 : 8);

	pseudo[v6 ? 2 : 0] = 0;
	pseudo[v6 ? 3 : 1] = UDP;
	pseudo[v6 ? 0 : 2] = (uint8_t)(udp_len >> 8);
	pseudo[v6 ? 1 : 3] = (uint8_t)udp_len;
	return sp_checksum(pseudo, (size_t)(p->frame + p->l4 - pseudo) + udp_len, 0);
}

/* Returns SP_DONE if the packet is to be answered, or the verdict. */
static uint32_t check(const struct reflect *s, const struct sp_packet *p)
{
	const bool v6 = p->flags & SP_PKT_IPV6;
	const uint8_t *ip = p->frame + p->l3, *udp = p->frame + p->l4;
	const uint8_t *from = ip + (v6 ? 8 : 12), *to = ip + (v6 ? 24 : 16);

	if (!(p->flags & SP_PKT_UDP))
		return SP_DROP(NOT_UDP);
	if (p->flags & SP_PKT_ROCE)
		return SP_DROP(ROCE);
	if (s->port && get16(udp + 2) != s->port)
		return SP_DROP(OTHER_PORT);
	if (!get16(udp))
		return SP_DROP(NO_SOURCE_PORT);
	if ((p->frame[0] | p->frame[6]) & 1 || !unicast(from, v6) || !unicast(to, v6))
		return SP_DROP(NOT_UNICAST);
	if (get16(udp) == ECHO_PORT || get16(udp) == s->port || !memcmp(from, to, v6 ? 16 : 4))
		return SP_DROP(REFLECT_LOOP);
	/* A source route would take the answer elsewhere, and the checksum's destination would not be that of the
	 * header. */
	if (udp - ip != (v6 ? 40 : 20))
		return SP_DROP(IP_OPTIONS);
	return SP_DONE;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *none, struct sp_packet *p)
{
	const struct reflect *s = c->state;
	const bool v6 = p->flags & SP_PKT_IPV6;
	const uint32_t verdict = check(s, p), udp_len = UDP_HEADER + p->len;
	uint8_t *ip = p->frame + p->l3, *udp = p->frame + p->l4;
	bool summed;
	uint16_t sum;

	(void)none;
	if (verdict != SP_DONE)
		return verdict;
	const uint8_t ip_len[2] = {ip[4], ip[5]};

	summed = v6 || udp[6] || udp[7];
	if (s->verify && summed && ((!udp[6] && !udp[7]) || checksum(p, v6, udp_len)))
		return SP_DROP(BAD_CHECKSUM);

	swap(p->frame, p->frame + 6, 6);
	swap(ip + (v6 ? 8 : 12), ip + (v6 ? 24 : 16), v6 ? 16 : 4);
	swap(udp, udp + 2, 2);
	if (summed) {
		memset(udp + 6, 0, 2);
		sum = checksum(p, v6, udp_len);
		if (!sum)
			sum = 0xFFFF; /* 0 would mean: no checksum */
		memcpy(udp + 6, &sum, 2);
	}
	if (v6) {
		memcpy(ip + 4, ip_len, 2);
		ip[6] = UDP;
		ip[7] = FRESH_TTL;
	} else {
		ip[8] = FRESH_TTL;
		ip[9] = UDP;
		memset(ip + 10, 0, 2);
		sum = sp_checksum(ip, 20, 0);
		memcpy(ip + 10, &sum, 2);
	}
	if (sp_packet_send(c, p))
		return SP_DROP(NOT_SENT);
	c->counters[ECHOED]++;
	return SP_SENT;
}

static const struct sp_param params[] = {
	{"port", SP_UINT, "0", 0, 65535, "answer only this UDP destination port; 0: all of them"},
	{"verify", SP_BOOL, "no", 0, 0, "drop datagrams whose UDP checksum is wrong, rather than mend it"},
	{NULL},
};

static const struct sp_handler reflect = {
	SP_HANDLER_HEAD,
	.name = "reflect",
	.doc = "answers UDP datagrams with themselves (echo)",
	.params = params,
	.drops = drops,
	.counters = counters,
	.ctx_size = sizeof(struct reflect),
	.attach = attach,
	.payload = payload,
};
SP_HANDLER(reflect)
