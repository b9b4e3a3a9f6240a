/* SPDX-License-Identifier: BSD-3-Clause */
/* What sdr.h's and rvma.h's calls share: contexts with QP numbers, and waiting for the NIC. */
#ifndef HOST_API_CONTEXT_H
#define HOST_API_CONTEXT_H

#include <errno.h>

#include "spindle.h"

/* Settings of a context. The NIC refuses a key that is given twice. */
#define SP_SETTINGS_MAX 24
struct sp_settings {
	struct sp_setting set[SP_SETTINGS_MAX];
	char text[SP_SETTINGS_MAX][32];
	size_t count;
};

/* How to open a context with QP numbers. */
struct sp_numbered {
	const char *handler;
	const char *name; /* NULL: the NIC says HANDLER-QPN */
	uint32_t qpn;	  /* 0: the NIC chooses */
};

/* The NIC has ended (-ENODEV) or died (-ECONNABORTED). */
static inline bool sp_is_gone(int rc)
{
	return rc == -ENODEV || rc == -ECONNABORTED;
}

#pragma GCC visibility push(hidden)
void sp_settings_uint(struct sp_settings *s, const char *key, uint64_t value, const char *unit);
void sp_settings_text(struct sp_settings *s, const char *key, const char *value); /* value must stay valid */
/* -EINVAL, with key and text. */
int sp_refuse(struct sp_error *error, const char *key, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The NIC's address of that family (0: IPv4 if it has one); -EADDRNOTAVAIL. */
int sp_context_address(struct sp_dev *dev, int family, uint8_t ip[16]);
/* Opens it with the settings and a QP number, which *qpn becomes. settings gets one more. */
int sp_context_numbered(struct sp_dev *dev, const struct sp_numbered *how, struct sp_settings *settings, uint32_t *qpn,
			uint32_t *id, struct sp_error *error);
bool sp_ip_is_4(const uint8_t ip[16]); /* IPv4 mapped into IPv6 */

/* -EINVAL: no region of this device. -EFAULT: the range is not within it. */
int sp_mr_check(const struct sp_dev *dev, const struct sp_mr *mr, uint64_t offset, uint64_t len);

/* Calls poll(arg) and drives the NIC in real time until poll returns anything but -EAGAIN; -ETIMEDOUT. */
int sp_wait_until(struct sp_dev *dev, int (*poll)(void *arg), void *arg, sp_time timeout);
/* The same; what: what wakes it. */
int sp_wait_for(struct sp_dev *dev, enum sp_arm what, int (*poll)(void *arg), void *arg, sp_time timeout);
#pragma GCC visibility pop

#endif
