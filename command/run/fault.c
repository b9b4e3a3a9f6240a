/* SPDX-License-Identifier: BSD-3-Clause */
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../pipeline/plugin.h"
#include "../pcapng.h"
#include "../output.h"

#define MOST_FAULTS 256		  /* at most so many faults in the file: a faulty handler must not fill a disk */
#define MOST_BYTES  (16u << 20)	  /* at most so many bytes of frames in it */
#define PATIENCE    (2 * SP_SEC)  /* with a stopped worker, at the end of the NIC */
#define DETACH	    (30 * SP_SEC) /* for removing contexts after the workers have ended: large tables take time */

/* ---- faults ---- */

static FILE *open_file(struct run_fault *f)
{
	/* Only for this user, as it holds others' packets; a symbolic link must not redirect it. */
	int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");

	if (!file && fd >= 0)
		close(fd);
	if (file && (pcapng_begin(file, "spindle run") || pcapng_interface(file, "faults", 0))) {
		fclose(file);
		file = NULL;
	}
	return file;
}

static int write_frames(struct run_fault *f, const struct sp_fault *fault, const char *text)
{
	struct timespec now;
	char comment[240];

	clock_gettime(CLOCK_REALTIME, &now);
	for (unsigned i = 0; i < fault->frames; i++) {
		struct pcapng_packet packet = {.time = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
					       .captured = fault->frame_len[i],
					       .length = fault->frame_len[i],
					       .frame = fault->frame[i],
					       .queue = fault->worker,
					       .comment = comment};
		int result;

		snprintf(comment, sizeof(comment), "%s%s", text, i ? " (waits behind it)" : "");
		result = pcapng_packet(f->file, &packet);
		if (result)
			return result;
		f->bytes += fault->frame_len[i];
	}
	return fflush(f->file) ? -errno : 0;
}

/* What becomes of the frames, for the message. */
static void keep(struct run_fault *f, const struct sp_fault *fault, const char *text, char *where, size_t room)
{
	int result;

	*where = '\0';
	if (!fault->frames || f->over)
		return;
	if (!f->file && !(f->file = open_file(f))) {
		snprintf(where, room, "; %s: %s", f->path, strerror(errno));
		f->over = true;
		return;
	}
	if (f->faults == MOST_FAULTS || f->bytes >= MOST_BYTES) {
		snprintf(where, room, "; %s is full", f->path);
		f->over = true;
		return;
	}
	f->faults++;
	result = write_frames(f, fault, text);
	if (result) {
		snprintf(where, room, "; %s: %s", f->path, strerror(-result));
		f->over = true;
		return;
	}
	snprintf(where, room, "; %u packet%s in %s", fault->frames, fault->frames == 1 ? "" : "s", f->path);
}

static void on_fault(void *arg, const struct sp_fault *fault)
{
	char text[200], where[400];

	snprintf(text, sizeof(text), "worker %u has been in %s() of handler %s, context %s, for %u ms and %s",
		 fault->worker, fault->function, fault->handler, fault->context, (unsigned)(fault->since / SP_MS),
		 fault->runs ? "runs" : "waits");
	keep(arg, fault, text, where, sizeof(where));
	command_fail("run", "%s%s", text, where);
}

void run_fault_set(struct run_fault *f, struct sp_nic_config *config, const char *socket)
{
	const char *slash = strrchr(socket, '/');

	if (config->fault_capture)
		snprintf(f->path, sizeof(f->path), "%s", config->fault_capture);
	else
		snprintf(f->path, sizeof(f->path), "%.*s%s-faults.pcapng", slash ? (int)(slash + 1 - socket) : 0,
			 socket, config->name);
	config->fault = on_fault;
	config->fault_arg = f;
}

void run_fault_close(struct run_fault *f)
{
	if (f->file)
		fclose(f->file);
	f->file = NULL;
}

/* ---- the end ---- */

static void leave(struct run_leave *l, const char *why)
{
	command_fail("run", "%s: ended without waiting for it", why);
	l->abandon(l->arg);
	_exit(1);
}

/* How long the NIC's end has been delayed by a call that does not return. The NIC must exist meanwhile. */
static sp_time looked(struct run_leave *l, sp_time *since, char *text, size_t room)
{
	const sp_time now = sp_clock();

	pthread_mutex_lock(&l->lock);
	if (!l->stopped && !sp_nic_stopped(l->nic, text, room) && !sp_plugin_stuck(text, room))
		*since = now;
	pthread_mutex_unlock(&l->lock);
	return now - *since;
}

static bool flag(struct run_leave *l, const bool *which)
{
	pthread_mutex_lock(&l->lock);
	const bool set = *which;
	pthread_mutex_unlock(&l->lock);
	return set;
}

static void *watch(void *arg)
{
	const struct timespec pause = {.tv_nsec = 50000000};
	struct run_leave *l = arg;
	sp_time since = sp_clock();
	char text[256];

	while (!flag(l, &l->stopped)) {
		if (looked(l, &since, text, sizeof(text)) > PATIENCE)
			leave(l, text);
		nanosleep(&pause, NULL);
	}
	for (since = sp_clock(); !flag(l, &l->ended); nanosleep(&pause, NULL))
		if (sp_clock() - since > DETACH)
			leave(l, "a handler's detach() does not come back");
	/* exit() runs destructors of plug-ins that are still loaded; normally exit() ends this thread. */
	for (since = sp_clock(); sp_clock() - since < DETACH; nanosleep(&pause, NULL))
		;
	leave(l, "a plug-in's destructor does not come back");
	return NULL;
}

void run_leave_start(struct run_leave *l, struct sp_nic *nic, void (*abandon)(void *arg), void *arg)
{
	l->nic = nic;
	l->abandon = abandon;
	l->arg = arg;
	l->stopped = l->ended = false;
	pthread_mutex_init(&l->lock, NULL);
	l->started = !pthread_create(&l->thread, NULL, watch, l);
}

static void set(struct run_leave *l, bool *which)
{
	pthread_mutex_lock(&l->lock);
	*which = true;
	pthread_mutex_unlock(&l->lock);
}

void run_leave_stopped(struct run_leave *l)
{
	if (l->started)
		set(l, &l->stopped);
}

void run_leave_end(struct run_leave *l)
{
	if (!l->started)
		return;
	pthread_detach(l->thread);
	set(l, &l->ended);
	l->started = false;
}
