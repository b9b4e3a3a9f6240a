/* SPDX-License-Identifier: BSD-3-Clause */
#include "session.h"
#include "../engine.h"
#include "../mem/freeing.h"
#include "../observe/watchdog.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int sp_session_open(struct sp_server *server, struct sp_session *s, int fd)
{
	struct ucred who = {.uid = UINT32_MAX};
	socklen_t len = sizeof(who);
	const int err = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) ? -errno : 0;

	*s = (struct sp_session){.fd = fd, .pid = (uint32_t)who.pid, .uid = who.uid};
	s->report.fd = s->report.file = -1;
	s->held = sp_freeing_hold(server->nic, s->uid, fd);
	if (err)
		sp_freeing_let_go(server->nic, s->held);
	return err;
}

bool sp_session_trusted(const struct sp_session *s)
{
	return s->uid == geteuid() || s->uid == 0;
}

int sp_session_pass(struct sp_server *server, struct sp_error *error)
{
	int rc;

	pthread_mutex_lock(&server->nic->control);
	rc = sp_watchdog_pass(server->nic, error);
	pthread_mutex_unlock(&server->nic->control);
	return rc;
}

bool sp_session_free(struct sp_server *server, const struct sp_session *s)
{
	return (!s->device && !s->capture) || !sp_session_pass(server, NULL);
}

void sp_session_forget(struct sp_server *server, struct sp_session *s)
{
	if (s->making.shared.base)
		sp_memory_unback(server->nic, &s->making);
	if (s->sealed.shared.base) /* charged is 0 for a capture's */
		sp_memory_unback(server->nic, &s->sealed);
	s->making.shared.base = s->sealed.shared.base = NULL;
	if (s->device)
		s->device->made = NULL;
	free(s->request);
	s->request = NULL;
	s->work = SP_WORK_NONE;
	s->handed = false;
	s->until = 0;
	if (s->device && !s->device->started) { /* a HELLO that did not come to its end */
		sp_dev_close(&s->device->pub);
		s->device = NULL;
		server->applications--;
	}
}

void sp_session_drop_report(struct sp_server *server, struct sp_session *s)
{
	if (s->report.base)
		sp_freeing_memory(server->nic, NULL, s->uid, &s->report, 0);
}

void sp_session_close(struct sp_server *server, struct sp_session *s)
{
	if (s->capture) {
		pthread_mutex_lock(&server->nic->control);
		sp_capture_close(server->nic, s->capture, s->uid);
		pthread_mutex_unlock(&server->nic->control);
	}
	sp_session_forget(server, s);
	if (s->device) {
		sp_dev_close(&s->device->pub);
		server->applications--;
	}
	sp_session_drop_report(server, s);
	sp_freeing_let_go(server->nic, s->held);
}
