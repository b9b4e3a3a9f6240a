/* SPDX-License-Identifier: BSD-3-Clause */
#include "view.h"

const char *const stat_order_names[] = {"activity", "name", "packets", "bytes",	   "dropped",
					"cycles",   "p99",  "share",   "overruns", NULL};
const char stat_order_keys[] = "anpbdc9so";
