/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spindle replay, in files: replay.c (the NIC, and the run in virtual time), replay_options.c (what is asked for),
 * replay_port.c (the run on a real port), replay_files.c (what is read and written), replay_memory.c (receives and host
 * memory), replay_link.c (the link in front of the NIC), replay_expect.c (is it what was expected), replay_show.c (the
 * report).
 */
#ifndef COMMAND_REPLAY_H
#define COMMAND_REPLAY_H

#include "../../pipeline/config.h"
#include "../../testbed/capture.h"
#include "../../testbed/expect.h"
#include "../../testbed/guard.h"
#include "../../testbed/link.h"
#include "../../testbed/tap.h"
#include "../../testbed/trace.h"
#include "../../testbed/world.h"

#define REPLAY_BUFFERS 256 /* contexts named by --post, --dump, --expect-memory */
#define REPLAY_PLUGINS 64
#define REPLAY_REORDER (100 * SP_US) /* --reorder-delay where none is given */
#define REPLAY_WAIT    (100 * SP_MS) /* --wait */
#define REPLAY_DIFFERS 3	     /* exit status: not as expected */

/* One context's memory: receives posted in one buffer (a memfd, so that the kernel knows which pages were written), or
 * the area that it shares with the host. */
struct replay_buffer {
	const char *context; /* len bytes of an argument */
	size_t len;
	uint64_t count, bytes;	   /* count 0: the area */
	const char *dump, *expect; /* files, or NULL */
	int fd;
	void *base;
	uint32_t id; /* of the context */
	struct sp_mr *mr;
};

/* What the capture's packets pass on their way to the NIC, and what it sends on its way to nobody. */
struct replay_link {
	struct sp_link *link;
	struct sp_tap tap;     /* between NIC and link, for the recording */
	struct rte_mbuf *held; /* waits for room on the wire */
};

/* What went out by a real port, and came in. */
struct replay_port {
	uint64_t sent, sent_bytes, received, received_bytes;
	uint64_t oversized;   /* larger than the port's MTU; not sent */
	uint64_t refused;     /* by the driver */
	uint64_t late;	      /* more than REPLAY_LATE after their time */
	sp_time latest, span; /* from the first packet to the last */
	bool interrupted;
};
#define REPLAY_LATE (100 * SP_US)

struct replay {
	/* what is asked for */
	const char *config_file, *capture_file, *sent_file, *trace_file, *device;
	const char *expect_file, *expect_json;
	const char *plugin_file[REPLAY_PLUGINS];
	unsigned plugins;
	bool json, trace_asked, linked, tolerated;
	struct sp_tolerance tolerance;
	struct sp_capture_pace pace;
	struct sp_link_config link_config;
	uint64_t call_limit_ms;
	sp_time wait;
	struct replay_buffer buffer[REPLAY_BUFFERS];
	unsigned buffers;

	struct sp_plugin *plugin[REPLAY_PLUGINS];
	struct sp_config *config;
	struct sp_nic_config *nic_config;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_world *world;
	struct sp_capture_port port, sink;
	struct replay_link link;
	struct replay_port real;
	int recording; /* descriptor of what is recorded for --expect alone, or -1 */
	struct sp_guard *guard;
	bool hung; /* a handler does not return: nothing of the NIC may be used any more */
	FILE *trace_out;
	struct sp_trace *trace;
	char *report;
	bool differs;
	int status;
};

void __attribute__((format(printf, 2, 3))) replay_complain(struct replay *r, const char *format, ...);
static inline const char *replay_s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* ---- replay_options.c ---- */
int replay_arguments(struct replay *r, int argc, char **argv); /* 0, or the exit status + 1 */

/* ---- replay_files.c ---- */
/* Opening an output would empty an input before it is read, or one output would end up in another: says so. */
bool replay_outputs_collide(struct replay *r);
void replay_trace_close(struct replay *r); /* at the latest before the report is printed */

/* ---- all below: 0, or -errno and it has been said ---- */
/* Capture and recording, as asked for; queues: of what the capture feeds. */
int replay_files_open(struct replay *r, uint16_t queues);
int replay_trace_open(struct replay *r); /* if it is asked for */

/* ---- replay_memory.c ---- */
int replay_buffer_open(struct replay *r, struct replay_buffer *b);
void replay_buffer_dump(struct replay *r, const struct replay_buffer *b);
void replay_buffers_free(struct replay *r); /* after the NIC: it may write to them to the last */

/* ---- replay_link.c ---- */
/* Before the NIC is made: its port. Its feeder is added to the world by the other one. */
int replay_link_open(struct replay *r, uint16_t workers, struct sp_port_config *port);
int replay_link_feed(struct replay *r);
bool replay_link_over(const struct replay *r); /* nothing is on its way to the NIC */
void replay_link_close(struct replay *r);      /* after the NIC */

/* ---- replay_expect.c ---- */
int replay_expect_check(struct replay *r); /* can the expectations be read? */
void replay_expect_memory(struct replay *r);
void replay_expect_rest(struct replay *r); /* report and recording, which must be complete */

/* ---- replay_show.c ---- */
void replay_report_make(struct replay *r); /* r->report: JSON */
void replay_report_print(struct replay *r);

/* ---- replay_port.c ---- */
void replay_port_run(struct replay *r);

#endif
