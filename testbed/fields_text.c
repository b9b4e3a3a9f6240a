/* SPDX-License-Identifier: BSD-3-Clause */
/* Fields and frames as text. */
#include <arpa/inet.h>
#include <stdio.h>

#include "../handlers/wire/roce.h"
#include "fields.h"
#include "fields_table.h"

#define SHOWN 16 /* bytes of a payload */

uint64_t sp_field_value(const struct sp_field *f, const uint8_t *frame)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < f->len && i < 8; i++)
		value = value << 8 | frame[f->at + i];
	if (f->bits)
		value = value >> f->shift & ((1ull << f->bits) - 1);
	return value * f->unit;
}

void sp_field_text(const struct sp_field *f, const uint8_t *frame, char *text, size_t room)
{
	const uint8_t *p = frame + f->at;
	char buffer[3 * SHOWN + 40];
	int used = 0;

	switch (f->form) {
	case SP_FIELD_MAC:
		snprintf(buffer, sizeof(buffer), "%02x:%02x:%02x:%02x:%02x:%02x", p[0], p[1], p[2], p[3], p[4], p[5]);
		break;
	case SP_FIELD_IP4:
	case SP_FIELD_IP6:
		inet_ntop(f->form == SP_FIELD_IP4 ? AF_INET : AF_INET6, p, buffer, sizeof(buffer));
		break;
	case SP_FIELD_HEX:
		snprintf(buffer, sizeof(buffer), "0x%0*llx", (int)(f->bits ? (f->bits + 3u) / 4 : 2 * f->len),
			 (unsigned long long)sp_field_value(f, frame));
		break;
	case SP_FIELD_NUMBER:
		snprintf(buffer, sizeof(buffer), "%llu", (unsigned long long)sp_field_value(f, frame));
		break;
	case SP_FIELD_BYTES:
		for (uint32_t i = 0; i < f->len && i < SHOWN; i++)
			used += snprintf(buffer + used, sizeof(buffer) - (size_t)used, "%02x", p[i]);
		snprintf(buffer + used, sizeof(buffer) - (size_t)used, "%s (%u byte%s)", f->len > SHOWN ? "..." : "",
			 f->len, f->len == 1 ? "" : "s");
		break;
	}
	snprintf(text, room, "%s", buffer);
}

static const struct sp_field *find(const struct sp_field *field, unsigned count, enum field_id id)
{
	for (unsigned i = 0; i < count; i++)
		if (field[i].id == id)
			return &field[i];
	return NULL;
}

static const char *opcode_name(uint64_t opcode)
{
	static const char *const name[32] = {
		"SEND first",
		"SEND middle",
		"SEND last",
		"SEND last, immediate",
		"SEND only",
		"SEND only, immediate",
		"WRITE first",
		"WRITE middle",
		"WRITE last",
		"WRITE last, immediate",
		"WRITE only",
		"WRITE only, immediate",
		"READ request",
		"READ response first",
		"READ response middle",
		"READ response last",
		"READ response only",
		"ACK",
		"atomic ACK",
		"compare and swap",
		"fetch and add",
		NULL,
		"SEND last, invalidate",
		"SEND only, invalidate",
	};

	if (opcode == SP_ROCE_CNP)
		return "congestion notification";
	return SP_ROCE_TRANSPORT(opcode) != SP_ROCE_RD && opcode < 0x80 ? name[opcode & 31] : NULL;
}

