/* SPDX-License-Identifier: BSD-3-Clause */
/* Two NICs with servers, and pairs of applications that attach and exchange messages. Each application is a
 * thread. */
#ifndef TESTS_COUPLES_H
#define TESTS_COUPLES_H

#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include "../../handlers/wire/capture.h"
#include "../../host-api/attach.h"
#include "../../host-api/sdr_private.h"
#include "../../pipeline/engine.h"
#include "../../pipeline/exec/rings.h"
#include "../../pipeline/process.h"
#include "cable.h"
#include "suite.h"
#include <rte_mempool.h>

#define LONG	(60 * SP_SEC) /* nothing for so long: something is lost */
#define SLOTS	4u
#define MTU	1024u
#define LARGEST 20001u /* bytes of a message */
#define COUPLES 4u

extern struct sp_nic *couple_nic[2];
extern char couple_path[2][64];
extern unsigned couple_nics, buffers;
void couple_start(unsigned count, uint16_t workers);
void couple_stop_servers(void);

/* Nothing of any application is left. */
void couple_stop(void);

struct app {
	pthread_t thread;
	struct couple *couple;
	unsigned end; /* 0 sends, 1 receives */
	bool sleeps;
	uint64_t leaves; /* without a word, after so many messages */

	struct sp_dev *dev;
	struct sdr_context *context;
	struct sdr_qp *qp;
	struct sp_mr *mr; /* SLOTS buffers of LARGEST bytes */
	union {
		struct sdr_send *send;
		struct sdr_recv *recv;
	} slot[SLOTS];
	uint64_t begun, ended; /* messages */
	bool whole;	       /* the oldest receive has all, and is being taken back */
	_Atomic uint64_t came; /* ended, for others; relaxed */
	const char *wrong;     /* what went wrong, or NULL */
	int error;
};

struct couple {
	struct app app[2];
	uint64_t seed, messages;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t told;
	struct sdr_qp_info info[2];
	bool there[2], gone[2]; /* gone: done, or left */
	int bell[2];		/* eventfds: the other one has gone */
};

uint64_t couple_mix(uint64_t a, uint64_t b);
bool couple_other_has_gone(struct app *a);

/* What the program that dies takes with it, and the NIC hears nothing of. */
void couple_forget(struct sdr_context *context, struct sdr_qp *qp);

/* sleeps: bit 0 the sender, bit 1 the receiver. */
void couple_begin(struct couple *c, uint64_t seed, uint64_t messages, unsigned sleeps);

void couple_go(struct couple *c);
void couple_finish(struct couple *c);
void couple_is_fine(const struct couple *c);

#endif
