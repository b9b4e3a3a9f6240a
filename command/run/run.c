/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spindle run: a NIC in a process of its own, for applications that attach to it. Threads: the workers, the server, the
 * notifier, EAL's own, one that waits for signals, and the first, which starts the others, sleeps, and stops them.
 */
#include <errno.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../pipeline/value.h"
#include "../../pipeline/host/socket_lock.h"
#include "../../pipeline/config/config.h"
#include "../../pipeline/ports/checksums.h"
#include "../../pipeline/ports/kernel.h"
#include "../../pipeline/ports/vdev.h"
#include "../command.h"
#include "../interrupt.h"
#include "../options.h"
#include "notify.h"
#include "../output.h"
#include "fault.h"
#include "fence.h"

#define EAL_ARGUMENTS 48 /* the user's; the command adds some */
#define READY_BYTES   1024

struct run {
	const char *file, *name;
	bool verbose, no_sandbox;
	char **eal;
	int eal_count;
	struct sp_config *config;
	struct sp_nic_config nic_config;
	struct sp_server_config server_config;
	struct fence fence;
	char path[128]; /* of the socket */
	struct sp_socket_lock claim;
	struct sp_nic *nic;
	struct sp_server *server;
	struct run_fault fault;
	struct run_leave leave;
};

#define fail(...) command_fail("run", __VA_ARGS__)

/* ---- the arguments ---- */
static const struct usage usage = {
	.command = "run",
	.forms = "spindle run -c FILE [OPTIONS] [-- EAL ARGUMENTS]",
	.about = "Runs the NIC that FILE describes, for programs that attach to it, until SIGINT or SIGTERM; a second "
		 "signal "
		 "ends it at once. One line on standard output says that it is ready.",
	.end = "Exit status: 0 stopped by a signal, 1 failed, 2 wrong usage, 3 a handler crashed or did not come back.",
	.eal = EAL_ARGUMENTS,
};

#define AT(field) OPTION_AT(struct run, field)

static const struct option_row rows[] = {
	{NULL, 'c', OPTION_STRING, "FILE", "the configuration (see spindle-nic.ini(5))", AT(file)},
	{"name", 0, OPTION_STRING, "NAME", "of the NIC: programs attach by it (name of [nic], or spindle0)", AT(name),
	 .least = 1, .most = sizeof(((struct sp_nic_config *)0)->name) - 1, .wants = "1 to 31 letters, digits, _ . -"},
	{"no-sandbox", 0, OPTION_FLAG, NULL, "restrict neither files nor system calls: for debugging", AT(no_sandbox)},
	{NULL, 'v', OPTION_FLAG, NULL, "print what it runs on: memory, ports, drivers", AT(verbose)},
	{0},
};

static int arguments(struct run *r, int argc, char **argv)
{
	struct options o = {&usage, {{NULL, rows, r, NULL}}};
	const int status = options_parse(&o, argc, argv);

	if (status != OPTIONS_GO_ON)
		return status;
	if (!r->file)
		return options_misuse(&usage, "which NIC? -c FILE is missing");
	r->eal = o.eal;
	r->eal_count = o.eals;
	return OPTIONS_GO_ON;
}

static int missing(const struct run *r, const char *what)
{
	for (size_t i = 0; i < r->config->sections; i++)
		if (!strcmp(r->config->section[i].kind, "nic"))
			return fail("%s:%u: [nic] has no %s", r->file, r->config->section[i].line, what);
	return fail("%s: there is no [nic] with a %s", r->file, what);
}

/* The file, the NIC's name, and where its socket will be. */
static int configuration(struct run *r)
{
	struct sp_error error = {.key = ""};

	if (sp_config_read(r->file, &r->config, &error) || sp_config_nic(r->config, &r->nic_config, &error) ||
	    sp_config_server(r->config, &r->server_config, &error) ||
	    sp_config_run(r->config, &r->fence.config, &error))
		return fail("%s", error.text);
	r->fence.off = r->no_sandbox;
	if (!r->nic_config.ports)
		return missing(r, "port = DEVICE: nothing would come in");
	if (!r->nic_config.addresses)
		return missing(r, "ip = ADDRESS: nobody could send to it");
	if (r->name || !*r->nic_config.name)
		snprintf(r->nic_config.name, sizeof(r->nic_config.name), "%s", r->name ? r->name : "spindle0");
	int result = sp_socket_path(r->nic_config.name, true, r->path, sizeof(r->path));
	if (result == -EINVAL)
		return fail("'%s' is no name for a NIC: it has 1 to 31 letters, digits, _ . -", r->nic_config.name);
	if (r->server_config.path)
		snprintf(r->path, sizeof(r->path), "%s", r->server_config.path);
	else if (result)
		return fail("no path for the socket of %s: %s (socket = PATH in [nic] names one)", r->nic_config.name,
			    strerror(-result));
	result = fence_user(&r->fence, r->file, &r->server_config);
	return result ? result
		      : fence_socket(&r->fence, r->nic_config.name, r->server_config.path, r->path, sizeof(r->path));
}

