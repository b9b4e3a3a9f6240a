/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to a running NIC that are answered in JSON. */
#ifndef COMMAND_ASK_H
#define COMMAND_ASK_H

#include <jansson.h>

#include "../host-api/attach.h"

/* Sends one request (see wire/attach.h). *object: the text of the reply, NULL if it has none. 0 or -errno; -EPROTO: the
 * text is no JSON object. */
int ask_json(struct sp_attach_link *link, struct sp_attach_exchange *x, json_t **object);

#endif
