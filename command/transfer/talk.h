/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of a file transfer say to each other, over TCP: one JSON object a line, at most TALK_LINE bytes.
 * The peer is not trusted: every line is bounded, and every value is checked before it is used.
 *
 *   sender                                           receiver
 *   {"spindle": "file", "version", "session", "name", "size", "message", "chunk", "mtu", "family", "payload4",
 *    "payload6", "scheme"}
 *                                                    {"offer": INFO, "session", "family", "message", "window",
 *                                                     "kept": BYTES, "digest": SHA-256}
 *   {"connect": INFO, "from": BYTES}                 {"ready": true}
 *   {"digest": SHA-256, "repeated", "needless", "parity", "rtt"}
 *                                                    {"saved": SHA-256, "repaired"}
 *   both: {"checked": BYTES} while kept data is read, {"alive": true} when there is nothing else to say,
 *   {"error": TEXT} last
 *
 * The receiver already has the first "kept" bytes of such a file, with that SHA-256 ("digest" is present if "kept" is
 * not 0). The sender compares: "from" is "kept" if its file begins with the same bytes, else 0. It sends the rest.
 * The round trip is in nanoseconds.
 *
 * INFO is a struct sdr_qp_info in hexadecimal, and so are names: file names are bytes, JSON has only Unicode.
 */
#ifndef COMMAND_TRANSFER_TALK_H
#define COMMAND_TRANSFER_TALK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../host-api/spindle.h"

#define TALK_PORT    "4791"
#define TALK_VERSION 2
#define TALK_LINE    16384	   /* bytes of one line, newline included */
#define TALK_OUT     (512u << 10)  /* bytes waiting for the kernel; with a peer that reads, there are never so many */
#define TALK_SILENCE (10 * SP_SEC) /* a peer that is silent for so long is gone */
#define TALK_ALIVE   (2 * SP_SEC)  /* an end sends something at least so often */
#define TALK_WINDOW  64		   /* messages outstanding, at the most */
#define TALK_MESSAGE (1ull << 30)  /* bytes of a message, at the most */
#define TALK_SCHEME  32		   /* bytes of a scheme's name, with its end */

struct talk {
	int fd;
	bool ended; /* the peer has closed, or cannot be reached */
	sp_time heard, said;
	size_t in_used, out_used;
	char peer[80]; /* address and port */
	char in[TALK_LINE];
	char out[TALK_OUT];
};

/* Takes over a connected, non-blocking socket. NULL: no memory, and fd is closed. */
struct talk *talk_new(int fd, const char *peer);
/* Waits a moment until the kernel and the peer have taken all data, then closes. t may be NULL. */
void talk_part(struct talk *t);
void talk_free(struct talk *t); /* closes at once; t may be NULL */
/* Sends line, and drops the reference. 0, -ENOMEM, -ENOBUFS: the peer does not read. */
int talk_say(struct talk *t, json_t *line);
/* Reads and writes without waiting; sends "alive" in time. */
void talk_pump(struct talk *t, sp_time now);
/* 1: the next complete line; 0: none yet; -EPROTO: not JSON; -EMSGSIZE: too long; -ECONNRESET: there will be no more.
 */
int talk_take(struct talk *t, json_t **line);

/* The kernel's estimate, as a first guess for the NICs; at least 1 ms, as their path may be longer. */
sp_time talk_round_trip(const struct talk *t);

#endif
