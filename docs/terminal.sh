#!/bin/bash
# terminal.sh QUARK-MON FILE.svg - runs quark-mon in a terminal of tmux, next to a shell that does
# a few things, and draws what the terminal shows then. It needs root.
set -euo pipefail

mon=$(realpath "$1") svg=$2 columns=112 lines=24
dir=$(mktemp -d)
tmux() { command tmux -S "$dir/tmux" -f /dev/null "$@"; }
trap 'tmux kill-server 2>/dev/null; rm -rf "$dir"' EXIT
mkfifo "$dir/work.go"

cat >"$dir/work" <<'END'
read <"$0.go" # starts no process
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
read <"$0.go"
END
bash "$dir/work" >/dev/null 2>&1 &
worker=$!
tmux new-session -d -x "$columns" -y "$lines" "TERM=xterm exec $mon -b -s -P $worker 2>$dir/log"
until [[ -s $dir/log ]]; do sleep 0.2; done
echo >"$dir/work.go"
sleep 5 # the hold time, and the performance
tmux capture-pane -e -p >"$dir/screen"
tmux send-keys C-c
echo >"$dir/work.go"
wait "$worker"

# Each run of characters with the same attributes is a span.
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
	}' "$dir/screen" >"$svg"
