/* SPDX-License-Identifier: BSD-3-Clause */
#include "transfer.h"
#include "../../handlers/wire/ec.h"
#include "../../host-api/attach.h"
#include "../nic_error.h"
#include "hasher.h"
#include "words.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The code of the SDR paper. */
#define CODE_K 32u
#define CODE_M 8u
#define AUTO_M 16u /* of auto's largest code */

/* ---- stopping ---- */
static volatile sig_atomic_t stopped;
static sigset_t outside; /* the signal mask during waits */

static void stop(int number)
{
	stopped = number;
}

void transfer_signals(void)
{
	static const int number[] = {SIGINT, SIGTERM, SIGHUP};
	const struct sigaction action = {.sa_handler = stop};
	sigset_t set;

	sigemptyset(&set);
	for (unsigned i = 0; i < sizeof(number) / sizeof(*number); i++) {
		struct sigaction before;

		if (!sigaction(number[i], NULL, &before) && before.sa_handler == SIG_IGN) /* nohup */
			continue;
		sigaction(number[i], &action, NULL);
		sigaddset(&set, number[i]);
	}
	sigprocmask(SIG_BLOCK, &set, &outside);
}

bool transfer_stopped(void)
{
	sigset_t pending;

	/* A busy transfer may never wait, so it looks for pending signals. */
	return stopped ||
	       (!sigpending(&pending) && (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
					  sigismember(&pending, SIGHUP) == 1));
}

/* ---- errors ---- */
int transfer_fail(struct transfer *t, const char *format, ...)
{
	va_list args;

	if (*t->error)
		return -1;
	va_start(args, format);
	vsnprintf(t->error, sizeof(t->error), format, args);
	va_end(args);
	return -1;
}

int transfer_nic_fail(struct transfer *t, const char *what, int rc)
{
	const char *nic = t->nic ? t->nic : "that we use";

	if (rc == -ENODEV)
		return transfer_fail(t, "the NIC %s has gone", nic);
	if (rc == -ECONNABORTED && t->dev && sp_progress(t->dev, sp_clock()) == rc) /* else it is the peer */
		return transfer_fail(t, "the NIC %s has died", nic);
	if (rc == -ECONNRESET)
		return transfer_fail(t, "the NIC %s has ended our context", nic);
	return transfer_fail(t, "%s: %s", what, strerror(-rc));
}

/* ---- the NIC ---- */
int transfer_attach(struct transfer *t)
{
	const int rc = sp_attach(t->nic, &t->dev);

	if (!rc)
		return 0;
	t->dev = NULL;
	if (!*t->error)
		command_nic_error(t->nic, rc, t->error, sizeof(t->error));
	return -1;
}

void transfer_payload(struct transfer *t, uint64_t payload[2])
{
	static const int family[2] = {AF_INET, AF_INET6};
	uint8_t ip[16];

	for (unsigned i = 0; i < 2; i++)
		payload[i] = sp_dev_address(t->dev, family[i], ip) ? 0 : sp_dev_payload(t->dev, family[i]);
}

/* With erasure codes, messages come in pairs, and the parity of a short message is longer than the message. */
static void open_code(struct transfer *t, enum sdr_reliable_scheme scheme, struct sdr_qp_attr *attr)
{
	uint64_t parity;

	if (scheme != SDR_EC_MDS && scheme != SDR_EC_XOR && scheme != SDR_AUTO)
		return;
	attr->ec = (struct sdr_ec){scheme == SDR_EC_XOR ? SDR_CODE_XOR : SDR_CODE_MDS, CODE_K,
				   scheme == SDR_AUTO ? AUTO_M : CODE_M};
	attr->max_messages *= 2;
	t->coded = true;
	parity = sp_ec_parity_bytes(CODE_K, attr->ec.m, t->message, t->chunk);
	attr->max_message_bytes = parity > t->message ? parity : t->message;
}

