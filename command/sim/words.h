/* SPDX-License-Identifier: BSD-3-Clause */
/* What `spindle sim WORD` simulates beside sdr and allreduce. */
#ifndef COMMAND_SIM_WORDS_H
#define COMMAND_SIM_WORDS_H

/* argv[0] is the word. Each parses its own options, and returns the exit status. */
int sim_goal(int argc, char **argv);
int sim_motif(int argc, char **argv);
int sim_train(int argc, char **argv);

#endif