/* The part after the IP addresses. True: show the payload's length. */
static void transport_text(const struct sp_field *field, unsigned count, const uint8_t *frame, char *text, size_t room)
{
	static const char *const service[] = {"RC", "UC", "RD", "UD"};
	const struct sp_field *f;

	if ((f = find(field, count, F_BTH_OPCODE))) {
		const uint64_t opcode = sp_field_value(f, frame);
		const char *name = opcode_name(opcode);
		char number[32];

		snprintf(number, sizeof(number), "opcode 0x%02llx", (unsigned long long)opcode);
		snprintf(text, room, "RoCE %s%s%s QP 0x%llx PSN %llu", opcode < 0x80 ? service[opcode >> 5] : "",
			 opcode < 0x80 ? " " : "", name ? name : number,
			 (unsigned long long)sp_field_value(find(field, count, F_BTH_DESTQP), frame),
			 (unsigned long long)sp_field_value(find(field, count, F_BTH_PSN), frame));
	} else if ((f = find(field, count, F_UDP_SRCPORT)) || (f = find(field, count, F_TCP_SRCPORT))) {
		snprintf(text, room, "%s %llu > %llu", f->name[0] == 'u' ? "UDP" : "TCP",
			 (unsigned long long)sp_field_value(f, frame),
			 (unsigned long long)sp_field_value(f + 1, frame));
	} else if ((f = find(field, count, F_ICMP_TYPE)) || (f = find(field, count, F_ICMP6_TYPE))) {
		const uint64_t type = sp_field_value(f, frame);
		const char *name = f->name[4] == '.' ? type == 8   ? " echo request"
						       : type == 0 ? " echo reply"
								   : ""
				   : type == 128     ? " echo request"
				   : type == 129     ? " echo reply"
				   : type == 135     ? " neighbour solicitation"
				   : type == 136     ? " neighbour advertisement"
						     : "";

		snprintf(text, room, "%s type %llu%s", f->name[4] == '.' ? "ICMP" : "ICMPv6", (unsigned long long)type,
			 name);
	} else if ((f = find(field, count, F_IP_PROTO)) || (f = find(field, count, F_IP6_NXT))) {
		snprintf(text, room, "protocol %llu", (unsigned long long)sp_field_value(f, frame));
	}
}

void sp_frame_text(const uint8_t *frame, uint32_t len, char *text, size_t room)
{
	struct sp_field field[SP_FIELDS];
	const unsigned count = sp_fields(frame, len, field);
	const struct sp_field *from, *to, *payload = find(field, count, F_PAYLOAD), *type;
	char a[64], b[64], what[128] = "";
	const uint32_t bytes = payload ? payload->len : 0;

	if (!(from = find(field, count, F_ETH_SRC))) {
		snprintf(text, room, "%u bytes, too short for Ethernet", len);
		return;
	}
	if ((from = find(field, count, F_ARP_SRC_IP))) {
		const uint64_t opcode = sp_field_value(find(field, count, F_ARP_OPCODE), frame);

		to = find(field, count, F_ARP_DST_IP);
		sp_field_text(from, frame, a, sizeof(a));
		sp_field_text(to, frame, b, sizeof(b));
		if (opcode == 1)
			snprintf(text, room, "ARP who has %s? Tell %s", b, a);
		else
			snprintf(text, room, "ARP %s > %s opcode %llu%s", a, b, (unsigned long long)opcode,
				 opcode == 2 ? " (reply)" : "");
		return;
	}
	if ((from = find(field, count, F_IP_SRC)) || (from = find(field, count, F_IP6_SRC))) {
		to = from + 1;
		transport_text(field, count, frame, what, sizeof(what));
	} else {
		from = find(field, count, F_ETH_SRC);
		to = find(field, count, F_ETH_DST);
		for (unsigned i = (unsigned)(from - field); i < count; i++) { /* the last type is the innermost one */
			type = &field[i];
			if (type->id == F_ETH_TYPE || type->id == F_VLAN_TYPE || type->id == F_AD_TYPE)
				snprintf(what, sizeof(what), "type 0x%04llx",
					 (unsigned long long)sp_field_value(type, frame));
		}
		if (!*what)
			snprintf(what, sizeof(what), "LLC");
	}
	sp_field_text(from, frame, a, sizeof(a));
	sp_field_text(to, frame, b, sizeof(b));
	snprintf(text, room, "%s > %s %s, %u byte%s", a, b, what, bytes, bytes == 1 ? "" : "s");
}
