/* SPDX-License-Identifier: BSD-3-Clause */
/* What the scheme that picks itself has chosen, as commands show it. */
#ifndef COMMAND_CHOSEN_H
#define COMMAND_CHOSEN_H

#include <jansson.h>

#include "../host-api/reliable.h"

struct chosen {
	struct sdr_ec code[SDR_EC_CODES]; /* of the connection */
	unsigned codes;
	uint64_t messages, coded[SDR_EC_CODES]; /* sent in all, and with parity of each code */
};

/* [{"scheme": , "ec": [k, m], "messages": }, ...]: repeats alone first, then by code; what was never chosen is not
 * there. */
json_t *chosen_json(const struct chosen *chosen);
/* "sr-nack for 3, ec-mds 32,8 for 4" */
void chosen_text(const struct chosen *chosen, char *text, size_t room);

#endif
