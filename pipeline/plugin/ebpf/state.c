/* SPDX-License-Identifier: BSD-3-Clause */
#include "state.h"

static void meet_slot(struct sp_ebpf_slot *a, const struct sp_ebpf_slot *b)
{
	const bool address = a->whole.kind > SP_EBPF_NUMBER || b->whole.kind > SP_EBPF_NUMBER;

	a->whole = sp_ebpf_meet(&a->whole, &b->whole);
	a->set &= b->set;
	if (address && a->whole.kind == SP_EBPF_NOTHING)
		a->set = 0;
}

void sp_ebpf_state_meet(struct sp_ebpf_state *a, const struct sp_ebpf_state *b)
{
	for (unsigned i = 0; i < EBPF_REG_NUM; i++)
		a->reg[i] = sp_ebpf_meet(&a->reg[i], &b->reg[i]);
	for (unsigned i = 0; i < SP_EBPF_SLOTS; i++)
		meet_slot(&a->slot[i], &b->slot[i]);
}

void sp_ebpf_state_store(struct sp_ebpf_state *state, unsigned at, unsigned size, const struct sp_ebpf_value *v)
{
	if (size == 8 && at % 8 == 0) {
		state->slot[at / 8] = (struct sp_ebpf_slot){*v, 0xFF};
		return;
	}
	for (unsigned b = at; b < at + size; b++) {
		struct sp_ebpf_slot *s = &state->slot[b / 8];

		if (s->whole.kind > SP_EBPF_NUMBER) /* the rest of an address is nothing any more */
			s->set = 0;
		s->whole = (struct sp_ebpf_value){.kind = SP_EBPF_NOTHING};
		s->set |= (uint8_t)(1 << b % 8);
	}
}

static void narrow(struct sp_ebpf_value *v, uint32_t name, unsigned op, uint64_t k)
{
	if (v->kind != SP_EBPF_NUMBER)
		return;
	if (v->name == name)
		sp_ebpf_narrow(v, op, k);
	else if ((v->name | SP_EBPF_LOW) == name)
		sp_ebpf_narrow_low(v, op, k);
}

/* If v is not 0, what it was masked from has one of the mask's bits. */
static void narrow_masked(struct sp_ebpf_state *s, const struct sp_ebpf_value *v)
{
	const uint64_t bits = v->mask;
	const uint32_t of = v->of;

	if (!v->min || !of)
		return;
	for (unsigned i = 0; i < EBPF_REG_NUM; i++)
		if (s->reg[i].kind == SP_EBPF_NUMBER && s->reg[i].name == of)
			sp_ebpf_narrow_any(&s->reg[i], bits);
	for (unsigned i = 0; i < SP_EBPF_SLOTS; i++)
		if (s->slot[i].whole.kind == SP_EBPF_NUMBER && s->slot[i].whole.name == of)
			sp_ebpf_narrow_any(&s->slot[i].whole, bits);
}

void sp_ebpf_state_narrow(struct sp_ebpf_state *s, unsigned reg, unsigned op, uint64_t k)
{
	const uint32_t name = s->reg[reg].name;

	if (!name)
		sp_ebpf_narrow(&s->reg[reg], op, k);
	for (unsigned i = 0; name && i < EBPF_REG_NUM; i++)
		narrow(&s->reg[i], name, op, k);
	for (unsigned i = 0; name && i < SP_EBPF_SLOTS; i++)
		narrow(&s->slot[i].whole, name, op, k);
	narrow_masked(s, &s->reg[reg]);
}
