/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how many events a recording has, and the CPU time in ns that getting them takes. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <quark.h>

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
	struct quark_queue_attr attr;
	struct quark_queue queue;
	const struct quark_event *event;
	long long events = 0, spent = 0, pids = 0;
	int rounds = argc > 2 ? atoi(argv[2]) : 1;

	quark_queue_default_attr(&attr);
	attr.replay = argv[1];
	for (int i = 0; i < rounds; i++) {
		if (quark_queue_open(&queue, &attr) != 0) {
			fprintf(stderr, "%s\n", quark_last_error());
			return 1;
		}
		spent -= now();
		for (;;) {
			event = quark_queue_get_event(&queue);
			if (event != NULL) {
				events++;
				pids += event->process->pid;
			} else if (errno != EAGAIN) {
				break;
			} else {
				quark_queue_block(&queue);
			}
		}
		spent += now();
		quark_queue_close(&queue);
	}
	printf("%lld %lld %lld\n", events, spent, pids);
	return 0;
}
