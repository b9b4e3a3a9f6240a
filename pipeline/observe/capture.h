/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet capture for `spindle capture`: each worker writes copies of packets into a ring that the capturing program
 * reads (layout: wire/capture.h). When off, it costs one branch per received burst, per packet sent or dropped, and per
 * packet forwarded or answered. */
#ifndef PIPELINE_OBSERVE_CAPTURE_H
#define PIPELINE_OBSERVE_CAPTURE_H

#include "../../handlers/wire/capture.h"
#include "../mem/shm.h"

struct sp_nic;
struct sp_error;
struct sp_capture;
struct sp_record; /* a received packet whose fate is not known yet */

/* The memory of a capture's rings, in whole pages. init writes its head, before another process can see it. */
size_t sp_capture_bytes(const struct sp_nic *nic, const struct sp_capture_request *request);
void sp_capture_init(const struct sp_nic *nic, const struct sp_capture_request *request, void *memory);
/* Control calls; the caller holds nic->control. On success the capture takes the memory. -EINVAL: bad filter (see
 * error) or request; -EBUSY: SP_MAX_CAPTURES exist; -ENOENT: no such context; -ENOMEM. */
int sp_capture_open(struct sp_nic *nic, const struct sp_capture_request *request, struct sp_shm *memory,
		    struct sp_error *error, struct sp_capture **capture);
void sp_capture_close(struct sp_nic *nic, struct sp_capture *capture, uint32_t uid); /* uid: of the program's user */

#endif
