/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection to a NIC's socket, and what the program behind it has. All of it is the server's thread's. */
#ifndef PIPELINE_SESSION_H
#define PIPELINE_SESSION_H

#include "claim.h"
#include "host.h"
#include "memory.h"
#include "mirror.h"

#define SP_DEBTS	 64
#define SP_SESSIONS_PART 4	       /* of the time that sessions may have together: a quarter */
#define SP_CREDIT	 (100 * SP_MS) /* a session may be so far ahead of its share */

struct sp_server {
	struct sp_nic *nic;
	struct sp_server_config config; /* defaults filled in; path is the server's own */
	struct sp_claim claim;		/* on the path, if it is not the caller's */
	int listener, wake;		/* wake: an eventfd that ends the thread */
	pthread_t thread;
	bool listening;			 /* there is a socket at the path, and it is ours */
	struct sp_session *session;	 /* in any order */
	unsigned sessions, applications; /* applications: those that have said HELLO */
	unsigned room;			 /* for sessions */
	uint64_t turn;			 /* counts requests, connections and slices of work */
	uint64_t buried;		 /* turn of the last slice of memory that was freed for nobody */
	sp_time debt[SP_DEBTS];		 /* by user: `ready` of sessions that have ended, for those that come */
	/* The request and the reply of the moment. A request is the kernel's copy: nobody changes it while it is read.
	 */
	union {
		struct sp_attach_request head;
		uint8_t bytes[sizeof(struct sp_attach_request) + SP_ATTACH_BYTES];
	} request;
	union {
		struct sp_attach_reply head;
		uint8_t bytes[sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES];
	} reply;
};

struct sp_session {
	int fd;
	uint32_t pid, uid;
	uint64_t turn;		  /* of the server, at the last request */
	struct sp_device *device; /* since HELLO */
	struct sp_mirror *mirror; /* since CAPTURE */
	sp_time ready;		  /* but for SP_CREDIT, when it has its next turn: see sp_session_charge() */
	struct sp_shared report;  /* of the last request, if it was for one: nobody can collect them */
	/* A request that takes long: a slice of it is done in every turn of the server that is this session's, and the
	 * reply is due when all is. Meanwhile no other request of it is looked at. */
	enum { SP_WORK_NONE, SP_WORK_MAKE, SP_WORK_FREE } work;
	uint64_t worked;	  /* turn of the server at the last slice */
	struct sp_backing making; /* MAKE */
	void *request;		  /* MAKE: copy of the request, which is run again when the memory is there */
	size_t request_bytes;
	uint16_t op; /* FREE */
	bool ending; /* it is over, but a worker has stopped that would have to let go of what it has */
};

/* Who is there? Takes fd on success. */
int sp_session_open(struct sp_session *s, int fd);
/* One request, if there is one, and its reply. False: the connection is over. Never waits for the other side. */
bool sp_session_serve(struct sp_server *server, struct sp_session *s);
/* A slice of what takes long, and the reply once it is done. False: the connection is over. */
bool sp_session_work(struct sp_server *server, struct sp_session *s);
/* Control work keeps workers from their packets: the session has used `used` of their time. What sessions may use
 * together, in the long run, is a quarter of the time; now and then some may use more. */
void sp_session_charge(struct sp_server *server, struct sp_session *s, sp_time used);
/* A reply without a request. */
void sp_session_refuse(struct sp_server *server, struct sp_session *s, int status);
/* Can it be closed without waiting for a worker that has stopped? */
bool sp_session_free(struct sp_server *server, const struct sp_session *s);
/* session_handler.c: SP_ATTACH_HANDLER. json: what there is to tell, which the caller frees, or NULL. */
int sp_session_handler(struct sp_nic *nic, uint64_t op, const char *const *string, size_t strings, sp_time force,
		       char **json, struct sp_error *error);
/* Ends all that the program had. */
void sp_session_close(struct sp_server *server, struct sp_session *s);

#endif
