/* SPDX-License-Identifier: BSD-3-Clause */
/* The buffers of a window: posted, filled, retired, handed over, held for gets. */
#ifndef HANDLERS_RVMA_BUCKET_H
#define HANDLERS_RVMA_BUCKET_H

#include "state.h"

#pragma GCC visibility push(hidden)
#define RV_EPOCH(window, epoch) ((uint64_t)(window) << 42 | (epoch))
#define RV_SLICE		4096u /* buffers that one command retires or gives back at most */
#define RV_HANDED		256u  /* buffers that are handed over at once */
/* Publishes the whole line of the window in the status area. Everything that its numbers count must be written before.
 */
void rv_window_publish(struct sp_ctx *c, const struct rv_window *w);
int rv_bucket_post(struct sp_ctx *c, struct rv_window *w, const struct sp_command *command);
/* Retires the head with these flags (enum sp_rvma_notice). It is handed over when nothing writes to it any more. */
void rv_bucket_retire(struct sp_ctx *c, struct rv_window *w, uint8_t flags);
/* Hands over, in order, retired buffers to which nothing writes any more. rv_bucket_work() does the rest of many. */
void rv_bucket_hand_over(struct sp_ctx *c, struct rv_window *w);
bool rv_bucket_work(struct sp_ctx *c, struct sp_work *work);
/* The COMPLETE buffer of that epoch, or NULL. */
struct rv_buffer *rv_bucket_held(struct rv *s, const struct rv_window *w, uint64_t epoch);
uint64_t rv_bucket_length(const struct rv_window *w, const struct rv_buffer *b); /* as in the notification */
/* Adds to what has been placed in a buffer. Returns the sums. */
struct sp_rvma_count rv_bucket_count(struct sp_ctx *c, struct rv_window *w, struct rv_buffer *b, uint64_t bytes,
				     uint64_t ops);
/* Releases epochs up to this one. -EAGAIN: a get reads one of them; -EINPROGRESS: call again. */
int rv_bucket_release(struct sp_ctx *c, struct rv_window *w, uint64_t epoch);
/* Rewinds: the first `keep` epochs stay. The last of them is held; 0: none was ever released. Only gets may be open. */
void rv_bucket_rewind(struct sp_ctx *c, struct rv_window *w, uint64_t keep);
/* Gives back a slice of all buffers. False: call again. */
bool rv_bucket_empty(struct sp_ctx *c, struct rv_window *w);
void rv_bucket_read_end(struct sp_ctx *c, struct rv_buffer *b);
#pragma GCC visibility pop

#endif
