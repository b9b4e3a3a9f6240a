/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs in other processes could take from the NIC and from each other: memory that they have given back,
 * packets that are not theirs, the NIC's name, its time. */
#include "../lib/test_server.h"
#include "../../pipeline/host/session.h"
#include "../../pipeline/mem/freeing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Bytes of memory behind a descriptor. */
static uint64_t held(int fd)
{
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static const char sdr[] = "c\0sdr\0qp\0000x100";

/* As an application that never lets go: what it has given back stays charged to it, and harms nobody. */
TEST(memory_given_back_is_charged_until_nobody_has_it)
{
	struct sp_event event;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint8_t *kept;
	uint64_t used;
	uint32_t id;

	srv_prepare();
	srv_config.users = 1;
	srv_config.user[0] = (struct sp_user_limits){.everyone = true, .limits.memory = 4 << 20};
	srv_start();
	srv_join();
	struct sp_attach_exchange x = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	sp_attach_release(&x);
	used = srv_nic->memory_used;
	x = srv_asked(SP_ATTACH_MR_ALLOC, 3 << 20, NULL, 0);
	kept = srv_memory;
	memset(kept, 'x', 3 << 20);
	CU_ASSERT_EQUAL(srv_nic->memory_used, used + (3 << 20));
	srv_asked(SP_ATTACH_MR_FREE, x.arg[0], NULL, 0);
	/* There is no room for another one, and the words say why. */
	struct sp_error error = {.key = ""};
	struct sp_attach_exchange more = {.op = SP_ATTACH_MR_ALLOC, .arg = {3 << 20}, .error = &error};
	CU_ASSERT_EQUAL(srv_ask(srv_link, &more), -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "given back but still mapped"));
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "(memory in [limits])"));
	CU_ASSERT_EQUAL(srv_nic->memory_used, used + (3 << 20));
	CU_ASSERT_EQUAL(kept[4096], 'x');
	/* Once it lets go, the next one fits at once: the NIC waits for the reaper, not the application. */
	srv_let_go(kept);
	more = (struct sp_attach_exchange){.op = SP_ATTACH_MR_ALLOC, .arg = {3 << 20}, .error = &error};
	WAIT_FOR(srv_nic->memory_used == used);
	CU_ASSERT_EQUAL(srv_ask(srv_link, &more), 0);
	/* What dies with memory of its own leaves nothing. */
	close(srv_link->fd);
	srv_wait_idle();
	/* The library lets go by itself, so that all of it can be had again and again. */
	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	for (unsigned i = 0; i < 20; i++) {
		CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dev, 3 << 20, &mr), 0);
		CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
		CU_ASSERT_EQUAL_FATAL(
			sp_context_open(dev, "c", "sdr", (struct sp_setting[]){{"qp", "0x100"}}, 1, &id, NULL), 0);
		CU_ASSERT_EQUAL(sp_event_take(dev, id, &event), 0);
		CU_ASSERT_EQUAL(sp_context_close(dev, id), 0);
	}
	sp_dev_close(dev);
	srv_wait_idle();
	srv_stop();
}

/* One that hoards them gets no more, however small they are; others do. */
TEST(who_hoards_what_it_has_given_back_gets_no_more)
{
	struct sp_error error = {.key = ""};
	struct sp_attach_exchange x = {.op = SP_ATTACH_MR_ALLOC, .arg = {4096}, .error = &error};
	static void *kept[1000];
	unsigned n = 0;

	srv_begin();
	srv_join();
	struct sp_attach_exchange hello = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	sp_attach_release(&hello);
	while (n < 1000 && !srv_ask(srv_link, &x)) {
		kept[n++] = srv_memory;
		srv_asked(SP_ATTACH_MR_FREE, x.arg[0], NULL, 0);
		usleep(5000); /* the reaper counts what is held for a fifth of a second */
		x = (struct sp_attach_exchange){.op = SP_ATTACH_MR_ALLOC, .arg = {4096}, .error = &error};
	}
	CU_ASSERT(n >= SP_ATTACH_HELD && n < 1000);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "still have"));
	CU_ASSERT(raw_try() >= 0 && raw_reply(raw_try()) == -EBUSY); /* refused at the door */
	for (unsigned i = 0; i < n; i++)
		srv_let_go(kept[i]);
	WAIT_FOR(!sp_freeing_held(srv_nic, getuid()));
	x = (struct sp_attach_exchange){.op = SP_ATTACH_MR_ALLOC, .arg = {4096}, .error = &error};
	CU_ASSERT_EQUAL(srv_ask(srv_link, &x), 0);
	srv_let_go(srv_memory);
	close(srv_link->fd);
	srv_stop();
}

