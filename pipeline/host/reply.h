/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies to a connected program, and requests that are answered later. */
#ifndef PIPELINE_HOST_REPLY_H
#define PIPELINE_HOST_REPLY_H

#include "session.h"

/* Descriptors that go with a reply. */
struct sp_parcel {
	int fd[SP_ATTACH_FDS];
	unsigned fds;
	struct sp_shm *shared[SP_ATTACH_FDS]; /* closed on this side after the send */
	unsigned shareds;
	struct sp_doorbell *door; /* likewise: its descriptor for the application */
};

void sp_reply_begin(struct sp_server *server, uint16_t op);
void sp_hand_over(struct sp_parcel *p, struct sp_shm *shared);
void *sp_reply_data(struct sp_server *server, uint32_t bytes); /* zeroed */
/* Puts the error's words into the reply; returns err, negative. */
int sp_reply_explain(struct sp_server *server, int err, const struct sp_error *error);
int sp_reply_explain_memory(struct sp_server *server, const struct sp_session *s, uint64_t bytes, int err);
/* False: the connection is over. Never waits for the client. */
bool sp_reply_send(struct sp_server *server, struct sp_session *s, int status, const struct sp_parcel *p);
/* Replies without a request. */
void sp_session_refuse(struct sp_server *server, struct sp_session *s, int status);

#define SP_LATER 1 /* s->work says how it goes on */
/* Makes memory in slices; the request runs again once it is there. SP_LATER, or -errno. */
int sp_session_make(struct sp_server *server, struct sp_session *s, uint64_t bytes, enum sp_backing_kind kind);
/* The request failed for lack of `bytes`: SP_LATER if memory is about to be free, and it runs again then; else rc. */
int sp_session_wait(struct sp_server *server, struct sp_session *s, uint64_t bytes, int rc);

#endif
