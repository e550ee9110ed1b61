/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses each function of libquark, rightly and wrongly: check RECORDING TORN. It is meant to run
 * under valgrind(1), and reads every byte that it is given. The recording is that of record.go.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <quark.h>

#define CHECK(condition)                                                                       \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: %s (errno %d, %s)\n", __FILE__, __LINE__,      \
				#condition, errno, quark_last_error());                        \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

static volatile unsigned sum;

static void read_bytes(const void *data, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sum += ((const unsigned char *)data)[i];
}

static void read_text(const char *text)
{
	if (text != NULL)
		read_bytes(text, strlen(text) + 1);
}

static void read_process(const struct quark_process *p)
{
	struct quark_cmdline_iter args;
	const char *arg;

	read_bytes(p, sizeof(*p));
	CHECK(memchr(p->comm, 0, sizeof(p->comm)) != NULL);
	read_text(p->filename);
	read_text(p->cwd);
	read_text(p->cgroup);
	read_text(p->exec_path);
	CHECK((p->cmdline != NULL) == !!(p->flags & QUARK_F_CMDLINE));
	if (p->cmdline != NULL)
		read_bytes(p->cmdline, p->cmdline_len + 1);
	if (p->environ != NULL)
		read_bytes(p->environ, p->environ_len + 1);
	quark_cmdline_iter_init(&args, p->cmdline, p->cmdline_len);
	while ((arg = quark_cmdline_iter_next(&args)) != NULL)
		read_text(arg);
	CHECK((p->fields_cached & ~p->fields_known) == 0 && (p->fields_truncated & ~p->fields_known) == 0);
}

static void read_event(const struct quark_event *event)
{
	const char *json;
	size_t size;
	char *dump;
	FILE *file;

	read_bytes(event, sizeof(*event));
	read_bytes(event->parts, event->nparts * sizeof(*event->parts));
	read_text(event->exec_failed_path);
	CHECK((event->process == NULL) == !!(event->events & QUARK_EV_GAP));
	if (event->process != NULL)
		read_process(event->process);
	json = quark_event_json(event);
	CHECK(json != NULL && json[0] == '{');
	read_text(json);
	file = open_memstream(&dump, &size);
	CHECK(quark_event_dump(event, file) == 0 && fclose(file) == 0 && size > 0);
	free(dump);
}

static int open_with(struct quark_queue *queue, int flags, int hold_time, const char *filter, const char *replay)
{
	struct quark_queue_attr attr;

	quark_queue_default_attr(&attr);
	attr.flags = flags;
	attr.hold_time = hold_time;
	attr.filter = filter;
	attr.replay = replay;
	return quark_queue_open(queue, &attr);
}

/* Waits for the next event; NULL is the end, or an error. The clock of a replay moves in a block. */
static const struct quark_event *next_event(struct quark_queue *queue)
{
	const struct quark_event *event;

	while ((event = quark_queue_get_event(queue)) == NULL && errno == EAGAIN)
		CHECK(quark_queue_block(queue) == 0);
	return event;
}

