/* SPDX-License-Identifier: BSD-3-Clause */
#include "link_options.h"

#include <string.h>

#define LONGEST	  (10 * SP_SEC)
#define FARTHEST  3e6 /* km: LONGEST, one way */
#define AT(field) OPTION_AT(struct link_options, field)

const struct option_row link_rows[] = {
	{"loss", 0, OPTION_PROBABILITY, "P", "probability that a packet is lost", AT(value.loss)},
	{"burst", 0, OPTION_REAL, "N", "losses come in bursts of N packets on average", AT(burst), .low = 1,
	 .high = 1e6, .unit = " packets"},
	{"duplicate", 0, OPTION_PROBABILITY, "P", "probability that a packet arrives twice", AT(value.duplicate)},
	{"reorder", 0, OPTION_PROBABILITY, "P", "probability that a packet arrives late, by --reorder-delay",
	 AT(value.reorder)},
	{"reorder-delay", 0, OPTION_TIME, "T", "how late a reordered packet arrives", AT(value.reorder_delay),
	 .most = LONGEST},
	{"corrupt", 0, OPTION_PROBABILITY, "P", "probability that one bit of a packet is inverted", AT(value.corrupt)},
	{"jitter", 0, OPTION_TIME, "T", "each packet takes longer by 0 to T: packets overtake each other",
	 AT(value.jitter), .most = LONGEST},
	{"delay", 0, OPTION_TIME, "T", "propagation delay, one way", AT(value.delay), .most = LONGEST},
	{"distance", 0, OPTION_REAL, "KM", "the delay of so many kilometres, at 300,000 km/s", AT(distance),
	 .high = FARTHEST, .unit = " (km)", .suffix = "km"},
	{"bandwidth", 0, OPTION_RATE, "R", "bit/s", AT(value.bandwidth), .least = 1000, .most = 100000000000000ull},
	{"seed", 0, OPTION_NUMBER, "N", "the same seed does the same to the same packets (1)", AT(seed)},
	{0},
};

void link_options_taken(void *to, const struct option_row *row)
{
	struct link_options *l = to;
	size_t at = row->at;

	l->given = row;
	if (at == offsetof(struct link_options, seed)) {
		l->config->seed = l->seed;
		return;
	}
	if (at == offsetof(struct link_options, burst)) {
		l->value.burst_end = 1 / l->burst; /* the probability that a burst ends */
		at = offsetof(struct sp_link_direction, burst_end);
	} else if (at == offsetof(struct link_options, distance)) {
		l->value.delay = sp_link_distance(l->distance);
		at = offsetof(struct sp_link_direction, delay);
	}
	for (unsigned e = 0; e < 2; e++)
		if (l->way & 1u << e)
			memcpy((char *)&l->config->direction[e] + at, (const char *)&l->value + at, row->bytes);
}

const char *link_options_end(struct sp_link_config *config)
{
	for (unsigned e = 0; e < 2; e++) {
		struct sp_link_direction *d = &config->direction[e];

		if (d->burst_end <= 0)
			continue;
		if (d->loss <= 0)
			return "--burst says how losses come: --loss must say how many";
		if (sp_link_burst(d, 1 / d->burst_end, d->loss))
			return "bursts as short as --burst cannot lose as much as --loss: at most N / (N + 1)";
	}
	return NULL;
}
