/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device that could run the handlers: its cores, and the times and rates of the ways in, out and to the host. It is
 * read from a file (docs/devices.md), which also may hold published measurements to check the description against.
 */
#ifndef TESTBED_DEVICE_DEVICE_H
#define TESTBED_DEVICE_DEVICE_H

#include "../../pipeline/nic.h"
#include "cost.h"

#define SP_DEVICE_CHECKS 32

/* What a check compares. */
enum sp_device_quantity { SP_CHECK_LATENCY, SP_CHECK_PPS, SP_CHECK_CORES, SP_CHECK_BUDGET, SP_CHECK_COUNT };

/* A measurement that somebody has published: packets of one size at even distances, each a call of one cost. */
struct sp_device_check {
	char name[SP_COST_NAME], about[120], source[120];
	struct sp_cost cost, cold_cost;
	uint32_t cold;	     /* so many calls, the first ones, take cold_cost */
	bool fitted;	     /* the device's or the check's numbers were fitted to it: it confirms nothing */
	uint32_t bytes;	     /* of a frame */
	uint64_t rate;	     /* of the frames, bit/s; 0: the device's line rate */
	uint32_t packets;    /* how many */
	uint32_t word_every; /* one word is written to the host every so many packets; 0: none */
	uint32_t cores;	     /* 0: the device's */
	enum sp_device_quantity quantity;
	double value; /* s, packets a second, cores, or cycles */
	unsigned line;
};

struct sp_device {
	char name[SP_COST_NAME], about[120];
	uint32_t cores;	      /* 0: as many as the NIC has workers */
	double clock;	      /* Hz; 0: the host's time stamp counter */
	double host_cycles;   /* cycles of a core that do the work of one TSC cycle of the host: scales what is measured
			       */
	bool by_worker;	      /* calls of a worker run on its core; false: on any */
	bool core_matches;    /* classify() runs on a core; false: the device matches packets without */
	sp_time arrive;	      /* from a frame's last bit until a call can start */
	uint64_t arrive_rate; /* bit/s, and so long for the frame's bytes; 0: no time */
	sp_time depart;	      /* from a call's end until the frame that it sends is at the port */
	uint64_t depart_rate;
	sp_time dma_latency; /* of a write to the host: from the call's end, or the write before, until it is visible */
	uint64_t dma_rate;   /* bit/s, of all writes; 0: no limit */
	uint64_t line_rate;  /* bit/s */
	uint32_t overhead;   /* bytes that a frame takes on the wire beyond its own */
	sp_time interval;    /* least time between two frames */
	uint64_t buffer;     /* bytes of frames that the device can hold; 0: no limit */
	struct sp_costs costs;
	struct sp_device_check check[SP_DEVICE_CHECKS];
	unsigned checks;
};

/* Reads a file. Errors name file, line and key. Files of more than 8 MiB are refused. */
int sp_device_read(const char *file, struct sp_device *device, struct sp_error *error);
int sp_device_parse(const char *file, const char *text, size_t len, struct sp_device *device, struct sp_error *error);

/*
 * name: of a device (pspin), or a file's (with a / or .ini). Devices are looked for in $SPINDLE_DEVICES, beside the
 * program as it was built, and where they are installed. -ENOENT: the error lists those that there are.
 */
int sp_device_find(const char *name, struct sp_device *device, struct sp_error *error);
/* Calls fn with the path of each device that sp_device_find() would find, in alphabetical order; its result other than
 * 0 ends the search, and is returned. */
int sp_device_each(int (*fn)(void *arg, const char *path), void *arg);

/* How long a frame of so many bytes takes on the device's line; 0: the device has no line rate. */
sp_time sp_device_wire_time(const struct sp_device *device, uint64_t bytes);
/* Of so many cycles on a core; 1000 s at most. */
sp_time sp_device_time(const struct sp_device *device, double cycles);

#endif
