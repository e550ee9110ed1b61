/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what processes do, a line for each event, until SIGINT or the end of a replay. ~ is after
 * a value that may not be true any more, ? is one that is not known.
 *
 *	cc monitor.c $(pkg-config --cflags --libs quark) -o monitor
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <quark.h>

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void print_events(uint64_t events)
{
	static const struct {
		uint64_t bit;
		const char *name;
	} kinds[] = {
	    {QUARK_EV_FORK, "FORK"}, {QUARK_EV_EXEC, "EXEC"}, {QUARK_EV_EXIT, "EXIT"},
	    {QUARK_EV_ID_CHANGE, "ID_CHANGE"}, {QUARK_EV_NS_CHANGE, "NS_CHANGE"}, {QUARK_EV_SETPROCTITLE, "SETPROCTITLE"},
	    {QUARK_EV_PTRACE, "PTRACE"}, {QUARK_EV_CORE_DUMP, "CORE_DUMP"},
	    {QUARK_EV_CGROUP_CHANGE, "CGROUP_CHANGE"},
	    {QUARK_EV_REPARENT, "REPARENT"},
	    {QUARK_EV_GAP, "GAP"}, {QUARK_EV_GONE, "GONE"},
	    {QUARK_EV_EXEC_FAILED, "EXEC_FAILED"},
	};
	const char *separator = "";

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (events & kinds[i].bit) {
			printf("%s%s", separator, kinds[i].name);
			separator = "+";
		}
	}
}

/* What comes after a value: that it is cached, or that its end is missing. */
static const char *mark(const struct quark_process *p, uint64_t field)
{
	if (p->fields_truncated & field)
		return "...";
	return p->fields_cached & field ? "~" : "";
}

static void print_text(const struct quark_process *p, const char *name, uint64_t field, const char *text)
{
	printf(" %s=%s%s", name, p->fields_known & field ? text : "?", mark(p, field));
}

static void print_process(const struct quark_process *p)
{
	struct quark_cmdline_iter args;
	const char *arg;

	printf(" pid=%u", p->pid);
	if (p->fields_known & QUARK_FIELD_PPID)
		printf(" ppid=%u%s", p->proc_ppid, mark(p, QUARK_FIELD_PPID));
	if (p->fields_known & QUARK_FIELD_UIDS)
		printf(" uid=%u%s", p->proc_uid, mark(p, QUARK_FIELD_UIDS));
	print_text(p, "comm", QUARK_FIELD_COMM, p->comm);
	print_text(p, "exe", QUARK_FIELD_EXE, p->filename);
	print_text(p, "cwd", QUARK_FIELD_CWD, p->cwd);
	if (p->flags & QUARK_F_CMDLINE) {
		printf(" args=[");
		quark_cmdline_iter_init(&args, p->cmdline, p->cmdline_len);
		for (const char *s = ""; (arg = quark_cmdline_iter_next(&args)) != NULL; s = ", ")
			printf("%s%s", s, arg);
		printf("]%s", mark(p, QUARK_FIELD_ARGS));
	}
	if (p->flags & QUARK_F_EXIT) {
		if (WIFSIGNALED(p->wait_status))
			printf(" signal=%d", WTERMSIG(p->wait_status));
		else
			printf(" exit=%d", p->exit_code);
	}
}

static void print_event(const struct quark_event *event)
{
	print_events(event->events);
	if (event->events & QUARK_EV_GAP)
		printf(" lost=%llu cause=%u", (unsigned long long)event->gap_count, event->gap_cause);
	if (event->process != NULL)
		print_process(event->process);
	if (event->exec_failed_path != NULL)
		printf(" asked=%s error=%s", event->exec_failed_path, strerror((int)event->exec_failed_errno));
	putchar('\n');
}

static int watch(struct quark_queue *queue, int dump)
{
	struct pollfd ready = {.fd = quark_queue_get_epollfd(queue), .events = POLLIN};
	const struct quark_event *event;

	while (!stop) {
		event = quark_queue_get_event(queue);
		if (event == NULL && errno == EAGAIN) {
			fflush(stdout);
			/* quark_queue_block() does for a program that waits for nothing else. */
			poll(&ready, 1, -1);
		} else if (event == NULL) {
			return errno == ENODATA ? 0 : -1;
		} else if (dump) {
			if (quark_event_dump(event, stdout) != 0)
				return -1;
		} else {
			print_event(event);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct quark_queue_attr attr;
	struct quark_queue queue;
	struct quark_queue_stats stats;
	struct quark_process_iter iter;
	const struct quark_process *process;
	int option, dump = 0, table = 0, status;

	quark_queue_default_attr(&attr);
	while ((option = getopt(argc, argv, "dpf:r:")) != -1) {
		switch (option) {
		case 'd':
			dump = 1;
			break;
		case 'p':
			table = 1;
			break;
		case 'f':
			attr.filter = optarg;
			break;
		case 'r':
			attr.replay = optarg;
			break;
		default:
			fprintf(stderr, "usage: %s [-dp] [-f FILTER] [-r RECORDING]\n", argv[0]);
			return 2;
		}
	}
	if (quark_queue_open(&queue, &attr) != 0) {
		fprintf(stderr, "%s: %s\n", argv[0], quark_last_error());
		return 1;
	}
	signal(SIGINT, on_signal);
	if (table) {
		quark_process_iter_init(&iter, &queue);
		while ((process = quark_process_iter_next(&iter)) != NULL) {
			printf("RUNNING");
			print_process(process);
			putchar('\n');
		}
	}
	status = watch(&queue, dump);
	if (status != 0)
		fprintf(stderr, "%s: %s\n", argv[0], quark_last_error());
	if (quark_queue_get_stats(&queue, &stats) == 0)
		fprintf(stderr, "%s: %llu events joined, %llu single, %llu lost\n",
			quark_queue_backend(&queue), (unsigned long long)stats.aggregations,
			(unsigned long long)stats.non_aggregations, (unsigned long long)stats.lost);
	quark_queue_close(&queue);
	return status != 0;
}
