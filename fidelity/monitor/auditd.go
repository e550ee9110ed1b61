package monitor

import (
	"runtime"
	"strings"

	"github.com/quark-linux/quark/fidelity/scenario"
)

// auditdScript runs auditd(8) with the settings of Debian's package, except for the log's place and
// size. The first argument is the log file, the second the system calls of the rule. auditd writes
// the log before it passes the lines to plugins; ausearch(8) reads the log too. auditd ignores
// SIGINT and ends at SIGTERM. The kernel counts the records that it could not deliver.
const auditdScript = `log=$1 dir=${1%/*}
printf '%s\n' "log_file = $log" 'local_events = yes' 'write_logs = yes' 'log_group = root' 'log_format = ENRICHED' \
	'flush = INCREMENTAL_ASYNC' 'freq = 50' 'max_log_file = 8' 'max_log_file_action = IGNORE' 'priority_boost = 4' \
	'name_format = NONE' 'space_left = 2' 'space_left_action = IGNORE' 'admin_space_left = 1' 'admin_space_left_action = IGNORE' \
	'disk_full_action = IGNORE' 'disk_error_action = IGNORE' 'q_depth = 2000' 'overflow_action = IGNORE' \
	"plugin_dir = $dir/none" >"$dir/auditd.conf"
auditctl -b 8192 >/dev/null
auditctl --reset-lost >/dev/null
auditctl -a always,exit -F arch=b64 -S "$2" -k quark-fidelity || exit
auditd -n -c "$dir" & pid=$!
trap 'kill $pid' INT
wait $pid
status=$?
wait $pid
auditctl -s | while read -r name n; do [ "$name" = lost ] && echo "lost $n records" >&2; done
auditctl -d always,exit -F arch=b64 -S "$2" -k quark-fidelity
[ $status -ge 128 ] || exit $status`

// auditdEarly returns the maximum by which a stamp is too early. The stamp is from the coarse clock
// at the start of the call. Timer interrupts advance that clock; on an emulated machine a busy host
// delays the interrupts.
func auditdEarly() uint64 {
	const tick = 10_000_000 // at 100 Hz
	if scenario.InGuest() {
		return 1_000_000_000
	}
	return tick + 1_000_000
}

// auditdPath returns a path without the mark that the kernel adds to removed files.
func auditdPath(path string) string {
	path, removed := strings.CutSuffix(path, " (deleted)")
	if removed && strings.HasPrefix(path, "/memfd:") {
		path = path[1:]
	}
	return path
}

// auditdCalls returns the system calls of the rule that the architecture has.
func auditdCalls() string {
	calls := "execve,execveat,clone,clone3,exit_group"
	if runtime.GOARCH == "amd64" {
		calls += ",fork,vfork"
	}
	return calls
}
