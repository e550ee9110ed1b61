#!/bin/bash
# terminal.sh QUARK-MON DIR - runs quark-mon in a terminal of tmux, next to a shell that does a few
# things, and draws what the terminal shows then: DIR/quark-mon.svg, -tree.svg and -top.svg. It
# needs root.
set -euo pipefail

mon=$(realpath "$1") to=$2 columns=112 lines=27
dir=$(mktemp -d)
tmux() { command tmux -S "$dir/tmux" -f /dev/null "$@"; }
trap 'tmux kill-server 2>/dev/null; rm -rf "$dir"' EXIT
mkfifo "$dir/work.go" "$dir/work.end"

# picture FILE SECONDS OPTIONS - performs the script of standard input for so long, and draws what
# quark-mon shows of it; WORKER in its options is the shell's pid.
picture() {
	local svg=$to/$1 seconds=$2 worker
	rm -f "$dir/pid" "$dir/log"
	cat - >"$dir/work" <<<"
		echo \$\$ >$dir/pid
		read <$dir/work.go # starts no process
		$(cat)
		read <$dir/work.end"
	(setsid bash "$dir/work" >/dev/null 2>&1 &) # a child of process 1
	until [[ -s $dir/pid ]]; do sleep 0.2; done
	worker=$(cat "$dir/pid")
	tmux new-session -d -x "$columns" -y "$lines" \
		"TERM=xterm LC_ALL=C.UTF-8 exec $mon ${3/WORKER/$worker} 2>$dir/log"
	until [[ -s $dir/log ]]; do sleep 0.2; done
	echo >"$dir/work.go"
	sleep "$seconds"
	tmux capture-pane -e -p >"$dir/screen"
	tmux send-keys C-c
	kill -- "-$worker"
	if grep -q GAP "$dir/screen"; then
		echo "terminal.sh: $1 shows a loss: is the machine busy?" >&2
		exit 1
	fi
	draw <"$dir/screen" >"$svg"
}

# draw makes a drawing of what tmux shows: each run of characters with the same attributes is a
# span.
draw() {
	LC_ALL=C awk -v columns="$columns" '
	function span(text) {
		gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
		class = bold dim colour
		return class == "" || text == "" ? text : "<tspan class=\"" class "\">" text "</tspan>"
	}
	function attributes(list,    n, i, a) {
		n = split(list == "" ? "0" : list, a, ";")
		for (i = 1; i <= n; i++) {
			if (a[i] == 0) bold = dim = colour = ""
			if (a[i] == 1) bold = "b"
			if (a[i] == 2) dim = "d"
			if (a[i] == 31) colour = "r"
			if (a[i] == 33) colour = "y"
			if (a[i] == 39) colour = ""
		}
	}
	{
		line = ""
		n = split($0, runs, "\033\\[")
		line = span(runs[1])
		for (i = 2; i <= n; i++) {
			m = index(runs[i], "m")
			attributes(substr(runs[i], 1, m - 1))
			line = line span(substr(runs[i], m + 1))
		}
		text[NR] = line
		if (line != "") last = NR
	}
	END {
		printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n", columns * 8 + 16, last * 18 + 16
		print "<style>text{font:13.3px monospace;fill:#ddd;white-space:pre}.b,.br{font-weight:bold}.d{opacity:.6}.r,.br{fill:#f66}.by{font-weight:bold;fill:#fc6}</style>"
		print "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#1c1c1c\"/>"
		for (i = 1; i <= last; i++)
			printf "<text x=\"8\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", i * 18 + 4, text[i]
		print "</svg>"
	}'
}

picture quark-mon.svg 5 '-b -P WORKER' <<'END'
cd /etc
cat hostname os-release
grep -c '^root:' passwd
find . -maxdepth 1 -name 'host*' -newer fstab
ls /nowhere
setpriv --reuid=nobody --clear-groups id -un
printenv 'A variable' || (exit 3)
sleep 60 & sleep 0.3; kill $!; wait
sh -c 'ulimit -c 0; kill -SEGV $$'
/usr/bin/printf '\e]0;title\a%s\n' "it's größer"
bash -c 'exec -a $'"'\e[2J'"' sleep 0.5'
END

picture quark-mon-tree.svg 8 'tree -b --tree WORKER' <<'END'
cd /etc
sh -c 'sort passwd | cut -d: -f1 | head -3; ls /nowhere'
find . -maxdepth 1 -name hosts -exec sh -c 'grep -c "$0" "$1" | tee /dev/null' . {} \;
setpriv --reuid=nobody --clear-groups sh -c 'id -un; cat shadow'
timeout 0.3 sh -c 'sleep 9; true'
END

picture quark-mon-top.svg 40 'top -b --events all --tree WORKER' <<'END'
cd /usr/share/doc
PATH=/usr/bin # a search elsewhere would fail
(while sleep 0.1; do ls | xargs -n 20 -P 2 du -s; done) &
(while sleep 0.02; do find . -maxdepth 2 -name copyright -exec gzip -t {} \; ; done) &
(while sleep 0.5; do pgrep -x nobody-runs-this; printenv 'A variable'; done) &
(while sleep 0.4; do /etc/passwd; env no-such-tool; done) &
(while sleep 3; do sh -c 'ulimit -c 0; kill -SEGV $$'; timeout 0.1 sleep 1; done) &
(while sleep 1; do setpriv --reuid=nobody --clear-groups sh -c 'cat /etc/shadow; id -un'; done) &
END
