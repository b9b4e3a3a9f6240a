/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_NOTIFY_H
#define COMMAND_NOTIFY_H

/* Sends the service manager "READY=1", "STOPPING=1" or lines of "STATUS=..."; without a manager ($NOTIFY_SOCKET) it
 * does nothing. This is the protocol of sd_notify(3), one datagram, without a dependency on libsystemd. */
void notify(const char *state);

#endif
