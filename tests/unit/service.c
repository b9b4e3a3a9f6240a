/* SPDX-License-Identifier: BSD-3-Clause */
/* What the NIC's socket gives programs that attach: places, limits, wake-ups; and the ends of programs and NICs. */
#include "../../pipeline/engine.h"
#include "../lib/test_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

static unsigned maps(const char *name)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, name) != NULL;
	fclose(f);
	return n;
}

#define RULE(rule)		     TEST_BETWEEN(srv_begin, srv_stop, rule)
#define RULE_AFTER_SRV_PREPARE(rule) TEST_BETWEEN(srv_prepare, srv_stop, rule)

static const struct sp_setting one_qp[] = {{"qp", "0x100"}, {"mtu", "1024"}};

RULE(a_thousand_attaches_leave_nothing)
{
	unsigned fds = 0;

	for (unsigned i = 0; i < suite_times(1000); i++) {
		struct sp_event result;
		struct sp_command query = {.op = SP_CMD_QUERY};
		struct sp_dev *dev;
		struct sp_mr *mr;
		uint64_t len;
		uint32_t id;
		void *area;

		CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 10000, &mr), 0);
		memset(mr->addr, 1, mr->len);
		CU_ASSERT_EQUAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
		CU_ASSERT_EQUAL(sp_context_area(dev, id, &area, &len), 0);
		CU_ASSERT_PTR_NOT_NULL(area);
		query.context = id;
		sp_command_call(dev, &query, &result);
		CU_ASSERT_EQUAL(sp_event_take(dev, id, &result), 0);
		if (i % 3 == 1)
			CU_ASSERT_EQUAL(sp_context_close(dev, id), 0);
		if (i % 2)
			CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
		sp_dev_close(dev);
		srv_wait_idle();
		if (!i) { /* the notifier's own are there from the first on */
			WAIT_FOR(!maps("memfd:spindle"));
			fds = srv_entries("/proc/self/fd");
		}
	}
	WAIT_FOR(srv_entries("/proc/self/fd") == fds);
	WAIT_FOR(maps("memfd:spindle") == 0); /* the last goes after the account is empty */
}

static unsigned attaches, configures;

static int configure(struct sp_ctx *c, uint64_t *area)
{
	CU_ASSERT_PTR_NULL(sp_host_area(c));
	configures++;
	*area = sp_param_uint(c, "area");
	return 0;
}

static int attach(struct sp_ctx *c)
{
	const struct sp_mem *area = sp_host_area(c);

	attaches++;
	CU_ASSERT_PTR_NOT_NULL_FATAL(area);
	CU_ASSERT_EQUAL(area->len, sp_param_uint(c, "area"));
	return sp_qp_claim(c, 2);
}

static uint32_t take(struct sp_ctx *c, struct sp_message *m, struct sp_packet *p)
{
	return SP_DONE;
}

static const struct sp_param area_params[] = {{"area", SP_UINT, NULL, .help = "bytes"}, {NULL}};
static const struct sp_handler once = {SP_HANDLER_HEAD,	       .name = "once",	 .params = area_params,
				       .configure = configure, .attach = attach, .payload = take};
SP_HANDLER(once)

/* The server makes a large area in slices between other requests; a small one at once. */
RULE(attach_runs_once_however_large_the_area_is)
{
	static const char *const bytes[] = {"4096", "67108864"};

	for (unsigned i = 0; i < 2; i++) {
		const struct sp_setting setting[] = {{"qp", "any"}, {"area", bytes[i]}};
		struct sp_dev *dev;
		uint32_t id, qp;
		uint64_t len;
		void *area;

		attaches = configures = 0;
		CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
		CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, NULL, "once", setting, 2, &id, NULL), 0);
		CU_ASSERT_EQUAL(attaches, 1);
		CU_ASSERT(configures == 1 || configures == 2);
		CU_ASSERT_EQUAL(sp_context_area(dev, id, &area, &len), 0);
		CU_ASSERT_EQUAL(len, strtoull(bytes[i], NULL, 10));
		CU_ASSERT_EQUAL(sp_context_qp(dev, id, &qp), 0);
		CU_ASSERT(qp >= SP_QP_ANY_FIRST && qp < SP_QP_CONTROL_FIRST);
		CU_ASSERT_EQUAL(sp_context_qp(dev, id + 1, &qp), -ENOENT);
		sp_dev_close(dev);
		srv_wait_idle();
	}
}

