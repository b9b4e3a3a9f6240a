/* SPDX-License-Identifier: BSD-3-Clause */
/* The results of spindle sim, as text or JSON. */
#ifndef COMMAND_SIM_SHOW_H
#define COMMAND_SIM_SHOW_H

#include "asked.h"

/* --times: *times gets room for the samples' times, or NULL without the option; sim_times_write() writes them to the
 * file and frees them. The exit status, after a message. */
int sim_times_open(const struct sim *s, double **times);
int sim_times_write(const struct sim *s, double *times);

/* wall: seconds that the simulation took. */
void sim_show_json(const struct sim *s, const struct sp_model_outcome *o, double wall);
void sim_show_text(const struct sim *s, const struct sp_model_outcome *o);
void sim_show_packets_json(const struct sim *s, const struct sp_sweep_outcome *o, double wall);
void sim_show_packets_text(const struct sim *s, const struct sp_sweep_outcome *o, double wall);

#endif
