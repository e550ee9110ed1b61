#!/bin/bash
# install.sh install|uninstall|list BUILD - what packaging/files names, below $DESTDIR$PREFIX
#
# ZSH_COMPLETIONS is where zsh looks, below the prefix: Debian's is another place for packages.
# BUILD has the commands, and in completions/ what they print for shells. list prints the files'
# places, and with uninstall they are removed, and the directories that only they were in.
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."

verb=$1 build=$2
prefix=${PREFIX-/usr/local}
root=${DESTDIR-}$prefix
if [[ $prefix != /* || $prefix == *//* || $prefix == */ ]]; then
	echo "install.sh: PREFIX=$prefix: it is an absolute path without a slash at its end" >&2
	exit 2
fi

# put MODE SOURCE PLACE does one file.
put() {
	local to=$root/$3
	case $verb in
	list) echo "$prefix/$3" ;;
	uninstall)
		rm -f -- "$to"
		# The directories of the prefix itself, such as bin, stay.
		case $3 in share/doc/quark/*) rmdir --ignore-fail-on-non-empty -- "${to%/*}" 2>/dev/null || true ;; esac
		;;
	install)
		mkdir -p -- "${to%/*}"
		# A running program is not written to: the new one is another file.
		rm -f -- "$to"
		if [[ $3 == *.service ]]; then
			sed "s|@prefix@|$prefix|g" "$2" >"$to"
		else
			cp -- "$2" "$to"
		fi
		chmod "$1" -- "$to"
		;;
	*)
		echo "install.sh: install, uninstall or list, not $verb" >&2
		exit 2
		;;
	esac
}

umask 022
while read -r kind name; do
	file=${name##*/}
	case $kind in
	'' | '#'*) ;;
	command)
		put 755 "$build/$name" "bin/$name"
		put 644 "docs/$name.8" "share/man/man8/$name.8"
		put 644 "$build/completions/$name.bash" "share/bash-completion/completions/$name"
		put 644 "$build/completions/$name.zsh" "${ZSH_COMPLETIONS-share/zsh/site-functions}/_$name"
		put 644 "$build/completions/$name.fish" "share/fish/vendor_completions.d/$name.fish"
		;;
	page) put 644 "$name" "share/man/man${file##*.}/$file" ;;
	unit) put 644 "$name" "lib/systemd/system/$file" ;;
	doc) put 644 "$name" "share/doc/quark/$file" ;;
	*)
		echo "packaging/files: $kind: no such kind" >&2
		exit 2
		;;
	esac
done <packaging/files
