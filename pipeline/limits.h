/* SPDX-License-Identifier: BSD-3-Clause */
/* Every bound of the packet path, in one place. */
#ifndef PIPELINE_LIMITS_H
#define PIPELINE_LIMITS_H

#include "nic.h" /* SP_MAX_PORTS */

#define SP_BURST	     32 /* packets a poll takes from one queue */
#define SP_MAX_WORKERS	     16
#define SP_REPORT_NAME	     96		/* bytes of a context's name in a report: NAME@PID#INDEX */
#define SP_MAX_CONTEXTS	     4096	/* per NIC */
#define SP_MAX_RULES	     64		/* filter expressions per NIC */
#define SP_APPLICATION_RULES 8		/* of them, of one attached application */
#define SP_MAX_QPS	     131072	/* claimed QP numbers per NIC */
#define SP_QP_ANY_FIRST	     0x10000	/* numbers for `qp = any` are given out upward from here */
#define SP_QP_CONTROL_FIRST  0xF00000	/* control QPs are given out upward from here */
#define SP_MAX_DROPS	     64		/* drop reasons of one handler */
#define SP_MAX_COUNTERS	     64		/* counters of one handler */
#define SP_MAX_MESSAGES	     (1u << 20) /* messages at once in one context */
#define SP_MAX_PATHS	     4096	/* per context */
#define SP_PATH_HEADS	     64		/* lists that they are found by */
#define SP_PARKED	     128	/* packets a worker holds for messages whose header runs elsewhere */
#define SP_HANDOVER	     512	/* packets that a worker may have handed over to another; a power of two */
#define SP_TX_QUEUE	     256	/* packets a worker holds per port while the port is full */
#define SP_NEIGHBOURS	     256	/* per NIC */
#define SP_NEIGHBOUR_PENDING 64		/* packets a worker holds for neighbours not yet resolved */
#define SP_COMMANDS	     1024	/* commands queued per application and worker; a power of two */
#define SP_EVENTS	     128	/* events queued per context and worker; a power of two */
#define SP_REGIONS	     512 /* of one attached application, areas among them: each is a mapping of the NIC's */
#define SP_KEPT_PLACES	     4u	 /* for applications of root and the NIC's own user; of few places a quarter */
#define SP_COMMANDS_PER_POLL 32
#define SP_QUIET_POLLS	     16384 /* an application that posts nothing for so many is parked; at most twice as many */
#define SP_ISSUES_PER_POLL   8	   /* calls of issue() in one poll */
#define SP_TIMERS_PER_POLL   64
#define SP_MAX_VERSIONS	     8 /* of one context's handler at once */
#define SP_MAX_WEIGHT	     1000
#define SP_BACKLOG	     1024 /* packets a worker holds for contexts that have used their part of its time */
#define SP_BACKLOG_CONTEXT   256  /* of them, of one context */
#define SP_MAX_KEPT	     1024 /* held packets of one context */
#define SP_TAPS		     2	  /* behind one tap */
#define SP_MAX_MIRRORS	     4	  /* captures at once */
#define SP_EXT_MAX	     64	  /* bytes of extension headers after the BTH */
#define SP_LEND_MIN	     1024 /* bytes of payload that are not copied: from cache copying wins to 2 KiB, else to 600 */
#define SP_LENT		     1024 /* packets of one context that a worker may have lent; a power of two */
#define SP_PIECE_PRIVATE     64	  /* bytes before and in the room of such a buffer */
#define SP_PIECE_ROOM	     (14 + 40 + 8 + 12 + SP_EXT_MAX)
#define SP_PIECES	     8191 /* buffers for what is not payload of such packets, in the process (2^n - 1) */
#define SP_PAYLOAD_KEPT	     1088 /* bytes that payload-less NICs copy at once: the longest datagram and its header */
#define SP_PACKET_POOL	     8191 /* packet buffers of the process (2^n - 1) */
#define SP_PACKET_ROOM	     9600 /* bytes of frame that one buffer holds */
#define SP_JUMBO_ROOM	     8192 /* buffers of more bytes are jumbo: a port has no more of them than it needs */

/* Queues beside the ports': the exception port's is SP_MAX_PORTS, and the one to the NIC itself, which is also what
 * struct sp_packet.port says of such packets. No port of a driver: nothing but loop.c sends there. */
#define SP_PORT_LOOP (SP_MAX_PORTS + 1)

#define SP_CACHE_ALIGNED __attribute__((aligned(64)))

#endif