TEST(reports_cannot_be_collected)
{
	static int report[1000];
	unsigned n = 0;
	int fd, rc;

	srv_begin();
	fd = raw_connect();
	while (n < 1000 && !(rc = raw(fd, SP_ATTACH_REPORT, 0, NULL, 0))) {
		report[n++] = dup(raw_fd);
		usleep(5000);
	}
	CU_ASSERT_EQUAL(rc, -EBUSY);
	CU_ASSERT(n >= SP_ATTACH_HELD && n < 1000);
	while (n)
		close(report[--n]);
	close(raw_fd);
	raw_fd = -1;
	WAIT_FOR(!sp_freeing_held(srv_nic, getuid()));
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	close(fd);
	srv_stop();
}

/* Whose NIC is stopped has its data still: nothing that has arrived turns to zeros before it is looked at. */
TEST(a_nic_that_stops_leaves_regions_as_they_are)
{
	struct sp_event event;
	struct sp_dev *dev;
	struct sp_mr *mr;
	uint32_t id;
	int rc = 0;

	srv_begin();
	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_mr_alloc(dev, 8192, &mr), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "sdr", (struct sp_setting[]){{"qp", "0x100"}}, 1, &id, NULL),
			      0);
	for (unsigned i = 0; i < 3; i++) /* of which the events stay in the ring */
		CU_ASSERT_EQUAL(
			sp_command_post(dev,
					&(struct sp_command){.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .context = id}),
			0);
	WAIT_FOR(rc || (rc = sp_event_take(dev, id, &event)));
	CU_ASSERT_EQUAL(rc, 1);
	memset(mr->addr, 'x', 8192);
	srv_stop();
	for (unsigned i = 0; i < 8192; i++)
		CU_ASSERT_EQUAL_FATAL(((uint8_t *)mr->addr)[i], 'x');
	for (unsigned i = 0; i < 10 && rc >= 0; i++)
		rc = sp_event_take(dev, id, &event);
	CU_ASSERT(rc == -ENODEV || rc == -ECONNRESET); /* and no events without end */
	sp_dev_close(dev);
}

#define RULE(rule) TEST_BETWEEN(srv_begin, srv_stop, rule)