static void check_errors(const char *recording, const char *torn)
{
	struct quark_queue queue, closed = {0};
	struct quark_queue_attr attr;
	struct quark_queue_stats stats;
	struct quark_process_iter iter;

	CHECK(quark_queue_open(NULL, NULL) == -1 && errno == EINVAL);
	CHECK(open_with(&queue, 0, 0, NULL, NULL) == -1 && errno == EINVAL);
	CHECK(strstr(quark_last_error(), "QQ_ALL_BACKENDS"));
	CHECK(open_with(&queue, QQ_CNPROC | 1 << 14, 0, NULL, NULL) == -1 && errno == EINVAL);
	CHECK(strstr(quark_last_error(), "no flag 0x4000"));
	CHECK(open_with(&queue, QQ_CNPROC, 5, NULL, NULL) == -1 && errno == EINVAL);
	CHECK(strstr(quark_last_error(), "HoldTime"));
	CHECK(open_with(&queue, QQ_CNPROC, -1, NULL, NULL) == -1 && errno == EINVAL);
	CHECK(open_with(&queue, QQ_CNPROC, 0, "exec and", NULL) == -1 && errno == EINVAL);
	CHECK(strstr(quark_last_error(), "filter"));
	CHECK(open_with(&queue, 0, 0, NULL, "/nowhere/at/all") == -1 && errno == ENOENT);
	CHECK(open_with(&queue, 0, 0, NULL, "/dev/null") == -1 && errno == EBADMSG);
	quark_queue_default_attr(&attr);
	attr.reserved[8] = 1;
	CHECK(quark_queue_open(&queue, &attr) == -1 && errno == EINVAL);

	CHECK(quark_queue_get_event(&closed) == NULL && errno == EBADF);
	CHECK(quark_queue_block(&closed) == -1 && errno == EBADF);
	CHECK(quark_queue_wake(&closed) == -1 && errno == EBADF);
	CHECK(quark_queue_get_epollfd(&closed) == -1 && errno == EBADF);
	CHECK(quark_queue_get_stats(&closed, &stats) == -1 && errno == EBADF);
	CHECK(quark_queue_backend(&closed) == NULL && errno == EBADF);
	CHECK(quark_process_lookup(&closed, 1) == NULL && errno == EBADF);
	quark_process_iter_init(&iter, &closed);
	CHECK(quark_process_iter_next(&iter) == NULL && errno == EBADF);
	quark_queue_close(&closed);

	/* A recording that was cut says so at its end; a long name does not fit into the message. */
	CHECK(open_with(&queue, 0, 0, NULL, torn) == 0);
	while (next_event(&queue) != NULL)
		;
	CHECK(errno == EBADMSG);
	quark_queue_close(&queue);
	char name[4096];
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	CHECK(open_with(&queue, 0, 0, NULL, name) == -1 && errno == ENAMETOOLONG);
	CHECK(strlen(quark_last_error()) == 1023);
	CHECK(open_with(&queue, 0, 0, "comm == 'nobody'", recording) == 0);
	const struct quark_event *event;
	while ((event = next_event(&queue)) != NULL)
		CHECK(event->events == QUARK_EV_GAP);
	CHECK(errno == ENODATA);
	CHECK(quark_queue_get_stats(&queue, &stats) == 0 && stats.filtered > 0);
	quark_queue_close(&queue);
}

static void check_replay(const char *recording)
{
	struct quark_queue queue;
	struct quark_queue_stats stats;
	struct quark_process_iter iter;
	const struct quark_process *one, *two, *p;
	const struct quark_event *event;
	struct quark_event old;
	unsigned pid = 0, n = 0, long_args = 0;
	uint64_t seen = 0, lost = 0;

	CHECK(open_with(&queue, 0, 0, NULL, recording) == 0);
	CHECK(strcmp(quark_queue_backend(&queue), "enginetest") == 0);
	quark_process_iter_init(&iter, &queue);
	while ((p = quark_process_iter_next(&iter)) != NULL) {
		CHECK(p->pid > pid);
		pid = p->pid;
		read_process(p);
		n++;
	}
	CHECK(errno == 0 && n == 2);
	one = quark_process_lookup(&queue, 1);
	two = quark_process_lookup(&queue, 2);
	CHECK(one != NULL && two != NULL && one->pid == 1 && two->proc_ppid == 1);
	CHECK(strcmp(one->comm, "init") == 0 && strcmp(two->filename, "/bin/sh") == 0);
	CHECK(quark_process_lookup(&queue, 99999) == NULL && errno == ESRCH);
	memset(&old, 0, sizeof(old));
	while ((event = next_event(&queue)) != NULL) {
		read_event(event);
		seen |= event->events;
		lost += event->gap_count;
		CHECK(quark_process_iter_next(&iter) == NULL && errno == ESTALE);
		if (old.queue != NULL) {
			CHECK(quark_event_json(&old) == NULL && errno == ESTALE);
			CHECK(quark_event_dump(&old, stderr) == -1 && errno == ESTALE);
		}
		old = *event;
		if (event->process == NULL || !(event->events & QUARK_EV_EXIT))
			continue;
		p = quark_process_lookup(&queue, (int)event->process->pid);
		CHECK(p != NULL && p->exited && strcmp(p->comm, event->process->comm) == 0);
		long_args |= event->process->cmdline_len > 18000;
		CHECK(event->process->exit_code == 3 || WTERMSIG(event->process->wait_status) == SIGKILL);
	}
	CHECK(errno == ENODATA && long_args);
	CHECK(seen == (QUARK_EV_FORK | QUARK_EV_EXEC | QUARK_EV_EXIT | QUARK_EV_ID_CHANGE |
		       QUARK_EV_SETPROCTITLE | QUARK_EV_GAP | QUARK_EV_EXEC_FAILED | QUARK_EV_NS_CHANGE));
	CHECK(quark_queue_get_stats(&queue, &stats) == 0);
	CHECK(stats.insertions == stats.removals && stats.lost == lost && lost == 7);
	CHECK(stats.lost_by[QUARK_LOSS_SKIPPED] == 7 && stats.buffered == 0);
	quark_queue_close(&queue);
	CHECK(quark_queue_get_event(&queue) == NULL && errno == EBADF);
	quark_queue_close(&queue);
}

