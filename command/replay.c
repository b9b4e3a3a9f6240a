/* SPDX-License-Identifier: BSD-3-Clause */
/* spindle replay: a capture runs through a NIC in virtual time, each packet at its own time stamp. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../pipeline/config.h"
#include "../pipeline/report.h"
#include "../testbed/capture.h"
#include "../testbed/world.h"
#include "command.h"
#include "output.h"

#define AFTERMATH SP_SEC /* time after the last packet in which what was put off may still be done */
#define BUFFERS	  256	 /* --post options */

static const char usage[] =
	"usage: spindle replay -c nic.ini [--post CONTEXT=COUNT]... [--dump CONTEXT=FILE]... [-w OUT.pcap] [--json] "
	"IN.pcap\n"
	"\n"
	"Runs a capture (pcap or pcapng, Ethernet) through a NIC in virtual time, each packet at its own time stamp.\n"
	"  -c FILE               configuration of the NIC and its contexts\n"
	"  --post CONTEXT=COUNT  post COUNT receives of the maximum size first, one after the other in a zeroed "
	"buffer\n"
	"  --dump CONTEXT=FILE   write that buffer to FILE afterwards\n"
	"  -w FILE               write what the NIC sent (pcap, nanoseconds)\n"
	"  --json                the whole report, as JSON\n"
	"Exit status: 0 done, 1 something was wrong (a capture cut off is replayed up to the cut), 2 wrong usage.\n";

/* Receives posted for one context, in one buffer. A memfd, so that the kernel knows which pages were written. */
struct buffer {
	const char *context; /* len bytes of an argument */
	size_t len;
	uint64_t count, bytes;
	const char *dump; /* file, or NULL */
	int fd;
	void *base;
	uint32_t id; /* of the context */
	struct sp_mr *mr;
};

struct replay {
	const char *config_file, *capture_file, *sent_file;
	bool json;
	struct buffer buffer[BUFFERS];
	unsigned buffers;

	struct sp_config *config;
	struct sp_nic *nic;
	struct sp_dev *dev;
	struct sp_world *world;
	struct sp_capture_port port, sink;
	int status;
};

static void __attribute__((format(printf, 2, 3))) complain(struct replay *r, const char *format, ...)
{
	va_list ap;

	fflush(stdout); /* the report before what is wrong with it, also when both go to one place */
	fputs("spindle replay: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	r->status = 1;
}

/* ---- arguments ---- */
static int misuse(const char *what, const char *about)
{
	fprintf(stderr, "spindle replay: %s%s\n%s", what, about, usage);
	return 2;
}

static struct buffer *buffer_of(struct replay *r, const char *context, size_t len)
{
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].len == len && !memcmp(r->buffer[i].context, context, len))
			return &r->buffer[i];
	if (r->buffers == BUFFERS)
		return NULL;
	r->buffer[r->buffers] = (struct buffer){.context = context, .len = len, .fd = -1};
	return &r->buffer[r->buffers++];
}

static int argument_post(struct replay *r, const char *text)
{
	const char *equals = strchr(text, '=');
	struct buffer *b;
	uint64_t count;

	if (!equals || equals == text || sp_parse_uint(equals + 1, &count) || !count)
		return command_bad_value("replay", "--post takes CONTEXT=COUNT", text);
	b = buffer_of(r, text, (size_t)(equals - text));
	if (!b || b->count)
		return misuse(b ? "--post was given twice: " : "too many --post: ", text);
	b->count = count;
	return 0;
}

static int argument_dump(struct replay *r, const char *text)
{
	const char *equals = strchr(text, '=');
	struct buffer *b;

	if (!equals || equals == text || !equals[1])
		return command_bad_value("replay", "--dump takes CONTEXT=FILE", text);
	b = buffer_of(r, text, (size_t)(equals - text));
	if (!b || b->dump)
		return misuse(b ? "--dump was given twice: " : "too many --dump: ", text);
	b->dump = equals + 1;
	return 0;
}