/* Neither the NIC's descriptors nor anybody's account suffer when there is no descriptor left for what is asked. */
RULE(without_free_descriptors_a_call_fails_and_leaves_nothing)
{
	static const struct {
		enum sp_attach_op op;
		uint64_t arg;
	} wanted[] = {{SP_ATTACH_MR_ALLOC, 4096}, {SP_ATTACH_OPEN, 1}, {SP_ATTACH_REPORT, 0}};
	struct rlimit before, few;
	int next, rc;

	srv_join();
	struct sp_attach_exchange x = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	void *queues = srv_memory;
	uint64_t used = srv_nic->memory_used;
	getrlimit(RLIMIT_NOFILE, &before);
	for (unsigned room = 0; room < 5; room++) /* from none at all to enough for all */
		for (unsigned i = 0; i < 3; i++) {
			struct sp_error error = {.key = ""};
			struct sp_attach_exchange y = {.op = wanted[i].op, .arg = {wanted[i].arg}, .error = &error};

			if (wanted[i].op == SP_ATTACH_OPEN) {
				y.data = sdr;
				y.bytes = sizeof(sdr);
			}
			next = dup(0);
			close(next);
			few = before;
			if (room < 4)
				few.rlim_cur = (rlim_t)next + room;
			setrlimit(RLIMIT_NOFILE, &few);
			rc = srv_ask(srv_link, &y);
			setrlimit(RLIMIT_NOFILE, &before);
			if (!rc && wanted[i].op != SP_ATTACH_REPORT)
				srv_let_go(srv_memory);
			if (rc == -EPROTO || rc == -ENODEV) { /* over here there was none for what came */
				CU_ASSERT_NOT_EQUAL_FATAL(srv_link->dead, 0);
				close(srv_link->fd);
				WAIT_FOR(!__atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE));
				sp_attach_release(&x);
				srv_let_go(queues);
				WAIT_FOR(srv_nic->memory_used == 0); /* the device goes first */
				srv_join();
				x = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
				queues = srv_memory;
				continue;
			}
			CU_ASSERT(rc == 0 || (rc == -EMFILE && room < 4));
			if (rc && wanted[i].op != SP_ATTACH_REPORT)
				CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "descriptor"));
			if (!rc && wanted[i].op != SP_ATTACH_REPORT)
				srv_asked(wanted[i].op == SP_ATTACH_OPEN ? SP_ATTACH_CLOSE : SP_ATTACH_MR_FREE,
					  y.arg[0], NULL, 0);
			sp_attach_release(&y);
			WAIT_FOR(srv_nic->memory_used == used);
		}
	sp_attach_release(&x);
	close(srv_link->fd);
}

/* ---- packets of others ---- */

/* As user 65534: 0, or the error of a context with that setting; its words are printed. */
static int open_as_nobody(const char *key, const char *value)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct sp_error error = {.key = ""};
		struct sp_dev *dev;
		uint32_t id;
		int rc = setgid(65534) || setuid(65534) ? -99 : sp_attach(srv_path, &dev);

		if (!rc)
			rc = sp_context_open(dev, "c", "reflect", &(struct sp_setting){key, value}, 1, &id, &error);
		if (rc == -EPERM && (strcmp(error.key, "filter") || !strstr(error.text, "filters = yes") ||
				     !strstr(error.text, "[limits")))
			rc = -98;
		_exit(-rc & 0x7F);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(filters_are_for_the_nics_own_user_and_whom_he_allows_them)
{
	struct sp_dev *dev;
	uint32_t id;

	for (unsigned allowed = 0; allowed < 2; allowed++) {
		srv_prepare();
		srv_config.mode = 0666;
		srv_config.users = 1;
		srv_config.user[0] = (struct sp_user_limits){.everyone = true, .filters = allowed};
		srv_start();
		CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
		CU_ASSERT_EQUAL(
			sp_context_open(dev, "own", "reflect", &(struct sp_setting){"filter", "arp"}, 1, &id, NULL), 0);
		if (!getuid()) {
			CU_ASSERT_EQUAL(open_as_nobody("filter", "arp"), allowed ? 0 : EPERM);
			CU_ASSERT_EQUAL(open_as_nobody("qp", "0x200"), 0); /* that is its own */
		} else {
			printf("# not root: other users are not tried\n");
		}
		sp_dev_close(dev);
		WAIT_FOR(!__atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE));
		srv_stop();
	}
}

/* ---- the NIC's name ---- */

