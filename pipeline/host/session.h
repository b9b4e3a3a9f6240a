/* SPDX-License-Identifier: BSD-3-Clause */
/* One connection to a NIC's socket and its program's objects. Only the server's thread uses them. */
#ifndef PIPELINE_HOST_SESSION_H
#define PIPELINE_HOST_SESSION_H

#include "socket_lock.h"
#include "../exec/rings.h"
#include "../mem/memory.h"
#include "../observe/capture.h"

#define SP_SHARES	 1024	      /* users that are told apart, nearly always */
#define SP_SESSIONS_PART 4	      /* sessions together may use 1/4 of the workers' time */
#define SP_CREDIT	 (30 * SP_MS) /* how far a user may be ahead of its share */
#define SP_FREEING_WAIT	 (2 * SP_SEC) /* the longest wait for memory that is about to be free */

struct sp_server {
	struct sp_nic *nic;
	struct sp_server_config config; /* defaults filled in; path is the server's own */
	struct sp_socket_lock claim;	/* on the path, unless the caller holds it */
	int listener, wake;		/* wake: an eventfd that ends the thread */
	uint64_t held;			/* listener, at the reaper */
	pthread_t thread;
	bool listening;			 /* our socket is at the path */
	bool freeing;			 /* sp_freeing_begin() has been called */
	struct sp_session *session;	 /* in any order */
	unsigned sessions, applications; /* applications: sessions after HELLO */
	unsigned room;			 /* for sessions */
	uint64_t clock;			 /* counts requests, connections and slices of work */
	sp_time refused_at;		 /* when a refusal was told last; 0: never */
	uint64_t refusals;		 /* since then */
	uint64_t freed_at;		 /* clock at the last slice of freeing */
	struct sp_active {
		const sp_time *share;
		sp_time at;
	} active[2];		  /* the users served last */
	sp_time share[SP_SHARES]; /* by user: time of its next turn, less SP_CREDIT: see sp_session_charge() */
	/* The current request and reply. The request is a copy: the client cannot change it while we read it. */
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
	uint64_t held; /* fd, at the reaper: see sp_freeing_hold() */
	uint32_t pid, uid;
	uint64_t clock;		    /* the server's clock at the last request */
	struct sp_device *device;   /* since HELLO */
	struct sp_capture *capture; /* since CAPTURE */
	struct sp_shm report;	    /* the last request's report; one at a time, so that a client cannot pile them up */
	/* A request that takes long: the server does one slice per turn of this session and replies after the last. It
	 * reads no other request of the session meanwhile. MAKE: memory is made. LOOK: the program has sealed it. WAIT:
	 * until memory that is about to be free is, or `until`. CLOSE: the connection is over, and contexts go. */
	enum { SP_WORK_NONE, SP_WORK_MAKE, SP_WORK_LOOK, SP_WORK_WAIT, SP_WORK_CLOSE } work;
	uint64_t worked;	  /* the server's clock at the last slice */
	sp_time until;		  /* WAIT; 0: has not waited yet */
	struct sp_backing making; /* MAKE */
	uint64_t wanted;	  /* bytes of `sealed`, once it is made */
	bool unpaid;		  /* ... which is charged to nobody */
	bool handed;		  /* `sealed` is with the program, which has to seal it */
	struct sp_backing sealed; /* memory that the program writes to; base NULL: none */
	void *request;		  /* copy of a request that takes long, or whose memory is to be sealed; or NULL */
	size_t request_bytes;
	bool ending; /* the session is over, but a stopped worker still uses its objects */
};

/* Reads the peer's pid and uid. Takes fd, or closes it on failure. */
int sp_session_open(struct sp_server *server, struct sp_session *s, int fd);
/* Charges the session's user for `used` of the workers' time: control work delays packets. In the long run all sessions
 * together may use a quarter of that time; a user may briefly use more (SP_CREDIT). */
/* No other user has asked for anything lately: then this one may have all of the server's time, else a quarter. */
bool sp_session_alone(const struct sp_server *server, const sp_time *share);
sp_time *sp_session_share(struct sp_server *server, uint32_t uid); /* in server->share */
void sp_session_charge(struct sp_server *server, const struct sp_session *s, sp_time used);
/* 0, or -ETIMEDOUT and words: a worker has stopped, and control calls would wait for it. */
int sp_session_pass(struct sp_server *server, struct sp_error *error);
/* Root and the NIC's own user can see all packets anyway. */
bool sp_session_trusted(const struct sp_session *s);
/* Frees what belongs to a request that is under way. */
void sp_session_forget(struct sp_server *server, struct sp_session *s);
void sp_session_drop_report(struct sp_server *server, struct sp_session *s);
/* True if the session can be closed without waiting for a stopped worker. */
bool sp_session_free(struct sp_server *server, const struct sp_session *s);
/* session_handler.c: runs SP_ATTACH_HANDLER. json: the answer, which the caller frees, or NULL. */
int sp_session_handler(struct sp_nic *nic, uint64_t op, const char *const *string, size_t strings, sp_time force,
		       char **json, struct sp_error *error);
/* Closes the connection and frees all of the program's objects. */
void sp_session_close(struct sp_server *server, struct sp_session *s);

#endif
