/* SPDX-License-Identifier: BSD-3-Clause */
#include "ebpf.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_errno.h>

#include "../../error.h"
#include "../handler.h"
#include "../../nic.h"
#include "../../process.h"

bool sp_ebpf_is(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint8_t head[offsetof(Elf64_Ehdr, e_machine) + 2]; /* the same place in those of 32 bits */
	bool is =
		fd >= 0 && pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) && !memcmp(head, ELFMAG, SELFMAG);

	if (fd >= 0)
		close(fd);
	if (!is)
		return false;
	const uint8_t *machine = head + offsetof(Elf64_Ehdr, e_machine);
	return head[EI_DATA] == ELFDATA2MSB ? machine[1] == EM_BPF && !machine[0] : machine[0] == EM_BPF && !machine[1];
}

static int read_file(const char *file, uint8_t **bytes, size_t *len, struct sp_error *error)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), r = 0;
	struct stat st;

	*bytes = NULL;
	*len = 0;
	if (fd < 0 || fstat(fd, &st)) {
		r = sp_error_set(error, errno, "", "cannot be read: %s", strerror(errno));
	} else if (st.st_size > SP_EBPF_BYTES) {
		r = sp_error_set(error, EFBIG, "", "has more than %u KiB: is it built with -g?", SP_EBPF_BYTES >> 10);
	} else {
		*len = (size_t)st.st_size;
		*bytes = malloc(*len + 1);
		r = *bytes ? 0 : sp_error_set(error, ENOMEM, "", "out of memory");
	}
	if (!r && pread(fd, *bytes, *len, 0) != (ssize_t)*len)
		r = sp_error_set(error, EIO, "", "cannot be read");
	if (fd >= 0)
		close(fd);
	if (r) {
		free(*bytes);
		*bytes = NULL;
	}
	return r;
}

static int load(struct sp_ebpf_program *p, struct sp_error *error)
{
	struct sp_error why = {.key = ""};
	struct rte_bpf_prm prm;
	int r = sp_ebpf_check(p->ins, p->count, &p->reads, &why);

	if (r)
		return sp_error_set(error, -r, "", "%s: %s", p->section, why.text);
	r = sp_ebpf_try(p, error);
	for (unsigned k = 0; r == -EAGAIN && k < SP_EBPF_PADS; k++) {
		r = sp_ebpf_pad(p);
		r = r ? sp_error_set(error, -r, "", "out of memory") : sp_ebpf_try(p, error);
	}
	if (r)
		return r == -EAGAIN ? -EINVAL : r;
	prm = sp_ebpf_prm(p);
	p->bpf = rte_bpf_load(&prm);
	if (!p->bpf)
		return sp_error_set(error, ENOMEM, "", "%s: DPDK cannot load it: %s", p->section,
				    rte_strerror(rte_errno));
	r = sp_ebpf_compiled(p, p->bpf, &p->jit);
	if (r) /* the child has seen it otherwise */
		return sp_error_set(error, -r, "", "%s: DPDK has not compiled it rightly", p->section);
	sp_ebpf_table(p);
	return 0;
}

/* DPDK's verifier takes up to a second per handler, twice; other control calls wait meanwhile. */
static int load_all(struct sp_ebpf *e, struct sp_noted *noted, struct sp_error *error)
{
	const sp_time end = sp_clock() + SP_EBPF_TIME;
	int r = 0;

	for (unsigned i = 0; !r && i < e->count; i++) {
		if (sp_clock() > end)
			return sp_error_set(error, ETIMEDOUT, "",
					    "its %u handlers take more than %u s to check: they have too many "
					    "branches; make several files of them",
					    e->count, (unsigned)(SP_EBPF_TIME / SP_SEC));
		r = load(&e->program[i], error);
		noted->handler[noted->count++] = &e->program[i].handler;
	}
	return r;
}

int sp_ebpf_open(const char *file, struct sp_ebpf **ebpf, struct sp_noted *noted, struct sp_error *error)
{
	uint8_t *bytes;
	size_t len;
	int r = read_file(file, &bytes, &len, error);

	*ebpf = NULL;
	if (!r)
		r = sp_ebpf_read(bytes, len, ebpf, error);
	if (!r)
		r = load_all(*ebpf, noted, error);
	if (r) {
		sp_ebpf_close(*ebpf);
		*ebpf = NULL;
	}
	return r;
}

void sp_ebpf_close(struct sp_ebpf *e)
{
	for (unsigned i = 0; e && i < e->count; i++) {
		rte_bpf_destroy(e->program[i].bpf);
		free(e->program[i].ins);
	}
	if (e)
		free(e->bytes);
	free(e);
}
