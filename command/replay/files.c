/* SPDX-License-Identifier: BSD-3-Clause */
#include "files.h"
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../../testbed/packet_number.h"
#include "../../testbed/records.h"
#include "../output.h"

/* ---- files that must not be overwritten ---- */

struct named {
	const char *file, *option;
};

/* Returns how many. */
static unsigned outputs(const struct replay *r, struct named *to)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].dump)
			to[n++] = (struct named){r->buffer[i].dump, "--dump"};
	if (r->sent_file)
		to[n++] = (struct named){r->sent_file, "-w"};
	if (r->trace_file)
		to[n++] = (struct named){r->trace_file, "--trace"};
	return n;
}

static unsigned inputs(const struct replay *r, struct named *to)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->captures; i++)
		to[n++] = (struct named){r->capture_file[i],
					 r->captures > 1 ? "that is a capture to read" : "that is the capture to read"};
	if (r->config_file)
		to[n++] = (struct named){r->config_file, "that is the configuration to read"};
	if (r->expect_file)
		to[n++] = (struct named){r->expect_file, "that is what --expect is to read"};
	for (unsigned i = 0; i < SP_MAX_PORTS; i++)
		if (r->expect_port[i])
			to[n++] = (struct named){r->expect_port[i], "that is what --expect is to read"};
	if (r->expect_json)
		to[n++] = (struct named){r->expect_json, "that is what --expect-json is to read"};
	for (unsigned i = 0; i < r->plugins; i++)
		to[n++] = (struct named){r->plugin_file[i], "that is a plug-in to load"};
	for (unsigned i = 0; i < r->buffers; i++)
		if (r->buffer[i].expect)
			to[n++] = (struct named){r->buffer[i].expect, "that is what --expect-memory is to read"};
	return n;
}

bool replay_outputs_collide(struct replay *r)
{
	struct named out[REPLAY_BUFFERS + 2], in[REPLAY_BUFFERS + REPLAY_PLUGINS + 2 * SP_MAX_PORTS + 3];
	const unsigned outs = outputs(r, out), ins = inputs(r, in);

	for (unsigned i = 0; i < outs; i++) {
		for (unsigned k = 0; k < ins; k++)
			if (output_destroys(out[i].file, in[k].file)) {
				replay_complain(r, "%s %s: %s", out[i].option, out[i].file, in[k].option);
				return true;
			}
		for (unsigned k = 0; k < i; k++)
			if (output_destroys(out[i].file, out[k].file)) {
				replay_complain(r, "%s %s: %s %s is written to that file", out[i].option, out[i].file,
						out[k].option, out[k].file);
				return true;
			}
	}
	return false;
}

/* ---- capture and recording ---- */
/* --expect without -w compares with a recording that has no name. */
static const char *recording_open(struct replay *r, char *path, size_t room)
{
	if (r->sent_file || !replay_expects_packets(r))
		return r->sent_file;
	r->recording = memfd_create("spindle-replay", MFD_CLOEXEC);
	snprintf(path, room, "/proc/self/fd/%d", r->recording);
	return path;
}

/* The capture of a port: its own file; of the only one, the interface of its number; or none. */
static int capture_open(struct replay *r, unsigned port, uint16_t queues, struct sp_error *error)
{
	const bool shared = r->captures == 1 && r->ports > 1;
	struct sp_pcap **in = &r->port[port].in;
	int err;

	if (port >= r->captures && !shared)
		return 0;
	err = sp_pcap_open_interface(r->capture_file[shared ? 0 : port], shared ? (int)port : SP_RECORDS_ALL, queues,
				     in, error);
	return err ? err : sp_pcap_pace(*in, &r->pace, error);
}

static int captures_open(struct replay *r, uint16_t queues, struct sp_error *error)
{
	struct sp_pcap *in[SP_MAX_PORTS];
	unsigned n = 0;
	int err = 0;

	for (unsigned i = 0; i < r->ports && !err; i++) {
		err = capture_open(r, i, queues, error);
		if (!err && r->port[i].in)
			in[n++] = r->port[i].in;
	}
	if (!err && n > 1)
		err = sp_pcap_join(in, n, error);
	if (!err)
		r->start = sp_pcap_start(in[0]);
	return err;
}

static int out_open(struct replay *r, const char *file, struct sp_error *error)
{
	int err;

	if (r->ports > 1)
		err = sp_pcap_create_ports(file, r->start, r->ports, &r->out, error);
	else
		err = sp_pcap_create(file, r->start, &r->out, error);
	for (unsigned i = 0; i < r->ports && !err; i++) {
		r->port[i].out = r->out;
		r->port[i].interface = i;
	}
	return err;
}

int replay_files_open(struct replay *r, uint16_t queues)
{
	struct sp_error error = {.key = ""};
	char path[64];
	const char *recording;
	struct stat st;
	int err = captures_open(r, queues, &error);

	if (!err) {
		recording = recording_open(r, path, sizeof(path));
		if (recording)
			err = out_open(r, recording, &error);
	}
	if (!err && r->sent_file && replay_expects_packets(r) && (stat(r->sent_file, &st) || !S_ISREG(st.st_mode))) {
		err = -EINVAL;
		snprintf(error.text, sizeof(error.text), "-w %.160s: no regular file, and --expect is to read it again",
			 r->sent_file);
	}
	if (err)
		replay_complain(r, "%s", *error.text ? error.text : strerror(-err));
	return err;
}

/* ---- the trace ---- */
static uint64_t number_of(const struct sp_packet *p)
{
	return sp_packet_number(p->buf);
}

int replay_trace_open(struct replay *r)
{
	int err;

	if (!r->trace_asked)
		return 0;
	r->trace_out = r->trace_file ? fopen(r->trace_file, "we") : stdout;
	if (!r->trace_out) {
		err = -errno;
		replay_complain(r, "%s: %s", r->trace_file, strerror(-err));
		return err;
	}
	err = sp_trace_log_create(r->trace_out, r->json, &r->trace);
	if (!err) {
		sp_trace_log_number(r->trace, number_of);
		if (r->ports > 1)
			sp_trace_log_ports(r->trace);
		replay_device_trace(r);
		err = sp_trace_log_add(r->trace, r->nic);
	}
	if (err)
		replay_complain(r, "--trace: %s", strerror(-err));
	return err;
}

void replay_trace_close(struct replay *r)
{
	int err = r->trace ? sp_trace_log_finish(r->trace) : 0;

	if (r->trace_file && r->trace_out && fclose(r->trace_out) && !err)
		err = errno ? -errno : -EIO;
	r->trace_out = NULL;
	if (err)
		replay_complain(r, "%s: %s", r->trace_file ? r->trace_file : "standard output", strerror(-err));
	sp_trace_log_destroy(r->trace);
	r->trace = NULL;
}
