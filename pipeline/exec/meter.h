/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What contexts' calls cost, in TSC cycles. A run is what a worker does for a context at one time: the context's
 * packets of a burst (classify, header, payload, completion), or one timer, command, issue or slice of work. The clock
 * is read once between two runs; for contexts with a budget, between two packets.
 */
#ifndef PIPELINE_EXEC_METER_H
#define PIPELINE_EXEC_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "../../handlers/wire/host.h"

struct sp_worker;
struct sp_view;
struct sp_packet;

/* Buckets of cycles a packet: 4 to each power of 2, the last for all above. */
#define SP_METER_BUCKETS 112

/* [worker] writes; a snapshot copies it. */
struct sp_meter {
	uint64_t runs;
	uint64_t cycles;      /* of all runs */
	uint64_t packets;     /* of all runs; a call for a timer, a command, ... is a run of no packet */
	uint64_t overruns;    /* packets, and runs of no packet, that cost more than the budget */
	uint32_t least, most; /* cycles of a packet (the mean of its run), or of a run without; 0: nothing measured */
	uint64_t bucket[SP_METER_BUCKETS]; /* how many packets, or runs without; 32 bits would last for minutes */
	/* ---- what follows from overruns ---- */
	uint64_t debt;	   /* cycles; SP_OVERRUN_DROP: each dropped packet pays off one budget */
	uint64_t disabled; /* how often */
	sp_time until;	   /* disabled until then; in the past: it is not. [shared] relaxed: who disables writes it to
			      the views of all workers */
	sp_time pause;	   /* how long the last time; in the home worker's view, the same */
};

enum sp_overrun { SP_OVERRUN_COUNT, SP_OVERRUN_DROP, SP_OVERRUN_DISABLE };
struct sp_budget {
	uint64_t cycles; /* of a packet, or of a run without; 0: no budget */
	enum sp_overrun overrun;
};

/* The last run that was measured, and what is taken to cost as much, see sp_meter_estimate(). [worker] */
struct sp_sample {
	uint32_t left;	 /* runs that need not be measured; 0: the next one is */
	uint32_t each;	 /* cycles of a packet, or of a run without */
	uint32_t bucket; /* for these */
};

/* For reports. Adds up; of `until` and `pause` the sum has the later one. */
void sp_meter_add(struct sp_meter *sum, const struct sp_meter *one);
/* Cycles that a share q of what is in the buckets did not exceed: the upper end of its bucket, never more than `most`.
 * 0: nothing measured. */
uint64_t sp_meter_quantile(const struct sp_meter *meter, double q);
/* The most cycles that are still of this bucket; UINT64_MAX: the last. */
uint64_t sp_meter_bound(unsigned bucket);

/* The call that a worker is in, for reports of calls that crash or do not come back. [worker] writes, relaxed. */
enum sp_doing_what {
	SP_DOING_NOTHING,
	SP_DOING_PACKETS,
	SP_DOING_TIMER,
	SP_DOING_COMMAND,
	SP_DOING_ISSUE,
	SP_DOING_WORK,
	SP_DOING_MIGRATE,
	/* PACKETS, and in one of these calls; completion() also of what else ends messages */
	SP_DOING_CLASSIFY,
	SP_DOING_MISS,
	SP_DOING_HEADER,
	SP_DOING_COMPLETION,
	/* CONTROL, the same */
	SP_DOING_CONFIGURE,
	SP_DOING_ATTACH,
	SP_DOING_DETACH,
	SP_DOING_REPORT
};
struct sp_doing {
	struct sp_view *view;		 /* NULL: no handler's call */
	struct sp_packet *const *packet; /* PACKETS: of the run, in order */
	uint32_t packets, at;		 /* how many; at: the one of the call of the moment, or the first of its run */
	uint32_t what;			 /* enum sp_doing_what */
};
const char *sp_doing_name(uint32_t what); /* "payload", "timer", ...; "" for no call */

#endif
