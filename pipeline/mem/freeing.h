/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory and connections that the NIC is done with. While a server runs it unmaps memory in slices, and hands
 * the rest to the reaper (reaper.h): memory stays charged until no other process has it any more. Without a server
 * memory is freed at once. */
#ifndef PIPELINE_MEM_FREEING_H
#define PIPELINE_MEM_FREEING_H

#include <stdbool.h>
#include <stdint.h>

struct sp_account;
struct sp_nic;
struct sp_shm;

int sp_freeing_create(struct sp_nic *nic);
void sp_freeing_destroy(struct sp_nic *nic);
/* Between begin and end, both called by a server, freed memory waits for sp_freeing_work(). begin starts the reaper
 * unless another server has: -errno. */
int sp_freeing_begin(struct sp_nic *nic);
void sp_freeing_end(struct sp_nic *nic);
/* Any thread. Shared memory is no longer used: `charged` bytes are credited to the NIC and to account (or NULL) once it
 * is gone. uid: of the user whose processes may have it. */
void sp_freeing_memory(struct sp_nic *nic, struct sp_account *account, uint32_t uid, struct sp_shm *shared,
		       uint64_t charged);
/* [server] The reaper gets a copy of a socket, so that no close of ours is the last. Its id; 0: no memory. */
uint64_t sp_freeing_hold(struct sp_nic *nic, uint32_t uid, int fd);
bool sp_freeing_ready(struct sp_nic *nic); /* the reaper can take another one now */
/* [server] Shuts the socket down and closes it. The last close, which may take long, is the reaper's. */
void sp_freeing_let_go(struct sp_nic *nic, uint64_t id);
/* [server] A slice of work, and the reaper's news. */
void sp_freeing_work(struct sp_nic *nic);
int sp_freeing_next(struct sp_nic *nic); /* ms until there is a slice to do; -1: none */
#define SP_FREEING_PAUSE 2		 /* ms, while the reaper or memory is waited for */
int sp_freeing_fd(struct sp_nic *nic);	 /* readable when the reaper has news; -1: none */
/* Bytes that are still charged. *held: those of them that other processes have not let go of in time. NULL: of all
 * accounts. */
uint64_t sp_freeing_bytes(struct sp_nic *nic, const struct sp_account *account, uint64_t *held);
/* Memories and connections of a user that are held. UINT32_MAX: the reaper is gone, and nothing may be made. */
uint32_t sp_freeing_held(struct sp_nic *nic, uint32_t uid);
/* Before the account is destroyed: its waiting memory stays charged to the NIC and to the user. */
void sp_freeing_disown(struct sp_nic *nic, const struct sp_account *account);

#endif
