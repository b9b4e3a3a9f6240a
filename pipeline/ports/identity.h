/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who has the NIC's addresses on this machine. The kernel may have them on the NIC's exception port alone, a TAP: so
 * TCP and the NIC share one identity. It must not see the frames of the NIC's ports elsewhere, then: it would answer
 * them a second time, by the port's own interface (Linux is a weak host: an address is the machine's, not the
 * interface's).
 */
#ifndef PIPELINE_PORTS_IDENTITY_H
#define PIPELINE_PORTS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

struct sp_nic;
struct sp_error;

/* After all other ports are open, and their MACs known: opens the exception port if the NIC has one, looks at the
 * kernel's addresses, and gives the exception port those that it is to have. A control call. -EADDRINUSE: the kernel
 * would answer the NIC's peers. -EINVAL, -ENOTSUP: no such exception port. */
int sp_identity_open(struct sp_nic *nic, struct sp_error *error);

/* How to keep the kernel from what an interface receives, as commands; returns text. */
const char *sp_identity_recipe(const char *interface, char *text, size_t room);
#define SP_IDENTITY_RECIPE 160

#endif