int transfer_open(struct transfer *t, bool sends, uint64_t rate)
{
	struct sdr_qp_attr attr = {
		.mtu = t->mtu,
		.chunk_bytes = t->chunk,
		.max_message_bytes = t->message,
		.max_messages = (uint32_t)t->window,
		/* The library paces chunks at `rate`. The NIC paces the packets of a chunk a little faster. */
		.rate_bps = rate + rate / 4,
		.no_send = !sends,
		.no_recv = sends,
		.family = t->family,
	};
	const struct sdr_reliable_attr reliable = {
		.scheme = (enum sdr_reliable_scheme)sdr_reliable_scheme(t->scheme),
		.rtt = talk_round_trip(t->talk),
		.timeout = SP_NEVER, /* of a message; this file watches the progress of the transfer */
		.rate_bps = rate,
	};
	struct sp_error error = {.key = ""};
	int rc = sdr_context_create(t->dev, NULL, &t->context);

	open_code(t, reliable.scheme, &attr);
	if (!rc)
		rc = sdr_qp_create(t->context, &attr, &t->qp, &error);
	if (rc) {
		t->qp = NULL;
		if (*error.text)
			return transfer_fail(t, "%s%s%s", error.key, *error.key ? ": " : "", error.text);
		return transfer_nic_fail(t, "a QP of the NIC", rc);
	}
	if (sends && reliable.scheme == SDR_AUTO)
		t->chosen.codes = sdr_ec_codes(t->qp, t->chosen.code);
	rc = sdr_reliable_open(t->qp, &reliable, &t->reliable);
	if (rc)
		return transfer_nic_fail(t, "sdr_reliable_open", rc);
	t->stride = (t->message + 63) & ~63ull;
	rc = sdr_mr_alloc(t->context, t->window * t->stride, &t->mr);
	if (rc) {
		t->mr = NULL;
		if (rc != -EDQUOT && rc != -ENOMEM)
			return transfer_nic_fail(t, "memory", rc);
		return transfer_fail(t, "the NIC refuses %llu bytes of memory (%s)",
				     (unsigned long long)(t->window * t->stride),
				     rc == -EDQUOT ? "memory in [limits]" : "memory-limit in [nic]");
	}
	return 0;
}

void transfer_cut(struct transfer *t, uint64_t from)
{
	t->from = t->done = from;
	t->messages = t->size > from ? (t->size - from - 1) / t->message + 1 : 0;
}

int transfer_connect(struct transfer *t, const json_t *line, const char *key)
{
	const char *what;
	int rc;

	if (talk_bytes(line, key, &t->peer, sizeof(t->peer), sizeof(t->peer), NULL))
		return transfer_fail(t, "protocol error: no %s", key);
	what = sdr_qp_mismatch(t->qp, &t->peer);
	if (what)
		return transfer_fail(t, "the two ends do not fit: they differ in %s", what);
	rc = sdr_qp_connect(t->qp, &t->peer);
	if (rc == -EMSGSIZE)
		return transfer_fail(t, "mtu: %u is more than the NIC's port carries", t->mtu);
	return rc ? transfer_nic_fail(t, "connecting", rc) : 0;
}

/* ---- the peer ---- */
int transfer_tell(struct transfer *t, json_t *line)
{
	const int rc = talk_say(t->talk, line);

	return rc ? transfer_fail(t, rc == -ENOBUFS ? "it does not read our lines" : "out of memory") : 0;
}

int transfer_listen(struct transfer *t, json_t **line)
{
	const sp_time now = sp_clock();
	int rc;

	talk_pump(t->talk, now);
	while ((rc = talk_take(t->talk, line)) == 1) {
		const char *error = json_string_value(json_object_get(*line, "error"));

		if (error) {
			transfer_fail(t, "it says: %.300s", error);
			talk_clean(t->error);
			t->peer_said = true;
			json_decref(*line);
			return -1;
		}
		if (!json_object_get(*line, "alive"))
			return 1;
		json_decref(*line);
	}
	*line = NULL;
	if (rc == -ECONNRESET) {
		t->peer_said = true;
		return transfer_fail(t, "it has closed the connection before the end");
	}
	if (rc)
		return transfer_fail(t, rc == -EMSGSIZE ? "protocol error: a line without end"
							: "protocol error: not JSON");
	if (now > t->talk->heard && now - t->talk->heard > TALK_SILENCE)
		return transfer_fail(t, "nothing heard from it for %u s", (unsigned)(TALK_SILENCE / SP_SEC));
	return 0;
}

int transfer_await(struct transfer *t, sp_time patience, json_t **line)
{
	sp_time start = sp_clock();
	uint64_t checked = 0;

	for (;;) {
		int rc = transfer_listen(t, line);

		if (rc == 1 && json_object_get(*line, "checked")) {
			rc = talk_uint(*line, "checked", checked + 1, INT64_MAX, &checked);
			json_decref(*line);
			if (rc)
				return transfer_fail(t, "protocol error: it checks without end");
			start = sp_clock();
			continue;
		}
		if (rc)
			return rc < 0 ? -1 : 0;
		if (sp_clock() - start >= patience)
			return transfer_fail(t, "it makes no progress for %u s", (unsigned)(patience / SP_SEC));
		if (transfer_look(t) || transfer_sleep(t, sp_clock() + SP_SEC))
			return -1;
	}
}

