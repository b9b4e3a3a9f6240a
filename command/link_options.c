/* SPDX-License-Identifier: BSD-3-Clause */
#include "link_options.h"

#include <stdlib.h>
#include <string.h>

#include "../pipeline/config.h"

#define LONGEST	    (10 * SP_SEC)
#define SLOWEST	    1000ull
#define FASTEST	    100000000000000ull
#define BOTH(field) offsetof(struct sp_link_direction, field), false
#define LINK(field) offsetof(struct sp_link_config, field), true

const struct link_option link_options[] = {
	{"loss", "--loss must be 0 to 1", LINK_PROBABILITY, BOTH(loss)},
	{"duplicate", "--duplicate must be 0 to 1", LINK_PROBABILITY, BOTH(duplicate)},
	{"reorder", "--reorder must be 0 to 1", LINK_PROBABILITY, BOTH(reorder)},
	{"reorder-delay", "--reorder-delay must be 0 to 10s", LINK_TIME, BOTH(reorder_delay)},
	{"delay", "--delay must be 0 to 10s", LINK_TIME, BOTH(delay)},
	{"bandwidth", "--bandwidth must be 1000 to 100000G", LINK_RATE, BOTH(bandwidth)},
	{"seed", "--seed must be a number from 0", LINK_NUMBER, LINK(seed)},
	{0},
};

static bool parse_probability(const char *text, double *p)
{
	char *end;

	*p = strtod(text, &end);
	return end != text && !*end && *p >= 0 && *p <= 1; /* false for NaN */
}

bool link_option_take(const struct link_option *o, const char *value, struct sp_link_config *link)
{
	double probability = 0;
	uint64_t number = 0;
	bool right = false;

	switch (o->kind) {
	case LINK_PROBABILITY:
		right = parse_probability(value, &probability);
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

		if (o->kind == LINK_PROBABILITY)
			memcpy(to, &probability, sizeof(probability));
		else
			memcpy(to, &number, sizeof(number));
	}
	return right;
}
