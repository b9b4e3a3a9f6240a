/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file from host to host, what both ends share. The file is cut into messages, a window of which is outstanding; a
 * reliability scheme of the library's (host-api/reliable.h) sees that each comes. send.c and recv.c are the commands;
 * transfer_out.c and transfer_in.c one transfer; recv_file.c the file that is received; transfer_talk.c what the ends
 * say to each other by TCP, transfer_words.c the words of that.
 */
#ifndef COMMAND_TRANSFER_H
#define COMMAND_TRANSFER_H

#include <openssl/evp.h>
#include <poll.h>

#include "../../host-api/reliable.h"
#include "../chosen.h"
#include "talk.h"

#define TRANSFER_SLICE	    (256u << 10)  /* bytes read, written, digested before the peer is listened to again */
#define TRANSFER_PAUSE	    (300 * SP_US) /* between looks while packets come: else the NIC wakes us for each burst */
#define TRANSFER_DIGEST	    32
#define TRANSFER_STALL	    60u /* seconds that a peer may be alive and not get on, unless told otherwise */
#define TRANSFER_STALL_MOST 86400u
#define TRANSFER_MTU_LEAST  100u /* acknowledgements have to fit */

/* Others who want something meanwhile: step() looks after them now and then, fds() fills in what to poll for. */
struct transfer_others {
	nfds_t (*fds)(void *arg, struct pollfd *fds); /* at most 32 */
	void (*step)(void *arg);
	void *arg;
};

struct transfer {
	const char *nic; /* as asked for; NULL: the default */
	struct talk *talk;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
	struct sdr_reliable *reliable;
	const struct transfer_others *others; /* NULL: there are none */
	char name[256];			      /* of the file, as bytes; for printing talk_clean() */
	char scheme[TALK_SCHEME];	      /* of reliability */
	uint64_t session, size, message, messages, window, stride;
	uint64_t from; /* bytes of the file that the receiver had already */
	uint32_t mtu, chunk;
	int family;
	struct sdr_qp_info peer;
	EVP_MD_CTX *sha;
	uint8_t digest[TRANSFER_DIGEST];
	uint64_t done; /* bytes that are across, for the progress bar */
	/* The sender knows, and tells at the end: chunks sent again, of these needlessly, round trip */
	uint64_t repeated, needless;
	bool coded;	      /* by erasure codes: messages are pairs of the NIC's */
	uint64_t parity;      /* chunks of it sent; the sender knows, and tells */
	struct chosen chosen; /* of auto's sender */
	uint64_t repaired;    /* chunks; the receiver knows, and tells */
	sp_time rtt;
	sp_time started, ended;
	sp_time stall; /* a peer that is alive and does not get on for so long is given up */
	/* waiting */
	bool armed, pausing;
	/* the bar */
	bool bar, drawn;
	sp_time drawn_at;
	/* the outcome */
	uint64_t kept;	/* bytes of a file that did not come to its end, for another time */
	bool peer_said; /* the error is the peer's, it need not be told */
	char error[400];
};

/* ^C and the like: noted, and waits end. Other than in waits they are blocked. */
void transfer_signals(void);
bool transfer_stopped(void);

/* Notes the first error (text), returns -1. */
int transfer_fail(struct transfer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for what a call to the NIC has said. */
int transfer_nic_fail(struct transfer *t, const char *what, int rc);

/* 0 or -1 from here on. */
int transfer_attach(struct transfer *t);
/* payload[0], [1]: bytes that a packet carries over IPv4 and IPv6; 0 where the NIC has no address. */
void transfer_payload(struct transfer *t, uint64_t payload[2]);
/* QP and memory for the window, by the parameters in t. */
int transfer_open(struct transfer *t, bool sends, uint64_t rate);
/* Both ends know now what the receiver has: the rest is cut into messages. */
void transfer_cut(struct transfer *t, uint64_t from);
/* What the peer has told of its end, in `key` of line; connects. Names what does not fit. */
int transfer_connect(struct transfer *t, const json_t *line, const char *key);
int transfer_tell(struct transfer *t, json_t *line);
/* The next line of the peer that is more than a sign of life: 1; 0: none yet. */
int transfer_listen(struct transfer *t, json_t **line);
/* Waits for the next line for at most `patience` (SP_NEVER: as long as the peer is alive); a peer that reads what is
 * kept gets on. 0 or -1. */
int transfer_await(struct transfer *t, sp_time patience, json_t **line);
/* What has changed is not known: drives the NIC (if it needs that), notices that it has gone, that we shall stop. */
int transfer_look(struct transfer *t);
/* The sender's share of what the bar and the summary tell. */
void transfer_counts(struct transfer *t);
/* poll() for at most `wait` ps, that a signal ends. */
int transfer_poll(struct pollfd *fds, nfds_t count, sp_time wait);
/* Sleeps until the peer says something, the NIC may have done something, others want something, or `until`. */
int transfer_sleep(struct transfer *t, sp_time until);
/* Tells the peer of our error, ends the connection, gives everything back. */
void transfer_close(struct transfer *t);

int transfer_digest_begin(struct transfer *t);
int transfer_digest(struct transfer *t, const void *bytes, size_t len);
int transfer_digest_end(struct transfer *t);
/* Of all bytes so far; more may follow. */
int transfer_digest_so_far(struct transfer *t, uint8_t digest[TRANSFER_DIGEST]);
/* Begins with the first `bytes` bytes of fd, telling the peer how far it is. *same: they have this digest. */
int transfer_check(struct transfer *t, int fd, uint64_t bytes, const uint8_t digest[TRANSFER_DIGEST], bool *same);

static inline uint64_t transfer_begin(const struct transfer *t, uint64_t k) /* of message k in the file */
{
	return t->from + k * t->message;
}

static inline uint64_t transfer_length(const struct transfer *t, uint64_t k) /* of message k */
{
	const uint64_t left = t->size - t->from - k * t->message;

	return left < t->message ? left : t->message;
}

void transfer_progress(struct transfer *t);
void transfer_bar_end(struct transfer *t); /* before anything else is printed */
/* One line, or JSON. */
int transfer_summary(struct transfer *t, bool json);

/* One transfer from "ready" on: 0 or -1. opened: of the file, before any of it was read. */
struct stat;
int transfer_out(struct transfer *t, int fd, const struct stat *opened);
struct recv_file;
int transfer_in(struct transfer *t, struct recv_file *file);

#endif
