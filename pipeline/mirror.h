/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of what passes, for `spindle capture`: per worker into a ring that the capturing program reads (its layout:
 * wire/capture.h). Off, it costs a branch per burst received, per packet sent or dropped, and per packet forwarded or
 * answered. */
#ifndef PIPELINE_MIRROR_H
#define PIPELINE_MIRROR_H

#include "../handlers/wire/capture.h"
#include "shared.h"

struct sp_nic;
struct sp_error;
struct sp_mirror;
struct sp_record; /* a received packet whose fate is not known yet */

/* Control calls, by nic->control's holder. -EINVAL: filter (error says what) or request; -EBUSY: SP_MAX_MIRRORS are
 * there; -ENOENT: no such context; -ENOMEM. memory's descriptor is for the other process; memory stays the mirror's. */
int sp_mirror_open(struct sp_nic *nic, const struct sp_capture_request *request, struct sp_error *error,
		   struct sp_mirror **mirror, struct sp_shared **memory);
void sp_mirror_close(struct sp_nic *nic, struct sp_mirror *mirror);

#endif
