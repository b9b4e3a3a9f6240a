/* SPDX-License-Identifier: BSD-3-Clause */
#include "sdr_alone.h"

struct fake_nic alone_nic;

void alone_attach(struct fake_nic *f, const char *const *setting, uint64_t buffer, uint16_t workers)
{
	memset(f, 0, sizeof(*f));
	if (fake_attach(f, setting)) {
		printf("# %s: %s\n", f->error.param, f->error.text);
		abort();
	}
	if (workers > 1) { /* attach again as one of several */
		fake_detach(f);
		memset(f, 0, sizeof(*f));
		f->h = fake_handler;
		f->setting = setting;
		f->room = -1;
		f->c.workers = workers;
		f->c.counters = f->counters;
		f->c.now = SP_SEC;
		f->sent = malloc(sizeof(*f->sent) * FAKE_SENT);
		f->c.state = sp_alloc(&f->c, f->h->ctx_size);
		if (fake_start(f))
			abort();
	}
	if (fake_mem(f, buffer) != BUFFER)
		abort();
	memset(f->mem[BUFFER].base, UNTOUCHED, buffer);
}

const char *const alone_implicit4[] = {MTU_SETTINGS, "credit", "implicit", "max-messages", "4", NULL};

struct packet *alone_packet(uint32_t id, uint32_t offset, uint32_t len)
{
	static struct packet k;

	k = (struct packet){.id = id, .offset = offset, .len = len, .dma_len = len, .rkey = 0x12345678};
	k.va = id * M_BYTES + offset * MTU;
	k.opcode = 0x2B;
	k.fill = (uint8_t)(offset * 7 + 1);
	return &k;
}

struct sp_packet *alone_build(struct packet *k)
{
	const uint32_t imm = k->id << 22 | k->offset << 4 | k->user;

	for (int i = 0; i < 8; i++)
		k->bytes[i] = (uint8_t)(k->va >> (56 - 8 * i));
	for (int i = 0; i < 4; i++) {
		k->bytes[8 + i] = (uint8_t)(k->rkey >> (24 - 8 * i));
		k->bytes[12 + i] = (uint8_t)(k->dma_len >> (24 - 8 * i));
		k->bytes[16 + i] = (uint8_t)(imm >> (24 - 8 * i));
	}
	memset(k->bytes + 20, k->fill, k->len);
	k->p = (struct sp_packet){.data = k->bytes,
				  .len = 20 + k->len,
				  .qp_index = (uint16_t)k->qp_index,
				  .psn = k->psn,
				  .opcode = k->opcode,
				  .flags = SP_PKT_ROCE | k->flags};
	return &k->p;
}

uint32_t alone_give(struct packet *k)
{
	return fake_receive(&alone_nic, alone_build(k));
}

int alone_post_to(struct fake_nic *f, uint64_t k, uint64_t offset, uint64_t len)
{
	const struct sp_command c = {.op = SP_CMD_POST, .cookie = k, .arg = {BUFFER, offset, len}};

	return fake_command(f, &c, NULL);
}

int alone_complete(struct fake_nic *f, uint64_t k)
{
	return fake_command(f, &(struct sp_command){.op = SP_CMD_COMPLETE, .cookie = k}, NULL);
}

const struct sp_sdr_recv_status *alone_line(struct fake_nic *f, uint32_t slot)
{
	const struct sdr *s = f->c.state;

	return (const void *)(f->mem[0].base + s->layout.recv + slot * 64);
}

uint64_t alone_came(struct fake_nic *f, uint32_t slot)
{
	const struct sdr *s = f->c.state;
	uint64_t sum = alone_line(f, slot)->packets, one;

	for (uint32_t w = 0; f->c.workers > 1 && w < f->c.workers; w++) {
		memcpy(&one, f->mem[0].base + sp_sdr_count(&s->layout, slot, w, f->c.workers), sizeof(one));
		sum += one;
	}
	return sum;
}

const uint64_t *alone_bitmap(struct fake_nic *f, uint32_t slot)
{
	const struct sdr *s = f->c.state;

	return (const void *)(f->mem[0].base + s->layout.bitmap + slot * s->layout.bitmap_stride);
}

const char *alone_report(struct fake_nic *f)
{
	static struct sp_report r;

	r.len = 0;
	f->h->report(&f->c, &r);
	return r.text;
}

bool alone_untouched(const uint8_t *p, size_t n)
{
	while (n--)
		if (*p++ != UNTOUCHED)
			return false;
	return true;
}

bool alone_filled(const uint8_t *p, size_t n, uint8_t with)
{
	while (n--)
		if (*p++ != with)
			return false;
	return true;
}

uint32_t alone_draw(uint32_t below)
{
	static uint64_t rng = 1;

	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 33) % below;
}

struct packet *alone_of_message(uint64_t k, uint32_t slots, uint32_t generations, uint32_t p)
{
	struct packet *x = alone_packet((uint32_t)(k % slots), p, MTU);

	const struct sdr *s = alone_nic.c.state;

	x->qp_index = (uint32_t)(k / slots % generations);
	if (!s->implicit)
		x->rkey += (uint32_t)(k / slots / generations);
	x->fill = (uint8_t)(k + 1);
	x->flags = p == 1 ? SP_PKT_SE : 0; /* messages of two packets */
	return x;
}

int alone_connect_to(struct fake_nic *f, uint64_t peer_nonce, uint64_t nonce)
{
	const struct sp_command c = {.op = SP_SDR_CMD_CONNECT,
				     .arg = {0, 0, 0x100 | 0xF00001ull << 32, peer_nonce, nonce, 0x12345678}};

	return fake_command(f, &c, NULL);
}

int alone_reserve(const struct sp_export *x, uint64_t key, uint64_t chunk)
{
	uint64_t wanted = 1;
	const int rc = x->reserve(&alone_nic.c, key, chunk, &wanted);

	CU_ASSERT(wanted == 0 || (wanted == 1 && rc == 0));
	return rc ? rc : !wanted;
}
