/* The types of the tests. testdata/make.sh compiles them. */
#include "types.h"

struct twice {
	long same;
	int moved;
};

struct task_struct task;
struct twice in_one;
int sum(struct task_struct *t) { struct local { int tgid; } l = {t->tgid}; return l.tgid; }