/* ---- up ---- */
/* The process's user must be able to remove it. */
static int take_lock(void *arg)
{
	struct run *r = arg;
	char text[512];

	if (sp_socket_lock_take(&r->claim, r->path, !r->server_config.path, text, sizeof(text)))
		return fail("NIC %s: %s", r->nic_config.name, text);
	return 0;
}

/* The plug-ins of [nic]: for its own contexts, and for those of applications. */
static int load_plugins(const struct run *r)
{
	struct sp_error error = {.key = ""};

	return sp_config_plugins(r->config, &error) || sp_config_unhosted(r->config, &error) ? fail("%s", error.text)
											     : 0;
}

static int start_eal(const struct run *r)
{
	static char prefix[64]; /* EAL keeps its arguments */
	static char *eal[EAL_ARGUMENTS + 2];
	struct sp_error error = {.key = ""};
	bool named = false, telemetry = false;
	int count = 0;

	for (int i = 0; i < r->eal_count; i++) {
		named |= !strncmp(r->eal[i], "--file-prefix", 13);
		telemetry |= !strcmp(r->eal[i], "--telemetry") || !strcmp(r->eal[i], "--no-telemetry");
	}
	snprintf(prefix, sizeof(prefix), "--file-prefix=spindle-%s", r->nic_config.name);
	if (!named)
		eal[count++] = prefix;
	if (!telemetry)
		eal[count++] = (char *)"--telemetry";
	for (int i = 0; i < r->eal_count; i++)
		eal[count++] = r->eal[i];
	return sp_eal_init(count, eal, &error) ? fail("%s", error.text) : 0;
}

/* Each application needs several descriptors. */
static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static void say_ground(void)
{
	struct rte_eth_dev_info info;
	char name[RTE_ETH_NAME_MAX_LEN], mtu[32];
	uint16_t port;

	fprintf(stderr, "spindle run: memory %s; EAL\'s files in %s\n",
		rte_eal_has_hugepages() ? "of huge pages" : "without huge pages", rte_eal_get_runtime_dir());
	RTE_ETH_FOREACH_DEV(port)
	{
		if (rte_eth_dev_get_name_by_port(port, name) || rte_eth_dev_info_get(port, &info))
			continue;
		snprintf(mtu, sizeof(mtu), ", MTU %u", info.max_mtu);
		if (!info.max_mtu || info.max_mtu == UINT16_MAX) /* ethdev's own, where a driver names none */
			*mtu = 0;
		fprintf(stderr, "spindle run: port %s: driver %s, at most %u receive and %u transmit queues%s\n", name,
			info.driver_name, info.max_rx_queues, info.max_tx_queues, mtu);
	}
}

/* What a veth or its like may bring without checksums, before anybody looks for the reason. Own offloads that are off
 * mean that somebody has thought of it: then nothing is said of an end that cannot be seen. */
static void say_checksums(const struct sp_nic_config *c)
{
	char why[SP_CHECKSUMS_TEXT], todo[SP_CHECKSUMS_TEXT];
	struct sp_vdev_spec spec;

	for (unsigned i = 0; i < c->ports; i++) {
		const char *name = !c->port[i].device || sp_vdev_parse(c->port[i].device, &spec, NULL)
					   ? NULL
					   : sp_vdev_interface(&spec);
		const enum sp_checksums state = name ? sp_checksums(name, why, todo) : SP_CHECKSUMS_MADE;

		if (state == SP_CHECKSUMS_LEFT || (state == SP_CHECKSUMS_ABROAD && sp_kernel_leaves_checksums(name)))
			fprintf(stderr, "spindle run: port %s: %s: %s\n", c->port[i].device, why, todo);
	}
}

/* When the process ends at once: removes socket and lock, which would look like a running NIC. Async-signal-safe. */
static void abandon(void *arg)
{
	struct run *r = arg;
	struct stat st;

	if (r->claim.fd < 0) /* they are gone, or belong to another NIC by now */
		return;
	if (!lstat(r->path, &st) && S_ISSOCK(st.st_mode))
		unlink(r->path);
	unlink(r->claim.lock);
}