RULE_AFTER_SRV_PREPARE(limits_are_per_application_and_say_what_is_reached)
{
	struct sp_attach_exchange hello, x = {.op = SP_ATTACH_MR_ALLOC, .arg = {2u << 20}};
	struct sp_dev *dev[2];
	struct sp_mr *mr[2];
	struct sp_error error = {.text = ""};
	uint32_t id;

	srv_config.users = 1;
	srv_config.user[0] = (struct sp_user_limits){
		.everyone = true, .limits = {.memory = 1 << 20, .contexts = 2, .qps = 100, .messages = 4}};
	srv_start();
	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev[0]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev[1]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 2u << 20, &mr[0]), -EDQUOT);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 512 << 10, &mr[0]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 512 << 10, &mr[1]), -EDQUOT);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[1], 512 << 10, &mr[1]), 0); /* the neighbour has its own */
	CU_ASSERT_EQUAL(sp_mr_free(mr[0]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 512 << 10, &mr[0]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr[0]), 0);
	CU_ASSERT_EQUAL(sp_context_open(dev[0], "a", "count", NULL, 0, &id, &error), -EDQUOT); /* its flows */
	CU_ASSERT_NOT_EQUAL(error.text[0], 0);
	for (unsigned i = 0; i < 3; i++) {
		const char *name = (const char *[]){"a", "b", "c"}[i];

		CU_ASSERT_EQUAL(
			sp_context_open(dev[0], name, "reflect", &(struct sp_setting){"filter", "udp"}, 1, &id, &error),
			i < 2 ? 0 : -EDQUOT);
	}
	CU_ASSERT_NOT_EQUAL(error.text[0], 0);
	CU_ASSERT_EQUAL(sp_context_open(dev[1], "c", "reflect", &(struct sp_setting){"filter", "udp"}, 1, &id, &error),
			0);

	/* The words for memory are in the reply. */
	srv_join();
	hello = srv_asked(SP_ATTACH_HELLO, 0, NULL, 0);
	sp_attach_release(&hello);
	x.error = &error;
	CU_ASSERT_EQUAL(sp_attach_exchange(srv_link, &x), -EDQUOT);
	CU_ASSERT_STRING_EQUAL(error.key, "memory");
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "1048576"));
	close(srv_link->fd);
	sp_dev_close(dev[0]);
	sp_dev_close(dev[1]);
	srv_wait_idle();
}

RULE(regions_are_limited_and_given_back)
{
	static struct sp_mr *mr[SP_REGIONS + 1];
	struct sp_dev *dev[2];
	unsigned n = 0, fds;

	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev[0]), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev[1]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[1], 1, &mr[0]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr[0]), 0);
	srv_wait_freed();
	fds = srv_entries("/proc/self/fd");
	while (n <= SP_REGIONS && !sp_mr_alloc(dev[0], 1, &mr[n]))
		n++;
	CU_ASSERT_EQUAL(n, SP_REGIONS);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 1, &mr[n]), -EDQUOT);
	/* One for the reaper, none for the application; that of the refused one goes. */
	WAIT_FOR(srv_entries("/proc/self/fd") == fds + SP_REGIONS);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[1], 1, &mr[n]), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr[7]), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev[0], 1, &mr[7]), 0);
	sp_dev_close(dev[0]);
	sp_dev_close(dev[1]);
	srv_wait_idle();
}

RULE_AFTER_SRV_PREPARE(only_so_many_applications_fit_and_observers_beside_them)
{
	struct sp_dev *dev[3];

	srv_config.applications = 2;
	srv_start();
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev[0]), 0);
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev[1]), 0);
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev[2]), -EUSERS);
	int fd = raw_connect();
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), -EUSERS);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	close(fd);
	sp_dev_close(dev[0]);
	WAIT_FOR(__atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE) && !srv_nic->device->next);
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev[2]), 0);
	sp_dev_close(dev[2]);
	sp_dev_close(dev[1]);
	srv_wait_idle();
}

RULE(who_leaves_has_nothing_there_and_asks_nothing_more)
{
	struct sp_dev *dev, *embedded;
	struct sp_mr *mr;
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL(sp_mr_alloc(dev, 4096, &mr), 0);
	CU_ASSERT_EQUAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
	sp_attach_leave(dev);
	CU_ASSERT_EQUAL(sp_context_close(dev, id), -ENODEV);
	CU_ASSERT_EQUAL(sp_mr_free(mr), -ENODEV);
	WAIT_FOR(!__atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE));
	sp_dev_close(dev); /* until then it has the memory */
	srv_wait_idle();
	CU_ASSERT_EQUAL_FATAL(sp_nic_dev(srv_nic, false, &embedded), 0);
	sp_attach_leave(embedded); /* is not attached */
	CU_ASSERT_EQUAL(sp_mr_alloc(embedded, 4096, &mr), 0);
	CU_ASSERT_EQUAL(sp_mr_free(mr), 0);
	sp_dev_close(embedded);
}

