/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connected program can ask for (wire/attach.h). The server runs each as an operation of an embedded device, on
 * the program's behalf. */
#ifndef PIPELINE_HOST_OPERATION_H
#define PIPELINE_HOST_OPERATION_H

#include "session.h"

/* Descriptors that go with a reply. */
struct sp_parcel {
	int fd[SP_ATTACH_FDS];
	unsigned fds;
	struct sp_shm *shared[SP_ATTACH_FDS]; /* closed on this side after the send */
	unsigned shareds;
	struct sp_doorbell *door; /* likewise: its descriptor for the application */
};

#define SP_LATER 1 /* returned by run() when s->work says how it goes on */

struct sp_operation {
	/* Checks the request, and says how many bytes of memory the program has to map and seal first; init writes to
	 * them before it gets them. NULL: none. */
	int (*memory)(struct sp_server *, struct sp_session *, uint64_t *bytes);
	void (*init)(const struct sp_server *, void *memory);
	/* 0, -errno, or SP_LATER. Takes s->sealed (base NULL afterwards) or leaves it. */
	int (*run)(struct sp_server *, struct sp_session *, struct sp_parcel *);
	bool application; /* needs HELLO first */
	bool workers;	  /* needs the workers */
	bool shares;	  /* hands memory over for reading */
	bool observes;	  /* its memory is charged to nobody */
};

const struct sp_operation *sp_operation(uint16_t op); /* NULL: none */

/* session.c: for operations */
void sp_hand_over(struct sp_parcel *p, struct sp_shm *shared);
void *sp_reply_data(struct sp_server *server, uint32_t bytes); /* zeroed */
/* Puts the error's words into the reply; returns err, negative. */
int sp_reply_explain(struct sp_server *server, int err, const struct sp_error *error);
int sp_reply_explain_memory(struct sp_server *server, const struct sp_session *s, uint64_t bytes, int err);
/* Makes memory in slices; the request runs again once it is there. SP_LATER, or -errno. */
int sp_session_make(struct sp_server *server, struct sp_session *s, uint64_t bytes, enum sp_backing_kind kind);
/* The request failed for lack of `bytes`: SP_LATER if memory is about to be free, and it runs again then; else rc. */
int sp_session_wait(struct sp_server *server, struct sp_session *s, uint64_t bytes, int rc);
/* Root and the NIC's own user can see all packets anyway. */
bool sp_session_trusted(const struct sp_session *s);

#endif