/*
 * A process is as of the latest event until the next is asked for, also after a block; and queues
 * that are open together are two.
 */
static void check_block(const char *recording)
{
	struct quark_queue queue, other;
	const struct quark_process *p;
	const struct quark_event *event;
	uint64_t as_of = 0;

	CHECK(open_with(&other, 0, 0, NULL, recording) == 0 && open_with(&queue, 0, 0, NULL, recording) == 0);
	CHECK(next_event(&other) != NULL);
	while ((event = quark_queue_get_event(&queue)) != NULL || errno == EAGAIN) {
		if ((p = quark_process_lookup(&queue, 2)) != NULL)
			as_of = p->as_of;
		CHECK(event != NULL || quark_queue_block(&queue) == 0);
		CHECK((p = quark_process_lookup(&queue, 2)) == NULL || p->as_of == as_of);
	}
	CHECK(errno == ENODATA);
	quark_queue_close(&queue);
	CHECK(next_event(&other) != NULL);
	CHECK(open_with(&queue, 0, 0, NULL, recording) == 0 && next_event(&queue) != NULL);
	quark_queue_close(&other);
	CHECK(next_event(&queue) != NULL);
	quark_queue_close(&queue);
}

/* What reports a write error is the file: /dev/full has no room. */
static void check_full(const char *recording)
{
	struct quark_queue queue;
	FILE *full = fopen("/dev/full", "w");
	const struct quark_event *event;

	CHECK(full != NULL && setvbuf(full, NULL, _IONBF, 0) == 0);
	CHECK(open_with(&queue, 0, 0, NULL, recording) == 0);
	event = next_event(&queue);
	CHECK(quark_event_dump(event, full) == -1 && errno == ENOSPC);
	fclose(full);
	/* Closing frees what was handed out, whether or not another event was asked for. */
	CHECK(quark_event_json(event) != NULL && quark_process_lookup(&queue, 1) != NULL);
	quark_queue_close(&queue);
}

/* NULL is EINVAL, with a text, wherever it has no other meaning. */
static void check_null(const char *recording)
{
	struct quark_queue queue;
	struct quark_queue_stats stats;
	struct quark_process_iter iter;
	struct quark_event none = {0};
	const struct quark_event *event;

#define REFUSED(call)                                                                          \
	do {                                                                                   \
		errno = 0;                                                                     \
		CHECK((call) && errno == EINVAL && strstr(quark_last_error(), "NULL"));        \
	} while (0)

	CHECK(open_with(&queue, 0, 0, NULL, recording) == 0);
	event = next_event(&queue);
	REFUSED((quark_queue_default_attr(NULL), 1));
	REFUSED(quark_queue_open(NULL, NULL) == -1);
	REFUSED((quark_queue_close(NULL), 1));
	REFUSED(quark_queue_backend(NULL) == NULL);
	REFUSED(quark_queue_get_event(NULL) == NULL);
	REFUSED(quark_queue_block(NULL) == -1);
	REFUSED(quark_queue_block_for(NULL, 0) == -1);
	REFUSED(quark_queue_wake(NULL) == -1);
	REFUSED(quark_queue_get_epollfd(NULL) == -1);
	REFUSED(quark_queue_get_stats(NULL, &stats) == -1);
	REFUSED(quark_queue_get_stats(&queue, NULL) == -1);
	REFUSED(quark_process_lookup(NULL, 1) == NULL);
	REFUSED((quark_process_iter_init(NULL, &queue), 1));
	REFUSED((quark_process_iter_init(&iter, NULL), 1));
	errno = 0;
	CHECK(quark_process_iter_next(&iter) == NULL && errno == EINVAL);
	REFUSED(quark_process_iter_next(NULL) == NULL);
	memset(&iter, 0, sizeof(iter));
	REFUSED(quark_process_iter_next(&iter) == NULL);
	REFUSED((quark_cmdline_iter_init(NULL, "", 1), 1));
	REFUSED(quark_cmdline_iter_next(NULL) == NULL);
	REFUSED(quark_event_dump(NULL, stdout) == -1);
	REFUSED(quark_event_dump(event, NULL) == -1);
	REFUSED(quark_event_dump(&none, stdout) == -1);
	REFUSED(quark_event_json(NULL) == NULL);
	REFUSED(quark_event_json(&none) == NULL);
	CHECK(next_event(&queue) != NULL); /* the queue works on */
	quark_queue_close(&queue);
}