RULE(nobody_else_can_hold_the_lock)
{
	struct stat st;

	CU_ASSERT_EQUAL_FATAL(stat("./nic.sock.lock", &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 077, 0); /* who can open it can lock it */
}

/* ---- the NIC's time ---- */

#define LARGE (64u << 20)
#define OTHER 4711 /* a user */

static _Atomic unsigned made, made_by_workers;
/* Pieces of large memory that have been made or freed; and how many, and what the NIC had given away, when a page was.
 */
static _Atomic unsigned pieces, pieces_then;
static _Atomic uint64_t used_then;
static _Atomic unsigned stop_at; /* this piece and all later ones wait until it is 0; 0: none */
static _Atomic bool held_up;	 /* all wait */

static void piece(uint64_t bytes)
{
	if (bytes < 1 << 20)
		return;
	pieces++;
	for (unsigned i = 0; i < 300000 && (held_up || (stop_at && pieces >= stop_at)); i++)
		usleep(100);
}

/* Takes the place of libc's: shared memory is given back here, by the server. */
int munmap(void *at, size_t bytes)
{
	if (bytes == SP_SHM_SLICE && srv_nic && srv_server && pthread_equal(srv_server->thread, pthread_self()))
		piece(bytes);
	return (int)syscall(SYS_munmap, at, bytes);
}

/* The same: they are made here. */
int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	made++;
	if (bytes == 4096) {
		pieces_then = pieces;
		used_then = srv_nic ? srv_nic->memory_used : 0;
	}
	piece((uint64_t)bytes);
	for (unsigned w = 0; srv_nic && srv_nic->started && w < srv_nic->workers; w++)
		made_by_workers += pthread_equal(srv_nic->worker[w]->thread, pthread_self()) != 0;
	return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

TEST(no_worker_makes_an_area)
{
	struct sp_attach_exchange context, none = {.op = SP_ATTACH_OPEN, .arg = {2}};
	static const char large[] =
		"c\0sdr\0qp\0000x200\0max-messages\0001024\0max-message-bytes\000256M\0chunk-bytes\0001024";
	struct sp_error error = {.key = ""};

	srv_prepare();
	srv_config.users = 1;
	srv_config.user[0] = (struct sp_user_limits){.everyone = true, .limits.memory = 4 << 20};
	srv_start();
	srv_join();
	srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	uint64_t used = srv_nic->memory_used;
	unsigned before = made;
	context = srv_asked(SP_ATTACH_OPEN, 1, sdr, sizeof(sdr));
	CU_ASSERT(made > before && context.fd[0] >= 0);
	CU_ASSERT(held(context.fd[0]) >= context.arg[2]);
	srv_let_go(srv_memory);
	sp_attach_release(&context);
	srv_asked(SP_ATTACH_CLOSE, context.arg[0], NULL, 0);
	WAIT_FOR(srv_nic->memory_used == used);
	/* One that is too large costs nothing, and is refused in words. */
	none.arg[0] = 4;
	none.data = large;
	none.bytes = sizeof(large);
	none.error = &error;
	CU_ASSERT_EQUAL(srv_ask(srv_link, &none), -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "4194304"));
	WAIT_FOR(srv_nic->memory_used == used);
	CU_ASSERT_EQUAL(made_by_workers, 0);
	close(srv_link->fd);
	srv_stop();
}

static bool is_answered(const struct sp_attach_link *l, int patience)
{
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	return poll(&p, 1, patience) == 1;
}

/* Begins a request for a page, or the like, and does not wait. */
static void send_request(const struct sp_attach_link *l, uint16_t op, uint64_t arg, const char *data, uint32_t bytes)
{
	CU_ASSERT_EQUAL(raw_send(l->fd, op, arg, data, bytes), 0);
}

static struct sp_attach_link *another(void)
{
	struct sp_attach_link *other = calloc(1, sizeof(*other));
	struct sp_attach_exchange hello = {.op = SP_ATTACH_HELLO};

	CU_ASSERT_EQUAL_FATAL(sp_attach_connect(other, srv_path), 0);
	CU_ASSERT_EQUAL_FATAL(srv_ask(other, &hello), 0);
	sp_attach_release(&hello);
	srv_let_go(srv_memory);
	srv_server->session[srv_server->sessions - 1].uid = OTHER; /* the server sleeps */
	return other;
}

/* What srv_link asks for (HELLO: it goes; SEALED: all of it is looked at) takes many pieces. While the NIC is at the
 * first, a neighbour asks for a page: it gets that before the NIC has gone on much. The reply is in raw_fd. */
