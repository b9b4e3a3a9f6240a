/* SPDX-License-Identifier: BSD-3-Clause */
/* What a running NIC sends to a program that captures (SP_ATTACH_CAPTURE): a memory with one ring of fixed slots per
 * worker. The worker writes, the program reads. A full ring loses packets and counts them. It never makes the NIC wait.
 */
#ifndef SPINDLE_WIRE_CAPTURE_H
#define SPINDLE_WIRE_CAPTURE_H

#include <assert.h>
#include <stdint.h>

#define SP_CAPTURE_MAGIC 0x32414353u /* "SCA2" */

enum { SP_CAPTURE_DROPS = 1 /* dropped packets only */ };
struct sp_capture_request {
	uint32_t flags;
	uint32_t snaplen;  /* bytes of a frame to capture; 0: as many as the NIC's MTU allows */
	char context[40];  /* only packets that this context took, dropped, forwarded or sent; "": all */
	char filter[1024]; /* tcpdump expression; "": all */
};

enum sp_capture_fate {
	SP_CAPTURE_TAKEN = 1, /* by the context */
	SP_CAPTURE_DROPPED,   /* why: `reason` */
	SP_CAPTURE_FORWARDED, /* to the exception port */
	SP_CAPTURE_ANSWERED,  /* by the NIC itself */
	SP_CAPTURE_SENT,      /* by the NIC: the outgoing frame */
};

enum {
	SP_CAPTURE_EXCEPTION = 4, /* the exception port; below it the NIC's other ports */
	SP_CAPTURE_LOOP = 5,	  /* from the NIC to itself, by no port */
	SP_CAPTURE_PORTS = 6,
	SP_CAPTURE_NO_VERDICT = 0xFFFF, /* no handler was called */
};

/* What the processor's time-stamp counter said, in a NIC that runs in real time; elsewhere, and of what the NIC itself
 * answers or forwards, 0. A frame from the NIC to itself has one slot, received, with the times of its sending for the
 * first two. */
enum sp_capture_step {
	SP_CAPTURE_ROUND,   /* the worker's round began, in which it took the frame from the port, or built it */
	SP_CAPTURE_IN_HAND, /* received: the port has given it; sent: it is built and queued */
	SP_CAPTURE_PASSED,  /* received: data and events are in their place; sent: the port has it */
	SP_CAPTURE_STEPS
};

/* A slot: this, then the frame's first bytes. */
struct sp_capture_slot {
	uint64_t time;		   /* ns since the epoch */
	uint32_t captured, length; /* bytes here, bytes of the frame */
	uint16_t port;		   /* below SP_CAPTURE_PORTS */
	uint8_t fate;		   /* enum sp_capture_fate */
	uint8_t outgoing;
	uint16_t worker;
	uint16_t verdict; /* of the handler: its kind, SP_DONE ...; or SP_CAPTURE_NO_VERDICT */
	char context[40]; /* "": none */
	char reason[40];  /* of a drop */
	uint64_t tsc[SP_CAPTURE_STEPS];
	uint8_t frame[];
};

/* head and tail count slots, and only grow. Slot i is at ring + sizeof(ring) + (i % slots) * slot_bytes. The NIC never
 * reads back what it writes here. It only compares `head`. */
struct sp_capture_ring {
	uint64_t tail;			 /* the NIC writes it, after the slot */
	uint64_t lost[SP_CAPTURE_PORTS]; /* packets for which no slot was free, by port; the NIC writes it */
	uint8_t pad0[8];
	uint64_t head; /* the program writes it, after it has read the slot */
	uint8_t pad1[56];
};

/* At the start of the memory; the NIC writes it, once. */
struct sp_capture_memory {
	uint32_t magic, workers;
	uint32_t slots, slot_bytes; /* per ring; slots is a power of two */
	uint64_t first, stride;	    /* of the rings, from the start of the memory */
	uint32_t snaplen;	    /* bytes of a frame that fit a slot */
	uint8_t pad[28];
	char port[SP_CAPTURE_PORTS][64]; /* names; "": no such port */
};
static_assert(sizeof(struct sp_capture_slot) == 128 && sizeof(struct sp_capture_ring) == 128 &&
		      sizeof(struct sp_capture_memory) == 64 + SP_CAPTURE_PORTS * 64,
	      "shared");

#endif
