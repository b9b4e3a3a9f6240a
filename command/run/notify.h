/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_NOTIFY_H
#define COMMAND_NOTIFY_H

/* Tells the service manager: "READY=1", "STOPPING=1", lines of "STATUS=...". Without one ($NOTIFY_SOCKET) nothing
 * happens. This is sd_notify(3)'s protocol, one datagram; ten lines are less than a library that every machine needs.
 */
void notify(const char *state);

#endif
