/* SPDX-License-Identifier: BSD-3-Clause */
#include "pause.h"

#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "screen.h"

static volatile sig_atomic_t interrupted, suspended;

static void interrupt(int signal)
{
	if (signal == SIGTSTP)
		suspended = 1;
	else
		interrupted = 1;
}

/* Without SA_RESTART: signals end waits. */
void stat_pause_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
	const struct sigaction action = {.sa_handler = interrupt};
	struct sigaction found;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!sigaction(numbers[i], NULL, &found) && found.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

bool stat_pause_ended(void)
{
	return interrupted;
}

/* Ctrl-Z: gives the terminal back to the shell until the command continues. */
static void suspend(struct stat_view *v)
{
	suspended = 0;
	stat_keys_end(v);
	raise(SIGSTOP);
	v->drawn = 0;
}

/* Sleeps until the next sample, a key, a signal, or the end of a NIC. */
static void sleep_until(const struct stat_pause *p, sp_time until)
{
	const sp_time now = sp_clock();
	struct pollfd wait[STAT_LINKS + 1] = {{.fd = p->view->keys ? STDIN_FILENO : -1, .events = POLLIN}};
	struct timespec rest = {0};
	sigset_t all, found;

	for (unsigned i = 0; i < p->links; i++)
		wait[i + 1] = (struct pollfd){.fd = p->link[i].fd, .events = POLLIN};
	if (now < until)
		rest = (struct timespec){.tv_sec = (time_t)((until - now) / SP_SEC),
					 .tv_nsec = (long)((until - now) % SP_SEC / SP_NS)};
	/* no signal may come between the test of what it sets and the sleep */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &found);
	if (!interrupted && !suspended && ppoll(wait, p->links + 1, &rest, &found) > 0)
		for (unsigned i = 0; i < p->links; i++)
			if (wait[i + 1].revents)
				sp_attach_look(&p->link[i]);
	sigprocmask(SIG_SETMASK, &found, NULL);
}

bool stat_pause(const struct stat_pause *p, sp_time until)
{
	bool quit = false;

	while (!interrupted && !quit) {
		if (suspended)
			suspend(p->view);
		if (p->view->live)
			stat_keys_begin(p->view);
		for (unsigned i = 0; i < p->links; i++)
			if (p->link[i].dead)
				return true;
		if (sp_clock() >= until)
			return true;
		sleep_until(p, until);
		if (stat_keys(p->view, &quit) && !quit)
			p->redraw(p->arg);
	}
	return false;
}
