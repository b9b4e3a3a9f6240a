/* SPDX-License-Identifier: BSD-3-Clause */
#include "ask.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define TEXT_BYTES (256u << 20) /* a longer text is refused */

int ask_json(struct sp_attach_link *link, struct sp_attach_exchange *x, json_t **object)
{
	void *text;
	int status = sp_attach_exchange(link, x);

	*object = NULL;
	if (status || !x->arg[0]) {
		if (!status)
			sp_attach_release(x);
		return status;
	}
	status = x->arg[0] > TEXT_BYTES ? -EPROTO : sp_attach_map(x->fd[0], x->arg[0], &text);
	sp_attach_release(x);
	if (status)
		return status;
	*object = json_loadb(text, strnlen(text, x->arg[0]), 0, NULL);
	if (!json_is_object(*object)) {
		json_decref(*object);
		*object = NULL;
		status = -EPROTO;
	}
	munmap(text, x->arg[0]);
	return status;
}
