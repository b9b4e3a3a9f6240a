/* SPDX-License-Identifier: BSD-3-Clause */
/* The schemes that "auto" has chosen, as commands show them. */
#ifndef COMMAND_CHOSEN_H
#define COMMAND_CHOSEN_H

#include <jansson.h>

#include "../host-api/reliable.h"

struct chosen {
	struct sdr_ec code[SDR_EC_CODES]; /* the codes of the connection */
	unsigned codes;
	uint64_t messages, coded[SDR_EC_CODES]; /* messages sent in all, and with parity of each code */
};

/* [{"scheme": , "ec": [k, m], "messages": }, ...]: sr-nack first, then by code; without schemes that were never chosen.
 */
json_t *chosen_json(const struct chosen *chosen);
/* "sr-nack for 3, ec-mds 32,8 for 4" */
void chosen_text(const struct chosen *chosen, char *text, size_t room);

#endif
