/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses as they stand in a configuration; each stays as it is for seven calls more. */
#ifndef TESTS_IPS_H
#define TESTS_IPS_H

#include <stdint.h>
#include <string.h>

const uint8_t *ip4(unsigned a, unsigned b, unsigned c, unsigned d);
/* 2001:db8:N::LOW, or fe80::LOW for N < 0 */
const uint8_t *ip6(int net, uint32_t low);

#endif
