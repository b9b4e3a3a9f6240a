/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"
#include "answer.h"
#include "mailbox.h"

void rv_transfer_add(struct rv_transfer *t)
{
	struct rv_session *x = t->session;

	t->next = x->transfers;
	t->back = &x->transfers;
	if (t->next)
		t->next->back = &t->next;
	x->transfers = t;
	x->open++;
}

void rv_transfer_remove(struct rv_transfer *t)
{
	*t->back = t->next;
	if (t->next)
		t->next->back = t->back;
	t->session->open--;
}

void rv_transfer_refuse(struct sp_ctx *c, const struct rv_transfer *t, enum sp_rvma_status why)
{
	rv_refuse(c, t->session, t->number, sp_rvma_packets(t->length, t->session->mtu), why,
		  rv_is_put(t) && rv_window_silent(c, t->mailbox));
}

void rv_transfer_stop(struct sp_ctx *c, struct rv_transfer *t, enum sp_rvma_status why)
{
	if (t->ended)
		return;
	t->ended = (uint8_t)why;
	rv_transfer_refuse(c, t, why);
	if (rv_is_put(t))
		rv_put_end(c, t, why);
	sp_message_close(c, t->key);
}
