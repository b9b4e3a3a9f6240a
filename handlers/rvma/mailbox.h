/* SPDX-License-Identifier: BSD-3-Clause */
/* What puts and gets find at a mailbox. */
#ifndef HANDLERS_RVMA_MAILBOX_H
#define HANDLERS_RVMA_MAILBOX_H

#include "state.h"

#pragma GCC visibility push(hidden)
/*
 * A put arrives. Finds its window (or the catch-all) and the head buffer; checks key, mode, range and limits; reserves
 * the range and counts the put as open. Fills in t->{window, buffer, mem, at, mailbox, secret}. Returns why not, if so.
 * The catch-all serves mailboxes that do not exist: then its own key and its own `closed` count. It also serves a
 * window without a buffer, whose own key has been checked, if the catch-all is open and has a buffer itself.
 */
enum sp_rvma_status rv_put_begin(struct sp_ctx *c, struct rv_transfer *t, uint64_t mailbox, uint64_t key,
				 uint64_t offset);
/* `bytes` of the put are in place. May retire the buffer. */
void rv_put_bytes(struct sp_ctx *c, struct rv_transfer *t, uint32_t bytes);
/* The put is complete (`why` DELIVERED) or given up. May retire and hand over buffers. */
void rv_put_end(struct sp_ctx *c, struct rv_transfer *t, enum sp_rvma_status why);
/* A get arrives. Finds the completed buffer, checks, and holds the buffer until rv_read_end(). */
enum sp_rvma_status rv_read_begin(struct sp_ctx *c, uint64_t mailbox, uint64_t key, uint32_t back, uint64_t offset,
				  uint64_t length, uint32_t *window, uint32_t *buffer, uint64_t *at);
void rv_read_end(struct sp_ctx *c, uint32_t window, uint32_t buffer);
/* True: peers are not told that their puts to this mailbox are refused. */
bool rv_window_silent(struct sp_ctx *c, uint64_t mailbox);
#pragma GCC visibility pop

#endif
