/* SPDX-License-Identifier: BSD-3-Clause */
/* The process that drops what others may still hold, and what the administrator is told. */
#include "../lib/test_server.h"
#include "../../pipeline/mem/freeing.h"
#include "../../pipeline/mem/reaper.h"
#include "../../pipeline/mem/shm.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* The next report: of this memory, in this state. */
static void reports(struct sp_reaper *r, uint64_t id, enum sp_reap_state state)
{
	struct pollfd p = {.fd = r->socket, .events = POLLIN};
	enum sp_reap_state said = 99;
	uint64_t which = 0;

	CU_ASSERT_EQUAL_FATAL(poll(&p, 1, 30000), 1);
	CU_ASSERT_EQUAL(sp_reaper_take(r, &which, &said), 0);
	CU_ASSERT_EQUAL(which, id);
	CU_ASSERT_EQUAL(said, state);
}

TEST(a_file_is_kept_until_nobody_else_has_it)
{
	struct sp_reaper r;
	struct sp_shm s;
	void *at;

	CU_ASSERT_EQUAL_FATAL(sp_reaper_start(&r), 0);
	for (uint64_t id = 1; id <= 2; id++) { /* written to by the other side, and read only */
		CU_ASSERT_EQUAL_FATAL(sp_shm_create(8192, "tested", id == 2, &s), 0);
		at = mmap(NULL, 4096, id == 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
		CU_ASSERT_PTR_NOT_EQUAL_FATAL(at, MAP_FAILED);
		sp_shm_close(&s);
		munmap(s.base, s.bytes);
		CU_ASSERT_EQUAL(sp_reaper_give(&r, SP_REAP_FILE, id, 0, s.file), 0);
		close(s.file);
		reports(&r, id, SP_REAP_HELD);
		munmap(at, 4096);
		reports(&r, id, SP_REAP_DONE);
	}
	sp_reaper_stop(&r);
}

/* It has no descriptor and no shared memory of ours; and ends with us. */
TEST(the_reaper_has_nothing_of_the_nics)
{
	struct sp_reaper r;
	char path[64], line[512];
	FILE *maps;

	void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CU_ASSERT_PTR_NOT_EQUAL_FATAL(shared, MAP_FAILED);
	CU_ASSERT_EQUAL_FATAL(sp_reaper_start(&r), 0);
	snprintf(path, sizeof(path), "/proc/%d/fd", r.pid);
	WAIT_FOR(srv_entries(path) == 3); /* ., .., the socket to us */
	snprintf(path, sizeof(path), "/proc/%d/maps", r.pid);
	maps = fopen(path, "r");
	CU_ASSERT_PTR_NOT_NULL_FATAL(maps);
	while (fgets(line, sizeof(line), maps))
		CU_ASSERT(strchr(line, ' ')[4] != 's');
	fclose(maps);
	sp_reaper_stop(&r);
	/* It has been waited for, or, on a machine with no time, is to be. */
	WAIT_FOR(kill(r.pid, 0) < 0 || waitpid(r.pid, NULL, __WALL | WNOHANG) == r.pid);
	munmap(shared, 4096);
}

/* Our child of that name, but not this one; 0: none. */
static pid_t find_reaper(pid_t but)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	pid_t found = 0;

	while (d && !found && (e = readdir(d))) {
		char path[300], comm[32] = "";
		int parent = 0;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = atoi(e->d_name) ? fopen(path, "r") : NULL;
		if (f && fscanf(f, "%*d (%31[^)]) %*c %d", comm, &parent) == 2 && parent == getpid() &&
		    !strcmp(comm, "spindle-reaper") && atoi(e->d_name) != but)
			found = atoi(e->d_name);
		if (f)
			fclose(f);
	}
	closedir(d);
	return found;
}

/* Somebody kills it, with connections and memory in its care: there is another one, and the NIC goes on. */
TEST(a_reaper_that_is_killed_is_replaced)
{
	struct sp_dev *dev, *other;
	pid_t reaper = 0;
	struct sp_mr *mr;

	srv_begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	for (unsigned i = 0; i < 3; i++) {
		pid_t next;

		WAIT_FOR((next = find_reaper(reaper)) != 0);
		reaper = next;
		CU_ASSERT_EQUAL_FATAL(kill(reaper, SIGKILL), 0);
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 8192, &mr), 0);
		CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
		CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &other), 0);
		sp_dev_close(other);
		srv_wait_freed();
	}
	sp_dev_close(dev);
	srv_wait_idle();
	srv_stop();
}

static struct sp_refusal told;
static unsigned tellings;

static void refused(void *arg, const struct sp_refusal *refusal)
{
	CU_ASSERT_PTR_EQUAL(arg, &told);
	told = *refusal;
	CU_ASSERT(tellings || strstr(refusal->text, "memory") || strstr(refusal->key, "memory"));
	tellings++;
}

TEST(the_administrator_is_told_of_refusals_but_not_of_all)
{
	struct sp_dev *dev;
	struct sp_mr *mr;

	srv_prepare();
	srv_config.users = 1;
	srv_config.user[0] = (struct sp_user_limits){.everyone = true, .limits.memory = 1 << 20};
	srv_config.refused = refused;
	srv_config.refused_arg = &told;
	tellings = 0;
	srv_start();
	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL(sp_mr_free(NULL), 0);
	for (unsigned i = 0; i < 20; i++)
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 2 << 20, &mr), -EDQUOT);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev, 0, &mr), -EINVAL); /* a mistake is no refusal */
	CU_ASSERT(tellings >= 1 && tellings < 20);
	CU_ASSERT_EQUAL(told.uid, getuid());
	CU_ASSERT_EQUAL(told.pid, (uint32_t)getpid());
	CU_ASSERT_EQUAL(told.status, -EDQUOT);
	CU_ASSERT_STRING_EQUAL(told.request, "memory");
	sp_dev_close(dev);
	srv_wait_idle();
	srv_stop();
}
