/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for the pipeline, linked in its place. It runs one handler with SP_MESSAGES_SLOTS: one context, one
 * thread, no frames. */
#ifndef TESTS_FAKE_NIC_H
#define TESTS_FAKE_NIC_H

#include "../../handlers/spindle-handler.h"

#define FAKE_MEMS     8
#define FAKE_MESSAGES 256
#define FAKE_SENT     4096
#define FAKE_TIMERS   8

struct fake_sent {
	struct sp_send send; /* pointers are stale */
	uint8_t bytes[64 + 4096];
};

struct fake_nic {
	struct sp_ctx c; /* first */
	const struct sp_handler *h;
	const char *const *setting; /* name, value, ..., NULL */
	struct sp_error_text {
		char param[40], text[256];
	} error;
	uint64_t counters[64], drops[64], taken, errors, rejected;
	struct sp_mem mem[FAKE_MEMS]; /* [0] is the area */
	const struct sp_mem *area;    /* shared with the host; NULL: none */
	int refs[FAKE_MEMS];
	void *alloc[64];
	unsigned allocs;
	struct fake_message {
		bool open;
		uint32_t tag;
		struct sp_message m;
	} message[FAKE_MESSAGES];
	struct sp_timer *timer[FAKE_TIMERS];
	struct sp_issue *issue;
	struct fake_sent *sent;
	unsigned sent_count;
	int room; /* packets that may still be sent before -EAGAIN */
	unsigned opened, completed;
	uint64_t random;
	struct sp_qp_range {
		uint32_t count, control;
	} qps;
};

/* A report is one line of name=value. */
struct sp_report {
	char text[1 << 16];
	size_t len;
};

extern const struct sp_handler *fake_handler; /* the one that has registered itself */
int fake_start(struct fake_nic *f);	      /* configure(), then attach() */
int fake_attach(struct fake_nic *f, const char *const *setting);
void fake_detach(struct fake_nic *f);
/* Memory of so many bytes, zeroed: its id. */
uint32_t fake_mem(struct fake_nic *f, uint64_t len);
/* One packet's way; returns its verdict. */
uint32_t fake_receive(struct fake_nic *f, struct sp_packet *p);
int fake_command(struct fake_nic *f, const struct sp_command *command, struct sp_event *result);
/* Lets time pass, timer by timer. */
void fake_run(struct fake_nic *f, sp_time until);
void fake_issue(struct fake_nic *f, unsigned budget, unsigned rounds);

#endif
