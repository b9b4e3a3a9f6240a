/* SPDX-License-Identifier: BSD-3-Clause */
#include "parse_check.h"

struct result parse_poisoned(const uint8_t *bytes, uint32_t len, uint8_t poison)
{
	struct result r;
	uint8_t *exact = malloc(len ? len : 1), *frame = len ? exact : exact + 1;

	memset(&r, poison, sizeof(r));
	memcpy(frame, bytes, len);
	r.parsed = sp_parse(frame, len, &r.p, &r.type);
	CU_ASSERT_PTR_EQUAL(r.p.frame, frame);
	CU_ASSERT(!memcmp(frame, bytes, len));
	r.data = (uint32_t)(r.p.data - frame);
	if (r.parsed >= 0) {
		CU_ASSERT(r.data <= len && r.p.len <= len - r.data);
		CU_ASSERT(r.p.l3 <= r.data && r.p.l4 <= r.data && r.p.l3 >= 14);
	}
	r.p.frame = r.p.data = NULL;
	free(exact);
	return r;
}

struct result parse_frame(const uint8_t *bytes, uint32_t len)
{
	return parse_poisoned(bytes, len, 0x55);
}

const char *parse_name_of(int parsed)
{
	static const char *const accepted[] = {"other", "ip", "udp", "roce"};

	return parsed >= 0 ? accepted[parsed] : -1 - parsed < SP_DROP_COUNT ? sp_drop_names[-1 - parsed] : "nonsense";
}

void parse_expect_(unsigned line, int got, int want, const struct frame_shape *s, uint32_t len)
{
	if (got != want)
		printf("# line %u: %s, want %s (tags %u, ip %d, roce %d, %u bytes)\n", line, parse_name_of(got),
		       parse_name_of(want), s ? s->tags : 0, s ? s->ip : 0, s ? s->roce : 0, len);
	CU_ASSERT_EQUAL(got, want);
}

void parse_each_shape(void (*check)(const struct frame_shape *, struct frame *))
{
	struct frame f;

	for (unsigned tags = 0; tags <= 2; tags++)
		for (enum frame_ip ip = 0; ip < FRAME_IPS; ip++)
			for (int roce = 0; roce <= 1; roce++) {
				struct frame_shape s = {tags, ip, roce, PAYLOAD, roce ? PAD : 0};

				frame_build(&f, &s);
				check(&s, &f);
			}
}
