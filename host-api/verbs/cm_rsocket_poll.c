/* SPDX-License-Identifier: BSD-3-Clause */
/* rpoll() and rselect(): over rsockets and other descriptors. */
#include "cm_rsocket.h"

#include <sys/eventfd.h>
#include <sys/select.h>

struct entry {
	struct shim_rs *rs; /* NULL: no rsocket */
	struct shim_rs_watch watch;
};

/* ---- what a socket is ready for: the lock is held ---- */
static short ready(const struct shim_rs *rs, short events)
{
	short r = 0;

	switch (rs->state) {
	case SHIM_RS_OPEN:
	case SHIM_RS_BOUND:
		r = POLLOUT | POLLHUP; /* as TCP has it */
		break;
	case SHIM_RS_LISTENING:
		r = rs->requests ? POLLIN | POLLRDNORM : 0;
		break;
	case SHIM_RS_ENDED:
		/* What is left to read comes first: programs take POLLHUP for the end. */
		r = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | (rs->recv_bytes ? 0 : POLLHUP);
		break;
	case SHIM_RS_CONNECTED:
		if (rs->recv_bytes || !rs->peer_writes || !rs->reads)
			r |= POLLIN | POLLRDNORM;
		if (!rs->peer_writes)
			r |= POLLRDHUP;
		if (shim_rs_can_send(rs) || !rs->writes)
			r |= POLLOUT | POLLWRNORM;
		break;
	default:
		r = rs->recv_bytes ? POLLIN | POLLRDNORM : 0;
	}
	if (rs->error && !rs->recv_bytes)
		r |= POLLERR;
	return r & (events | POLLERR | POLLHUP);
}

static int look(struct entry *entries, struct pollfd *fds, nfds_t count)
{
	int n = 0;

	for (nfds_t i = 0; i < count; i++) {
		struct shim_rs *rs = entries[i].rs;

		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		shim_rs_progress(rs);
		fds[i].revents = ready(rs, fds[i].events);
		pthread_mutex_unlock(&rs->lock);
		n += fds[i].revents != 0;
	}
	return n;
}

/* ---- sleeping ---- */
/* Whether none is ready, now that the descriptors of all will tell. */
static bool begin_sleep(struct entry *entries, const struct pollfd *fds, nfds_t count, struct pollfd *all, int bell)
{
	bool quiet = true;

	for (nfds_t i = 0; i < count; i++) {
		struct shim_rs *rs = entries[i].rs;

		all[2 * i] = all[2 * i + 1] = (struct pollfd){.fd = -1};
		if (!rs) {
			all[2 * i] = (struct pollfd){.fd = fds[i].fd, .events = fds[i].events};
			continue;
		}
		pthread_mutex_lock(&rs->lock);
		shim_rs_arm(rs);
		quiet &= !ready(rs, fds[i].events);
		shim_rs_watch(rs, &entries[i].watch, bell);
		all[2 * i] = (struct pollfd){.fd = rs->fd, .events = POLLIN};
		if (rs->completions)
			all[2 * i + 1] = (struct pollfd){.fd = rs->completions->fd, .events = POLLIN};
		pthread_mutex_unlock(&rs->lock);
	}
	all[2 * count] = (struct pollfd){.fd = bell, .events = POLLIN};
	return quiet;
}

static void end_sleep(struct entry *entries, nfds_t count)
{
	for (nfds_t i = 0; i < count; i++) {
		struct shim_rs *rs = entries[i].rs;

		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		shim_rs_unwatch(&entries[i].watch);
		pthread_mutex_unlock(&rs->lock);
	}
}

/* Sleeps, and says which of the others are ready. -1: errno */
static int sleep_all(struct entry *entries, struct pollfd *fds, nfds_t count, struct pollfd *all, int timeout)
{
	const int bell = shim_rs_bell();
	int rc, error, cancel, n = 0;

	if (bell < 0)
		return -1;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	rc = poll(all, 2 * count + 1, begin_sleep(entries, fds, count, all, bell) ? timeout : 0);
	error = errno;
	end_sleep(entries, count);
	pthread_setcancelstate(cancel, NULL);
	if (rc < 0)
		return shim_cm_fail(error);
	for (nfds_t i = 0; i < count; i++) {
		if (entries[i].rs)
			continue;
		fds[i].revents = all[2 * i].revents;
		n += fds[i].revents != 0;
	}
	return n;
}

