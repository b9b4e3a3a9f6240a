/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs in other processes could take from the NIC and from each other: memory that they have given back,
 * packets that are not theirs, the NIC's name, its time. */
#include "../lib/test_server.h"
#include "../../pipeline/host/session.h"

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

TEST(released_buffers_hold_no_memory_even_if_kept_elsewhere)
{
	uint8_t *kept;
	void *area;

	srv_begin();
	srv_join();
	struct sp_attach_exchange hello = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	struct sp_attach_exchange region = srv_asked(SP_ATTACH_MR_ALLOC, 1 << 20, NULL, 0);
	struct sp_attach_exchange last = srv_asked(SP_ATTACH_MR_ALLOC, 1 << 20, NULL, 0);
	struct sp_attach_exchange context = srv_asked(SP_ATTACH_OPEN, 1, sdr, sizeof(sdr));
	CU_ASSERT_EQUAL(held(region.fd[0]), 1 << 20);
	CU_ASSERT(held(context.fd[0]) >= context.arg[1]);
	CU_ASSERT(held(context.fd[1]) >= context.arg[2]);
	CU_ASSERT_EQUAL_FATAL(sp_attach_map(region.fd[0], 1 << 20, true, (void **)&kept), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach_map(context.fd[1], context.arg[2], false, &area), 0);
	memset(kept, 'x', 1 << 20);
	srv_asked(SP_ATTACH_MR_FREE, region.arg[0], NULL, 0);
	CU_ASSERT_EQUAL(held(region.fd[0]), 0);
	CU_ASSERT_EQUAL(kept[4096], 0); /* mapped still, and harmless */
	srv_asked(SP_ATTACH_CLOSE, context.arg[0], NULL, 0);
	CU_ASSERT_EQUAL(held(context.fd[0]), 0);
	CU_ASSERT_EQUAL(held(context.fd[1]), 0);
	CU_ASSERT_EQUAL(*(volatile uint8_t *)area, 0);
	close(srv_link->fd); /* the rest goes with the connection */
	WAIT_FOR(!__atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE));
	WAIT_FOR(!held(hello.fd[0]) && !held(last.fd[0]));
	munmap(kept, 1 << 20);
	munmap(area, context.arg[2]);
	sp_attach_release(&hello);
	sp_attach_release(&region);
	sp_attach_release(&context);
	sp_attach_release(&last);
	srv_stop();
}

TEST(reports_cannot_be_collected)
{
	struct sp_attach_exchange report[4];
	void *text;

	srv_begin();
	srv_join();
	for (unsigned i = 0; i < 4; i++) {
		report[i] = srv_asked(SP_ATTACH_REPORT, 0, NULL, 0);
		CU_ASSERT(held(report[i].fd[0]) >= report[i].arg[0]);
		if (i)
			CU_ASSERT_EQUAL(held(report[i - 1].fd[0]), 0);
	}
	CU_ASSERT_EQUAL_FATAL(sp_attach_map(report[3].fd[0], report[3].arg[0], false, &text), 0);
	CU_ASSERT_EQUAL(*(char *)text, '{');
	CU_ASSERT_PTR_EQUAL(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, report[3].fd[0], 0), MAP_FAILED);
	close(srv_link->fd);
	WAIT_FOR(!held(report[3].fd[0]));
	munmap(text, report[3].arg[0]);
	for (unsigned i = 0; i < 4; i++)
		sp_attach_release(&report[i]);
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
	CU_ASSERT(rc == -ENODEV || rc == -ECONNRESET); /* and no events of zeros without end */
	sp_dev_close(dev);
}

#define RULE(rule) TEST_BETWEEN(srv_begin, srv_stop, rule)

