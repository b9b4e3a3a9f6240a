/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a handler from its shared object without a NIC: stand-ins for the calls of the NIC, and packets made by
 * hand. */
#ifndef TESTS_PLUGIN_ALONE_H
#define TESTS_PLUGIN_ALONE_H

#include "../../handlers/spindle-handler.h"
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include "suite.h"

enum { WORKERS = 2, SLMP = 12, UDP_AT = 34, DATA_AT = 42 };

/* ---- the NIC's calls -------------------------------------------------------------------------------------------- */
extern const struct sp_handler *plugin_handler;

extern struct sp_mem plugin_area;
extern atomic_uint plugin_events, plugin_kept, plugin_released, plugin_sent;
extern char plugin_failure[256]; /* "parameter: what is wrong" */
extern uint8_t order[256];	 /* first payload byte of each frame sent */

/* ---- contexts, packets ------------------------------------------------------------------------------------------ */
extern struct sp_ctx plugin_ctx[WORKERS];

extern uint64_t plugin_counted[WORKERS][64];
extern void *plugin_state;
extern const char *plugin_directory;
/* name, text, ... NULL. */
void plugin_setup(const char *name, ...);
/* `failure` says why. */
bool plugin_refused(const char *name, ...);
void put32(uint8_t *b, uint32_t n);

struct wire {
	uint8_t frame[1200];
};

/* An SLMP packet of words that are all `word`; w holds it. */
struct sp_packet slmp(struct wire *w, bool last, uint16_t user, uint32_t message, uint32_t offset, uint32_t words,
		      uint32_t word);

#endif
