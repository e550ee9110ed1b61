#include "types.h"

struct twice {
	long same;
	long more;
	int moved;
};

struct task_struct other_task;
struct twice in_two;