/* Of a context that its application has closed over here, and looks at over there. */
RULE(memory_that_has_gone_is_no_event)
{
	struct sp_device *d;
	struct sp_event event;
	struct sp_dev *dev;
	uint32_t id;
	int rc = 0;

	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "sdr", (struct sp_setting[]){{"qp", "0x100"}}, 1, &id, NULL),
			      0);
	CU_ASSERT_EQUAL(
		sp_command_post(dev, &(struct sp_command){.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .context = id}),
		0);
	WAIT_FOR(rc == 1 || (rc = sp_event_take(dev, id, &event)) == 1);
	WAIT_FOR((d = __atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE)) && d->owner);
	madvise(sp_device_events(d, id)->base, sp_device_events(d, id)->bytes, MADV_REMOVE);
	for (unsigned i = 0; i < 10; i++)
		CU_ASSERT_EQUAL(sp_event_take(dev, id, &event), -ECONNRESET);
	sp_dev_close(dev);
	WAIT_FOR(!__atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE));
}

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
			rc = sp_attach_exchange(srv_link, &y);
			setrlimit(RLIMIT_NOFILE, &before);
			if (rc == -EPROTO || rc == -ENODEV) { /* over here there was none for what came */
				CU_ASSERT_NOT_EQUAL_FATAL(srv_link->dead, 0);
				close(srv_link->fd);
				WAIT_FOR(!__atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE));
				WAIT_FOR(srv_nic->memory_used == 0); /* the device goes first */
				srv_join();
				sp_attach_release(&x);
				x = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
				continue;
			}
			CU_ASSERT(rc == 0 || (rc == -EMFILE && room < 4));
			if (rc && wanted[i].op != SP_ATTACH_REPORT)
				CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "descriptor"));
			if (!rc && wanted[i].op != SP_ATTACH_REPORT)
				srv_asked(wanted[i].op == SP_ATTACH_OPEN ? SP_ATTACH_CLOSE : SP_ATTACH_MR_FREE,
					  y.arg[0], NULL, 0);
			sp_attach_release(&y);
			CU_ASSERT_EQUAL(srv_nic->memory_used, used);
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

static _Atomic unsigned made, made_by_workers;
/* Pieces of large memory that have been made or freed; and how many, and what the NIC had given away, when a page was.
 */
static _Atomic unsigned pieces, pieces_then;
static _Atomic uint64_t used_then;
static _Atomic unsigned stop_at; /* this piece and all later ones wait until it is 0; 0: none */
static _Atomic bool held_up;	 /* all wait */
static uint64_t given;		 /* the number of the last region or context */

static void piece(uint64_t bytes)
{
	if (bytes < 1 << 20)
		return;
	pieces++;
	for (unsigned i = 0; i < 300000 && (held_up || (stop_at && pieces >= stop_at)); i++)
		usleep(100);
}

/* Takes the place of libc's: pages of shared memory are given back here. */
int madvise(void *at, size_t bytes, int advice)
{
	if (advice == MADV_REMOVE && srv_nic)
		piece(bytes);
	return (int)syscall(SYS_madvise, at, bytes, advice);
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
	CU_ASSERT(made > before && context.fd[1] >= 0);
	CU_ASSERT(held(context.fd[1]) >= context.arg[2]);
	sp_attach_release(&context);
	srv_asked(SP_ATTACH_CLOSE, context.arg[0], NULL, 0);
	CU_ASSERT_EQUAL(srv_nic->memory_used, used);
	/* One that is too large costs nothing, and is refused in words. */
	none.arg[0] = 4;
	none.data = large;
	none.bytes = sizeof(large);
	none.error = &error;
	CU_ASSERT_EQUAL(sp_attach_exchange(srv_link, &none), -EDQUOT);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "4194304"));
	CU_ASSERT_EQUAL(srv_nic->memory_used, used);
	CU_ASSERT_EQUAL(made_by_workers, 0);
	close(srv_link->fd);
	srv_stop();
}

static bool is_answered(const struct sp_attach_link *l, int patience)
{
	struct pollfd p = {.fd = l->fd, .events = POLLIN};

	return poll(&p, 1, patience) == 1;
}

/* What link_ asks for (HELLO: it goes) takes many pieces. While the NIC is at the first, a neighbour asks for a page:
 * it gets that before the NIC has gone on much. Returns the last descriptor that came with the large one's reply, or
 * -1. */
