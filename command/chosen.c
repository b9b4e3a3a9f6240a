/* SPDX-License-Identifier: BSD-3-Clause */
#include "chosen.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t plain(const struct chosen *c)
{
	uint64_t left = c->messages;

	for (unsigned i = 0; i < c->codes; i++)
		left -= c->coded[i] < left ? c->coded[i] : left;
	return left;
}

static const char *scheme(const struct sdr_ec *code)
{
	return code->code == SDR_CODE_XOR ? "ec-xor" : "ec-mds";
}

json_t *chosen_json(const struct chosen *c)
{
	json_t *all = json_array();

	if (plain(c))
		json_array_append_new(all,
				      json_pack("{s:s, s:I}", "scheme", "sr-nack", "messages", (json_int_t)plain(c)));
	for (unsigned i = 0; i < c->codes; i++)
		if (c->coded[i])
			json_array_append_new(all, json_pack("{s:s, s:[i,i], s:I}", "scheme", scheme(&c->code[i]), "ec",
							     (int)c->code[i].k, (int)c->code[i].m, "messages",
							     (json_int_t)c->coded[i]));
	return all;
}

void chosen_text(const struct chosen *c, char *text, size_t room)
{
	size_t len = 0;

	*text = 0;
	if (plain(c))
		len = (size_t)snprintf(text, room, "sr-nack for %" PRIu64, plain(c));
	for (unsigned i = 0; i < c->codes && len < room; i++)
		if (c->coded[i])
			len += (size_t)snprintf(text + len, room - len, "%s%s %u,%u for %" PRIu64, len ? ", " : "",
						scheme(&c->code[i]), c->code[i].k, c->code[i].m, c->coded[i]);
}