/* Programs of that user that find a place, which they keep. */
static unsigned places_for(uid_t uid)
{
	unsigned n = 0;
	int fd;

	if (seteuid(uid))
		return 99;
	while ((fd = raw_try()) >= 0 && !raw(fd, SP_ATTACH_HELLO, 0, NULL, 0))
		n++;
	return seteuid(0) ? 99 : n; /* one connection more is no application */
}

TEST(no_user_takes_the_places_of_others)
{
	for (unsigned what = 0; what < 2; what++) {
		int status = -1;

		srv_prepare();
		srv_config.mode = 0666;
		srv_config.applications = 16;
		if (what) {
			srv_config.users = 1;
			srv_config.user[0] = (struct sp_user_limits){.everyone = true, .applications = 3};
		}
		srv_start();
		if (getuid()) {
			printf("# not root: other users are not tried\n");
			srv_stop();
			return;
		}
		pid_t pid = fork();
		if (!pid) {
			const unsigned one = places_for(65534), two = places_for(65533), root = places_for(0);

			/* 4 of 16 are root's. */
			_exit(what ? one != 3 || two != 3 || root != 3 : one != 8 || two != 4 || root != 4);
		}
		waitpid(pid, &status, 0);
		CU_ASSERT_EQUAL(status, 0);
		srv_wait_idle();
		srv_stop();
	}
}

TEST(every_call_says_so_when_the_nic_has_gone)
{
	struct sp_command command = {.op = SP_CMD_QUERY};
	struct sp_dev *dev, *again;
	struct sp_event event;
	struct sp_mr *mr, *other;
	uint64_t len;
	uint32_t id;
	uint8_t ip[16];
	void *area;
	unsigned tried = 0;
	int rc;

	for (unsigned what = 0; what < 3; what++) { /* what is called first */
		srv_begin();
		CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 4096, &mr), 0);
		CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
		CU_ASSERT_EQUAL(sp_dev_arm(dev), 0);
		CU_ASSERT_EQUAL(sp_dev_wait(dev, 0), -ETIMEDOUT);
		command.context = id;
		srv_stop();
		memset(mr->addr, 2, mr->len); /* still there */
		if (what == 0) {
			rc = sp_dev_wait(dev, SP_NEVER); /* wakes, and does not hang */
			CU_ASSERT(rc == 0 || rc == -ENODEV);
			CU_ASSERT_EQUAL(sp_dev_arm(dev), -ENODEV);
		} else if (what == 1) { /* a program that does nothing but look for events or closed contexts */
			while ((rc = sp_event_take(dev, id, &event)) == 0 && tried++ < 1000000)
				;
			CU_ASSERT(rc == -ENODEV || rc == -ECONNRESET); /* the context went first */
		}
		CU_ASSERT_EQUAL(sp_command_call(dev, &command, &event), -ENODEV);
		CU_ASSERT_EQUAL(sp_command_post(dev, &command), -ENODEV);
		CU_ASSERT_EQUAL(sp_event_take(dev, id, &event), -ENODEV);
		CU_ASSERT_EQUAL(sp_progress(dev, sp_clock()), -ENODEV);
		CU_ASSERT_EQUAL(sp_dev_arm(dev), -ENODEV);
		CU_ASSERT_EQUAL(sp_dev_wait(dev, SP_NEVER), -ENODEV);
		CU_ASSERT_EQUAL(sp_dev_address(dev, AF_INET, ip), -ENODEV);
		CU_ASSERT_EQUAL(sp_context_area(dev, id, &area, &len), -ENODEV);
		CU_ASSERT_EQUAL(sp_mr_alloc(dev, 1, &other), -ENODEV);
		CU_ASSERT_EQUAL(sp_context_open(dev, "d", "sdr", one_qp, 2, &id, NULL), -ENODEV);
		CU_ASSERT_EQUAL(sp_mr_free(mr), -ENODEV);
		CU_ASSERT_EQUAL(sp_context_close(dev, id), -ENODEV);
		CU_ASSERT_EQUAL(sp_attach(srv_path, &again), -ENOENT);
		srv_begin();
		CU_ASSERT_EQUAL(sp_attach(srv_path, &again), 0); /* the NIC is back */
		CU_ASSERT_EQUAL(sp_progress(dev, sp_clock()), -ENODEV);
		sp_dev_close(again);
		sp_dev_close(dev);
		srv_wait_idle();
		WAIT_FOR(maps("memfd:spindle") == 0); /* the last goes after the account is empty */
		srv_stop();
	}
}

