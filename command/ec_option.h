/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_EC_OPTION_H
#define COMMAND_EC_OPTION_H

/* The value of --ec: "K,M", with 1 <= M <= K and K + M <= most. 0 or -EINVAL. */
int ec_option_take(const char *text, unsigned most, unsigned *k, unsigned *m);

#endif
