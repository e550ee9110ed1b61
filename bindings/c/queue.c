/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C half of the library: access to queues, and the memory that they return. The rest is Go, in
 * queue.go.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "_cgo_export.h"

struct quark_queue_state {
	uintptr_t handle;	/* Go's name of the queue */
	uint64_t serial;	/* of the latest quark_queue_get_event() */
	int again;		/* Go has an event that there was no memory for */
	struct block event;
	struct block *blocks;	/* handed out beside the event */
	char backend[32];
};

/*
 * quark_queue.lock: who is inside. One thread uses a queue; the others are counted in the upper
 * bits, and may only do what needs no more than the handle.
 */
#define USED	1u
#define CLOSING	2u
#define OTHER	4u

static __thread char message[MESSAGE_LENGTH];
static __thread const char *last_error = "";

/* Set in a child of fork(2), which lacks the threads of Go's runtime: a call of Go would hang. */
static int forked;

static void set_forked(void)
{
	forked = 1;
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, set_forked);
}

static int fail(int error, const char *text)
{
	last_error = text;
	errno = error;
	return -1;
}

/* What Go returned: 0 or an error, with its text in message. */
static int result(int error)
{
	switch (error) {
	case 0:
		return 0;
	case EAGAIN:
		return fail(error, "no event yet: call quark_queue_block, then quark_queue_get_event");
	case ENODATA:
		return fail(error, "all events of the replay were delivered");
	case ENOMEM:
		return fail(error, "no memory");
	case ESRCH:
		return fail(error, "no process with this pid is known");
	}
	return fail(error, message);
}

const char *quark_last_error(void)
{
	return last_error;
}

static void leave(struct quark_queue *qq, uint32_t who)
{
	__atomic_sub_fetch(&qq->lock, who, __ATOMIC_RELEASE);
}

