/* SPDX-License-Identifier: BSD-3-Clause */
#include "since.h"

#include "view.h"

uint64_t stat_since(const json_t *now, const json_t *before, const char *key)
{
	const uint64_t n = stat_value(now, key), b = stat_value(before, key);

	return n >= b ? n - b : n;
}

uint64_t stat_given(const json_t *context)
{
	return stat_value(context, "packets") + stat_value(context, "forwarded") + stat_value(context, "dropped");
}

uint64_t stat_since_given(const json_t *now, const json_t *before)
{
	const uint64_t n = stat_given(now), b = stat_given(before);

	return n >= b ? n - b : n;
}

double stat_share(const json_t *now, const json_t *before, const char *context)
{
	const json_t *list = json_object_get(now, "workers"), *earlier = json_object_get(before, "workers");
	double sum = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *n = json_array_get(list, i), *b = json_array_get(earlier, i);
		/* TSC cycles that the worker has run */
		const double all = (double)stat_since(n, b, "running_us") * (double)stat_value(now, "tsc_hz") / 1e6;

		if (all > 0)
			sum += (double)stat_since(json_object_get(n, "contexts"), json_object_get(b, "contexts"),
						  context) /
			       all;
	}
	return sum;
}

double stat_busy(const json_t *now, const json_t *before)
{
	const uint64_t us = stat_since(now, before, "running_us");

	return us ? (double)stat_since(now, before, "busy_us") / (double)us : 0;
}