/* 0, or the exit status + 1. */
static int arguments(struct replay *r, int argc, char **argv)
{
	static const struct option options[] = {{"post", required_argument, NULL, 'p'},
						{"dump", required_argument, NULL, 'd'},
						{"json", no_argument, NULL, 'j'},
						{"config", required_argument, NULL, 'c'},
						{"write", required_argument, NULL, 'w'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	const char *about, *what;
	int option, wrong = 0;

	optind = 0; /* GNU: start anew; argv[0] is the subcommand */
	opterr = 0;
	while (!wrong && (option = getopt_long(argc, argv, ":c:w:h", options, NULL)) != -1) {
		switch (option) {
		case 'p':
			wrong = argument_post(r, optarg);
			break;
		case 'd':
			wrong = argument_dump(r, optarg);
			break;
		case 'j':
			r->json = true;
			break;
		case 'c':
			r->config_file = optarg;
			break;
		case 'w':
			r->sent_file = optarg;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			what = command_bad_option(option, argv, &about);
			wrong = misuse(what, about);
		}
	}
	if (wrong)
		return wrong + 1;
	if (!r->config_file)
		return misuse("a configuration is needed: -c nic.ini", "") + 1;
	if (argc - optind != 1)
		return misuse(optind < argc ? "one capture at a time, not also " : "a capture is needed",
			      optind < argc ? argv[optind + 1] : "") +
		       1;
	r->capture_file = argv[optind];
	for (unsigned i = 0; i < r->buffers; i++)
		if (!r->buffer[i].count)
			return misuse("nothing is posted for --dump ", r->buffer[i].context) + 1;
	return 0;
}

/* ---- the NIC ---- */
static const struct sp_config_key *key_of(const struct sp_config_section *section, const char *name)
{
	for (size_t i = 0; i < section->keys; i++)
		if (!strcmp(section->key[i].name, name))
			return &section->key[i];
	return NULL;
}

/* Where a handler waits for credit from a peer (a parameter of that name), a capture has none to ask: it was given. */
static int credit_is_implicit(struct sp_config *config)
{
	for (size_t i = 0; i < config->sections; i++) {
		struct sp_config_section *section = &config->section[i];
		const struct sp_config_key *name = key_of(section, "handler");
		const struct sp_handler *handler = name ? sp_handler_find(name->value) : NULL;
		const struct sp_param *param = handler ? handler->params : NULL;
		struct sp_config_key *key;

		if (strcmp(section->kind, "context") || key_of(section, "credit"))
			continue;
		while (param && param->name && strcmp(param->name, "credit"))
			param++;
		if (!param || !param->name)
			continue;
		key = reallocarray(section->key, section->keys + 1, sizeof(*key));
		if (!key)
			return -ENOMEM;
		section->key = key;
		key += section->keys++; /* from here on sp_config_free() takes care of it */
		*key = (struct sp_config_key){
			.name = strdup("credit"), .value = strdup("implicit"), .line = section->line};
		if (!key->name || !key->value)
			return -ENOMEM;
	}
	return 0;
}

/* Opening an output would empty an input before it is read, or one output would end up in another. */
static bool outputs_collide(struct replay *r)
{
	for (unsigned i = 0; i <= r->buffers; i++) { /* the last: -w */
		const char *output = i < r->buffers ? r->buffer[i].dump : r->sent_file;
		const char *option = i < r->buffers ? "--dump" : "-w";

		if (!output)
			continue;
		if (output_destroys(output, r->capture_file)) {
			complain(r, "%s %s: that is the capture to read", option, output);
			return true;
		}
		if (output_destroys(output, r->config_file)) {
			complain(r, "%s %s: that is the configuration to read", option, output);
			return true;
		}
		for (unsigned k = 0; k < i; k++)
			if (r->buffer[k].dump && output_destroys(output, r->buffer[k].dump)) {
				complain(r, "%s %s: context %.*s is dumped to that file", option, output,
					 (int)r->buffer[k].len, r->buffer[k].context);
				return true;
			}
	}
	return false;
}

static int nic_open(struct replay *r)
{
	struct sp_nic_config *nic = calloc(1, sizeof(*nic));
	struct sp_error error = {.key = ""};
	int err = nic ? 0 : -ENOMEM;

	if (!err)
		err = sp_config_read(r->config_file, &r->config, &error);
	if (!err)
		err = credit_is_implicit(r->config);
	if (!err)
		err = sp_config_nic(r->config, nic, &error);
	if (!err)
		err = sp_eal_init(0, NULL, &error);
	if (!err)
		err = sp_capture_open(r->capture_file, nic->workers, &r->port.in, &error);
	if (!err && r->sent_file)
		err = sp_capture_create(r->sent_file, sp_capture_start(r->port.in), &r->port.out, &error);
	if (err)
		goto out;
	/* Ports named in the file belong to the real NIC. An exception port is one that takes everything. */
	memset(nic->port, 0, sizeof(nic->port));
	nic->ports = 1;
	nic->port[0] = (struct sp_port_config){.ops = &sp_capture_ops, .ops_arg = &r->port};
	for (unsigned i = 0; i < nic->addresses; i++) /* a capture is one port's */
		nic->address[i].port = 0;
	nic->gateway6_port = 0;
	if (nic->exception.device)
		nic->exception = (struct sp_port_config){.ops = &sp_capture_ops, .ops_arg = &r->sink};
	nic->any_source = true;
	err = sp_nic_create(nic, &error, &r->nic);
	if (err && *error.text) {
		complain(r, "%s: %s", r->config_file, error.text);
		free(nic);
		return err;
	}
	if (!err)
		err = sp_config_contexts(r->config, r->nic, &error);
	if (!err)
		err = sp_world_create(&r->world);
	if (!err)
		err = sp_world_add_nic(r->world, r->nic);
out:
	if (err)
		complain(r, "%s", *error.text ? error.text : strerror(-err));
	free(nic);
	return err;
}

/* ---- receives ---- */
static int buffer_post(struct replay *r, const struct buffer *b, uint64_t each)
{
	for (uint64_t k = 0; k < b->count; k++) {
		const struct sp_command command = {
			.op = SP_CMD_POST, .context = b->id, .cookie = k, .arg = {b->mr->id, k * each, each}};
		struct sp_event result = {0};
		int err = sp_command_call(r->dev, &command, &result);

		if (err) {
			char why[160] = "";

			/* Workers take packets at the same time: then nothing queues behind a message in progress. */
			if (err == -EAGAIN && sp_nic_workers(r->nic) > 1)
				snprintf(why, sizeof(why),
					 " (with workers = %u at most max-messages receives can be posted; "
					 "with workers = 1 and credit = implicit, the default here, more)",
					 sp_nic_workers(r->nic));
			complain(r, "--post %s: receive %llu of %llu was refused: %s%s", b->context,
				 (unsigned long long)k + 1, (unsigned long long)b->count, strerror(-err), why);
			return err;
		}
	}
	return 0;
}

static int buffer_open(struct replay *r, struct buffer *b)
{
	char name[64];
	uint64_t each;
	int err;

	snprintf(name, sizeof(name), "%.*s", (int)b->len, b->context);
	if (b->len >= sizeof(name) || sp_nic_context_find(r->nic, name, &b->id)) {
		complain(r, "--post %s: %s has no [context %s]", b->context, r->config_file, name);
		return -ENOENT;
	}
	each = sp_nic_context_post_bytes(r->nic, b->id);
	if (!each) {
		complain(r, "--post %s: the handler of that context takes no buffers", b->context);
		return -EOPNOTSUPP;
	}
	if (__builtin_mul_overflow(each, b->count, &b->bytes) || b->bytes > INT64_MAX) {
		complain(r, "--post %s: %llu buffers of %llu bytes are more than there can be", b->context,
			 (unsigned long long)b->count, (unsigned long long)each);
		return -EOVERFLOW;
	}
	b->fd = memfd_create("spindle-replay", MFD_CLOEXEC);
	if (b->fd >= 0 && !ftruncate(b->fd, (off_t)b->bytes))
		b->base = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, b->fd, 0);
	if (!b->base || b->base == MAP_FAILED) {
		err = -errno;
		b->base = NULL;
		complain(r, "--post %s: %llu bytes of memory: %s", b->context, (unsigned long long)b->bytes,
			 strerror(-err));
		return err;
	}
	err = sp_mr_reg(r->dev, b->base, b->bytes, &b->mr);
	if (err) {
		complain(r, "--post %s: registering %llu bytes: %s%s", b->context, (unsigned long long)b->bytes,
			 strerror(-err), err == -EDQUOT ? " (memory-limit in [nic])" : "");
		return err;
	}
	return buffer_post(r, b, each);
}

static bool write_all(int fd, const uint8_t *bytes, uint64_t len, off_t at)
{
	while (len) {
		ssize_t n = pwrite(fd, bytes, len < (1u << 30) ? len : 1u << 30, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO;
			return false;
		}
		bytes += n;
		at += n;
		len -= (uint64_t)n;
	}
	return true;
}

/* What was never written stays a hole: gigabytes of receives with little in them take little disk. */
static bool write_sparse(int out, const struct buffer *b)
{
	struct stat st;
	off_t data = 0, hole;

	if (fstat(out, &st))
		return false;
	if (!S_ISREG(st.st_mode)) { /* a pipe or a device: in one piece */
		for (uint64_t at = 0; at < b->bytes;) {
			ssize_t n = write(out, (const uint8_t *)b->base + at,
					  b->bytes - at < (1u << 30) ? b->bytes - at : 1u << 30);

			if (n < 0 && errno != EINTR)
				return false;
			at += n > 0 ? (uint64_t)n : 0;
		}
		return true;
	}
	if (ftruncate(out, (off_t)b->bytes))
		return false;
	while ((data = lseek(b->fd, data, SEEK_DATA)) >= 0) {
		hole = lseek(b->fd, data, SEEK_HOLE);
		if (hole < 0 || !write_all(out, (const uint8_t *)b->base + data, (uint64_t)(hole - data), data))
			return false;
		data = hole;
	}
	return errno == ENXIO; /* no more data */
}

static void buffer_dump(struct replay *r, const struct buffer *b)
{
	int fd = open(b->dump, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	if (fd < 0) {
		complain(r, "%s: %s", b->dump, strerror(errno));
		return;
	}
	if (!write_sparse(fd, b)) {
		complain(r, "%s: %s; the file is incomplete", b->dump, strerror(errno));
		close(fd);
		return;
	}
	if (close(fd))
		complain(r, "%s: %s", b->dump, strerror(errno));
}

/* ---- the report ---- */
static void print_value(const json_t *value)
{
	if (json_is_string(value))
		printf("%s", json_string_value(value));
	else if (json_is_integer(value))
		printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		printf("%.0f", json_real_value(value));
	else
		printf("%s", json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "-");
}

static bool is_plain(const json_t *value)
{
	return !json_is_object(value) && !json_is_array(value);
}

/* Objects of plain values inside a list become the rows of a table. */
static void print_rows(json_t *list, int indent)
{
	json_t *row, *value;
	const char *name;
	size_t i;

	json_array_foreach(list, i, row)
	{
		const char *gap = "";

		printf("%*s", indent, "");
		if (is_plain(row))
			print_value(row);
		else
			json_object_foreach(row, name, value)
			{
				printf("%s%s ", gap, name);
				if (is_plain(value))
					print_value(value);
				else
					printf("(%zu)",
					       json_is_array(value) ? json_array_size(value) : json_object_size(value));
				gap = "  ";
			}
		putchar('\n');
	}
}

static void print_tree(json_t *object, int indent)
{
	const char *name;
	json_t *value;

	json_object_foreach(object, name, value)
	{
		if (is_plain(value)) {
			printf("%*s%-*s ", indent, "", 24 - indent, name);
			print_value(value);
			putchar('\n');
		} else if (json_is_array(value) ? json_array_size(value) : json_object_size(value)) {
			printf("%*s%s\n", indent, "", name);
			if (json_is_array(value))
				print_rows(value, indent + 2);
			else
				print_tree(value, indent + 2);
		}
	}
}

static void report(struct replay *r)
{
	struct sp_report *report = sp_report_new();
	struct sp_capture_counters in;
	json_t *tree = NULL;
	char *text = NULL;

	if (report) {
		sp_capture_count(r->port.in, &in);
		sp_nic_report(r->nic, report);
		sp_report_open(report, "capture", false);
		sp_report_uint(report, "packets", in.packets);
		sp_report_uint(report, "snapped", in.snapped);
		sp_report_uint(report, "backwards", in.backwards);
		sp_report_uint(report, "oversized", in.oversized);
		sp_report_close(report);
		text = sp_report_finish(report);
	}
	if (text && !r->json)
		tree = json_loads(text, 0, NULL);
	if (!text || (!r->json && !tree))
		complain(r, "the report could not be made: out of memory, or a handler reports out of order");
	else if (r->json)
		puts(text);
	else
		print_tree(tree, 0);
	json_decref(tree);
	free(text);
	if (fflush(stdout) || ferror(stdout))
		complain(r, "standard output: %s", strerror(errno));
}

/* ---- the run ---- */
static bool capture_over(void *arg)
{
	return sp_capture_ended(((struct replay *)arg)->port.in);
}

static void run(struct replay *r)
{
	struct sp_error error = {.key = ""};
	int err = sp_nic_dev(r->nic, false, &r->dev);

	if (err) {
		complain(r, "%s", strerror(-err));
		return;
	}
	for (unsigned i = 0; i < r->buffers; i++)
		if (buffer_open(r, &r->buffer[i]))
			return;
	err = sp_world_run(r->world, SP_NEVER, capture_over, r);
	if (err >= 0)
		err = sp_world_run(r->world, sp_world_now(r->world) + AFTERMATH, NULL, NULL);
	if (err < 0)
		complain(r,
			 "virtual time stands still at %.9f s: a timer that is always due, or no packet buffers left",
			 (double)sp_world_now(r->world) / (double)SP_SEC);
	report(r);
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].dump)
			buffer_dump(r, &r->buffer[i]);
	if (sp_capture_status(r->port.in, &error))
		complain(r, "%s", error.text);
}

static void finish(struct replay *r)
{
	struct sp_error error = {.key = ""};

	sp_world_destroy(r->world);
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].mr) { /* the context holds receives in it, and goes first */
			sp_nic_context_remove(r->nic, r->buffer[i].id);
			sp_mr_free(r->buffer[i].mr);
		}
	if (r->dev)
		sp_dev_close(r->dev);
	sp_nic_destroy(r->nic);
	for (unsigned i = 0; i < r->buffers; i++) { /* after the NIC: it may write to them to the last */
		if (r->buffer[i].base)
			munmap(r->buffer[i].base, r->buffer[i].bytes);
		if (r->buffer[i].fd >= 0)
			close(r->buffer[i].fd);
	}
	if (r->port.out && sp_capture_finish(r->port.out, &error))
		complain(r, "%s", error.text);
	sp_capture_close(r->port.in);
	sp_config_free(r->config);
}

int command_replay(int argc, char **argv)
{
	struct replay r = {.status = 0};
	int over = arguments(&r, argc, argv);

	if (over)
		return over - 1;
	if (!outputs_collide(&r) && !nic_open(&r))
		run(&r);
	finish(&r);
	return r.status;
}
