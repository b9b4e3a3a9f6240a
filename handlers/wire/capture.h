/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a running NIC tells a program that captures (SP_ATTACH_CAPTURE): a memory with one ring of fixed slots per
 * worker; the worker writes, the program reads. A full ring loses packets and counts them; it never makes the NIC wait.
 */
#ifndef SPINDLE_WIRE_CAPTURE_H
#define SPINDLE_WIRE_CAPTURE_H

#include <assert.h>
#include <stdint.h>

#define SP_CAPTURE_MAGIC 0x50414353u /* "SCAP" */

enum { SP_CAPTURE_DROPS = 1 /* only what is dropped */ };
struct sp_capture_request {
	uint32_t flags;
	uint32_t snaplen;  /* bytes of a frame to keep; 0: what the NIC's MTU allows */
	char context[40];  /* only what this context has taken, dropped, forwarded or sent; "": all */
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
	SP_CAPTURE_NO_VERDICT = 0xFFFF, /* no handler was asked */
};

/* A slot: this, then the frame's first bytes. */
struct sp_capture_slot {
	uint64_t time;		   /* ns since the epoch */
	uint32_t captured, length; /* bytes here, bytes of the frame */
	uint16_t port;		   /* below SP_CAPTURE_PORTS */
	uint8_t fate;		   /* enum sp_capture_fate */
	uint8_t outgoing;
	uint16_t worker;
	uint16_t verdict; /* what the handler returned: its kind, SP_DONE ...; or SP_CAPTURE_NO_VERDICT */
	char context[40]; /* "" where none was found */
	char reason[40];  /* of what was dropped */
	uint8_t frame[];
};

/* head and tail count slots, and only grow; slot i is at ring + sizeof(ring) + (i % slots) * slot_bytes. The NIC never
 * reads back what it writes here, and only compares head. */
struct sp_capture_ring {
	uint64_t tail;			 /* the NIC writes it, after the slot */
	uint64_t lost[SP_CAPTURE_PORTS]; /* packets for which there was no slot, by port; the NIC writes it */
	uint8_t pad0[8];
	uint64_t head; /* the program writes it, after it has read the slot */
	uint8_t pad1[56];
};

/* At the start of the memory; the NIC writes it, once. */
struct sp_capture_memory {
	uint32_t magic, workers;
	uint32_t slots, slot_bytes; /* per ring; slots is a power of two */
	uint64_t first, stride;	    /* of the rings, from the start of the memory */
	uint32_t snaplen;	    /* bytes of a frame that a slot takes */
	uint8_t pad[28];
	char port[SP_CAPTURE_PORTS][64]; /* names; "": there is none */
};
static_assert(sizeof(struct sp_capture_slot) == 104 && sizeof(struct sp_capture_ring) == 128 &&
		      sizeof(struct sp_capture_memory) == 64 + SP_CAPTURE_PORTS * 64,
	      "shared");

#endif