RULE(an_application_that_dies_takes_its_contexts_with_it_and_nothing_else)
{
	struct sp_dev *dev;
	uint32_t id, mine;
	int ready[2], status;
	char byte;

	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL(sp_context_open(dev, "mine", "reflect", &(struct sp_setting){"filter", "udp"}, 1, &mine, NULL),
			0);
	for (unsigned i = 0; i < 20; i++) {
		CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
		pid_t pid = fork();

		if (!pid) {
			struct sp_dev *own;
			struct sp_mr *mr;

			if (sp_attach(srv_path, &own) || sp_mr_alloc(own, 1 << 20, &mr) ||
			    sp_context_open(own, "theirs", "sdr", one_qp, 2, &id, NULL))
				_exit(1);
			for (unsigned k = 0; k < 8; k++) {
				struct sp_command post = {
					.op = SP_CMD_POST, .context = id, .cookie = k, .arg = {mr->id, 0, 1000}};

				sp_command_post(own, &post);
			}
			if (write(ready[1], "", 1) == 1)
				pause();
			_exit(1);
		}
		close(ready[1]);
		CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
		CU_ASSERT_EQUAL(sp_nic_context_find(srv_nic, "theirs", &id), 0);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		close(ready[0]);
		WAIT_FOR(sp_nic_context_find(srv_nic, "theirs", &id) == -ENOENT);
	}
	CU_ASSERT_EQUAL(sp_nic_context_find(srv_nic, "mine", &id), 0);
	CU_ASSERT_EQUAL(sp_context_close(dev, mine), 0);
	sp_dev_close(dev);
	srv_wait_idle();
}

RULE_AFTER_SRV_PREPARE(one_path_belongs_to_one_nic_and_what_a_dead_one_left_is_taken)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct sp_server *second = NULL;
	struct sp_error error;
	struct sp_dev *dev;
	char pid[24];

	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strcpy(at.sun_path, srv_path);
	CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	close(fd);
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev), -ECONNREFUSED);
	srv_start();
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev), 0);
	sp_dev_close(dev);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	CU_ASSERT_EQUAL(sp_server_start(srv_nic, &srv_config, &error, &second), -EADDRINUSE);
	CU_ASSERT_PTR_NOT_NULL(strstr(error.text, pid));
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev), 0); /* the first is unharmed */
	sp_dev_close(dev);
	srv_wait_idle();
	srv_stop();

	/* A file is nobody's socket. */
	fd = open(srv_path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	cable_open(&srv_cable);
	struct sp_nic_config c = {.ports = 1};

	c.port[0] = (struct sp_port_config){.ops = &cable_ops, .ops_arg = &srv_cable.end[0]};
	CU_ASSERT_EQUAL_FATAL(sp_nic_create(&c, &error, &srv_nic), 0);
	CU_ASSERT_EQUAL(sp_server_start(srv_nic, &srv_config, &error, &second), -EINVAL); /* no workers */
	CU_ASSERT_EQUAL_FATAL(sp_nic_start(srv_nic), 0);
	CU_ASSERT_EQUAL(sp_server_start(srv_nic, &srv_config, &error, &second), -EEXIST);
	CU_ASSERT_EQUAL(access(srv_path, F_OK), 0);
	CU_ASSERT_EQUAL(sp_attach(srv_path, &dev), -ECONNREFUSED);
	unlink(srv_path);
	CU_ASSERT_EQUAL_FATAL(sp_server_start(srv_nic, &srv_config, &error, &srv_server), 0);
}