static int page_comes_first(uint16_t op, uint64_t arg, const char *data, uint32_t bytes)
{
	const struct sp_attach_request ask = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_MR_ALLOC, 0, 0, {4096}};
	struct sp_attach_request large = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, op, bytes, 0, {arg}};
	struct sp_attach_exchange hello = {.op = SP_ATTACH_HELLO};
	struct sp_attach_link *other = calloc(1, sizeof(*other));
	static uint8_t reply[sizeof(struct sp_attach_reply) + SP_ATTACH_BYTES];
	const struct sp_attach_reply *head = (const void *)reply;
	union {
		struct cmsghdr head;
		uint8_t bytes[CMSG_SPACE(SP_ATTACH_FDS * sizeof(int))];
	} control;
	struct iovec out[2] = {{&large, sizeof(large)}, {(void *)(uintptr_t)data, bytes}}, in = {reply, sizeof(reply)};
	const struct msghdr request = {.msg_iov = out, .msg_iovlen = 2};
	struct msghdr message = {
		.msg_iov = &in, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	int fd = -1;

	CU_ASSERT_EQUAL_FATAL(sp_attach_connect(other, srv_path), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach_exchange(other, &hello), 0);
	sp_attach_release(&hello);
	pieces = pieces_then = 0;
	held_up = true;
	if (op == SP_ATTACH_HELLO)
		close(srv_link->fd);
	else
		CU_ASSERT(sendmsg(srv_link->fd, &request, 0) > 0);
	WAIT_FOR(pieces == 1);
	CU_ASSERT_EQUAL(send(other->fd, &ask, sizeof(ask), 0), (ssize_t)sizeof(ask));
	held_up = false;
	CU_ASSERT(is_answered(other, 30000));
	CU_ASSERT_EQUAL(recv(other->fd, reply, sizeof(reply), 0), (ssize_t)sizeof(*head));
	CU_ASSERT(pieces_then >= 1 && pieces_then <= 2);
	if (op != SP_ATTACH_HELLO) {
		CU_ASSERT(is_answered(srv_link, 30000));
		CU_ASSERT(recvmsg(srv_link->fd, &message, 0) >= (ssize_t)sizeof(*head));
		CU_ASSERT_EQUAL(head->status, 0);
		for (size_t at = CMSG_LEN(0); message.msg_controllen && at < control.head.cmsg_len; at += sizeof(int)) {
			if (fd >= 0)
				close(fd);
			memcpy(&fd, control.bytes + at, sizeof(fd));
		}
		given = head->arg[0];
		CU_ASSERT(pieces >= 4);
	}
	close(other->fd);
	free(other);
	return fd;
}

RULE(nobody_waits_for_memory_that_others_want)
{
	static const char area[] =
		"c\0sdr\0qp\0000x200\0max-messages\0001024\0max-message-bytes\000256M\0chunk-bytes\0001024";

	srv_join();
	struct sp_attach_exchange x = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	sp_attach_release(&x);
	int fd = page_comes_first(SP_ATTACH_MR_ALLOC, LARGE, NULL, 0);
	CU_ASSERT_EQUAL(held(fd), LARGE);
	CU_ASSERT_EQUAL(page_comes_first(SP_ATTACH_MR_FREE, given, NULL, 0), -1);
	CU_ASSERT(used_then >= LARGE); /* until it is free it counts, and the reply comes when it is */
	CU_ASSERT_EQUAL(held(fd), 0);
	CU_ASSERT(srv_nic->memory_used < LARGE);
	close(fd);
	fd = page_comes_first(SP_ATTACH_OPEN, 4, area, sizeof(area));
	CU_ASSERT(held(fd) >= 16 << 20);
	CU_ASSERT_EQUAL(page_comes_first(SP_ATTACH_CLOSE, given, NULL, 0), -1);
	CU_ASSERT_EQUAL(held(fd), 0);
	close(fd);
	/* And of who goes. */
	fd = page_comes_first(SP_ATTACH_MR_ALLOC, LARGE, NULL, 0);
	page_comes_first(SP_ATTACH_HELLO, 0, NULL, 0);
	CU_ASSERT(used_then >= LARGE);
	WAIT_FOR(!srv_nic->memory_used);
	CU_ASSERT_EQUAL(held(fd), 0);
	close(fd);
}

