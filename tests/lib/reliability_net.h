/* SPDX-License-Identifier: BSD-3-Clause */
/* A network for the reliability core alone: events in virtual time, no NIC. It checks invariants after every
 * event. */
#ifndef TESTS_RELIABILITY_NET_H
#define TESTS_RELIABILITY_NET_H

#include "suite.h"
#include "../../handlers/reliability/receiver.h"
#include "../../handlers/reliability/sender.h"
#include "../../testbed/random.h"

#define MESSAGES 64 /* in flight at most */
#define UNITS	 512
#define DATAGRAM 1024

struct event {
	sp_time at;
	uint64_t order, message, poll;					/* poll: that an ACK answers */
	enum { ARRIVES_UNIT, ARRIVES_POLL, IS_READ, ARRIVES_ACK } kind; /* IS_READ: a poll, by who answers */
	uint32_t unit;
	size_t len;
	uint8_t bytes[DATAGRAM];
};

struct net {
	uint64_t seed;
	bool failed;
	struct sp_random random;
	sp_time now, delay, jitter;
	double data_loss, control_loss, duplicate;
	bool dead;    /* nothing arrives any more */
	sp_time away; /* until then the receiver takes nothing; it lies there */
	sp_time idle; /* who answers looks every so long; the latest poll is answered, with what has come till then */
	bool waiting;
	struct sp_rel_asked question;
	struct event **heap;
	size_t events, room;
	uint64_t order, data_lost, data_sent;

	struct sp_rel_config config;
	struct sp_rel_sender sender;
	void *memory;
	uint64_t unit_bits;
	size_t ack_room;
	uint32_t units[4096]; /* of every message started */
	uint64_t started, finished, to_start, failures, refusals;
	sp_time last_left;
	unsigned told;
	struct sp_rel_receiver receiver;
	uint64_t base, highest;
	uint64_t have[4096][UNITS / 64];
	uint32_t came[4096];
	bool forged;			    /* answers come that nobody gave */
	bool denies, refuses;		    /* the receiver says that nothing has come; that it takes no more */
	bool untold;			    /* nor does it say what has come unless it is asked */
	sp_time proof;			    /* not 0: of the polls that leave from then on, */
	uint64_t proof_polls;		    /* ... of which the first has this number, */
	unsigned polls_lost, answers_lost;  /* ... these are lost, or the answers to them; bit 0: the first */
	uint64_t answered;		    /* highest poll that an answer named */
	uint64_t polls;			    /* sent */
	uint64_t polls_before[4096][UNITS]; /* the unit was last sent */
};
void __attribute__((format(printf, 3, 4))) net_expect(struct net *n, bool right, const char *format, ...);
uint64_t net_below(struct net *n, uint64_t bound);

/* ---- the network ---- */
bool before(const struct event *a, const struct event *b);

struct event *net_pop(struct net *n);
void answer(struct net *n, const struct sp_rel_asked *asked);
void net_arrive(struct net *n, const struct event *e);
void net_step(struct net *n);
void net_open(struct net *n);
void net_close_net(struct net *n);
/* Until everything is finished, or that time; woken by what arrives and by deadlines alone. */
void net_run_to(struct net *n, sp_time limit);
void net_play(struct net *n);
struct net *net_random_net(uint64_t seed);
unsigned net_seeds(unsigned few);

#endif