/* In a process of user 65534. */
static int as_nobody(int (*run)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(setgid(65534) || setuid(65534) ? 99 : run() & 0x7F);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int try_attach(void)
{
	struct sp_dev *dev;
	int rc = sp_attach(srv_path, &dev);

	if (!rc)
		sp_dev_close(dev);
	return -rc;
}

static int try_capture(void)
{
	struct sp_capture_request request = {.flags = 0};
	int fd = raw_try(); /* not an assertion: this is another process */

	return fd < 0 ? EBADF : -raw(fd, SP_ATTACH_CAPTURE, 0, &request, sizeof(request));
}

static int try_handlers(void)
{
	int fd = raw_try();

	return fd < 0 || raw(fd, SP_ATTACH_REPORT, SP_REPORT_ALL, NULL, 0)
		       ? EBADF
		       : -raw(fd, SP_ATTACH_REPORT, SP_REPORT_HANDLERS, NULL, 0);
}

RULE_AFTER_SRV_PREPARE(mode_and_limits_decide_what_users_may_do)
{
	struct sp_capture_request request = {.flags = 0};
	struct stat st;

	srv_config.users = 2;
	srv_config.user[0] = (struct sp_user_limits){.uid = getuid(), .refused = true};
	srv_config.user[1] = (struct sp_user_limits){.everyone = true};
	srv_start();
	CU_ASSERT_EQUAL(stat(srv_path, &st), 0);
	CU_ASSERT_EQUAL(st.st_mode & 0777, 0600);
	CU_ASSERT_EQUAL(try_attach(), EACCES); /* the first that fits counts */
	int fd = raw_connect();
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_HELLO, 0, NULL, 0), -EACCES);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_REPORT, 0, NULL, 0), 0);
	CU_ASSERT_EQUAL(raw(fd, SP_ATTACH_CAPTURE, 0, &request, sizeof(request)), 0);
	close(fd);
	if (!getuid())
		CU_ASSERT_EQUAL(as_nobody(try_attach), EACCES); /* not by the mode */
	srv_stop();
	srv_config.mode = 0666;
	srv_start();
	if (!getuid()) {
		CU_ASSERT_EQUAL(as_nobody(try_attach), 0);
		CU_ASSERT_EQUAL(as_nobody(try_capture), EPERM);
		CU_ASSERT_EQUAL(as_nobody(try_handlers), EPERM); /* workers would make it: packets would wait */
	} else {
		printf("# not root: other users are not tried\n");
	}
}

RULE(a_sleeper_wakes_for_an_event_and_for_nothing_of_others)
{
	struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY, .cookie = 9};
	struct sp_dev *dev, *other;
	struct sp_event event;
	uint32_t id;
	unsigned got = 0;

	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &other), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
	query.context = id;
	CU_ASSERT_EQUAL(sp_dev_arm(other), 0);
	for (unsigned i = 0; i < 1000; i++) {
		CU_ASSERT_EQUAL(sp_dev_arm(dev), 0);
		CU_ASSERT_EQUAL(sp_command_post(dev, &query), 0);
		CU_ASSERT_EQUAL(sp_dev_wait(dev, PATIENCE), 0);
		while (sp_event_take(dev, id, &event) == 1)
			got += event.cookie == 9;
		while (got <= i) { /* woken for nothing, which may be */
			CU_ASSERT_EQUAL_FATAL(sp_dev_arm(dev), 0);
			if (sp_event_take(dev, id, &event) == 1)
				got += event.cookie == 9;
			else
				CU_ASSERT_EQUAL_FATAL(sp_dev_wait(dev, PATIENCE), 0);
		}
	}
	CU_ASSERT_EQUAL(got, 1000);
	CU_ASSERT_EQUAL(sp_dev_wait(other, 0), -ETIMEDOUT);
	sp_dev_close(other);
	sp_dev_close(dev);
	srv_wait_idle();
}

static bool is_parked(void)
{
	const struct sp_device *d = __atomic_load_n(&srv_nic->device, __ATOMIC_ACQUIRE);

	for (unsigned w = 0; w < srv_nic->workers; w++)
		if (atomic_load(&d->commands[w].state) != SP_QUEUE_PARKED)
			return false;
	return true;
}

RULE(a_parked_application_is_woken_by_its_next_post)
{
	struct sp_command query = {.op = SP_CMD_QUERY, .flags = SP_CMD_REPLY};
	struct sp_event event;
	struct sp_dev *dev;
	uint32_t id;

	CU_ASSERT_EQUAL_FATAL(sp_attach(srv_path, &dev), 0);
	CU_ASSERT_EQUAL_FATAL(sp_context_open(dev, "c", "sdr", one_qp, 2, &id, NULL), 0);
	query.context = id;
	srv_nic->park_after = 16;
	for (unsigned i = 0; i < 100; i++) {
		query.cookie = i;
		if (i) /* the first is parked after the default number of polls */
			WAIT_FOR(is_parked());
		CU_ASSERT_EQUAL_FATAL(sp_command_post(dev, &query), 0);
		event.cookie = UINT64_MAX;
		WAIT_FOR(event.cookie == i || sp_event_take(dev, id, &event) == 1);
		CU_ASSERT_EQUAL(event.cookie, i);
		if (i % 2) { /* a call comes after what was posted before */
			WAIT_FOR(is_parked());
			CU_ASSERT_EQUAL(sp_command_post(dev, &query), 0);
			sp_command_call(dev, &query, NULL);
			CU_ASSERT_EQUAL(sp_event_take(dev, id, &event), 1);
		}
	}
	sp_dev_close(dev);
	srv_wait_idle();
}
