/* SPDX-License-Identifier: BSD-3-Clause */
/* Registering: which parts of a range are substituted, and which are the agent's. */
#include "memory.h"
#include "pages.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define LEAST	 (64u << 10)   /* a mapping that is smaller is left alone */
#define HEAP	 (64ull << 20) /* the C library's further heaps: aligned to this, and at most that long */
#define PIECES	 1024
#define MAPPINGS 16384 /* a process may have four times as many; each registration can split some */

struct shim_memory_counts shim_counts;

/* A part of the range, in pages. */
struct piece {
	uintptr_t start, end;
	enum { AGENT, CANDIDATE, SHARED } kind;
	struct shim_area *area; /* SHARED */
	uint64_t offset;
};

struct plan {
	uintptr_t start, end, at; /* pages; at: found up to here */
	uintptr_t gap, file;	  /* the end of the mapping before, if it has no rights, or is a file's data; or 0 */
	/* Anonymous mappings side by side are as one: what was registered before may have split them. */
	struct {
		uintptr_t start, end;
		bool guarded, data; /* stands behind memory without rights; behind a file's data */
		unsigned first;	    /* piece */
	} run;
	unsigned mappings;	    /* of the process */
	uintptr_t stack, stack_end; /* the caller's */
	size_t stack_size;	    /* of other threads, by default */
	bool write, never;	    /* never: nothing is to be substituted */
	unsigned pieces;
	struct piece piece[PIECES];
};

/* ---- which memory may be substituted ---- */

/* Is there one of malloc's further heaps at this address? In its first page fork() itself changes locks in the child.
 * It may be no memory at all: so the kernel reads it. */
static bool is_heap(uintptr_t at)
{
	struct {
		uint64_t arena, before, size, writable;
	} head;
	struct iovec to = {&head, sizeof(head)}, from = {(void *)at, sizeof(head)};

	if (syscall(SYS_process_vm_readv, getpid(), &to, 1ul, &from, 1ul, 0ul) != (long)sizeof(head))
		return errno != EFAULT && errno != ENOMEM;
	return head.size && head.size <= HEAP && head.writable && head.writable <= HEAP && head.size % SHIM_PAGE == 0 &&
	       head.writable % SHIM_PAGE == 0 && head.arena % HEAP && head.arena % HEAP < 256;
}

static bool is_plain(const struct shim_vma *v)
{
	return v->readable && v->writable && !v->executable && !v->shared && !v->inode && !v->device &&
	       (!*v->name || !strncmp(v->name, "[anon:", 6)) && !strstr(v->name, "stack") && !strstr(v->name, "malloc");
}

static void end_run(struct plan *p)
{
	if (p->run.end - p->run.start < LEAST)
		for (unsigned i = p->run.first; i < p->pieces; i++)
			if (p->piece[i].kind == CANDIDATE)
				p->piece[i].kind = AGENT;
	p->run.start = p->run.end = 0;
	p->run.first = p->pieces;
}

static void follow_run(struct plan *p, const struct shim_vma *v, bool plain)
{
	if (!plain || v->start != p->run.end)
		end_run(p);
	if (!plain)
		return;
	if (!p->run.end) {
		p->run.start = v->start;
		p->run.guarded = p->gap == v->start;
		p->run.data = p->file == v->start;
	}
	p->run.end = v->end;
}

static int add(struct plan *p, const struct piece *piece)
{
	struct piece *last = p->pieces ? &p->piece[p->pieces - 1] : NULL;

	if (piece->start >= piece->end)
		return 0;
	if (last && last->kind == piece->kind && last->area == piece->area && last->end == piece->start &&
	    (piece->kind != SHARED || last->offset + (last->end - last->start) == piece->offset)) {
		last->end = piece->end;
		return 0;
	}
	if (p->pieces == PIECES) { /* the rest is the agent's */
		last->kind = AGENT;
		last->area = NULL;
		last->end = piece->end;
		return 0;
	}
	p->piece[p->pieces++] = *piece;
	return 0;
}

static uintptr_t least(uintptr_t a, uintptr_t b)
{
	return a < b ? a : b;
}

/* From start to end, all of it anonymous: stacks and heaps are taken out. */
static void add_candidates(struct plan *p, uintptr_t start, uintptr_t end)
{
	/* Behind memory without rights there is a thread's stack, which may be one mapping with what follows it. */
	const uintptr_t guarded = p->run.guarded ? p->run.start + p->stack_size : 0;

	while (start < end) {
		const uintptr_t block = start & ~(HEAP - 1);
		uintptr_t stop = least(end, block + HEAP);
		bool agent = true;

		if (start < guarded) {
			stop = least(stop, guarded);
		} else if (start >= p->stack && start < p->stack_end) {
			stop = least(stop, p->stack_end);
		} else {
			agent = is_heap(block);
			if (start < p->stack)
				stop = least(stop, p->stack);
		}
		add(p, &(struct piece){start, stop, agent ? AGENT : CANDIDATE, NULL, 0});
		start = stop;
	}
}

