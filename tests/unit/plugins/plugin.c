/* SPDX-License-Identifier: BSD-3-Clause */
/* Plug-ins for tests: what the build defines makes them wrong, or different from each other. */
#include <stdlib.h>

#include <spindle-handler.h>

#ifndef NAME
#define NAME "plugged"
#endif
#ifndef VERSION
#define VERSION 1
#endif
#ifndef HANDLER_ABI
#define HANDLER_ABI SP_ABI
#endif
#ifndef HANDLER_SIZE
#define HANDLER_SIZE sizeof(struct sp_handler)
#endif
#ifndef HANDLER_MESSAGES
#define HANDLER_MESSAGES SP_MESSAGES_NONE
#endif

/* Calls nothing of its arguments, so that a test can ask which code runs. */
static uint64_t classify(struct sp_ctx *c, struct sp_packet *p)
{
	(void)c, (void)p;
	return VERSION;
}

static uint32_t payload(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	(void)m, (void)p;
#ifdef CALLS_NOTHING_THAT_IS
	uint32_t sp_no_such_call(struct sp_ctx *);
	return sp_no_such_call(c);
#else
	return sp_random(c) ? SP_DONE : SP_END; /* a call of the NIC's, which is found when this is loaded */
#endif
}

const struct sp_handler plugged = {.abi = HANDLER_ABI,
				   .size = HANDLER_SIZE,
				   .name = NAME,
				   .doc = "for tests",
				   .messages = HANDLER_MESSAGES,
				   .classify = HANDLER_MESSAGES == SP_MESSAGES_NONE ? classify : NULL,
				   .payload = payload};
#ifndef REGISTERS_NOTHING
SP_HANDLER(plugged)
#endif

#ifdef EXITS
static __attribute__((EXITS)) void leave(void)
{
	exit(0);
}
#endif

#ifdef SECOND_NAME
static const struct sp_handler second = {SP_HANDLER_HEAD, .name = SECOND_NAME, .payload = payload};
SP_HANDLER(second)
#endif

#ifdef LOADS_ANOTHER
struct sp_plugin;
int sp_plugin_load(const char *, struct sp_plugin **, void *);

/* The one thing that outlives it tells what came of it: the environment. */
static void load(const char *told)
{
	struct sp_plugin *plugin;
	const int r = sp_plugin_load("/dev/null", &plugin, NULL);
	const char text[] = {(char)('0' + -r / 10 % 10), (char)('0' + -r % 10), '\0'};

	setenv(told, text, 1);
}
__attribute__((constructor)) static void loads(void)
{
	load("PLUGIN_CONSTRUCTOR");
}
__attribute__((destructor)) static void loads_again(void)
{
	load("PLUGIN_DESTRUCTOR");
}
#endif
