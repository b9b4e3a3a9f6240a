/* SPDX-License-Identifier: BSD-3-Clause */
#include "interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <rte_eal.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static struct {
	void (*abandon)(void *arg);
	void *arg;
	sigset_t set;
	sem_t first;
} interrupt;

/* A thread, not a signal handler: it runs even if the command hangs in a driver, and may call any function. */
static void *wait_signals(void *arg)
{
	int number;

	(void)arg;
	while (sigwait(&interrupt.set, &number))
		;
	sem_post(&interrupt.first);
	while (sigwait(&interrupt.set, &number))
		;
	if (interrupt.abandon)
		interrupt.abandon(interrupt.arg);
	signal(number, SIG_DFL);
	pthread_sigmask(SIG_UNBLOCK, &interrupt.set, NULL);
	raise(number);
	_exit(1); /* not reached */
}

int interrupt_start(void (*abandon)(void *arg), void *arg)
{
	struct sigaction hangup;
	pthread_t thread;
	int result;

	interrupt.abandon = abandon;
	interrupt.arg = arg;
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&interrupt.set);
	sigaddset(&interrupt.set, SIGINT);
	sigaddset(&interrupt.set, SIGTERM);
	if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler != SIG_IGN)
		sigaddset(&interrupt.set, SIGHUP);
	if (sem_init(&interrupt.first, 0, 0))
		return -errno;
	result = pthread_sigmask(SIG_BLOCK, &interrupt.set, NULL);
	if (!result)
		result = pthread_create(&thread, NULL, wait_signals, NULL);
	if (!result)
		pthread_detach(thread);
	return -result;
}

static void note(int number)
{
	signal(number, SIG_DFL);
	sem_post(&interrupt.first);
}

int interrupt_note(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action;

	if (sem_init(&interrupt.first, 0, 0))
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!sigaction(numbers[i], NULL, &action) && action.sa_handler != SIG_IGN) /* nohup */
			signal(numbers[i], note);
	return 0;
}

void interrupt_wait(void)
{
	while (sem_wait(&interrupt.first) && errno == EINTR)
		;
}

bool interrupt_came(void)
{
	int count;

	return !sem_getvalue(&interrupt.first, &count) && count > 0;
}

/* A signal handler: only system calls. */
static void clean(int number)
{
	rmdir(rte_eal_get_runtime_dir());
	signal(number, SIG_DFL);
	raise(number); /* it is delivered when this function has returned */
}

void interrupt_clean(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action;

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!sigaction(numbers[i], NULL, &action) && action.sa_handler == SIG_DFL)
			signal(numbers[i], clean);
}