static void *consume(void *arg)
{
	struct quark_queue *queue = arg;

	for (;;) {
		if (quark_queue_get_event(queue) != NULL)
			continue;
		if (errno == EBADF)
			return NULL;
		CHECK(errno == EAGAIN || errno == EBUSY);
		if (quark_queue_block_for(queue, -1) != 0 && errno == EBADF)
			return NULL;
	}
}

/* One thread waits for live events; another is refused, wakes it, counts and closes. */
static void check_threads(void)
{
	struct timespec pause = {0, 1000000};
	struct quark_queue queue;
	struct quark_queue_stats stats;
	pthread_t thread;
	int refused = 0;

	CHECK(open_with(&queue, QQ_CNPROC, 10, NULL, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, consume, &queue) == 0);
	for (int i = 0; i < 5000 && refused < 3; i++) {
		if (quark_process_lookup(&queue, 1) == NULL && errno == EBUSY)
			refused++;
		CHECK(quark_queue_get_stats(&queue, &stats) == 0);
		CHECK(stats.backend == QQ_CNPROC && stats.processes > 0);
		CHECK(quark_queue_wake(&queue) == 0);
		nanosleep(&pause, NULL);
	}
	CHECK(refused > 0);
	quark_queue_close(&queue);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK(queue.state == NULL && queue.lock == 0);
}

static void *hammer(void *arg)
{
	struct quark_queue *queue = arg;
	struct quark_queue_stats stats;
	unsigned n = 0;

	for (;;) {
		if (quark_queue_get_event(queue) == NULL && errno == EBADF)
			return NULL;
		if (quark_queue_block(queue) != 0 && errno == EBADF)
			return NULL;
		if (quark_queue_get_stats(queue, &stats) != 0 && errno == EBADF)
			return NULL;
		if (quark_queue_wake(queue) != 0 && errno == EBADF)
			return NULL;
		if (++n == 20)
			quark_queue_close(queue);
	}
}

static void check_close_from_anywhere(const char *recording)
{
	struct quark_queue queue;
	pthread_t threads[3];

	for (int round = 0; round < 8; round++) {
		CHECK(open_with(&queue, 0, 0, NULL, recording) == 0);
		for (int i = 0; i < 3; i++)
			CHECK(pthread_create(&threads[i], NULL, hammer, &queue) == 0);
		for (int i = 0; i < 3; i++)
			CHECK(pthread_join(threads[i], NULL) == 0);
		CHECK(queue.state == NULL && queue.lock == 0);
	}
}

