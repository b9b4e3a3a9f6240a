/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PIPELINE_HOST_REQUEST_H
#define PIPELINE_HOST_REQUEST_H

#include <stdbool.h>

struct sp_server;
struct sp_session;

/* Serves one request, if there is one. False: the connection is over. Never waits for the client. */
bool sp_request_serve(struct sp_server *server, struct sp_session *s);
/* Does one slice of a long request; replies after the last. False: the connection is over. */
bool sp_request_work(struct sp_server *server, struct sp_session *s);

#endif
