/* SPDX-License-Identifier: BSD-3-Clause */
/* A file system in user space, in namespaces of our own, whose server answers when it likes. */
#ifndef TESTS_E2E_ATTACK_FUSE_H
#define TESTS_E2E_ATTACK_FUSE_H

/* In a process that has no threads yet. Says "skip WHY" and ends where the kernel does not let us. */
void fuse_begin(void);
/* A page that does not come: whoever touches it waits until this process ends. */
void *fuse_page(void);
/* Another descriptor of its file. */
int fuse_open(void);
/* What is written to the file is not taken: closing any of its descriptors waits. */
void fuse_dirty(void);

#endif
