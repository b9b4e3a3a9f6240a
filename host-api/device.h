/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of a struct sp_dev. There are two implementations: the embedded NIC (pipeline/device.c) and the attached
 * one. */
#ifndef HOST_API_DEVICE_H
#define HOST_API_DEVICE_H

#include "../handlers/wire/host.h"
#include "spindle.h"

struct sp_dev_ops {
	int (*mr_alloc)(struct sp_dev *, uint64_t len, struct sp_mr *);
	int (*mr_reg)(struct sp_dev *, void *addr, uint64_t len, struct sp_mr *);
	int (*mr_free)(struct sp_dev *, struct sp_mr *);
	bool mappings; /* regions are mapped for this process alone, so that it may move them */
	int (*context_open)(struct sp_dev *, const char *name, const char *handler, const struct sp_setting *, size_t,
			    uint32_t *id, struct sp_error *);
	int (*context_close)(struct sp_dev *, uint32_t id);
	int (*context_qp)(struct sp_dev *, uint32_t id, uint32_t *qpn);
	int (*context_area)(struct sp_dev *, uint32_t id, void **addr, uint64_t *len);
	int (*address)(struct sp_dev *, int family, uint8_t ip[16]);
	uint32_t (*payload)(struct sp_dev *, int family);
	int (*command_post)(struct sp_dev *, const struct sp_command *);
	int (*command_call)(struct sp_dev *, const struct sp_command *, struct sp_event *);
	int (*control)(struct sp_dev *, bool service, struct sp_control *);
	int (*event_take)(struct sp_dev *, uint32_t id, struct sp_event *);
	int (*progress)(struct sp_dev *, sp_time now);
	sp_time (*next_deadline)(struct sp_dev *);
	int (*arm)(struct sp_dev *, enum sp_arm what);
	int (*fd)(struct sp_dev *);	/* or -errno */
	void (*close)(struct sp_dev *); /* releases dev->regions too; the library frees the handles */
};

struct sp_region {
	struct sp_mr mr;
	bool moved;			/* its mapping is the application's */
	struct sp_region *next, **back; /* back: the pointer that points here */
};

struct sp_dev {
	const struct sp_dev_ops *ops;
	struct sp_region *regions; /* not freed yet */
};

struct sp_bell;
/* Arming, for both (what: checked): empties the wake-up socket fd, then arms the bell, before anything that the caller
 * reads next. */
void sp_bell_arm(struct sp_bell *bell, int fd, enum sp_arm what);

#endif
