/* SPDX-License-Identifier: BSD-3-Clause */
/* What the calls of sdr.h and rvma.h share. */
#include "context.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "../handlers/wire/roce.h"

/* ---- settings ------------------------------------------------------------------------------------------------------
 */
void sp_settings_uint(struct sp_settings *s, const char *key, uint64_t value, const char *unit)
{
	snprintf(s->text[s->count], sizeof(s->text[0]), "%" PRIu64 "%s", value, unit);
	sp_settings_text(s, key, s->text[s->count]);
}

void sp_settings_text(struct sp_settings *s, const char *key, const char *value)
{
	s->set[s->count++] = (struct sp_setting){key, value};
}

int sp_refuse(struct sp_error *error, const char *key, const char *format, ...)
{
	va_list args;

	snprintf(error->key, sizeof(error->key), "%s", key);
	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return -EINVAL;
}

/* ---- opening -------------------------------------------------------------------------------------------------------
 */
bool sp_ip_is_4(const uint8_t ip[16])
{
	static const uint8_t prefix[12] = {[10] = 0xFF, 0xFF};

	return !memcmp(ip, prefix, sizeof(prefix));
}

int sp_context_address(struct sp_dev *dev, int family, uint8_t ip[16])
{
	int rc = -EADDRNOTAVAIL;

	if (family != AF_INET6)
		rc = sp_dev_address(dev, AF_INET, ip);
	if (rc && family != AF_INET)
		rc = sp_dev_address(dev, AF_INET6, ip);
	return rc == -ENOENT ? -EADDRNOTAVAIL : rc;
}

int sp_context_numbered(struct sp_dev *dev, const struct sp_numbered *how, struct sp_settings *settings, uint32_t *qpn,
			uint32_t *id, struct sp_error *error)
{
	int rc;

	if (how->qpn)
		sp_settings_uint(settings, "qp", how->qpn, "");
	else
		sp_settings_text(settings, "qp", "any");
	rc = sp_context_open(dev, how->name ? how->name : "", how->handler, settings->set, settings->count, id, error);
	if (rc)
		return rc == -ERANGE ? -EINVAL : rc; /* an attribute beyond its bounds; error says which */
	rc = sp_context_qp(dev, *id, qpn);
	if (rc)
		sp_context_close(dev, *id);
	return rc;
}

int sp_mr_check(const struct sp_dev *dev, const struct sp_mr *mr, uint64_t offset, uint64_t len)
{
	if (!mr || mr->dev != dev)
		return -EINVAL;
	return offset <= mr->len && len <= mr->len - offset ? 0 : -EFAULT;
}

/* ---- waiting -------------------------------------------------------------------------------------------------------
 */
/* There is nothing to arm: the NIC works in sp_progress(), or another thread drives it. */
static void sp_pause(struct sp_dev *dev, sp_time now)
{
	sp_time pause = sp_next_deadline(dev);

	pause = pause > now ? pause - now : 0;
	pause = pause < 50 * SP_US ? pause : 50 * SP_US;
	if (pause >= SP_US)
		nanosleep(&(struct timespec){.tv_nsec = (long)(pause / SP_NS)}, NULL);
}

/* Armed and no event: sleeps until the NIC wakes us, until `until`, or until work is due here. 0 or -errno. */
static int sp_sleep(struct sp_dev *dev, sp_time until)
{
	const sp_time now = sp_clock(), next = sp_next_deadline(dev);
	int rc;

	until = until < next ? until : next;
	rc = sp_dev_wait(dev, until == SP_NEVER ? SP_NEVER : until > now ? until - now : 0);
	return rc == -ETIMEDOUT || rc == -EINTR ? 0 : rc;
}

int sp_wait_for(struct sp_dev *dev, enum sp_arm what, int (*poll)(void *arg), void *arg, sp_time timeout)
{
	const sp_time start = sp_clock(), until = timeout < SP_NEVER - start ? start + timeout : SP_NEVER;
	bool armed = false;

	for (unsigned idle = 0;; idle++) {
		const sp_time now = sp_clock();
		int rc = sp_progress(dev, now);

		if (rc < 0)
			return rc;
		rc = poll(arg);
		if (rc != -EAGAIN)
			return rc;
		if (now >= until)
			return -ETIMEDOUT;
		if (idle < 64) { /* answers usually come soon; longer waits must not use the processor */
			sched_yield();
			continue;
		}
		if (armed) { /* ... before the look that has just found nothing */
			rc = sp_sleep(dev, until);
			armed = false;
			if (rc)
				return rc;
			continue;
		}
		rc = sp_dev_arm_for(dev, what);
		if (rc == -EOPNOTSUPP)
			sp_pause(dev, now);
		else if (rc)
			return rc;
		armed = !rc;
	}
}

int sp_wait_until(struct sp_dev *dev, int (*poll)(void *arg), void *arg, sp_time timeout)
{
	return sp_wait_for(dev, SP_ARM_ANY, poll, arg, timeout);
}