TEST(who_wants_much_memory_takes_turns)
{
	const struct sp_attach_request much = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_MR_ALLOC, 0, 0, {LARGE}};
	const struct sp_attach_request less = {SP_ATTACH_MAGIC, SP_ATTACH_VERSION, SP_ATTACH_MR_ALLOC, 0, 0,
					       {LARGE / 4}};
	struct sp_attach_link *other = calloc(1, sizeof(*other));

	srv_begin();
	srv_join();
	struct sp_attach_exchange x = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	sp_attach_release(&x);
	CU_ASSERT_EQUAL_FATAL(sp_attach_connect(other, srv_path), 0);
	x = (struct sp_attach_exchange){.op = SP_ATTACH_HELLO};
	CU_ASSERT_EQUAL_FATAL(sp_attach_exchange(other, &x), 0);
	sp_attach_release(&x);
	pieces = 0;
	held_up = true;
	CU_ASSERT_EQUAL(send(srv_link->fd, &much, sizeof(much), 0), (ssize_t)sizeof(much));
	WAIT_FOR(pieces == 1);
	CU_ASSERT_EQUAL(send(other->fd, &less, sizeof(less), 0), (ssize_t)sizeof(less));
	stop_at = 10; /* by then the second has had its four, and the first six */
	held_up = false;
	CU_ASSERT(is_answered(other, 30000));
	unsigned then = pieces;
	CU_ASSERT(then <= 10);
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

/* The server sleeps: nothing is asked. */
static void owe(sp_time until)
{
	const sp_time now = sp_clock();

	for (unsigned i = 0; i < srv_server->sessions; i++)
		if (!i || srv_server->session[i].ready > now + SP_CREDIT)
			__atomic_store_n(&srv_server->session[i].ready, until, __ATOMIC_SEQ_CST);
}

TEST(who_has_used_too_much_waits_and_others_do_not)
{
	struct sp_attach_link *other = calloc(1, sizeof(*other));

	srv_begin();
	srv_join();
	struct sp_attach_exchange x = srv_asked(SP_ATTACH_REPORT, 0, NULL, 0);
	sp_attach_release(&x);
	owe(sp_clock() + 3600 * SP_SEC);
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
	owe(0);
	x = (struct sp_attach_exchange){.op = SP_ATTACH_REPORT};
	CU_ASSERT_EQUAL(sp_attach_exchange(other, &x), 0);
	sp_attach_release(&x);
	CU_ASSERT(is_answered(srv_link, 30000));
	close(other->fd);
	close(srv_link->fd);
	free(other);
	srv_stop();
}

TEST(control_work_is_charged_to_its_caller)
{
	static struct sp_session session[3];
	struct sp_server s = {.session = session, .sessions = 3};
	sp_time began = sp_clock(), ended;

	sp_session_charge(&s, &session[0], 10 * SP_MS);
	ended = sp_clock();
	CU_ASSERT(session[0].ready >= began + 40 * SP_MS && session[0].ready <= ended + 40 * SP_MS);
	/* Two share a quarter of the time: each has half of that. */
	session[0].ready = session[1].ready = ended + 3600 * SP_SEC;
	began = sp_clock();
	sp_session_charge(&s, &session[2], SP_MS);
	ended = sp_clock();
	CU_ASSERT(session[2].ready >= began + 12 * SP_MS && session[2].ready <= ended + 12 * SP_MS);
	/* Nobody waits for ever. */
	session[0].ready = session[1].ready = 0;
	sp_session_charge(&s, &session[2], 3600 * SP_SEC);
	CU_ASSERT(session[2].ready <= sp_clock() + SP_SEC + SP_CREDIT);
}
