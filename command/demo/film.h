/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COMMAND_DEMO_FILM_H
#define COMMAND_DEMO_FILM_H

#include "record.h"

/* Plays the record on the terminal, slowed down: the chunks of all lanes side by side. Elsewhere: lines of text. */
void demo_film(const struct demo *d);

#endif
