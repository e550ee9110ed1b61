// Package filter compiles expressions and rules that select the events to deliver.
//
// An expression consists of terms, "not", "and", "or" and parentheses. "not" binds strongest, "or"
// least. The symbols ! && || mean the same. A line break counts as a blank, and # begins a comment.
//
//	exec and uid != 0 and exe ~ "/tmp/**"
//	failed and not comm == (grep, diff) or duration > 1m
//
// A term is one of:
//
//   - a kind of event: fork, exec, exit, id_change, setproctitle, ptrace, core_dump, exec_failed,
//     cgroup_change, ns_change, reparent, gone. A joined event has the kinds of all its parts.
//     Terms compare the joined event as a whole, with the process as it is after the last part.
//   - failed: an exit with a code other than 0 or by a signal, or a failed exec.
//   - thread: an event of a single thread.
//   - FIELD OP VALUE or FIELD OP (VALUE, ...): == or = is true if one of the values is equal, ~ if
//     one of the patterns matches, != and !~ if none does. Numbers also have < <= > >=.
//   - known FIELD, cached FIELD: true if the field is known, or known and cached.
//
// Fields with a number:
//
//   - The numbers of [engine.Rows] except times, such as pid, ppid and uts_ns. User and group ids
//     may also be names of this host. login_uid and login_session may be unset. tty is a device
//     such as 136:0, or 0:0 for none.
//   - exe_uid, exe_gid, exe_dev (such as 8:1) and exe_inode, of the executable's file. A kernel
//     thread has no executable: terms with these fields are false for it.
//   - stdin_dev and stdin_inode, and the same of stdout and stderr, of the files at the last exec.
//   - Fields of the end of a process: exit_code, exit_signal (a number or a name such as SIGKILL or
//     SIGRTMIN+1); duration, cpu_time, user_time and system_time, times such as 1.5s or 200ms;
//     peak_rss, rchar, wchar, read_bytes and write_bytes, in bytes, or with K, M or G in units of
//     1024, 1024² or 1024³ bytes. A term with one of them is false for an event without EXIT or
//     GONE. A term with exit_code is also false if a signal ended the process.
//   - exec_failed_errno of a failed exec, a number or a name such as ENOENT. A term with it or with
//     exec_failed_path is false for other events.
//   - old_ppid of a reparent, the parent that ended. A term with it is false for other events.
//   - cgroup_change_by_pid of a cgroup_change, the process that wrote to cgroup.procs. A term with
//     it is false for other events.
//
// Fields with a text: comm, of at most 15 bytes; exe, where a value without a slash is compared
// with the last name; exec_path, cwd, cgroup, exec_failed_path; args, where one matching argument
// is enough; container_id, container_runtime, container_pod, container_unit, entity_id and
// entry_leader_type; stdin_type and stdin_family, and the same of stdout and stderr, such as socket
// and inet. environ.NAME is the variable NAME of the environment at the last exec. If the
// process lacks the variable, a term with == or ~ is false, and one with != or !~ is true.
// Variables that the source was not asked to report count as missing.
//
// Fields with a set, where one matching member is enough. none stands for the empty set. exe_flags
// describes the executable's file: set_uid, set_gid, other_writable and removed. privileges has the
// kinds of privileges that the process gained from this file: set_uid, set_gid and file_caps.
// ns_changed has the namespaces that an NS_CHANGE changed, such as mnt; a term with it is false for
// other events.
//
// tree == PID is true for a process and all its descendants, also after the process ends. The
// process is the one with the pid at the start, or else the first one that gets the pid. If a
// process's fork was not seen, its parent at the start or at its first event decides. Below process
// 1, which adopts orphans, the result is unknown.
//
// tag == NAME is true for a process that a rule gave this tag, and for its descendants; see Rules.
//
// A value is a word, or a text in quotes. In "..." \" \\ \n \r \t and \xHH are as in Go. In '...'
// all characters are literal. Words have no blank, quote, parenthesis, comma, backslash or any of =
// ! < > ~.
//
// A value that the field cannot have is an error. Numbers and pids have bounds; after < <= > >= a
// number may be outside if the term can be true. The paths exe, cwd
// and cgroup have no empty name and no . or .. in them. entity_id has 32 hexadecimal digits.
// container_runtime and entry_leader_type are one of a list of words.
//
// In a pattern, * matches any characters, ? one character, [a-z] and [!a-z] one character of a set.
// \ makes the next character literal. In exe, exec_path, exec_failed_path, cwd and cgroup none of
// these matches a slash, and ** matches any characters including slashes.
//
// # Unknown values
//
// A term about a field that is unknown or cut is neither true nor false. "and", "or" and "not" keep
// the certain part: false and unknown is false, true or unknown is true. A kernel thread is known
// to have no executable, arguments and environment: its exe is empty. If the whole expression is
// unknown for an event, the event passes, and is counted as unsure: a surplus event in a log is
// better than a missing one. To exclude it add "and known FIELD". A cached value counts like any
// other; "and not cached FIELD" excludes it.
//
// # Rules
//
// A file of rules has one a line. A backslash before the end of a line continues it, and # begins
// a comment.
//
//	pass on process.exe /usr/sbin/sshd process.uid 0
//	tag web if known exe and exe == (nginx, apache2)
//	web-shell: pass if exec and tag == web and exe == (sh, bash, dash)
//	drop on any
//
// The first pass or drop whose conditions are true decides. If there is none, the event passes.
// "NAME:" before a pass names the rule. An event lists the names of the rules that let it pass, or
// that may have.
//
// "tag NAME" gives the process of an event a tag if the rule's conditions are true, and "untag
// NAME" removes the tag. Processes that it forks later inherit its tags. For each event, all these
// rules are applied in their order before pass and drop. They are also applied to the processes
// that exist at the start. A filter has at most 32 tags and trees.
//
// If the conditions of a tag are unknown, the tag is uncertain, also for the descendants. To avoid
// this, write "known exe and exe == nginx".
//
// After "on" follows "any", or conditions which must all be true: process.pid, process.ppid,
// process.uid, process.gid and process.sid with a number, and process.exe with a path, in which one
// * matches any characters including slashes. After "if" follows an expression. If conditions are
// unknown, the next rules are evaluated as well. An event is dropped only if all rules that may
// decide on it drop it, and passes as unsure if only some do.
package filter
