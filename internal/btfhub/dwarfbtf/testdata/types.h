typedef unsigned int u32;
typedef struct { int counter; } atomic_t;
struct nobody_knows;

enum pid_type { PIDTYPE_PID, PIDTYPE_PGID, PIDTYPE_SID, PIDTYPE_MINUS = -3 };

struct inner {
	u32 a;
	const volatile u32 b;
};
typedef struct inner inner_t;

struct task_struct {
	volatile long state;
	struct nobody_knows *stack;
	unsigned flag : 1, other : 3;
	unsigned : 0;
	const int tgid;
	union {
		struct {
			int low, high;
		};
		long both;
	};
	atomic_t live;
	inner_t in;
	struct inner list[2][3];
	enum pid_type type;
	int (*call)(int);
	char comm[16];
	struct task_struct *real_parent;
	u32 tail[];
};