/* For the journal. The server tells at most one a second. */
static void refused(void *arg, const struct sp_refusal *x)
{
	(void)arg;
	fprintf(stderr, "spindle run: refused user %u (pid %u)%s%s: %s%s%s", x->uid, x->pid, *x->request ? ", " : "",
		x->request, x->key, *x->key && *x->text ? ": " : "", *x->text ? x->text : strerror(-x->status));
	if (x->others)
		fprintf(stderr, "; and %llu more since the last such line", (unsigned long long)x->others);
	fputc('\n', stderr);
}

static int start_nic(struct run *r)
{
	struct sp_error error = {.key = ""};

	r->nic_config.unpredictable = true; /* there are strangers on a real network */
	run_fault_set(&r->fault, &r->nic_config, r->path, abandon, r);
	if (sp_nic_create(&r->nic_config, &error, &r->nic))
		return fail("%s", error.text);
	if (r->verbose)
		say_ground();
	say_checksums(&r->nic_config);
	const struct fence_paths paths = {r->config, &r->nic_config, r->path, r->fault.path, r->eal, r->eal_count};
	int result = fence_rights(&r->fence, &paths);
	if (result)
		return result;
	/* Code that others wrote runs from here on, not before. */
	result = load_plugins(r);
	if (result)
		return result;
	if (sp_config_contexts(r->config, r->nic, &error))
		return fail("%s", error.text);
	result = sp_nic_start(r->nic);
	if (result)
		return fail("the workers do not start: %s", strerror(-result));
	result = fence_calls(&r->fence);
	if (result)
		return result;
	if (sp_telemetry_serve(r->nic)) /* the NIC runs without it */
		fail("no telemetry of our own: only DPDK's");
	r->server_config.refused = refused;
	r->server_config.path = r->path;
	r->server_config.claimed = true; /* command_run() has taken it */
	result = sp_server_start(r->nic, &r->server_config, &error, &r->server);
	return result ? fail("%s", *error.text ? error.text : strerror(-result)) : 0;
}

static size_t __attribute__((format(printf, 3, 4))) add(char *line, size_t used, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	int len = vsnprintf(line + used, READY_BYTES - used, format, list);
	va_end(list);
	return used + (size_t)len < READY_BYTES ? used + (size_t)len : READY_BYTES - 1;
}

/* The line that scripts wait for. */
static int say_ready(const struct run *r)
{
	const struct sp_nic_config *c = &r->nic_config;
	char line[READY_BYTES], state[READY_BYTES + 32], ip[46];
	size_t used = add(line, 0, "%s ready: ip ", c->name);

	for (unsigned i = 0; i < c->addresses; i++) {
		sp_format_ip(c->address[i].ip, ip);
		used = add(line, used, "%s%s/%u", i ? ", " : "", ip, c->address[i].prefix);
	}
	for (unsigned i = 0; i < c->ports; i++)
		used = add(line, used, "%s%s", i ? ", " : "; port ", c->port[i].device);
	add(line, used, "; mtu %u; workers %u; socket %s; pid %d", c->mtu ? c->mtu : 1500, sp_nic_workers(r->nic),
	    r->path, (int)getpid());
	if (printf("%s\n", line) < 0 || fflush(stdout))
		return fail("standard output: the ready line could not be written");
	snprintf(state, sizeof(state), "READY=1\nSTATUS=%s", line);
	notify(state);
	return 0;
}

/* ---- down ---- */
static void stop(struct run *r)
{
	if (r->nic)
		run_leave_start(&r->leave, r->nic, abandon, r);
	sp_server_stop(r->server); /* applications get -ENODEV from here on */
	if (r->nic) {
		sp_telemetry_end(r->nic);
		sp_nic_stop(r->nic);
		run_leave_stopped(&r->leave);
	}
	sp_nic_destroy(r->nic);
	run_leave_end(&r->leave);
	run_fault_close(&r->fault);
	sp_socket_lock_drop(&r->claim);
	sp_config_free(r->config);
}

int command_run(int argc, char **argv)
{
	static struct run r; /* static: a second signal may come in exit() */
	int status;

	r = (struct run){.claim.fd = -1, .fault.file = -1};
	status = arguments(&r, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	status = configuration(&r);
	if (!status)
		status = fence_as_user(&r.fence, take_lock, &r);
	if (!status && interrupt_start(abandon, &r))
		status = fail("no thread for signals");
	if (!status) {
		int out = output_redirect(STDERR_FILENO); /* standard output is for the ready line */

		raise_descriptors();
		status = start_eal(&r);
		if (!status)
			status = start_nic(&r);
		close(output_redirect(out));
		close(out);
	}
	if (!status)
		status = say_ready(&r);
	if (!status) {
		interrupt_wait();
		notify("STOPPING=1");
	}
	stop(&r);
	return status;
}
