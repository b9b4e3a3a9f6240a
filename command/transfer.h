/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file from host to host, what both ends share. The file is cut into messages; a window of them is outstanding. What
 * is lost the receiver names, and the sender streams it again, until all is there: simple repetition, without
 * congestion control. send.c and recv.c are the commands; transfer_out.c and transfer_in.c one transfer;
 * transfer_talk.c what the ends say to each other by TCP, transfer_words.c the words of that.
 */
#ifndef COMMAND_TRANSFER_H
#define COMMAND_TRANSFER_H

#include <openssl/evp.h>
#include <poll.h>

#include "../host-api/sdr.h"
#include "transfer_talk.h"

#define TRANSFER_SLICE	    (1u << 20)	  /* bytes read, written, digested before the peer is listened to again */
#define TRANSFER_PAUSE	    (300 * SP_US) /* between looks while packets come: else the NIC wakes us for each burst */
#define TRANSFER_DIGEST	    32
#define TRANSFER_STALL	    60u /* seconds that a peer may be alive and not get on, unless told otherwise */
#define TRANSFER_STALL_MOST 86400u

struct transfer {
	const char *nic; /* as asked for; NULL: the default */
	struct talk *talk;
	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr;
	char name[256]; /* of the file, as bytes; for printing talk_clean() */
	uint64_t session, size, message, messages, window, stride;
	uint32_t mtu, chunk;
	int family;
	struct sdr_qp_info peer;
	EVP_MD_CTX *sha;
	uint8_t digest[TRANSFER_DIGEST];
	uint64_t done;	   /* bytes that are across, for the progress bar */
	uint64_t repeated; /* chunks */
	sp_time started, ended;
	sp_time stall; /* a peer that is alive and does not get on for so long is given up */
	/* waiting */
	bool armed, pausing;
	/* the bar */
	bool bar, drawn;
	sp_time drawn_at;
	/* the outcome */
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
/* What the peer has told of its end, in `key` of line; connects. Names what does not fit. */
int transfer_connect(struct transfer *t, const json_t *line, const char *key);
int transfer_tell(struct transfer *t, json_t *line);
/* The next line of the peer that is more than a sign of life: 1; 0: none yet. */
int transfer_listen(struct transfer *t, json_t **line);
/* Waits for the next line, driving nothing else, for at most `patience` (SP_NEVER: as long as the peer is alive): 0 or
 * -1. */
int transfer_await(struct transfer *t, sp_time patience, json_t **line);
/* What has changed is not known: drives the NIC (if it needs that), notices that it has gone, that we shall stop. */
int transfer_look(struct transfer *t);
/* poll() for at most `wait` ps, that a signal ends. */
int transfer_poll(struct pollfd *fds, nfds_t count, sp_time wait);
/* Sleeps until the peer says something, the NIC may have done something, one of `more` is ready, or `until`. */
int transfer_sleep(struct transfer *t, struct pollfd *more, nfds_t count, sp_time until);
/* Tells the peer of our error, ends the connection, gives everything back. */
void transfer_close(struct transfer *t);

int transfer_digest_begin(struct transfer *t);
int transfer_digest(struct transfer *t, const void *bytes, size_t len);
int transfer_digest_end(struct transfer *t);

static inline uint64_t transfer_length(const struct transfer *t, uint64_t k) /* of message k */
{
	return t->size - k * t->message < t->message ? t->size - k * t->message : t->message;
}

void transfer_progress(struct transfer *t);
void transfer_bar_end(struct transfer *t); /* before anything else is printed */
/* One line, or JSON. */
int transfer_summary(struct transfer *t, bool json);

/* One transfer from "ready" on. fd: the file; 0 or -1. */
int transfer_out(struct transfer *t, int fd);
/* between() is called now and then with arg, to look after others who call; it fills in what to poll for. */
struct transfer_others {
	nfds_t (*fds)(void *arg, struct pollfd *fds); /* at most 32 */
	void (*step)(void *arg);
	void *arg;
};
int transfer_in(struct transfer *t, int fd, const struct transfer_others *others);

#endif