static void page_comes_first(uint16_t op, uint64_t arg, const char *data, uint32_t bytes)
{
	struct sp_attach_link *other = another();

	pieces = pieces_then = 0;
	held_up = true;
	if (op == SP_ATTACH_HELLO)
		close(srv_link->fd);
	else
		send_request(srv_link, op, arg, data, bytes);
	WAIT_FOR(pieces == 1);
	send_request(other, SP_ATTACH_MR_ALLOC, 4096, NULL, 0);
	held_up = false;
	CU_ASSERT_EQUAL(raw_reply(other->fd), 0);
	if (pieces_then < 1 || pieces_then > 2)
		printf("# request %u: after %u pieces\n", op, (unsigned)pieces_then);
	CU_ASSERT(pieces_then >= 1 && pieces_then <= 2);
	if (op != SP_ATTACH_HELLO)
		CU_ASSERT_EQUAL(raw_reply(srv_link->fd), 0);
	WAIT_FOR(pieces >= 4);
	close(other->fd);
	free(other);
}

RULE(nobody_waits_for_memory_that_others_want)
{
	static const char area[] =
		"c\0sdr\0qp\0000x200\0max-messages\0001024\0max-message-bytes\000256M\0chunk-bytes\0001024";

	struct sp_attach_exchange x;

	srv_join();
	x = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	sp_attach_release(&x);
	srv_let_go(srv_memory);
	page_comes_first(SP_ATTACH_MR_ALLOC, LARGE, NULL, 0);
	CU_ASSERT_EQUAL(held(raw_fd), LARGE);
	CU_ASSERT(!fcntl(raw_fd, F_ADD_SEALS, SP_ATTACH_SEALS));
	CU_ASSERT_EQUAL_FATAL(raw_sealed(srv_link->fd, 0), 0);
	const uint32_t region = srv_nic->device->pub.regions->mr.id;
	page_comes_first(SP_ATTACH_MR_FREE, region, NULL, 0);
	CU_ASSERT(used_then >= LARGE); /* until it is free it counts */
	close(raw_fd);
	raw_fd = -1;
	WAIT_FOR(srv_nic->memory_used < LARGE);
	/* The area of a context. */
	CU_ASSERT_EQUAL_FATAL(raw_send(srv_link->fd, SP_ATTACH_OPEN, 4, area, sizeof(area)) || raw_reply(srv_link->fd),
			      0);
	CU_ASSERT(!fcntl(raw_fd, F_ADD_SEALS, SP_ATTACH_SEALS));
	page_comes_first(SP_ATTACH_SEALED, 0, NULL, 0);
	CU_ASSERT(held(raw_fd) >= 16 << 20);
	close(raw_fd);
	raw_fd = -1;
	/* And of who goes. */
	page_comes_first(SP_ATTACH_HELLO, 0, NULL, 0);
	srv_wait_idle();
}

TEST(who_wants_much_memory_takes_turns)
{
	const struct sp_attach_request much = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_MR_ALLOC, 0, 0, {LARGE}};
	const struct sp_attach_request less = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_MR_ALLOC, 0, 0,
					       {LARGE / 4}};
	struct sp_attach_link *other;

	srv_begin();
	srv_join();
	struct sp_attach_exchange x = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	sp_attach_release(&x);
	srv_let_go(srv_memory);
	other = another();
	pieces = 0;
	held_up = true;
	CU_ASSERT_EQUAL(send(srv_link->fd, &much, sizeof(much), 0), (ssize_t)sizeof(much));
	WAIT_FOR(pieces == 1);
	CU_ASSERT_EQUAL(send(other->fd, &less, sizeof(less), 0), (ssize_t)sizeof(less));
	/* By then the second has had its four, and the first fourteen of its sixteen. Shares are of time, and slices
	 * take theirs on a busy machine: most often it is four and six. */
	stop_at = 18;
	held_up = false;
	CU_ASSERT(is_answered(other, 30000));
	unsigned then = pieces;
	CU_ASSERT(then <= 18);
	CU_ASSERT(!is_answered(srv_link, 0));
	stop_at = 0;
	CU_ASSERT(is_answered(srv_link, 30000));
	CU_ASSERT(pieces > then);
	/* Gone in the middle of it: nothing stays. */
	CU_ASSERT(recv(srv_link->fd, srv_link->message, sizeof(srv_link->message), 0) > 0);
	pieces = 0;
	held_up = true;
	CU_ASSERT_EQUAL(send(srv_link->fd, &much, sizeof(much), 0), (ssize_t)sizeof(much));
	WAIT_FOR(pieces == 1);
	close(srv_link->fd);
	close(other->fd);
	held_up = false;
	WAIT_FOR(!srv_nic->memory_used);
	free(other);
	srv_stop();
}

