/* SPDX-License-Identifier: BSD-3-Clause */
#include "rvma_wire.h"

bool rvma_decode(const uint8_t *frame, uint32_t len, struct rvma_packet *p)
{
	static const uint8_t heads[] = {56, 64, 40, 8, 8, 24, 40, 40, 16};
	struct wire_packet w;

	memset(p, 0, sizeof(*p));
	if (!wire_decode(frame, len, &w) || w.opcode < RVMA_W_PUT || w.opcode > RVMA_W_BYE ||
	    w.len < heads[w.opcode - RVMA_W_PUT])
		return false;
	const uint8_t *b = w.payload;
	p->opcode = w.opcode;
	p->to = w.qp;
	p->body = b + heads[w.opcode - RVMA_W_PUT];
	p->len = w.len - heads[w.opcode - RVMA_W_PUT];
	if (w.opcode == RVMA_W_HELLO || w.opcode == RVMA_W_WELCOME) {
		p->from = (uint32_t)wire_get(b + 4, 4);
		p->token = wire_get(b + 16, 8);
		p->nonce = wire_get(b + 24, 8);
		p->echo = wire_get(b + 32, 8);
		return b[0] == 1 && p->nonce && !p->len && (w.opcode == RVMA_W_WELCOME) == (p->echo != 0);
	}
	p->token = wire_get(b, 8);
	if (w.opcode == RVMA_W_NACK) {
		p->transfer = wire_get(b + 8, 8);
		p->reason = b[20];
		return !p->len;
	}
	if (w.opcode > RVMA_W_DATA)
		return w.opcode != RVMA_W_BYE || !p->len;
	p->transfer = wire_get(b + 8, 8);
	p->packet = (uint32_t)wire_get(b + 16, 4);
	p->fence = b[21] & 1;
	p->length = wire_get(b + 24, 8);
	if (b[20] != 1 || b[21] & 0xFE || b[22] || b[23])
		return false;
	if (w.opcode == RVMA_W_DATA) {
		p->get = wire_get(b + 32, 8);
		return true;
	}
	p->mailbox = wire_get(b + 32, 8);
	p->key = wire_get(b + 40, 8);
	p->offset = wire_get(b + 48, 8);
	if (w.opcode == RVMA_W_GET) {
		p->back = (uint32_t)wire_get(b + 56, 4);
		return !p->len && !p->packet;
	}
	return true;
}

bool rvma_ack_open(struct rvma_ack *a, const uint8_t *b, uint32_t len)
{
	if (len < 56 || memcmp(b, "SPRL", 4) || b[4] != 1 || b[5] != 2)
		return false;
	*a = (struct rvma_ack){wire_get(b + 16, 8), (unsigned)wire_get(b + 48, 2), b + 56, b + len};
	return true;
}

bool rvma_ack_next(struct rvma_ack *a, struct rvma_entry *e)
{
	if (!a->entries || a->end - a->at < 24)
		return false;
	uint32_t bytes = (uint32_t)wire_get(a->at + 16, 2);
	if (a->end - a->at < 24 + (int)bytes)
		return false;
	*e = (struct rvma_entry){wire_get(a->at, 8),
				 (uint32_t)wire_get(a->at + 8, 4),
				 (uint32_t)wire_get(a->at + 12, 4),
				 bytes * 8,
				 a->at[18] & 1,
				 a->at + 24};
	a->at += 24 + bytes;
	a->entries--;
	return true;
}

bool rvma_poll_begin(const uint8_t *b, uint32_t len, uint64_t *begin)
{
	if (len < 40 || memcmp(b, "SPRL", 4) || b[4] != 1 || b[5] != 1)
		return false;
	*begin = wire_get(b + 16, 8);
	return true;
}