/* Empty strings count, the last one may lack its NUL in the length, and nothing has none. */
static void check_cmdline(void)
{
	struct quark_cmdline_iter iter;

	quark_cmdline_iter_init(&iter, "a\0\0bc", 5);
	CHECK(strcmp(quark_cmdline_iter_next(&iter), "a") == 0);
	CHECK(strcmp(quark_cmdline_iter_next(&iter), "") == 0);
	CHECK(strcmp(quark_cmdline_iter_next(&iter), "bc") == 0);
	errno = EIO;
	CHECK(quark_cmdline_iter_next(&iter) == NULL && errno == 0);
	CHECK(quark_cmdline_iter_next(&iter) == NULL);
	quark_cmdline_iter_init(&iter, "", 1);
	CHECK(strcmp(quark_cmdline_iter_next(&iter), "") == 0 && quark_cmdline_iter_next(&iter) == NULL);
	quark_cmdline_iter_init(&iter, NULL, 0);
	CHECK(quark_cmdline_iter_next(&iter) == NULL);
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	CHECK(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

/* The descriptor tells of a child that another program would not know of. */
static void check_epollfd(void)
{
	struct pollfd ready = {.events = POLLIN};
	struct quark_queue queue;
	const struct quark_event *event;
	pid_t child;
	int found = 0, before;

	CHECK(open_with(&queue, QQ_CNPROC, 10, NULL, NULL) == 0);
	quark_queue_close(&queue); /* Go keeps some descriptors for itself from now on */
	before = descriptors();
	CHECK(open_with(&queue, QQ_CNPROC, 10, NULL, NULL) == 0);
	ready.fd = quark_queue_get_epollfd(&queue);
	CHECK(ready.fd >= 0);
	child = fork();
	if (child == 0)
		for (;;)
			pause();
	for (int i = 0; i < 1000 && !found; i++) {
		CHECK(poll(&ready, 1, 10000) == 1);
		while ((event = quark_queue_get_event(&queue)) != NULL)
			found |= event->process != NULL && event->process->pid == (uint32_t)child;
		CHECK(errno == EAGAIN);
	}
	CHECK(found);
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
	quark_queue_close(&queue);
	CHECK(descriptors() == before);
}

static void check_fork(const char *recording)
{
	struct quark_queue queue, other;
	struct quark_queue_stats stats;
	const struct quark_event *event;
	int status;
	pid_t child;

	CHECK(open_with(&queue, 0, 0, NULL, recording) == 0);
	event = next_event(&queue);
	CHECK(event != NULL);
	child = fork();
	if (child == 0) {
		CHECK(quark_queue_get_event(&queue) == NULL && errno == ECHILD);
		CHECK(strstr(quark_last_error(), "forked"));
		CHECK(quark_event_json(event) == NULL && errno == ECHILD);
		CHECK(quark_queue_get_stats(&queue, &stats) == -1 && errno == ECHILD);
		CHECK(quark_queue_open(&other, NULL) == -1 && errno == ECHILD);
		quark_queue_close(&queue);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(quark_event_json(event) != NULL); /* the parent has lost nothing */
	CHECK(system("exit 5") == 5 << 8);
	CHECK(next_event(&queue) != NULL);
	quark_queue_close(&queue);
}

/*
 * Each round gives back what it took. Valgrind does not see it all: pointers that are gone can be
 * left on the stacks of goroutines; it counts no memory either, so that this is for runs without.
 */
static void check_memory(const char *recording)
{
	struct quark_process_iter iter;
	struct quark_queue queue;
	const struct quark_event *event;
	size_t before = 0;

	for (int round = 0; round < 60; round++) {
		if (round == 10)
			before = mallinfo2().uordblks;
		CHECK(open_with(&queue, 0, 0, NULL, recording) == 0);
		while ((event = next_event(&queue)) != NULL)
			CHECK(quark_event_json(event) != NULL && quark_process_lookup(&queue, 1) != NULL);
		quark_process_iter_init(&iter, &queue);
		CHECK(quark_process_iter_next(&iter) != NULL);
		quark_queue_close(&queue);
	}
	/* Threads that Go begins keep some hundred bytes each. */
	CHECK(mallinfo2().uordblks < before + 4096);
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	check_errors(argv[1], argv[2]);
	check_replay(argv[1]);
	check_cmdline();
	check_null(argv[1]);
	check_full(argv[1]);
	check_block(argv[1]);
	check_fork(argv[1]);
	check_epollfd();
	check_threads();
	check_close_from_anywhere(argv[1]);
	if (mallinfo2().uordblks != 0)
		check_memory(argv[1]);
	puts("ok");
	return 0;
}