/* ---- waiting ---- */
int transfer_look(struct transfer *t)
{
	struct sdr_qp_status status = {.error = 0};
	int rc = sp_progress(t->dev, sp_clock());

	if (transfer_stopped())
		return transfer_fail(t, "interrupted");
	if (rc < 0)
		return transfer_nic_fail(t, "the NIC", rc);
	if (!t->qp)
		return 0;
	rc = t->reliable ? sdr_reliable_progress(t->reliable, sp_clock()) : 0;
	sdr_qp_status(t->qp, &status);
	if (status.peer_restarted)
		return transfer_fail(t, "its NIC holds another session: it was restarted");
	return rc || status.error ? transfer_nic_fail(t, "the NIC's QP", rc ? rc : status.error) : 0;
}

void transfer_counts(struct transfer *t)
{
	struct sdr_reliable_status status;

	sdr_reliable_status(t->reliable, &status);
	t->repeated = status.retransmitted;
	t->needless = status.spurious;
	t->parity = status.parity;
	t->chosen.messages = status.sent;
	memcpy(t->chosen.coded, status.coded_of, sizeof(t->chosen.coded));
	t->rtt = status.rtt_least ? status.rtt : 0;
}

int transfer_poll(struct pollfd *fds, nfds_t count, sp_time wait)
{
	const struct timespec limit = {(time_t)(wait / SP_SEC), (long)(wait % SP_SEC / SP_NS)};

	return ppoll(fds, count, &limit, &outside);
}

int transfer_sleep(struct transfer *t, sp_time until)
{
	struct pollfd fds[2 + 32];
	sp_time now, wait;
	nfds_t n = 0;
	int rc = t->armed || t->pausing ? 0 : sp_dev_arm(t->dev);

	if (rc && rc != -EOPNOTSUPP)
		return transfer_nic_fail(t, "waiting for the NIC", rc);
	if (!rc && !t->armed && !t->pausing) { /* look once more: from now on the NIC wakes us */
		t->armed = true;
		return 0;
	}
	if (t->reliable && sdr_reliable_deadline(t->reliable) < until)
		until = sdr_reliable_deadline(t->reliable);
	now = sp_clock();
	wait = until > now ? until - now : 0;
	wait = wait < SP_SEC ? wait : SP_SEC;
	if (rc) /* the NIC works in sp_progress() */
		wait = wait < 20 * SP_US ? wait : 20 * SP_US;
	if (t->pausing && wait > TRANSFER_PAUSE)
		wait = TRANSFER_PAUSE;
	if (t->talk)
		fds[n++] = (struct pollfd){t->talk->fd, (short)(t->talk->out_used ? POLLIN | POLLOUT : POLLIN), 0};
	if (t->others)
		n += t->others->fds(t->others->arg, fds + n);
	if (t->armed)
		fds[n++] = (struct pollfd){sp_dev_fd(t->dev), POLLIN, 0};

	const int ready = transfer_poll(fds, n, wait);

	t->pausing = t->armed && ready > 0 && fds[n - 1].revents;
	t->armed = false;
	return 0;
}

void transfer_close(struct transfer *t)
{
	if (t->talk && *t->error && !t->peer_said)
		talk_say(t->talk, json_pack("{s:s}", "error", t->error));
	if (t->talk)
		talk_pump(t->talk, sp_clock());
	if (t->dev && transfer_stopped()) /* a NIC that hangs must not block us */
		sp_attach_leave(t->dev);
	hasher_end(t->hasher);
	t->hasher = NULL;
	sdr_reliable_close(t->reliable, 0);
	if (t->qp)
		while (sdr_qp_destroy(t->qp) == -EAGAIN)
			sp_progress(t->dev, sp_clock());
	if (t->mr)
		sdr_mr_dereg(t->mr);
	sdr_context_destroy(t->context);
	if (t->dev)
		sp_dev_close(t->dev);
	talk_part(t->talk);
	EVP_MD_CTX_free(t->sha);
	t->reliable = NULL;
	t->qp = NULL;
	t->mr = NULL;
	t->context = NULL;
	t->dev = NULL;
	t->talk = NULL;
	t->sha = NULL;
}
