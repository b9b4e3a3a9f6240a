/* SPDX-License-Identifier: BSD-3-Clause */
/* The NIC under test with an rvma context (session = implicit). The test writes packets of puts and gets byte by
 * byte, plays the host and checks its memory. */
#ifndef TESTS_RVMA_NIC_H
#define TESTS_RVMA_NIC_H

#include "../../handlers/rvma/bucket.h"
#include "../../pipeline/observe/trace.h"
#include "dut.h"

#define QP     0x40
#define MEMORY (1u << 20)
#define NOTES  256u

extern uint32_t rw_mtu; /* of the next NIC */
extern uint32_t rw_context;
extern uint8_t *rw_memory;
extern struct sp_rvma_notification *rw_note; /* [NOTES] */
extern struct sp_mr *rw_memory_mr, *rw_notes_mr;
extern uint64_t rw_next_transfer;
extern sp_time rw_now;
extern const struct sp_tracer *rw_watcher; /* of the next NIC; NULL: none */
extern bool rw_fed_only;		   /* packets wait at the port: the test polls */
struct rv *rw_state(void);
void rw_begin_with(const char *settings);
void rw_begin(void);
void rw_stop(void);

/* ---- the host ---- */
extern struct sp_event rw_answer;

int rw_command(unsigned op, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
uint64_t rw_window(uint64_t mailbox, uint64_t key, uint64_t threshold, uint64_t flags);
/* Bytes [at, at + length) of memory; the notification goes to note[n]. threshold 0: the window's. */
int rw_post_with(uint64_t id, uint64_t at, uint64_t length, unsigned n, uint64_t threshold);
void rw_post(uint64_t id, uint64_t at, uint64_t length, unsigned n);
/* note[n] says: this buffer, this length, epoch and flags, and so many whole puts. */
bool rw_told(unsigned n, uint64_t at, uint64_t length, uint64_t epoch, uint64_t flags, uint64_t puts);
bool rw_silent(unsigned n);
struct sp_rvma_window_status *rw_line(uint64_t id);
/* Puts into the window that were given up, as shared memory says. */
uint64_t rw_lost(uint64_t id);
/* How many were refused so since the last time that this was asked. */
uint64_t rw_refused(enum sp_rvma_status why);
bool rw_nothing_refused(void);

/* ---- the network ---- */
struct transfer {
	uint64_t mailbox, key, offset, length;
	uint8_t fill, flags;
	uint64_t number; /* filled in by start() */
};

void be(uint8_t *to, unsigned bytes, uint64_t v);
/* What byte i of a put is. */
uint8_t rw_pattern(uint8_t fill, uint64_t i);
bool rw_filled(uint64_t at, uint8_t fill, uint64_t length);
bool rw_untouched(uint64_t at, uint64_t length);
void rw_raw(uint8_t opcode, const void *bytes, uint32_t len);
/* Gives the transfer its number. */
struct transfer *rw_start(struct transfer *t);
void rw_packet(const struct transfer *t, uint64_t i);
/* All of a put. */
void rw_put(uint64_t mailbox, uint64_t key, uint64_t offset, uint64_t length, uint8_t fill);
void rw_get(uint64_t mailbox, uint64_t key, uint64_t offset, uint64_t length, uint32_t back);

#define APPEND UINT64_MAX

#endif