/* Lets a call in, as USED or OTHER, until leave(). */
static int enter(struct quark_queue *qq, uint32_t who)
{
	uint32_t lock;

	if (forked)
		return fail(ECHILD, "this process was forked after libquark was loaded: call exec "
				    "first, or load libquark in the child alone");
	if (qq == NULL)
		return fail(EINVAL, "the queue is NULL");
	lock = __atomic_load_n(&qq->lock, __ATOMIC_RELAXED);
	do {
		if (lock & CLOSING)
			return fail(EBADF, "the queue is being closed");
		if (lock & who & USED)
			return fail(EBUSY, "another thread is using the queue: use it from one at a time");
	} while (!__atomic_compare_exchange_n(
	    &qq->lock, &lock, lock + who, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
	if (qq->state != NULL)
		return 0;
	leave(qq, who);
	return fail(EBADF, "the queue is not open");
}

/* Gets the room that Go asked for, and some to spare. */
static int grow(struct block *b, size_t spare)
{
	size_t size = b->used + spare;
	void *data = malloc(size);

	if (data == NULL)
		return ENOMEM;
	free(b->data);
	b->data = data;
	b->size = size;
	return 0;
}

static struct block *new_block(void)
{
	return calloc(1, sizeof(struct block));
}

static void free_block(struct block *b)
{
	if (b != NULL)
		free(b->data);
	free(b);
}

static void free_blocks(struct quark_queue_state *s)
{
	struct block *b, *next;

	for (b = s->blocks; b != NULL; b = next) {
		next = b->next;
		free_block(b);
	}
	s->blocks = NULL;
}

/* Keeps returned memory until the next quark_queue_get_event(), or frees it after an error. */
static const void *hand_out(struct quark_queue_state *s, struct block *b, int error)
{
	if (error != 0) {
		free_block(b);
		return NULL;
	}
	b->next = s->blocks;
	s->blocks = b;
	return b->data;
}

void quark_queue_default_attr(struct quark_queue_attr *attr)
{
	if (attr == NULL) {
		fail(EINVAL, "the attributes are NULL");
		return;
	}
	memset(attr, 0, sizeof(*attr));
	attr->flags = QQ_ALL_BACKENDS;
	attr->max_length = 10000;
	attr->cache_grace_time = 4000;
	attr->hold_time = 1000;
}

int quark_queue_open(struct quark_queue *qq, const struct quark_queue_attr *attr)
{
	struct quark_queue_attr defaults;
	struct quark_queue_state *s;
	int error;

	if (qq == NULL)
		return fail(EINVAL, "the queue is NULL");
	memset(qq, 0, sizeof(*qq));
	if (forked)
		return enter(qq, USED);
	if (attr == NULL) {
		quark_queue_default_attr(&defaults);
		attr = &defaults;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return result(ENOMEM);
	error = quarkgo_open((struct quark_queue_attr *)attr, &s->handle, s->backend, sizeof(s->backend), message);
	if (error != 0) {
		free(s);
		return result(error);
	}
	qq->state = s;
	return 0;
}

void quark_queue_close(struct quark_queue *qq)
{
	struct quark_queue_state *s;
	struct timespec pause = {0, 100000};

	if (enter(qq, OTHER) != 0)
		return;
	/* From here on no call comes in, also no second close. */
	if (__atomic_fetch_or(&qq->lock, CLOSING, __ATOMIC_ACQ_REL) & CLOSING) {
		leave(qq, OTHER);
		return;
	}
	s = qq->state;
	quarkgo_stop(s->handle); /* ends a block of another thread */
	while (__atomic_load_n(&qq->lock, __ATOMIC_ACQUIRE) != (CLOSING | OTHER))
		nanosleep(&pause, NULL);
	quarkgo_forget(s->handle);
	free_blocks(s);
	free(s->event.data);
	free(s);
	qq->state = NULL;
	__atomic_store_n(&qq->lock, 0, __ATOMIC_RELEASE);
}

const char *quark_queue_backend(struct quark_queue *qq)
{
	const char *name;

	if (enter(qq, OTHER) != 0)
		return NULL;
	name = qq->state->backend;
	leave(qq, OTHER);
	return name;
}

const struct quark_event *quark_queue_get_event(struct quark_queue *qq)
{
	struct quark_queue_state *s;
	struct quark_event *event = NULL;
	int error;

	if (enter(qq, USED) != 0)
		return NULL;
	s = qq->state;
	if (s->blocks != NULL)
		free_blocks(s);
	s->serial++;
	for (;;) {
		error = quarkgo_get(s->handle, &s->event, s->again, message);
		s->again = error == ENOBUFS;
		if (error != ENOBUFS || (error = grow(&s->event, s->event.used / 2)) != 0)
			break;
	}
	if (error == 0) {
		event = s->event.data;
		event->queue = qq;
		event->serial = s->serial;
	}
	leave(qq, USED);
	result(error);
	return event;
}

int quark_queue_block(struct quark_queue *qq)
{
	return quark_queue_block_for(qq, 100);
}

int quark_queue_block_for(struct quark_queue *qq, int timeout_ms)
{
	int error;

	if (enter(qq, USED) != 0)
		return -1;
	error = quarkgo_block(qq->state->handle, timeout_ms, message);
	leave(qq, USED);
	return result(error);
}

int quark_queue_wake(struct quark_queue *qq)
{
	if (enter(qq, OTHER) != 0)
		return -1;
	quarkgo_wake(qq->state->handle);
	leave(qq, OTHER);
	return 0;
}

int quark_queue_get_epollfd(struct quark_queue *qq)
{
	int fd;

	if (enter(qq, USED) != 0)
		return -1;
	fd = quarkgo_fd(qq->state->handle);
	leave(qq, USED);
	if (fd < 0) /* another thread closes the queue */
		return fail(EBADF, "the queue is being closed");
	return fd;
}

int quark_queue_get_stats(struct quark_queue *qq, struct quark_queue_stats *stats)
{
	int error;

	if (stats == NULL)
		return fail(EINVAL, "the statistics are NULL");
	memset(stats, 0, sizeof(*stats));
	if (enter(qq, OTHER) != 0)
		return -1;
	error = quarkgo_stats(qq->state->handle, stats, message);
	leave(qq, OTHER);
	return result(error);
}

const struct quark_process *quark_process_lookup(struct quark_queue *qq, int pid)
{
	const struct quark_process *process;
	struct block *b;
	int error;

	if (enter(qq, USED) != 0)
		return NULL;
	error = (b = new_block()) == NULL ? ENOMEM : 0;
	while (error == 0 && (error = quarkgo_lookup(qq->state->handle, pid, b)) == ENOBUFS)
		error = grow(b, 0);
	process = hand_out(qq->state, b, error);
	leave(qq, USED);
	result(error);
	return process;
}

void quark_process_iter_init(struct quark_process_iter *iter, struct quark_queue *qq)
{
	struct block *b;
	int error;

	if (iter == NULL) {
		fail(EINVAL, "the iterator is NULL");
		return;
	}
	memset(iter, 0, sizeof(*iter));
	if (enter(qq, USED) != 0) {
		iter->reserved[0] = errno;
		return;
	}
	error = (b = new_block()) == NULL ? ENOMEM : 0;
	while (error == 0 && (error = quarkgo_processes(qq->state->handle, &iter->count, b)) == ENOBUFS)
		error = grow(b, 0);
	iter->processes = hand_out(qq->state, b, error);
	iter->queue = qq;
	iter->serial = qq->state->serial;
	iter->reserved[0] = error;
	leave(qq, USED);
}

const struct quark_process *quark_process_iter_next(struct quark_process_iter *iter)
{
	const struct quark_process *process = NULL;
	int stale;

	if (iter == NULL) {
		fail(EINVAL, "the iterator is NULL");
		return NULL;
	}
	if (iter->reserved[0] != 0) {
		fail(iter->reserved[0], "quark_process_iter_init failed");
		return NULL;
	}
	if (enter(iter->queue, USED) != 0)
		return NULL;
	stale = iter->serial != iter->queue->state->serial;
	if (!stale && iter->next < iter->count)
		process = &iter->processes[iter->next++];
	leave(iter->queue, USED);
	errno = 0;
	if (stale)
		fail(ESTALE, "quark_queue_get_event was called since quark_process_iter_init");
	return process;
}

void quark_cmdline_iter_init(struct quark_cmdline_iter *iter, const char *cmdline, size_t len)
{
	if (iter == NULL) {
		fail(EINVAL, "the iterator is NULL");
		return;
	}
	iter->next = cmdline;
	iter->end = cmdline == NULL ? NULL : cmdline + len;
}

const char *quark_cmdline_iter_next(struct quark_cmdline_iter *iter)
{
	const char *argument;

	if (iter == NULL) {
		fail(EINVAL, "the iterator is NULL");
		return NULL;
	}
	argument = iter->next;
	if (argument == iter->end) {
		errno = 0;
		return NULL;
	}
	/* A cut end has no NUL within len; the one after it is not counted in len. */
	iter->next += strlen(argument);
	if (iter->next < iter->end)
		iter->next++;
	return argument;
}

/* Lets a call in for the queue of an event. */
static int enter_for(const struct quark_event *event)
{
	if (event == NULL)
		return fail(EINVAL, "the event is NULL");
	return enter(event->queue, USED);
}

/* Has Go write the event as text. The caller is inside, and frees or hands out the block. */
static int text_of(const struct quark_event *event, int json, struct block **b)
{
	struct quark_queue_state *s = event->queue->state;
	int error;

	*b = NULL;
	if (event->serial != s->serial) {
		strcpy(message, "the event is of before the latest quark_queue_get_event");
		return ESTALE;
	}
	if ((*b = new_block()) == NULL)
		return ENOMEM;
	while ((error = quarkgo_text(s->handle, json, *b)) == ENOBUFS && (error = grow(*b, 0)) == 0)
		;
	return error;
}

int quark_event_dump(const struct quark_event *event, FILE *file)
{
	struct block *b;
	int error;

	if (file == NULL)
		return fail(EINVAL, "the file is NULL");
	if (enter_for(event) != 0)
		return -1;
	error = text_of(event, 0, &b);
	if (error == 0 && fputs(b->data, file) < 0) {
		error = errno;
		strcpy(message, "the event could not be written to the file");
	}
	free_block(b);
	leave(event->queue, USED);
	return result(error);
}

const char *quark_event_json(const struct quark_event *event)
{
	const char *text;
	struct block *b;
	int error;

	if (enter_for(event) != 0)
		return NULL;
	error = text_of(event, 1, &b);
	text = hand_out(event->queue->state, b, error);
	leave(event->queue, USED);
	result(error);
	return text;
}
