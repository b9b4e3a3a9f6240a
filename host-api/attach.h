/* SPDX-License-Identifier: BSD-3-Clause */
/* A device of a NIC in another process: for sp_attach, and for commands that ask for reports and captures. */
#ifndef HOST_API_ATTACH_H
#define HOST_API_ATTACH_H

#include "device.h"
#include "exchange.h"

/* Ends the connection without waiting for the NIC, and with it all contexts and regions: further calls return -ENODEV.
 * No effect on a device that is not attached. */
void sp_attach_leave(struct sp_dev *dev);

#endif
