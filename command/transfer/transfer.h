/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One end of a file transfer. The file is cut into messages; a window of them is outstanding. A reliability scheme of
 * the library (host-api/reliable.h) delivers each message.
 */
#ifndef COMMAND_TRANSFER_TRANSFER_H
#define COMMAND_TRANSFER_TRANSFER_H

#include <openssl/evp.h>
#include <poll.h>

#include "../../host-api/reliable.h"
#include "../chosen.h"
#include "talk.h"

#define TRANSFER_SLICE	    (256u << 10)  /* bytes to read, write or digest between two looks at the peer */
#define TRANSFER_PAUSE	    (300 * SP_US) /* between looks while packets arrive: otherwise each burst would wake us */
#define TRANSFER_DIGEST	    32
#define TRANSFER_STALL	    60u /* default: seconds that a peer may be alive without progress */
#define TRANSFER_STALL_MOST 86400u
#define TRANSFER_MTU_LEAST  100u /* acknowledgements must fit */

/* Other work meanwhile: step() is called now and then, fds() fills in what to poll for. */
struct transfer_others {
	nfds_t (*fds)(void *arg, struct pollfd *fds); /* at most 32 */
	void (*step)(void *arg);
	void *arg;
};

struct transfer {
	const char *nic; /* its name; NULL: the default */
	struct talk *talk;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
	struct sdr_reliable *reliable;
	const struct transfer_others *others; /* or NULL */
	char name[256];			      /* of the file; before printing: talk_clean() */
	char scheme[TALK_SCHEME];	      /* of reliability */
	uint64_t session, size, message, messages, window, stride;
	uint64_t from; /* bytes of the file that the receiver already had */
	uint32_t mtu, chunk;
	int family;
	struct sdr_qp_info peer;
	EVP_MD_CTX *sha;
	struct hasher *hasher; /* see digest.h */
	uint8_t digest[TRANSFER_DIGEST];
	uint64_t done; /* bytes transferred, for the progress bar */
	/* The sender knows these, and reports them at the end: chunks sent again, and those sent again needlessly */
	uint64_t repeated, needless;
	bool coded;	      /* with erasure codes: a message is a pair of messages of the NIC */
	uint64_t parity;      /* parity chunks sent; the sender reports them */
	struct chosen chosen; /* with auto, at the sender */
	uint64_t repaired;    /* chunks; the receiver reports them */
	sp_time rtt;
	sp_time started, ended;
	sp_time stall; /* a peer that makes no progress for so long is given up */
	/* waiting */
	bool armed, pausing;
	/* the bar */
	bool bar, drawn;
	sp_time drawn_at;
	/* the outcome */
	uint64_t kept;	/* bytes of an incomplete file that are kept for a later attempt */
	bool peer_said; /* the error came from the peer: it knows */
	char error[400];
};

/* SIGINT and the like end waits and set transfer_stopped(). Outside of waits they are blocked. */
void transfer_signals(void);
bool transfer_stopped(void);

/* Stores the text if it is the first error. Returns -1. */
int transfer_fail(struct transfer *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for -errno of a call to the NIC. */
int transfer_nic_fail(struct transfer *t, const char *what, int rc);

/* 0 or -1 from here on. */
int transfer_attach(struct transfer *t);
/* payload[0], [1]: bytes that a packet carries over IPv4 and IPv6; 0: the NIC has no such address. */
void transfer_payload(struct transfer *t, uint64_t payload[2]);
/* Opens a QP, and memory for the window, by the parameters in t. */
int transfer_open(struct transfer *t, bool sends, uint64_t rate);
/* The receiver has the first `from` bytes: cuts the rest into messages. */
void transfer_cut(struct transfer *t, uint64_t from);
/* Connects with the peer's QP, which `key` of line describes. The error names what does not fit. */
int transfer_connect(struct transfer *t, const json_t *line, const char *key);
int transfer_tell(struct transfer *t, json_t *line);
/* 1: the next line of the peer, unless it only says "alive"; 0: none yet. */
int transfer_listen(struct transfer *t, json_t **line);
/* Waits for the next line for at most `patience` (SP_NEVER: as long as the peer is alive). A peer that checks its kept
 * data makes progress. 0 or -1. */
int transfer_await(struct transfer *t, sp_time patience, json_t **line);
/* Drives the NIC (if it needs that), and notices that it has gone or that a signal has come. */
int transfer_look(struct transfer *t);
/* Updates the sender's counters for the bar and the summary. */
void transfer_counts(struct transfer *t);
/* poll() for at most `wait` ps; a signal ends it. */
int transfer_poll(struct pollfd *fds, nfds_t count, sp_time wait);
/* Sleeps until the peer, the NIC or other work needs attention, or until `until`. */
int transfer_sleep(struct transfer *t, sp_time until);
/* Reports our error to the peer, ends the connection, frees everything. */
void transfer_close(struct transfer *t);

static inline uint64_t transfer_begin(const struct transfer *t, uint64_t k) /* of message k in the file */
{
	return t->from + k * t->message;
}

static inline uint64_t transfer_length(const struct transfer *t, uint64_t k) /* of message k */
{
	const uint64_t left = t->size - t->from - k * t->message;

	return left < t->message ? left : t->message;
}

#endif
