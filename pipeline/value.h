/* SPDX-License-Identifier: BSD-3-Clause */
/* Values as people write them, in nic.ini, on a command line and as a handler's parameters. */
#ifndef PIPELINE_VALUE_H
#define PIPELINE_VALUE_H

#include <stdbool.h>
#include <stdint.h>

#include "../handlers/wire/host.h" /* sp_time */

/* 0, or -EINVAL, -ERANGE. */
int sp_parse_uint(const char *text, uint64_t *value);		    /* 12, 0x1F, 64K, 1M, 2G: powers of 1024 */
int sp_parse_bool(const char *text, uint64_t *value);		    /* yes no on off true false 1 0 */
int sp_parse_time(const char *text, uint64_t *ps);		    /* 10ps 5ns 1.5us 20ms 3s */
int sp_parse_rate(const char *text, uint64_t *bits);		    /* 1000 10k 2.5M 400G: bit/s, powers of 1000 */
int sp_parse_ip(const char *text, uint8_t ip[16], uint8_t *prefix); /* address or address/bits; prefix NULL: no /bits */
int sp_parse_mac(const char *text, uint8_t mac[6]);
void sp_format_ip(const uint8_t ip[16], char text[46]);
/* The word of `known` (up to NULL) nearest to a misspelt one; NULL if none is near. */
const char *sp_nearest(const char *word, const char *const *known);

#endif