static void ask_for_report(const struct sp_attach_link *l)
{
	const struct sp_attach_request r = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_REPORT};

	CU_ASSERT_EQUAL_FATAL(send(l->fd, &r, sizeof(r), 0), (ssize_t)sizeof(r));
}

TEST(who_has_used_too_much_waits_and_others_do_not)
{
	struct sp_attach_link *other = calloc(1, sizeof(*other));

	srv_begin();
	srv_join();
	struct sp_attach_exchange x = srv_asked(SP_ATTACH_REPORT, 0, NULL, 0);
	sp_attach_release(&x);
	srv_server->session[0].uid = OTHER; /* the server sleeps: nothing is asked */
	__atomic_store_n(sp_session_share(srv_server, OTHER), sp_clock() + 3600 * SP_SEC, __ATOMIC_SEQ_CST);
	/* From when the server has looked again. */
	CU_ASSERT_EQUAL_FATAL(sp_attach_connect(other, srv_path), 0);
	for (unsigned i = 0; i < 10; i++) {
		x = (struct sp_attach_exchange){.op = SP_ATTACH_REPORT};
		CU_ASSERT_EQUAL(sp_attach_exchange(other, &x), 0);
		sp_attach_release(&x);
		if (!i)
			ask_for_report(srv_link);
	}
	CU_ASSERT(!is_answered(srv_link, 0));
	__atomic_store_n(sp_session_share(srv_server, OTHER), 0, __ATOMIC_SEQ_CST);
	x = (struct sp_attach_exchange){.op = SP_ATTACH_REPORT};
	CU_ASSERT_EQUAL(sp_attach_exchange(other, &x), 0);
	sp_attach_release(&x);
	CU_ASSERT(is_answered(srv_link, 30000));
	close(other->fd);
	close(srv_link->fd);
	free(other);
	srv_stop();
}

TEST(control_work_is_charged_to_its_callers_user)
{
	static struct sp_nic nic;
	static struct sp_server s = {.nic = &nic};
	struct sp_session session[3] = {{.uid = 1}, {.uid = 2}, {.uid = 1}};
	sp_time *ready[2] = {sp_session_share(&s, 1), sp_session_share(&s, 2)};
	sp_time began = sp_clock(), ended;

	CU_ASSERT_PTR_NOT_EQUAL_FATAL(ready[0], ready[1]);
	sp_session_charge(&s, &session[0], 10 * SP_MS);
	ended = sp_clock();
	CU_ASSERT(*ready[0] >= began + 40 * SP_MS && *ready[0] <= ended + 40 * SP_MS);
	sp_session_charge(&s, &session[2], 10 * SP_MS); /* another connection of the same user */
	CU_ASSERT(*ready[0] >= began + 80 * SP_MS && *ready[0] <= ended + 80 * SP_MS);
	CU_ASSERT_EQUAL(*ready[1], 0);
	/* Two users share a quarter of the time: each has half of that. */
	*ready[0] = ended + 3600 * SP_SEC;
	began = sp_clock();
	sp_session_charge(&s, &session[1], SP_MS);
	ended = sp_clock();
	CU_ASSERT(*ready[1] >= began + 8 * SP_MS && *ready[1] <= ended + 8 * SP_MS);
	/* Nobody waits for ever. */
	*ready[0] = 0;
	sp_session_charge(&s, &session[1], 3600 * SP_SEC);
	CU_ASSERT(*ready[1] <= sp_clock() + SP_SEC + SP_CREDIT);
}