static int look_at(struct plan *p, const struct shim_vma *v, const struct shim_area *a, bool plain)
{
	const uintptr_t start = v->start > p->start ? v->start : p->start, end = least(v->end, p->end);

	if (start > p->at) { /* memory that is not there, but that the main stack may still grow onto */
		if (strcmp(v->name, "[stack]"))
			return -EFAULT;
		add(p, &(struct piece){p->at, start, AGENT, NULL, 0});
	}
	if (!v->readable || (p->write && !v->writable))
		return -EFAULT;
	if (a)
		add(p, &(struct piece){start, end, SHARED, (struct shim_area *)a, v->offset + (start - v->start)});
	else if (plain && !p->never && !p->run.data)
		add_candidates(p, start, end);
	else
		add(p, &(struct piece){start, end, AGENT, NULL, 0});
	p->at = end;
	return 0;
}

static int look(void *user, const struct shim_vma *v)
{
	struct plan *p = user;
	const struct shim_area *a = shim_area_of(v);
	const bool plain = a || is_plain(v);
	int rc = 0;

	p->mappings++;
	follow_run(p, v, plain);
	if (v->end > p->start && v->start < p->end)
		rc = look_at(p, v, a, plain);
	p->gap = !v->readable && !v->writable && !v->executable ? v->end : 0;
	p->file = v->inode && v->writable && !v->shared ? v->end : 0;
	return rc;
}

static void know_stacks(struct plan *p)
{
	struct rlimit limit;
	pthread_attr_t attr;
	void *stack;
	size_t bytes;

	p->stack_size = 8u << 20;
	if (!getrlimit(RLIMIT_STACK, &limit) && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > p->stack_size)
		p->stack_size = limit.rlim_cur;
	/* The main thread's has a name. */
	if (syscall(SYS_gettid) == getpid() || pthread_getattr_np(pthread_self(), &attr))
		return;
	if (!pthread_attr_getstack(&attr, &stack, &bytes)) {
		p->stack = (uintptr_t)stack & ~(uintptr_t)(SHIM_PAGE - 1);
		p->stack_end = ((uintptr_t)stack + bytes + SHIM_PAGE - 1) & ~(uintptr_t)(SHIM_PAGE - 1);
	}
	pthread_attr_destroy(&attr);
}

/* ---- fitting into the segments that a region may have ---- */

static void merge(struct plan *p)
{
	unsigned count = 0;

	for (unsigned i = 0; i < p->pieces; i++) {
		struct piece *last = count ? &p->piece[count - 1] : NULL;

		if (last && last->kind == AGENT && p->piece[i].kind == AGENT)
			last->end = p->piece[i].end;
		else
			p->piece[count++] = p->piece[i];
	}
	p->pieces = count;
}

/* The smallest pieces become the agent's. */
static void fit(struct plan *p)
{
	merge(p);
	while (p->pieces > SP_RDMA_SEGMENTS) {
		struct piece *smallest = NULL;

		for (unsigned i = 0; i < p->pieces; i++)
			if (p->piece[i].kind != AGENT &&
			    (!smallest || p->piece[i].end - p->piece[i].start < smallest->end - smallest->start))
				smallest = &p->piece[i];
		smallest->kind = AGENT;
		merge(p);
	}
}

/* ---- registering ---- */

/* Nothing more is substituted. */
static void leave(struct plan *p)
{
	for (unsigned i = 0; i < p->pieces; i++)
		if (p->piece[i].kind == CANDIDATE)
			p->piece[i].kind = AGENT;
	merge(p);
}

static void substitute(struct plan *p, struct sp_dev *dev)
{
	for (unsigned i = 0; i < p->pieces; i++) {
		struct piece *piece = &p->piece[i];

		if (piece->kind != CANDIDATE)
			continue;
		if (shim_substitute(dev, piece->start, piece->end, &piece->area)) {
			piece->kind = AGENT;
			shim_counts.failed += piece->end - piece->start;
		} else {
			piece->kind = SHARED;
			piece->offset = 0;
		}
	}
	merge(p);
}

static int take(const struct plan *p, uintptr_t addr, size_t len, struct shim_mr *mr)
{
	mr->segment = calloc(p->pieces, sizeof(*mr->segment));
	if (!mr->segment)
		return -ENOMEM;
	mr->direct = true;
	for (unsigned i = 0; i < p->pieces; i++) {
		const struct piece *piece = &p->piece[i];
		const uintptr_t start = piece->start > addr ? piece->start : addr, end = least(piece->end, addr + len);

		mr->segment[mr->segments++] = (struct shim_segment){
			start, end - start, piece->area, piece->area ? piece->offset + (start - piece->start) : 0};
		if (piece->area) {
			shim_area_take(piece->area, piece->offset + (start - piece->start), end - start);
			shim_counts.direct += end - start;
		} else {
			mr->direct = false;
			shim_counts.agent += end - start;
		}
	}
	return 0;
}

