/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connected program can ask for (wire/attach.h). The server runs each as an operation of an embedded device, on
 * the program's behalf. */
#ifndef PIPELINE_HOST_OPERATION_H
#define PIPELINE_HOST_OPERATION_H

#include "reply.h"

struct sp_operation {
	/* Checks the request, and says how many bytes of memory the program has to map and seal first; init writes to
	 * them before it gets them. NULL: none. */
	int (*memory)(struct sp_server *, struct sp_session *, uint64_t *bytes);
	void (*init)(const struct sp_server *, void *memory);
	/* 0, -errno, or SP_LATER. Takes s->sealed (base NULL afterwards) or leaves it. */
	int (*run)(struct sp_server *, struct sp_session *, struct sp_parcel *);
	bool application; /* needs HELLO first */
	bool workers;	  /* needs the workers */
	bool shares;	  /* hands memory over for reading */
	bool observes;	  /* its memory is charged to nobody */
};

const struct sp_operation *sp_operation(uint16_t op); /* NULL: none */

#endif
