/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device at work: turns packets and calls, in the order of time, into starts, waits and ends on its cores. It knows
 * no NIC: watch.h tells it what a NIC does, load.h makes packets up.
 *
 * A packet's first call can start `arrive` after the packet, its further ones each after the one before. payload()
 * waits for its message's header(), completion() for its message's payload()s; calls of a handler that wants order
 * (SP_HANDLER_HOME) wait for those before of its context and worker. Writes to the host are posted: the core goes on,
 * and they are done one after the other at the DMA's rate. What a call writes comes behind what those calls wrote that
 * it waited for, and its events behind its other writes: an event never tells of bytes that are not yet in memory.
 */
#ifndef TESTBED_DEVICE_RUN_H
#define TESTBED_DEVICE_RUN_H

#include "cores.h"
#include "device.h"

#define SP_DEVICE_ROWS	   256	     /* of handlers and functions; calls of further ones are counted together */
#define SP_DEVICE_MESSAGES (1 << 16) /* whose order is kept; more open ones than that may lose it, see forgotten */
#define SP_DEVICE_HELD	   (1 << 20) /* packets in the device that are counted */

struct sp_device_job {
	const char *handler;
	unsigned function; /* enum sp_called */
	sp_time now;	   /* of the packet, or the call */
	sp_time after;	   /* not before that; 0: any time */
	sp_time behind;	   /* its writes not before that; 0: any time */
	bool packet;	   /* it is for the packet of the last sp_device_run_packet() */
	bool serial;	   /* one after the other, see above */
	bool has_message;
	uint64_t message; /* its key */
	uint32_t context;
	uint16_t worker;
	struct sp_cost_work work;
	double measured; /* TSC cycles of the host; used where no cost is given */
};

struct sp_device_result {
	sp_time start, end;
	sp_time sent;	/* when frames that it sends are at the port */
	sp_time placed; /* when the host sees the last byte that it wrote to memory; end, if nothing */
	sp_time told;	/* when the host sees its last event; end, if none */
	sp_time posted; /* when its last write, memory or event, has left the device; 0: it wrote nothing */
};

/* What the host sees of calls, and when. Times since the call's packet, or since the call where there is none. */
struct sp_device_seen {
	uint64_t count, bytes; /* of calls, bytes that they wrote */
	sp_time sum, most;
	sp_time last; /* the latest, since time 0 */
};

/* What calls of one function of one handler were. */
struct sp_device_row {
	char handler[SP_COST_NAME];
	unsigned function;
	bool measured, serial;
	uint64_t calls;
	double cycles, least, most; /* of the device; sum, and of one call */
	sp_time busy;
	sp_time wait, wait_most; /* for a core */
	struct sp_device_seen memory, events;
};

/* What happened. Zero packets: only calls. */
struct sp_device_tally {
	uint64_t packets, bytes;
	sp_time first, last; /* arrivals */
	sp_time end;	     /* of the last call, frame or write */
	sp_time wire;	     /* of all packets, on the device's line */
	sp_time latency;     /* of all packets: from arrival to the end of the last of its calls, frames and writes */
	sp_time latency_least, latency_most;
	sp_time wait, wait_most; /* of all calls */
	uint64_t calls, writes;	 /* writes: bytes */
	uint32_t held_most;	 /* packets in the device at one time; at most SP_DEVICE_HELD are counted */
	uint64_t held_bytes_most;
	uint64_t overflows; /* packets that came when the buffer was full: the device would have dropped them */
	sp_time memory_last,
		event_last; /* when the host saw the last byte in its memory, and the last event; 0: none */
	uint64_t forgotten; /* times that the order of a message, or of a context's calls, was lost */
	sp_time serial;	    /* of the busiest context and worker whose calls run one after the other */
};

struct sp_device_run;

/* workers: of the NIC, where the device has as many cores. The device is copied. -EINVAL, -ENOMEM. */
int sp_device_run_create(const struct sp_device *device, unsigned workers, struct sp_device_run **run);
void sp_device_run_destroy(struct sp_device_run *run); /* NULL is fine */
/* A packet of so many bytes, with the first of its calls. now never goes back. */
void sp_device_run_packet(struct sp_device_run *run, sp_time now, uint32_t bytes);
/* job->now is that of the packet or later, and never goes back. */
struct sp_device_result sp_device_run_job(struct sp_device_run *run, const struct sp_device_job *job);
void sp_device_run_finish(struct sp_device_run *run); /* the last packet is complete; once, before the results */

const struct sp_device *sp_device_run_device(const struct sp_device_run *run);
const struct sp_device_tally *sp_device_run_tally(const struct sp_device_run *run);
const struct sp_cores *sp_device_run_cores(const struct sp_device_run *run);
const struct sp_cores *sp_device_run_dma(const struct sp_device_run *run);
/* In order of the first call. NULL: there are not so many. */
const struct sp_device_row *sp_device_run_row(const struct sp_device_run *run, unsigned i);

/* ---- what follows from the tally ---- */
double sp_device_run_occupancy(const struct sp_device_run *run); /* of all cores, 0 to 1, from first arrival to end */
double sp_device_run_offered(const struct sp_device_run *run);	 /* packets a second; 0: less than two packets */
/* Packets like these a second that the device could take at most, and what is the limit: "cores", "line", "dma", or
 * "order" (calls that must run one after the other). 0: no limit, as nothing costs anything. */
double sp_device_run_most(const struct sp_device_run *run, const char **limit);
/* Cores that packets like these keep busy at the device's line rate: as a real number, to be rounded up. 0: there is no
 * line rate. Calls that run one after the other are taken to spread over cores. */
double sp_device_run_cores_needed(const struct sp_device_run *run);

#endif
