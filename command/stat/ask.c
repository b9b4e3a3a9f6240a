/* SPDX-License-Identifier: BSD-3-Clause */
#include "ask.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../ask.h"
#include "../nic_error.h"

int stat_ask(struct sp_attach_link *link, const struct stat_asked *a, struct stat_sample *sample)
{
	struct sp_attach_exchange x = {.op = SP_ATTACH_REPORT,
				       .arg = {a->handlers ? SP_REPORT_HANDLERS : SP_REPORT_ALL},
				       .data = a->context,
				       .bytes = a->context ? (uint32_t)strlen(a->context) : 0};
	int status;

	if (x.bytes > SP_ATTACH_BYTES)
		return -ENOENT;
	status = ask_json(link, &x, &sample->report);
	sample->at = sp_clock();
	return status || sample->report ? status : -EPROTO;
}

void stat_ask_words(const struct stat_asked *a, int status, char *words, size_t bytes)
{
	const char *nic = command_nic_name(a->nic);

	switch (a->context || status != -ENOENT ? status : 0) {
	case -ENOENT:
		snprintf(words, bytes, "NIC %s has no context %s", nic, a->context);
		break;
	case -ENODEV:
		snprintf(words, bytes, "NIC %s has gone, or does not answer", nic);
		break;
	case -ECONNABORTED:
		snprintf(words, bytes, "NIC %s has died", nic);
		break;
	case -EPERM:
		snprintf(words, bytes, "NIC %s: only its own user and root may use --handlers: packets wait meanwhile",
			 nic);
		break;
	case -EPROTO:
		snprintf(words, bytes, "NIC %s sent a malformed report: is it another version?", nic);
		break;
	default:
		snprintf(words, bytes, "NIC %s: %s", nic, strerror(-status));
		break;
	}
}
