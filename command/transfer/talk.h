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
 *   both: {"checked": BYTES} while what is kept is read, {"alive": true} when there is nothing else to say,
 *   {"error": TEXT} last
 *
 * The receiver has the first "kept" bytes of such a file already, with that SHA-256 ("digest" is there if there are
 * any). The sender compares: "from" is "kept" if its own file begins so, 0 otherwise; it sends what comes behind.
 * Chunks that were sent again, those of them needlessly, and the round trip in nanoseconds only the sender knows.
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
#define TALK_LINE    16384	  /* bytes of one line, newline included */
#define TALK_OUT     (512u << 10) /* bytes said and not yet taken by the kernel: a peer that reads never needs so much */
#define TALK_SILENCE (10 * SP_SEC) /* a peer that says nothing for so long is gone */
#define TALK_ALIVE   (2 * SP_SEC)  /* so nobody is silent for longer than this */
#define TALK_WINDOW  64		   /* messages outstanding, at the most */
#define TALK_MESSAGE (1ull << 30)  /* bytes of a message, at the most */
#define TALK_SCHEME  32		   /* bytes of a scheme's name, with its end */

struct talk {
	int fd;
	bool ended; /* the peer will say no more, or cannot be reached */
	sp_time heard, said;
	size_t in_used, out_used;
	char peer[80]; /* address and port */
	char in[TALK_LINE];
	char out[TALK_OUT];
};

/* Takes over a connected, non-blocking socket; NULL: no memory (fd is closed then too). */
struct talk *talk_new(int fd, const char *peer);
/* Waits a moment for the kernel and the peer to take what was said, closes. NULL is fine. */
void talk_part(struct talk *t);
void talk_free(struct talk *t); /* closes at once; NULL is fine */
/* Takes over the reference. 0, -ENOMEM, -ENOBUFS: the peer does not read. */
int talk_say(struct talk *t, json_t *line);
/* Reads and writes what goes without waiting; says that we are alive. */
void talk_pump(struct talk *t, sp_time now);
/* The next line that has come whole: 1, or 0: none yet, -EPROTO: not JSON, -EMSGSIZE: too long, -ECONNRESET: there
 * will be none any more. */
int talk_take(struct talk *t, json_t **line);

/* The kernel's estimate, for a first guess of the NICs'; at least 1 ms: theirs may be the longer way. */
sp_time talk_round_trip(const struct talk *t);

/* ---- words: 0 or -EPROTO, and then nothing is stored ---- */
int talk_uint(const json_t *line, const char *key, uint64_t least, uint64_t most, uint64_t *value);
/* Hexadecimal of least to most bytes; *len (may be NULL) gets how many. */
int talk_bytes(const json_t *line, const char *key, void *bytes, size_t least, size_t most, size_t *len);
json_t *talk_hex(const void *bytes, size_t len);

/* What the sender says first. */
struct talk_hello {
	uint64_t session, size, message, chunk, mtu; /* mtu 0: whatever both ports carry */
	uint64_t family;			     /* 4, 6; 0: either */
	uint64_t payload[2]; /* IPv4, IPv6: bytes that its port carries in a packet; 0: no address */
	char name[256];
	char scheme[TALK_SCHEME]; /* of reliability, by name: lower case, digits and '-' */
};
json_t *talk_hello_line(const struct talk_hello *hello);
/* *what (a static text) says what is wrong when it is not 0. */
int talk_hello_get(const json_t *line, struct talk_hello *hello, const char **what);
/* A name for a file in a directory, that cannot lead out of it or hide in it. */
bool talk_name_fine(const char *name);
/* "host", "host:port", "1.2.3.4:port", "::1", "[::1]:port", with `listen` also "port" alone: host may become "". */
int talk_split(const char *text, bool listen, char host[256], char port[16]);
/* Text from the peer for our terminal: no control characters. In place. */
void talk_clean(char *text);

#endif