/* ---- all of it ---- */
static int poll_all(struct entry *entries, struct pollfd *fds, nfds_t count, struct pollfd *all, int timeout)
{
	const uint64_t start = shim_rs_now(), until = start + (uint64_t)(timeout > 0 ? timeout : 0) * 1000;

	for (bool slept = false;; slept = true) {
		uint64_t now;
		int others, n = 0;

		do {
			n = look(entries, fds, count);
			now = shim_rs_now();
		} while (!n && !slept && timeout && now < start + SHIM_RS_SPIN);
		others = sleep_all(entries, fds, count, all,
				   n || (timeout >= 0 && now >= until) ? 0
				   : timeout < 0		       ? -1
								       : (int)((until - now + 999) / 1000));
		if (others < 0)
			return -1;
		/* What has come meanwhile belongs to the same answer. */
		n = look(entries, fds, count) + others;
		if (n || (timeout >= 0 && shim_rs_now() >= until))
			return n;
	}
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct entry *entries = nfds ? calloc(nfds, sizeof(*entries)) : NULL;
	struct pollfd *all = nfds ? calloc(2 * nfds + 1, sizeof(*all)) : NULL;
	nfds_t sockets = 0;
	int rc = -1, error;

	if (nfds && (!entries || !all)) {
		error = ENOMEM;
		goto done;
	}
	for (nfds_t i = 0; i < nfds; i++) {
		entries[i].rs = shim_rs_find(fds[i].fd);
		if (entries[i].rs && entries[i].rs->generation != shim_cm.generation) {
			shim_rs_put_back(entries[i].rs); /* the parent's: nothing happens there */
			entries[i].rs = NULL;
		}
		sockets += entries[i].rs != NULL;
	}
	rc = sockets ? poll_all(entries, fds, nfds, all, timeout) : poll(fds, nfds, timeout);
	error = errno;
	for (nfds_t i = 0; i < nfds; i++)
		if (entries[i].rs)
			shim_rs_put_back(entries[i].rs);
done:
	free(entries);
	free(all);
	errno = error;
	return rc;
}

static short wanted(int fd, const fd_set *r, const fd_set *w, const fd_set *e)
{
	return (short)((r && FD_ISSET(fd, r) ? POLLIN : 0) | (w && FD_ISSET(fd, w) ? POLLOUT : 0) |
		       (e && FD_ISSET(fd, e) ? POLLPRI : 0));
}

static int keep(int fd, fd_set *set, short revents, short which)
{
	if (!set || !FD_ISSET(fd, set))
		return 0;
	if (revents & which)
		return 1;
	FD_CLR(fd, set);
	return 0;
}

int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	struct pollfd fds[FD_SETSIZE];
	nfds_t n = 0;
	int rc, bits = 0, ms = -1;

	if (nfds < 0 || nfds > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return shim_cm_fail(EINVAL);
	for (int fd = 0; fd < nfds; fd++) {
		const short events = wanted(fd, readfds, writefds, exceptfds);

		if (events)
			fds[n++] = (struct pollfd){.fd = fd, .events = events};
	}
	if (timeout)
		ms = timeout->tv_sec > INT32_MAX / 1000 - 1
			     ? INT32_MAX
			     : (int)(timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000);
	rc = rpoll(fds, n, ms);
	if (rc < 0)
		return -1;
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].revents & POLLNVAL)
			return shim_cm_fail(EBADF);
	for (nfds_t i = 0; i < n; i++) {
		bits += keep(fds[i].fd, readfds, fds[i].revents, POLLIN | POLLHUP | POLLERR);
		bits += keep(fds[i].fd, writefds, fds[i].revents, POLLOUT | POLLERR);
		bits += keep(fds[i].fd, exceptfds, fds[i].revents, POLLPRI);
	}
	return bits;
}
