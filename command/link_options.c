/* SPDX-License-Identifier: BSD-3-Clause */
#include "link_options.h"

#include <stdlib.h>
#include <string.h>

#include "../pipeline/config.h"

#define LONGEST	    (10 * SP_SEC)
#define FARTHEST    3e6 /* km: LONGEST, one way */
#define SLOWEST	    1000ull
#define FASTEST	    100000000000000ull
#define BOTH(field) offsetof(struct sp_link_direction, field), false
#define LINK(field) offsetof(struct sp_link_config, field), true

const struct link_option link_options[] = {
	{"loss", "--loss must be 0 to 1", LINK_PROBABILITY, BOTH(loss)},
	{"burst", "--burst must be 1 to 1000000 packets", LINK_BURST, BOTH(burst_end)},
	{"duplicate", "--duplicate must be 0 to 1", LINK_PROBABILITY, BOTH(duplicate)},
	{"reorder", "--reorder must be 0 to 1", LINK_PROBABILITY, BOTH(reorder)},
	{"reorder-delay", "--reorder-delay must be 0 to 10s", LINK_TIME, BOTH(reorder_delay)},
	{"corrupt", "--corrupt must be 0 to 1", LINK_PROBABILITY, BOTH(corrupt)},
	{"jitter", "--jitter must be 0 to 10s", LINK_TIME, BOTH(jitter)},
	{"delay", "--delay must be 0 to 10s", LINK_TIME, BOTH(delay)},
	{"distance", "--distance must be 0 to 3000000 (km)", LINK_DISTANCE, BOTH(delay)},
	{"bandwidth", "--bandwidth must be 1000 to 100000G", LINK_RATE, BOTH(bandwidth)},
	{"seed", "--seed must be a number from 0", LINK_NUMBER, LINK(seed)},
	{0},
};

/* A number from least to most, with or without its unit behind it. */
static bool parse_double(const char *text, const char *unit, double least, double most, double *value)
{
	char *end;

	*value = strtod(text, &end);
	if (end == text || !(*value >= least && *value <= most)) /* NaN too */
		return false;
	return !*end || !strcmp(end, unit);
}

bool link_option_take(const struct link_option *o, const char *value, struct sp_link_config *link)
{
	double real = 0;
	uint64_t number = 0;
	bool right = false;

	switch (o->kind) {
	case LINK_PROBABILITY:
		right = parse_double(value, "", 0, 1, &real);
		break;
	case LINK_BURST: /* the reciprocal is the probability that a burst ends */
		right = parse_double(value, "", 1, 1e6, &real);
		real = right ? 1 / real : 0;
		break;
	case LINK_DISTANCE:
		right = parse_double(value, "km", 0, FARTHEST, &real);
		number = right ? sp_link_distance(real) : 0;
		break;
	case LINK_TIME:
		right = !sp_parse_time(value, &number) && number <= LONGEST;
		break;
	case LINK_RATE:
		right = !sp_parse_rate(value, &number) && number >= SLOWEST && number <= FASTEST;
		break;
	case LINK_NUMBER:
		right = !sp_parse_uint(value, &number);
		break;
	}
	for (unsigned e = 0; right && e < (o->whole ? 1 : 2); e++) {
		char *to = (o->whole ? (char *)link : (char *)&link->direction[e]) + o->at;

		if (o->kind == LINK_PROBABILITY || o->kind == LINK_BURST)
			memcpy(to, &real, sizeof(real));
		else
			memcpy(to, &number, sizeof(number));
	}
	return right;
}

const char *link_options_end(struct sp_link_config *link)
{
	for (unsigned e = 0; e < 2; e++) {
		struct sp_link_direction *d = &link->direction[e];

		if (d->burst_end <= 0)
			continue;
		if (d->loss <= 0)
			return "--burst says how losses come: --loss must say how many";
		if (sp_link_burst(d, 1 / d->burst_end, d->loss))
			return "bursts as short as --burst cannot lose as much as --loss: at most LENGTH / (LENGTH + "
			       "1)";
	}
	return NULL;
}
