#!/bin/bash
# install.sh install|uninstall|list LIST BUILD - what packaging/LIST names, below $DESTDIR$PREFIX
#
# LIST is files, or library for the C library. PACKAGE is one package of LIST, all if it is empty.
# ZSH_COMPLETIONS is where zsh looks, below the prefix:
# Debian's is another place for packages. LIBDIR is where libraries are, PREFIX/lib by default.
# PC_PREFIX is the prefix in files for pkg-config, in its own words, if it is not PREFIX. BUILD has
# the commands, and in completions/ what they print for shells, or what make bindings has made. list
# prints the files' places, and with uninstall they are removed, and the directories that only they
# were in.
set -euo pipefail
cd "$(dirname -- "${BASH_SOURCE[0]}")/.."

verb=$1 list=$2 build=$3
prefix=${PREFIX-/usr/local}
root=${DESTDIR-}$prefix
libdir=${LIBDIR-$prefix/lib}
package=quark
[[ $list = files ]] || package=libquark
if [[ $prefix != /* || $prefix == *//* || $prefix == */ ]]; then
	echo "install.sh: PREFIX=$prefix: it is an absolute path without a slash at its end" >&2
	exit 2
fi
if [[ $libdir != "$prefix"/* ]]; then
	echo "install.sh: LIBDIR=$libdir: it is below PREFIX, $prefix" >&2
	exit 2
fi
lib=${libdir#"$prefix"/}

# put MODE SOURCE PLACE does one file. MODE is link for a link with the text SOURCE.
put() {
	local to=$root/$3
	case $verb in
	list) echo "$prefix/$3" ;;
	uninstall)
		rm -f -- "$to"
		# The directories of the prefix itself, such as bin, stay.
		case $3 in
		share/doc/"$package"/examples/*) remove_empty "${to%/*}" "${to%/*/*}" ;;
		share/doc/"$package"/*) remove_empty "${to%/*}" ;;
		esac
		;;
	install)
		mkdir -p -- "${to%/*}"
		# A running program is not written to: the new one is another file.
		rm -f -- "$to"
		if [[ $1 = link ]]; then
			ln -s -- "$2" "$to"
			return
		fi
		case $3 in
		*.service) sed "s|@prefix@|$prefix|g" "$2" >"$to" ;;
		*.pc) sed "s|^prefix=.*|prefix=${PC_PREFIX-$prefix}|; s|^libdir=.*|libdir=\${prefix}/$lib|; /^#/d" "$2" >"$to" ;;
		*.gz) gzip -9n <"$2" >"$to" ;;
		*) cp -- "$2" "$to" ;;
		esac
		chmod "$1" -- "$to"
		;;
	*)
		echo "install.sh: install, uninstall or list, not $verb" >&2
		exit 2
		;;
	esac
}

remove_empty() { rmdir --ignore-fail-on-non-empty -- "$@" 2>/dev/null || true; }

# functions prints those that a page of section 3 describes.
functions() { sed -n '/^\.Nd/q; s/^\.Nm \([a-z_]*\).*/\1/p' "$1"; }

umask 022
part=
while read -r kind name; do
	file=${name##*/}
	[[ $kind != package ]] || part=$name
	[[ $kind = package || -z ${PACKAGE-} || $PACKAGE = "$part" ]] || continue
	case $kind in
	package) ;;
	'' | '#'*) ;;
	command)
		put 755 "$build/$name" "bin/$name"
		put 644 "docs/$name.8" "share/man/man8/$name.8.gz"
		put 644 "$build/completions/$name.bash" "share/bash-completion/completions/$name"
		put 644 "$build/completions/$name.zsh" "${ZSH_COMPLETIONS-share/zsh/site-functions}/_$name"
		put 644 "$build/completions/$name.fish" "share/fish/vendor_completions.d/$name.fish"
		;;
	library) put 644 "$build/lib/$name" "$lib/$name" ;;
	link) put link "${name#* }" "$lib/${name% *}" ;;
	header) put 644 "$build/include/$name" "include/$name" ;;
	pkgconfig) put 644 "$build/lib/pkgconfig/$name" "$lib/pkgconfig/$name" ;;
	page)
		put 644 "$name" "share/man/man${file##*.}/$file.gz"
		[[ $file == *.3 ]] || continue
		for function in $(functions "$name"); do
			[[ $function.3 = "$file" ]] || put link "$file.gz" "share/man/man3/$function.3.gz"
		done
		;;
	unit) put 644 "$name" "lib/systemd/system/$file" ;;
	default)
		to=/etc/default/${file%.default}
		case $verb in
		list) echo "$to" ;;
		install) [[ -e ${DESTDIR-}$to ]] || install -Dm 644 -- "$name" "${DESTDIR-}$to" ;;
		uninstall) ! cmp -s -- "$name" "${DESTDIR-}$to" || rm -- "${DESTDIR-}$to" ;;
		esac
		;;
	doc) put 644 "$name" "share/doc/$package/$file" ;;
	example) put 644 "$name" "share/doc/$package/examples/$file" ;;
	*)
		echo "packaging/$list: $kind: no such kind" >&2
		exit 2
		;;
	esac
done <"packaging/$list"
