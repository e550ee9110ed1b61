#!/bin/sh
# The life of the package in a Debian guest, as the service that its systemd starts: install, start,
# watch, upgrade, purge. Each step says "ok STEP" or "FAIL STEP" and why on the second serial port.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive SYSTEMD_PAGER= PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec >/dev/ttyS1 2>&1

failed=
# check STEP COMMAND... fails unless the command succeeds within half a minute.
check() {
	step=$1
	shift
	i=0
	until "$@" >/run/output 2>&1; do
		i=$((i + 1))
		if [ $i = 30 ]; then
			echo "FAIL $step: $* says $(tail -c 2000 /run/output)"
			# Of the first failure only: the others may follow from it.
			[ -n "$failed" ] || { systemctl status --no-pager -l quark-mon; journalctl --no-pager -n 30; }
			failed=1
			return
		fi
		sleep 1
	done
	echo "ok $step"
}
# All files but those that any package changes: dpkg's state, logs, caches, and what the system
# writes while it runs.
files() {
	find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/log/journal \
		-o -path /var/lib/systemd -o -path /var/lib/apt -o -path /var/log/apt -o -path /var/log/dpkg.log -o -path /var/cache \
		-o -path /var/lib/dpkg/status-old -o -path /var/lib/dpkg/diversions-old \) \
		-prune -o -printf '%y %m %u %p\n' | sort
}
journal() { journalctl -u quark-mon -o cat --no-pager; }
saw() { journal | grep -q "\"args\":\\[\"/bin/echo\",\"$1\"\\]"; }
watched() {
	/bin/echo "$1" >/dev/null
	sleep 2
	saw "$1"
}
value() { systemctl show -P "$1" quark-mon; }
not() { ! "$@"; }

files >/run/before

check install apt-get install -y /quark.deb /quark-export.deb /quark-tools.deb
check 'not started by itself' not systemctl is-active quark-mon
check 'not enabled by itself' not systemctl is-enabled quark-mon
check version sh -c 'quark-mon -V | grep -Fx "quark-mon version $(cat /version)"'
check page test -s /usr/share/man/man8/quark-mon.8.gz
check 'types without a kernel' sh -c 'quark-btf | grep -q task_struct.pid'

check 'options of its own' grep -q '^#QUARK_MON_OPTIONS=' /etc/default/quark-mon
check 'after the time is right' sh -c 'systemctl show -P After quark-mon | grep -qw time-sync.target'

check enable systemctl enable --now quark-mon
check active systemctl is-active quark-mon
check 'the line at start' sh -c 'journalctl -u quark-mon -o cat | grep "^quark-mon: backend ebpf"'
check 'watches' watched one
pid=$(value MainPID)
check 'not root' not grep -q '^Uid:[[:space:]]*0' /proc/$pid/status
# CAP_SYS_PTRACE is 19, CAP_PERFMON 38, CAP_BPF 39.
check 'three capabilities' grep -qx 'CapEff:[[:space:]]*000000c000080000' /proc/$pid/status
check 'no way to more' grep -qx 'CapBnd:[[:space:]]*000000c000080000' /proc/$pid/status
check confined grep -qx 'Seccomp:[[:space:]]*2' /proc/$pid/status
check 'exposure at most 3.0' systemd-analyze security --threshold=30 --no-pager quark-mon
# In its own mount namespace too, paths are those that the process sees.
check 'all of a life' sh -c 'journalctl -u quark-mon -o cat | grep "\"/bin/echo\",\"one\"" | grep "\"exe\":\"/usr/bin/echo\"" | grep "\"cwd\":\"/\""'
check 'no loss' sh -c '! journalctl -u quark-mon -o cat | grep "\"GAP\""'

check upgrade dpkg -i /quark.deb
check 'restarted by the upgrade' sh -c "systemctl is-active quark-mon && [ \$(systemctl show -P MainPID quark-mon) != $pid ]"
check 'watches after the upgrade' watched two
check stop systemctl stop quark-mon
check 'ends in order' sh -c '[ "$(systemctl show -P Result quark-mon)" = success ] && journalctl -u quark-mon -o cat | grep -q " events*, "'
check 'start again' systemctl start quark-mon

# The other backends, with the drop-ins that are among the package's documents.
for backend in kprobe cnproc; do
	check "$backend as its drop-in says" sh -c "mkdir -p /run/systemd/system/quark-mon.service.d && cp /usr/share/doc/quark/$backend.conf /run/systemd/system/quark-mon.service.d/ &&
		systemctl daemon-reload && systemctl restart quark-mon"
	check "$backend is ready" sh -c "journalctl -u quark-mon -o cat | grep '^quark-mon: backend $backend'"
	check "$backend watches" watched "with-$backend"
	rm -r /run/systemd/system/quark-mon.service.d
done
conf=/run/systemd/system/quark-mon.service.d/export.conf
check 'export as its drop-in says' sh -c "mkdir -p ${conf%/*} && cp /usr/share/doc/quark/export.conf $conf && systemctl daemon-reload && systemctl restart quark-mon"
check 'metrics are served' sh -c '/usr/lib/apt/apt-helper download-file http://127.0.0.1:9715/metrics /run/metrics && grep quark_events_total /run/metrics'
rm -r ${conf%/*}
check 'ebpf again' sh -c 'systemctl daemon-reload && systemctl restart quark-mon'

check purge apt-get purge -y quark quark-export quark-tools
check 'stopped by the removal' not systemctl is-active quark-mon
check 'no process is left' sh -c '! grep -l quark /proc/[0-9]*/comm'
check 'unknown to systemd' not systemctl cat quark-mon
files >/run/after
check 'nothing is left' diff /run/before /run/after
echo end
systemctl reboot --force --force
