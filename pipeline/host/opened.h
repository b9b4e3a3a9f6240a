/* SPDX-License-Identifier: BSD-3-Clause */
/* The contexts that an application has opened, and their event queues, which outlive a context that the NIC ends. */
#ifndef SPINDLE_HOST_OPENED_H
#define SPINDLE_HOST_OPENED_H

#include "../context.h"
#include "../exec/rings.h"

/* The list's link to id's entry, or the list's end (*link is NULL). On the device's thread, as all here. */
struct sp_opened **sp_opened_find(struct sp_device *, uint32_t id);
bool sp_opened_ended(const struct sp_opened *);
/* nic->control is held, here and in sp_opened_remember(). */
void sp_opened_forget(struct sp_opened **at);
/* Fills in `o`, which the list owns from here on. Returns it. */
struct sp_opened *sp_opened_remember(struct sp_device *, struct sp_opened *o, const struct sp_context *);

#endif
