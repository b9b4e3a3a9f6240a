/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses in the form that a configuration has. A result stays valid for seven more calls. */
#ifndef TESTS_IPS_H
#define TESTS_IPS_H

#include <stdint.h>
#include <string.h>

const uint8_t *ip4(unsigned a, unsigned b, unsigned c, unsigned d);
/* 2001:db8:N::LOW, or fe80::LOW for N < 0 */
const uint8_t *ip6(int net, uint32_t low);

#endif