void shim_memory_forget(struct shim_mr *mr)
{
	for (unsigned i = 0; i < mr->segments; i++)
		if (mr->segment[i].area)
			shim_area_give(mr->segment[i].area, mr->segment[i].offset, mr->segment[i].len);
	free(mr->segment);
	mr->segment = NULL;
	mr->segments = 0;
}

static int reach(struct sp_rdma_pd *pd, unsigned access, struct shim_mr *mr)
{
	struct sp_rdma_range range[SP_RDMA_SEGMENTS];
	int rc;

	for (unsigned i = 0; i < mr->segments; i++) {
		const struct shim_segment *s = &mr->segment[i];

		range[i] = (struct sp_rdma_range){s->area ? s->area->memory : NULL, s->offset, s->len};
	}
	if (!mr->direct) {
		rc = sp_rdma_agent_start(sp_rdma_of(pd), NULL, NULL);
		if (rc && rc != -EBUSY)
			return rc;
	}
	rc = sp_rdma_mr_reg_ranges(pd, mr->iova, range, mr->segments, access, &mr->mr);
	if (!rc)
		sp_rdma_mr_lies_at(mr->mr, mr->ibv.addr);
	return rc;
}

int shim_memory_register(struct shim_nic *nic, struct sp_rdma_pd *pd, void *addr, size_t len, uint64_t iova,
			 unsigned access, struct shim_mr *mr)
{
	static struct plan plan; /* the lock is held */
	struct sp_dev *dev = sp_rdma_dev(sp_rdma_of(pd));
	const uintptr_t first = (uintptr_t)addr;
	int rc;

	(void)nic;
	if (!len || first + len < first || first + len > UINTPTR_MAX - SHIM_PAGE)
		return -EINVAL;
	shim_areas_sweep();
	memset(&plan, 0, offsetof(struct plan, piece));
	plan.start = plan.at = first & ~(uintptr_t)(SHIM_PAGE - 1);
	plan.end = (first + len + SHIM_PAGE - 1) & ~(uintptr_t)(SHIM_PAGE - 1);
	plan.write = access & SP_RDMA_LOCAL_WRITE;
	plan.never = getenv("SPINDLE_VERBS_NO_SUBSTITUTION") || shim_pinned();
	know_stacks(&plan);
	rc = shim_vmas(look, &plan);
	if (rc < 0 || plan.at < plan.end)
		return rc < 0 ? rc : -EFAULT;
	end_run(&plan);
	fit(&plan);
	if (plan.mappings < MAPPINGS)
		substitute(&plan, dev);
	else
		leave(&plan);
	mr->mr = NULL;
	mr->iova = iova;
	mr->access = access;
	mr->segments = 0;
	mr->ibv.addr = addr;
	mr->ibv.length = len;
	rc = take(&plan, first, len, mr);
	if (!rc)
		rc = reach(pd, access, mr);
	if (rc) {
		for (unsigned i = 0; i < plan.pieces; i++) /* those that nobody has used */
			if (plan.piece[i].area && !plan.piece[i].area->used)
				plan.piece[i].area->stale = true;
		shim_memory_forget(mr);
		shim_areas_sweep();
		return rc;
	}
	mr->ibv.lkey = mr->mr->lkey;
	mr->ibv.rkey = mr->mr->rkey;
	shim_counts.regions++;
	return 0;
}

int shim_memory_deregister(struct shim_mr *mr)
{
	const int rc = sp_rdma_mr_dereg(mr->mr);

	if (rc)
		return rc;
	mr->mr = NULL;
	shim_memory_forget(mr);
	shim_areas_sweep();
	return 0;
}

bool shim_memory_direct(const struct shim_mr *mr, uint64_t addr, uint64_t len)
{
	const uintptr_t own = (uintptr_t)shim_memory_at(mr, addr);

	if (mr->direct)
		return true;
	for (unsigned i = 0; i < mr->segments; i++) {
		const struct shim_segment *s = &mr->segment[i];

		if (s->addr < own + len && own < s->addr + s->len && !s->area)
			return false;
	}
	return true;
}

void *shim_memory_at(const struct shim_mr *mr, uint64_t addr)
{
	return (uint8_t *)mr->ibv.addr + (addr - mr->iova);
}

void shim_memory_close(void)
{
	shim_areas_close();
}

/* spindle verbs -v */
__attribute__((destructor)) static void report(void)
{
	const struct shim_memory_counts *c = &shim_counts;
	const char *on = getenv("SPINDLE_VERBS_VERBOSE");

	if (on && *on == '1' && c->regions)
		dprintf(STDERR_FILENO,
			"spindle verbs: %llu regions: %llu bytes substituted, %llu by the agent (%llu that could not "
			"be "
			"substituted)\n",
			(unsigned long long)c->regions, (unsigned long long)c->direct, (unsigned long long)c->agent,
			(unsigned long long)c->failed);
}
