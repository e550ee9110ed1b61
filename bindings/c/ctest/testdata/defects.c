/* SPDX-License-Identifier: Apache-2.0 */
/* Does wrong on purpose, for the test of the test: defects RECORDING late|long. */
#include <string.h>

#include <quark.h>

int main(int argc, char **argv)
{
	volatile unsigned sum = 0;
	struct quark_queue_attr attr;
	struct quark_queue queue;
	const struct quark_process *p;

	quark_queue_default_attr(&attr);
	attr.replay = argv[1];
	if (argc != 3 || quark_queue_open(&queue, &attr) != 0)
		return 1;
	p = quark_process_lookup(&queue, 1);
	if (strcmp(argv[2], "late") == 0) {
		quark_queue_get_event(&queue);
		sum += p->pid;
	} else if (strcmp(argv[2], "long") == 0) {
		for (int i = 0; i < 4096; i++)
			sum += (unsigned char)p->filename[i];
	}
	quark_queue_close(&queue);
	return 0;
}
