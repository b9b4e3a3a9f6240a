/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spindle run: a NIC in a process of its own, for the applications that attach to it. Threads: the workers, the server,
 * the notifier, EAL's own, one that waits for signals, and the first, which starts all that, sleeps, and takes it down.
 */
#include <errno.h>
#include <getopt.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../pipeline/claim.h"
#include "../pipeline/config.h"
#include "command.h"
#include "interrupt.h"
#include "notify.h"
#include "output.h"
#include "run_fault.h"

static const char usage[] =
	"usage: spindle run -c FILE [OPTIONS] [-- EAL ARGUMENTS]\n"
	"\n"
	"Runs the NIC that FILE describes, for the programs that attach to it, until SIGINT or "
	"SIGTERM; a second one ends\n"
	"it at once. One line on standard output says that it is ready.\n"
	"  -c FILE      the configuration (see spindle-nic.ini(5))\n"
	"  --name NAME  of the NIC: programs attach by it (default: name of [nic], or spindle0)\n"
	"  -v           say what it runs on: memory, ports, drivers\n"
	"Exit status: 0 stopped by a signal, 1 failed, 2 wrong usage, 3 a handler crashed or did not "
	"come back.\n";

#define EAL_ARGUMENTS 48 /* of the user; some are added */
#define READY_BYTES   1024

struct run {
	const char *file;
	bool verbose;
	char **eal;
	int eal_count;
	struct sp_config *config;
	struct sp_nic_config nic_config;
	struct sp_server_config server_config;
	char path[128]; /* of the socket */
	struct sp_claim claim;
	struct sp_nic *nic;
	struct sp_server *server;
	struct run_fault fault;
	struct run_leave leave;
};

static int fail(const char *text)
{
	fprintf(stderr, "spindle run: %s\n", text);
	return 1;
}

static int misuse(const char *what, const char *about)
{
	fprintf(stderr, "spindle run: %s%s\n%s", what, about, usage);
	return 2;
}

/* ---- what is asked for ---- */
/* 0, or the exit status + 1. */
static int arguments(struct run *r, int argc, char **argv)
{
	static const struct option options[] = {
		{"name", required_argument, NULL, 'n'}, {"help", no_argument, NULL, 'h'}, {0}};
	const char *about, *what;
	int option;

	optind = 0; /* argv is not main()'s own */
	opterr = 0;
	while ((option = getopt_long(argc, argv, "+:c:hv", options, NULL)) != -1)
		switch (option) {
		case 'c':
			r->file = optarg;
			break;
		case 'n':
			if (!*optarg || strlen(optarg) >= sizeof(r->nic_config.name))
				return command_bad_value("run", "--name must be 1 to 31 letters, digits, _ . -",
							 optarg) +
				       1;
			snprintf(r->nic_config.name, sizeof(r->nic_config.name), "%s", optarg);
			break;
		case 'v':
			r->verbose = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			what = command_bad_option(option, argv, &about);
			return misuse(what, about) + 1;
		}
	if (!r->file)
		return misuse("which NIC? -c FILE is missing", "") + 1;
	if (optind < argc && strcmp(argv[optind - 1], "--"))
		return misuse("EAL arguments stand behind --, nothing else does: ", argv[optind]) + 1;
	r->eal = argv + optind;
	r->eal_count = argc - optind;
	if (r->eal_count > EAL_ARGUMENTS)
		return misuse("too many EAL arguments", "") + 1;
	return 0;
}

static int missing(const struct run *r, const char *what)
{
	char text[512];

	for (size_t i = 0; i < r->config->sections; i++)
		if (!strcmp(r->config->section[i].kind, "nic")) {
			snprintf(text, sizeof(text), "%s:%u: [nic] has no %s", r->file, r->config->section[i].line,
				 what);
			return fail(text);
		}
	snprintf(text, sizeof(text), "%s: there is no [nic] with a %s", r->file, what);
	return fail(text);
}

