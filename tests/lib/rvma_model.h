/* SPDX-License-Identifier: BSD-3-Clause */
/* A second, simple implementation of RVMA, from docs/rvma.md and the wire format alone. Its input is the packets
 * that a NIC received and the commands of the application. Its output is what memory, notifications and status
 * must be. */
#ifndef TESTS_RVMA_MODEL_H
#define TESTS_RVMA_MODEL_H

#include "rvma_buckets.h"

/* ---- transfers on their way in ---- */
/* Not whole, and never will be. */
void mo_transfer_over(struct mo *m, struct mo_session *s, struct mo_transfer *t, enum mo_status why);

/* b is the latest completed buffer again. What is open ends, what waited for that is handed over, then forgotten. */
/* b: NULL: to the begin of the first epoch. */
void mo_rewind(struct mo *m, unsigned c, struct mo_window *w, struct mo_buffer *b);
/* The window is there no more for puts and gets; what was posted is not notified. */
void mo_window_free(struct mo *m, unsigned c, struct mo_window *w);
/* ... and now the buffers are the application's. */
void mo_window_freed(struct mo *m, struct mo_window *w);
struct mo_transfer *mo_transfer_find(struct mo_session *s, uint64_t number);

/* ---- sessions ---- */
struct mo_session *mo_session_find(struct mo *m, unsigned owner, uint64_t token);

unsigned mo_context_of(const struct mo *m, uint32_t qp);
/* A packet that context c's NIC has received. session: which it belongs to, NULL: none. Returns its transfer. */
struct mo_transfer *mo_receive(struct mo *m, unsigned c, const struct rvma_packet *p, struct mo_session **session);
/* A packet that context c's NIC sends to context `to`. Returns the session at the other end that it is of. */
struct mo_session *mo_send(struct mo *m, unsigned c, unsigned to, const struct rvma_packet *p);
/* How many peers of context c have gone, of those that had sent something; *most: at most, for who has ended in silence
 * may have been noticed or not. */
uint64_t mo_gone(const struct mo *m, unsigned c, uint64_t *most);
/* Context c has ended. */
void mo_context_over(struct mo *m, unsigned c);
void mo_free(struct mo *m);

#endif
