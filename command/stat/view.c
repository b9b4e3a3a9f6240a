/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"

const char *const stat_order_names[] = {"activity", "name", "packets", "bytes",	   "dropped",
					"cycles",   "p99",  "share",   "overruns", NULL};
const char stat_order_keys[] = "anpbdc9so";

uint64_t stat_integer(const json_t *number)
{
	const double x = json_real_value(number); /* the report has numbers above INT64_MAX as reals */

	if (!json_is_real(number))
		return (uint64_t)json_integer_value(number);
	return x >= 0 && x < 0x1p64 ? (uint64_t)x : 0;
}

uint64_t stat_value(const json_t *object, const char *key)
{
	return stat_integer(json_object_get(object, key));
}
