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
#define SP_APPLICATION_RULES 8		/* filters of one attached application */
#define SP_MAX_QPS	     131072	/* claimed QP numbers per NIC */
#define SP_QP_ANY_FIRST	     0x10000	/* numbers for `qp = any` are drawn from here */
#define SP_QP_CONTROL_FIRST  0xF00000	/* ... to here; from here on those of control QPs */
#define SP_MAX_DROPS	     64		/* drop reasons of one handler */
#define SP_MAX_COUNTERS	     64		/* counters of one handler */
#define SP_MAX_MESSAGES	     (1u << 20) /* messages at once in one context */
#define SP_MAX_PATHS	     4096	/* per context */
#define SP_PATH_HEADS	     64		/* hash lists of paths */
#define SP_PARKED	     128	/* packets a worker holds for messages whose header runs elsewhere */
#define SP_HANDOVER	     512	/* packets that a worker may have handed over to another; a power of two */
#define SP_TX_QUEUE	     256	/* packets a worker holds per port while the port is full */
#define SP_NEIGHBOURS	     256	/* per NIC */
#define SP_NEIGHBOUR_PENDING 64		/* packets a worker holds for neighbours not yet resolved */
#define SP_COMMANDS	     1024	/* commands queued per application and worker; a power of two */
#define SP_EVENTS	     128	/* events queued per context and worker; a power of two */
#define SP_REGIONS	     512	/* per attached application, areas included */
#define SP_COMMANDS_PER_POLL 32
#define SP_QUEUES_PER_POLL   16	    /* applications whose commands run in one poll, where several have some */
#define SP_QUANTUM_COMMANDS  256    /* so many commands that no context takes count as a quantum */
#define SP_QUIET_POLLS	     16384  /* polls without a post before an application is parked; */
#define SP_QUIET_LOOKS	     262144 /* or so many looks at any: with many, a poll is long */
#define SP_ISSUES_PER_POLL   8	    /* calls of issue() in one poll */
#define SP_TIMERS_PER_POLL   64
#define SP_MAX_VERSIONS	     8 /* of one context's handler at once */
#define SP_MAX_WEIGHT	     1000
#define SP_BACKLOG	     1024 /* packets a worker's scheduler holds for contexts over their part */
#define SP_BACKLOG_USER	     768  /* of these, for all contexts of one user */
#define SP_BACKLOG_APP	     576  /* for all of one application */
#define SP_BACKLOG_CONTEXT   256  /* packets of one context in the backlog */
#define SP_MAX_HELD	     1024 /* held packets of one context */
#define SP_TAPS		     2	  /* behind one tap */
#define SP_MAX_CAPTURES	     4	  /* captures at once */
#define SP_EXT_MAX	     64	  /* bytes of extension headers after the BTH */
#define SP_LEND_MIN	     1024 /* payload bytes from which zero copy is used: copying from cache wins up to 2 KiB */
#define SP_ZC_MAX	     1024 /* zero-copy packets in flight per context and worker; 2^n */
#define SP_PIECE_PRIVATE     64	  /* private bytes of a zero-copy header buffer */
#define SP_PIECE_ROOM	     (18 + 40 + 8 + 12 + SP_EXT_MAX)
#define SP_PIECES	     8191 /* header buffers for zero copy, per process (2^n - 1) */
#define SP_PAYLOAD_KEPT	     1088 /* bytes that payload-less NICs copy at once: the longest datagram and its header */
#define SP_PACKET_POOL	     8191 /* packet buffers of the process (2^n - 1) */
#define SP_PACKET_ROOM	     9600 /* bytes of frame that one buffer holds */
#define SP_JUMBO_ROOM	     8192 /* larger buffers are jumbo: a port gets no more of them than it needs */

/* Transmit queues after the ports': SP_MAX_PORTS is the exception port's, SP_PORT_LOOP the NIC's own loopback, also in
 * struct sp_packet.port. Loopback has no driver; only loop.c sends there. */
#define SP_PORT_LOOP (SP_MAX_PORTS + 1)

#define SP_CACHE_ALIGNED __attribute__((aligned(64)))

#endif