/* The file, the NIC's name, and where its socket will be. */
static int configuration(struct run *r)
{
	char name[sizeof(r->nic_config.name)], text[128];
	struct sp_error error = {.key = ""};

	memcpy(name, r->nic_config.name, sizeof(name));
	if (sp_config_read(r->file, &r->config, &error) || sp_config_nic(r->config, &r->nic_config, &error) ||
	    sp_config_server(r->config, &r->server_config, &error))
		return fail(error.text);
	if (!r->nic_config.ports)
		return missing(r, "port = DEVICE: nothing would come in");
	if (!r->nic_config.addresses)
		return missing(r, "ip = ADDRESS: nobody could send to it");
	if (*name)
		memcpy(r->nic_config.name, name, sizeof(name));
	else if (!*r->nic_config.name)
		snprintf(r->nic_config.name, sizeof(r->nic_config.name), "spindle0");
	int result = sp_socket_path(r->nic_config.name, true, r->path, sizeof(r->path));
	if (result == -EINVAL) {
		snprintf(text, sizeof(text), "'%s' is no name for a NIC: 1 to 31 letters, digits, _ . -",
			 r->nic_config.name);
		return fail(text);
	}
	if (r->server_config.path)
		snprintf(r->path, sizeof(r->path), "%s", r->server_config.path);
	else if (result) {
		snprintf(text, sizeof(text), "no path for the socket of %s: %s (socket = PATH in [nic] names one)",
			 r->nic_config.name, strerror(-result));
		return fail(text);
	}
	return 0;
}

/* ---- up ---- */
/* What [nic] names: for its own contexts, and for those that applications open. */
static int load_plugins(const struct run *r)
{
	struct sp_error error = {.key = ""};

	return sp_config_plugins(r->config, &error) ? fail(error.text) : 0;
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
	return sp_eal_init(count, eal, &error) ? fail(error.text) : 0;
}

/* An application costs some descriptors. */
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

	fprintf(stderr, "spindle run: memory %s; EAL's files in %s\n",
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

/* What is left when the process ends at once: the next NIC of this name would not mind them, but they look like a NIC.
 * Async-signal-safe. */
static void abandon(void *arg)
{
	struct run *r = arg;
	struct stat st;

	if (r->claim.fd < 0) /* they are gone, or another NIC's by now */
		return;
	if (!lstat(r->path, &st) && S_ISSOCK(st.st_mode))
		unlink(r->path);
	unlink(r->claim.lock);
}

static int start_nic(struct run *r)
{
	struct sp_error error = {.key = ""};
	char text[512];

	/* Nobody outside shall know how flows are spread over tables. */
	if (getrandom(&r->nic_config.secret, sizeof(r->nic_config.secret), 0) < 0)
		return fail("no random numbers");
	run_fault_set(&r->fault, &r->nic_config, r->path, abandon, r);
	if (sp_nic_create(&r->nic_config, &error, &r->nic) || sp_config_contexts(r->config, r->nic, &error))
		return fail(error.text);
	if (r->verbose)
		say_ground();
	int result = sp_nic_start(r->nic);
	if (result) {
		snprintf(text, sizeof(text), "the workers do not start: %s", strerror(-result));
		return fail(text);
	}
	if (sp_telemetry_serve(r->nic)) /* the NIC does without */
		fprintf(stderr, "spindle run: no telemetry of our own: only DPDK's\n");
	r->server_config.path = r->path;
	r->server_config.claimed = true; /* by ourselves, before there was anything else */
	result = sp_server_start(r->nic, &r->server_config, &error, &r->server);
	return result ? fail(*error.text ? error.text : strerror(-result)) : 0;
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
	sp_claim_drop(&r->claim);
	sp_config_free(r->config);
}

int command_run(int argc, char **argv)
{
	static struct run r; /* a second signal may come as late as in exit() */
	char text[512];
	int status;

	r = (struct run){.claim.fd = -1, .fault.file = -1};
	status = arguments(&r, argc, argv);
	if (status)
		return status - 1;
	status = configuration(&r);
	if (!status && sp_claim_take(&r.claim, r.path, !r.server_config.path, text, sizeof(text))) {
		fprintf(stderr, "spindle run: NIC %s: %s\n", r.nic_config.name, text);
		status = 1;
	}
	if (!status && interrupt_start(abandon, &r))
		status = fail("no thread for signals");
	if (!status) {
		int out = output_redirect(STDERR_FILENO); /* which is for the ready line */

		raise_descriptors();
		status = load_plugins(&r);
		if (!status)
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
