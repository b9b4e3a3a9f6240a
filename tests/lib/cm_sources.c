/* SPDX-License-Identifier: BSD-3-Clause */
/* The handler cm, whose calls cm_world.c answers. */
#include "../../handlers/cm/cm.c"
#include "../../handlers/cm/end.c"
#include "../../handlers/cm/event.c"
#include "../../handlers/cm/mad.c"
#include "../../handlers/cm/receive.c"
#include "../../handlers/cm/request.c"
#include "../../handlers/cm/table.c"
