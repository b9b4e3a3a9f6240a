/* SPDX-License-Identifier: BSD-3-Clause */
#include "ec_option.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int ec_option_take(const char *text, unsigned most, unsigned *k, unsigned *m)
{
	char more;

	if (text[strspn(text, "0123456789,")] || sscanf(text, "%3u,%3u%c", k, m, &more) != 2)
		return -EINVAL;
	return *m && *m <= *k && *k + *m <= most ? 0 : -EINVAL;
}
