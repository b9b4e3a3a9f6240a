/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What takes compilers longer to read than most of our files: DPDK's headers, and the processor's instructions that
 * they bring along. Read once for a library or a suite of tests (c_pch in meson.build). Nothing may count on it: each
 * file includes what it uses, and builds with -Db_pch=false all the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>
