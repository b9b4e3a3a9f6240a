/* SPDX-License-Identifier: BSD-3-Clause */
/* What spindle replay was asked for, and what it holds while it runs. */
#ifndef COMMAND_REPLAY_STATE_H
#define COMMAND_REPLAY_STATE_H

#include "../../pipeline/config/config.h"
#include "../../testbed/pcap_port.h"
#include "../../testbed/expect.h"
#include "../../testbed/guard.h"
#include "../../testbed/link.h"
#include "../../testbed/port_tap.h"
#include "../../testbed/trace_log.h"
#include "../../testbed/world.h"

#define REPLAY_BUFFERS 256 /* contexts named by --post, --dump, --expect-memory */
#define REPLAY_PLUGINS 64
#define REPLAY_COSTS   64 /* --cost */

/* The memory of one context: a buffer with posted receives (a memfd: the kernel knows which pages were written), or the
 * area that the context shares with the host. */
struct replay_buffer {
	const char *context; /* its name: len bytes of an argument */
	size_t len;
	uint64_t count, bytes;	   /* count 0: the area */
	const char *dump, *expect; /* files, or NULL */
	int fd;
	void *base;
	uint32_t id; /* of the context */
	struct sp_mr *mr;
};

/* The link in front of a port. Its far end sends the capture and discards what arrives. */
struct replay_link {
	struct sp_link *link; /* NULL: there is none */
	struct sp_pcap_port *from;
	struct sp_port_tap tap; /* between NIC and link, for the recording */
	struct rte_mbuf *held;	/* the packet that waits for room on the wire */
};

/* What a real port sent and received. */
struct replay_port {
	uint64_t sent, sent_bytes, received, received_bytes;
	uint64_t oversized;   /* larger than the port's MTU; not sent */
	uint64_t refused;     /* by the driver */
	uint64_t late;	      /* packets sent more than REPLAY_LATE after their time */
	sp_time latest, span; /* span: from the first packet to the last */
	bool interrupted;
};
#define REPLAY_LATE (100 * SP_US)

struct replay {
	/* the options */
	const char *config_file, *sent_file, *trace_file, *device;
	const char *capture_file[SP_MAX_PORTS];
	unsigned captures;
	unsigned ports_asked;		       /* 0: --ports was not given */
	const char *expect_file;	       /* all ports together */
	const char *expect_port[SP_MAX_PORTS]; /* or each */
	const char *expect_json;
	const char *plugin_file[REPLAY_PLUGINS];
	unsigned plugins;
	const char *device_name; /* --device; NULL: calls take no time */
	const char *cost[REPLAY_COSTS];
	unsigned costs;
	bool json, trace_asked, linked, tolerated;
	struct sp_tolerance tolerance;
	struct sp_pcap_pace pace;
	struct sp_link_config link_config;
	sp_time call_limit; /* 0: the default */
	sp_time wait;
	struct replay_buffer buffer[REPLAY_BUFFERS];
	unsigned buffers;

	struct sp_plugin *plugin[REPLAY_PLUGINS];
	struct sp_config *config;
	struct sp_nic_config *nic_config;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_world *world;
	unsigned ports;
	struct sp_pcap_port port[SP_MAX_PORTS], sink;
	struct sp_pcap_writer *out; /* of all ports; NULL: no recording */
	uint64_t start;		    /* time 0, ns since 1970 */
	struct replay_link link[SP_MAX_PORTS];
	struct replay_port real;
	int recording;			/* descriptor of the recording for --expect without -w, or -1 */
	struct replay_device *stand_in; /* device.c; NULL: without --device */
	struct sp_guard *guard;
	bool hung; /* a handler does not return: nothing of the NIC may be used from here on */
	FILE *trace_out;
	struct sp_trace_log *trace;
	char *report;
	bool differs;
	int status;
};

/* Prints a message; the exit status becomes 1. */
void __attribute__((format(printf, 2, 3))) replay_complain(struct replay *r, const char *format, ...);
/* Whether a capture is expected of a port, or of all. */
bool replay_expects_packets(const struct replay *r);
static inline const char *replay_s(uint64_t n)
{
	return n == 1 ? "" : "s";
}

#endif
