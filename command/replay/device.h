/* SPDX-License-Identifier: BSD-3-Clause */
/* The device that the handlers are thought to run on: spindle replay --device. */
#ifndef COMMAND_REPLAY_DEVICE_H
#define COMMAND_REPLAY_DEVICE_H

#include "state.h"

/* Finds the device and reads the costs, after the plug-ins are loaded. 0, or -errno after a message. */
int replay_device_read(struct replay *r);
/* Before the NIC is made: a port of the device in front of each of its ports. */
int replay_device_ports(struct replay *r);
int replay_device_watch(struct replay *r);	  /* before the first context */
void replay_device_trace(struct replay *r);	  /* calls in the trace get their times on the device */
bool replay_device_holds(const struct replay *r); /* frames that have not left */
void replay_device_flush(struct replay *r);	  /* sends them, at their times */
/* After the run: puts the object "device" into the report. */
void replay_device_report(struct replay *r);
void replay_device_print(struct replay *r); /* as text, below the report's */
void replay_device_close(struct replay *r); /* after the NIC */

#endif
