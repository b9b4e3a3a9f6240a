/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes all packet buffers of the process and gives them back. */
#ifndef TESTS_BUFFERS_H
#define TESTS_BUFFERS_H

#include <rte_mbuf.h>
#include "../../pipeline/limits.h"
#include "../../pipeline/nic.h"

void buffers_take_all(void);
void buffers_give_back(void);

#endif
