/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking a running NIC for what it tells as JSON. */
#ifndef COMMAND_ASK_H
#define COMMAND_ASK_H

#include <jansson.h>

#include "../host-api/attach.h"

/* One request (see wire/attach.h) and the text that comes with its reply, as an object; NULL: there came none. 0 or
 * -errno; -EPROTO: what came is no JSON object. */
int ask_json(struct sp_attach_link *link, struct sp_attach_exchange *x, json_t **object);

#endif
