/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a run of the SDR properties, and the random parameters of a seed. */
#ifndef TESTS_SDR_PARAMS_H
#define TESTS_SDR_PARAMS_H

#include <sys/socket.h>
#include "../../host-api/sdr.h"
#include "../../testbed/link.h"
#include "../../testbed/world.h"
#include "suite.h"
#include "tap.h"
#include "wire.h"

#define PAIR_SOURCE   (1u << 20) /* bytes that messages are cut from */
#define PAIR_MESSAGE  65536u	 /* most that a message has here */
#define PAIR_GUARD    96u	 /* bytes on both sides of a buffer that nobody may touch */
#define PAIR_CONNS    8
#define PAIR_PIECES   12
#define PAIR_PSN_ROOM 32768u
#define PAIR_KEPT     96

extern uint8_t pair_source[PAIR_SOURCE];

/* ---- parameters ---- */
struct pair_split {
	const char *text;
	uint8_t id, offset, user;
};

extern const struct pair_split pair_splits[];

struct pair_params {
	uint32_t mtu, chunk, slots, generations, channels, segments;
	uint64_t max_bytes;
	struct pair_split split;
	uint16_t workers[2];
	bool ipv6, resolve; /* resolve: by ARP or ND; else static neighbours */
	struct sp_link_direction link[2];
	sp_time network; /* longest time that a frame may be under way */
	sp_time cts_interval, life;
	uint64_t rate;
	sp_time tick;	   /* how often the host programs act at least; 0: by the network's time */
	uint64_t messages; /* per flow */
	bool spread, both, fixed_qpn;
	bool trusting; /* receives are posted without regard to what the sender has done with earlier messages */
	unsigned conns;
	double early, stream, mismatched, inject; /* probabilities */
	bool lossless;	 /* link and taps lose no data: all that is not ended early completes */
	bool hostile;	 /* somebody on the link forges control packets */
	unsigned budget; /* packets, about, per flow */
	double cts_loss; /* of clear-to-send, at the tap, beyond the link's own */
	double slow;	 /* how often posting and sending hesitate */
	double junk;	 /* of damaged copies, per packet */
};

struct out { /* a message on its way */
	struct sdr_send *handle;
	uint64_t length, source;
	uint32_t immediate;
	uint64_t due, left; /* packets handed over, packets seen to leave */
	bool started, released;
	sp_time gone; /* when all had left */
	unsigned pieces, next;
	struct {
		uint64_t at, len;
	} piece[PAIR_PIECES];
	bool stream, ended;
};

enum in_state { IN_NONE, IN_POSTED, IN_ASKED, IN_DONE };

struct in { /* a receive */
	enum in_state state;
	struct sdr_recv *handle;
	uint64_t posted, length; /* length: as fixed by a packet */
	bool fixed, early, was_complete;
	sp_time deadline, ended;
	uint64_t *arrived, *window; /* packets: before the buffer was asked back, while it was */
	uint64_t packets, duplicates;
	uint32_t mask;
	struct buffer *buffer;
};

struct buffer {
	uint8_t *base, *at; /* at: where the receive begins */
	uint8_t fill;
	bool used;
	uint64_t turn;
};

struct kept { /* a packet that came, to come again */
	unsigned end;
	uint32_t len;
	uint8_t frame[WIRE_FRAME_MAX];
};

struct flow { /* messages of one end to the other */
	struct conn *conn;
	unsigned from;
	uint64_t messages;
	struct out *out;
	struct in *in;
	uint64_t next_send, first_send; /* first_send: oldest not released */
	uint64_t next_post, first_recv;
	uint64_t credit; /* largest clear-to-send that reached the sender */
	struct {
		uint32_t key; /* QP index, PSN; + 1 */
		uint64_t k;
	} * psn;
	uint32_t psn_first[4096], psn_count[4096];
	struct buffer *buffer;
	unsigned buffers;
	uint64_t turn;
	uint8_t *arena, *scratch;
	uint64_t buffer_bytes;
	struct sp_mr *arena_mr, *scratch_mr;
	/* what became of the frames that reached the receiver's NIC: sure, and either of two ways */
	uint64_t delivered, placed, placed_maybe, duplicates, duplicates_maybe, late, beyond, beyond_maybe, cts_seen,
		completed;
	uint64_t injected, injected_late;
};

struct conn {
	struct pair *pair;
	bool alive, connected[2];
	struct sdr_context *context[2];
	struct sdr_qp *qp[2];
	struct sdr_qp_info info[2];
	uint32_t id[2];
	sp_time connect_at[2];
	struct flow flow[2]; /* [e]: from end e */
};

struct pair {
	uint64_t seed;
	struct sp_random random;
	struct pair_params p;
	struct sp_link *link;
	struct sp_world *world;
	struct tap tap[2];
	struct sp_nic *nic[2];
	struct sp_dev *dev[2];
	struct wire_address address[2];
	struct conn *conn[PAIR_CONNS];
	unsigned conns;
	sp_time wake, tick, limit;
	uint64_t steps;
	bool failed;
	char text[400];
	struct kept *kept;
	unsigned kept_count, kept_next;
	unsigned injections, forged;
	void (*act)(struct pair *, sp_time now); /* of the test's own, in every step */
	bool (*lose)(struct pair *, unsigned end, const struct wire_packet *, sp_time now);
	void *mark; /* the test's */
};

void __attribute__((format(printf, 2, 3))) pair_fail(struct pair *r, const char *format, ...);

#define PAIR_CHECK(r, condition, ...)                                                                                  \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			pair_fail(r, __VA_ARGS__);                                                                     \
	} while (0)
#define U(x) ((unsigned long long)(x))

uint64_t pair_below(struct pair *r, uint64_t n);
bool pair_chance(struct pair *r, double p);
/* 1 to n, small numbers as likely as large ones */
uint64_t pair_log(struct pair *r, uint64_t n);
bool pair_bit_get(const uint64_t *words, uint64_t i);
void pair_bit_set(uint64_t *words, uint64_t i);
uint64_t pair_units(uint64_t bytes, uint64_t unit);
void pair_random_params(struct pair *r);
/* Loses, repeats, reorders. */
void pair_bad_network(struct pair *r, bool loss);

#endif
