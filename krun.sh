#!/bin/bash
#
# krun.sh - boot a kernel image with an initramfs under qemu and run one command in it.
#
# This is the only place that knows qemu. See usage() below for how it is called.
# What it says of a run comes from the guest's end record on the second serial
# port and from nothing else: qemu exits with 0 after a kernel panic too.

set -u
export LC_ALL=C

usage() {
	cat <<'END'
usage: ./krun.sh INITRAMFS KERNEL COMMAND [ARGUMENT...]
       ./krun.sh --machine KERNEL

Boots KERNEL (an x86 bzImage or vmlinux, an arm64 Image, also compressed) with
INITRAMFS (made by `make initramfs.gz`) and runs COMMAND in it, looked up in
/bin. The console goes to standard output. With --machine it prints what KERNEL
would be booted by, qemu's version and the acceleration, on one line.

environment:
  KRUN_SMP      virtual CPUs (2)
  KRUN_MEM      memory in MiB (512)
  KRUN_TIMEOUT  seconds until the guest's stacks are printed and it is killed (300)
  KRUN_RESULTS  file for the guest's records, one JSON object a line (none)
  KRUN_APPEND   further words for the kernel command line, before the command
  KRUN_ACCEL    kvm or tcg: skip the search for what works
  KRUN_STDIN    when 1: the command reads standard input, through the console; so
                does the command sh when standard input is a terminal. Control A
                is qemu's escape: x after it ends the guest, A sends one
  KRUN_GDB      when 1: the guest waits for gdb on TCP port 1234 of this machine
                ('target remote :1234'); another number is another port
  KRUN_VERBOSE  when set and not 0: all kernel messages on the console

SIGUSR1 does at once what the deadline does.

exit status: the command's (128 + N when signal N killed it), 124 when the
deadline passed, 125 when the guest did not report, 126 when it could not be
started, 2 for wrong usage.
END
}

say() { printf 'krun.sh: %s\n' "$*" >&2; }
bad_usage() { say "$*"; say "try ./krun.sh -h"; exit 2; }
cannot() { say "$*"; exit 126; }

# bytes FILE OFFSET COUNT prints bytes as lower-case hex without spaces, fewer
# when the file is shorter.
bytes() { od -An -v -tx1 -j "$2" -N "$3" -- "$1" 2>/dev/null | tr -d ' \n'; }

# le32 FILE OFFSET prints a little-endian 32-bit number.
le32() {
	local b
	b=$(bytes "$1" "$2" 4)
	[[ ${#b} -eq 8 ]] && echo $((16#${b:6:2}${b:4:2}${b:2:2}${b:0:2}))
}

# decompress KIND <IN >OUT
decompress() {
	case $1 in
	gzip) gzip -dc ;;
	zstd*) command -v zstd >/dev/null || cannot "$kernel is compressed with zstd: install zstd"; zstd -qdc ;;
	xz*) command -v xz >/dev/null || cannot "$kernel is compressed with xz: install xz-utils"; xz -dc ;;
	*) return 1 ;;
	esac
}

# detect_kernel sets arch to that of $kernel by its header, and bzimage if it is
# one. What qemu does not take as it is gets unpacked, and kernel is then the
# unpacked one's name.
detect_kernel() {
	[[ -e $kernel ]] || cannot "no kernel image $kernel: 'go run ./kernel_images' fetches some"
	[[ -f $kernel && -r $kernel ]] || cannot "cannot read kernel image $kernel"

	if [[ $(bytes "$kernel" 0 2) == 1f8b ]]; then
		gzip -dc <"$kernel" >"$tmp/kernel" 2>/dev/null || cannot "cannot unpack kernel image $kernel: gzip data is damaged or the disk is full"
		kernel=$tmp/kernel
	elif [[ $(bytes "$kernel" 0 2)$(bytes "$kernel" 4 4) == 4d5a7a696d67 ]]; then
		# EFI zboot: "MZ", "zimg", then offset and size of the payload and, at
		# 24, how it is compressed (include/linux/pe.h, zboot-header.S).
		local offset size kind
		offset=$(le32 "$kernel" 8) size=$(le32 "$kernel" 12)
		kind=$(tail -c +25 -- "$kernel" | head -c 8 | tr -cd 'a-z0-9')
		tail -c "+$((offset + 1))" -- "$kernel" | head -c "$size" | decompress "$kind" >"$tmp/kernel" ||
			cannot "cannot unpack EFI zboot image $kernel: its $kind data is damaged, unknown, or the disk is full"
		kernel=$tmp/kernel
	fi

	if [[ $(bytes "$kernel" 514 4) == 48647253 ]]; then # HdrS
		arch=x86_64 bzimage=1
	elif [[ $(bytes "$kernel" 56 4) == 41524d64 ]]; then # ARM\x64
		arch=aarch64
	elif [[ $(bytes "$kernel" 0 4)$(bytes "$kernel" 18 2) == 7f454c463e00 ]]; then
		arch=x86_64 # vmlinux: qemu enters it by its PVH note
	elif [[ $(bytes "$kernel" 0 4) == 7f454c46 ]]; then
		cannot "$kernel is an ELF file that qemu cannot boot: x86-64 vmlinux, bzImage or arm64 Image is wanted"
	else
		cannot "$kernel is no kernel image: x86 bzImage or vmlinux, or arm64 Image is wanted"
	fi
}

# unpack_bzimage has the host unpack what an emulated processor takes seconds for: a
# payload packed with zstd, as Debian's are since 6.12. (See Documentation/arch/x86/boot.rst
# for the header; the payload's last four bytes are its unpacked size.) qemu enters
# what comes out by its PVH note; one that has none is booted as it was. It is the
# same kernel, but not at a random address, which is the unpacker's work.
unpack_bzimage() {
	local sectors offset size
	sectors=$((16#$(bytes "$kernel" 497 1))) # 0 stands for 4
	offset=$((((sectors ? sectors : 4) + 1) * 512 + $(le32 "$kernel" 584))) size=$(le32 "$kernel" 588)
	[[ $(bytes "$kernel" "$offset" 4) == 28b52ffd ]] && command -v zstd >/dev/null || return
	tail -c "+$((offset + 1))" -- "$kernel" | head -c "$((size - 4))" | zstd -qdc >"$tmp/vmlinux" 2>/dev/null &&
		grep -aqP '\x04\0\0\0.\0\0\0\x12\0\0\0Xen\0' "$tmp/vmlinux" && kernel=$tmp/vmlinux
}

# kvm_works tells whether KVM runs code on this machine. /dev/kvm may be there
# and be of no use, so a machine whose whole firmware is "out 0x10 to the exit
# port" has to say so by its exit status, which is 2 * 0x10 + 1.
kvm_works() {
	[[ -r /dev/kvm && -w /dev/kvm ]] || return 1
	if [[ $arch == aarch64 ]]; then
		[[ $(uname -m) == aarch64 ]] # no such port there
		return
	fi
	[[ $(uname -m) == x86_64 ]] && grep -qwE 'vmx|svm' /proc/cpuinfo || return 1
	{
		head -c 65520 /dev/zero            # the CPU starts 16 bytes before the end
		printf '\xb0\x10\xe6\xf4\xf4'      # mov al, 0x10; out 0xf4, al; hlt
		head -c 11 /dev/zero
	} >"$tmp/probe"
	timeout -k 1 5 "$qemu" -accel kvm -nodefaults -display none -bios "$tmp/probe" \
		-device isa-debug-exit,iobase=0xf4,iosize=4 </dev/null >/dev/null 2>&1
	[[ $? -eq 33 ]]
}

# encode_words WORD... prints the words as the kernel command line carries them
# and init decodes them: any byte that means something there as %XX. The kernel
# takes at most 32 words for pid 1 and loses empty ones, so words after the 20th
# and empty ones hang on the one before with %00 between.
encode_words() {
	local word c code i n=0 line='' enc
	for word in "$@"; do
		enc=''
		if [[ $word == *[!a-zA-Z0-9_.,:=/@+^~-]* ]]; then
			for ((i = 0; i < ${#word}; i++)); do
				c=${word:i:1}
				# LC_ALL=C: a character is a byte, which printf may take as signed.
				if [[ $c != [a-zA-Z0-9_.,:=/@+^~-] ]]; then
					printf -v code %d "'$c"
					printf -v c '%%%02X' $((code & 255))
				fi
				enc+=$c
			done
		else
			enc=$word
		fi
		if ((n == 0)); then
			line=$enc
		elif [[ -z $enc ]] || ((n >= 20)); then
			line+=%00$enc
		else
			line+=" $enc"
		fi
		n=$((n + 1))
	done
	printf '%s\n' "$line"
}

positive() { # NAME VALUE
	[[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || bad_usage "$1 is '$2': a positive number is wanted"
}

# running PID tells whether a child has not ended yet.
running() { [[ -e /proc/$1/stat ]] && [[ $(<"/proc/$1/stat") != *') Z '* ]]; } 2>/dev/null

# request KEY ANSWER sends a system request over the serial console (in qemu's mux:
# control A, b is a break, and the key follows) until the kernel has said that it
# got it. A busy guest may not: to qemu's UART a break is one of all that wait in
# its buffer, and the key that comes with it is then but a character.
request() {
	local try i
	for ((try = 0; try < 4; try++)); do
		printf '\001b%s' "$1" >&"$input"
		for ((i = 0; i < 15; i++)); do
			sleep 0.1
			grep -aqF "sysrq: $2" -- "$tmp/console.log" && return
			running "$qemu_pid" || return
		done
	done
	return 1
}

# dump_stacks has the kernel print where everything is: 9 shows all messages, l and
# w are the CPUs that run and the tasks that are blocked, t is all tasks. A guest
# that says nothing for a second has said everything.
dump_stacks() {
	local size last=-1 quiet=0 i
	say "the guest's stacks:"
	request 9 'Changing Loglevel' && request l 'Show backtrace' &&
		request w 'Show Blocked State' && request t 'Show State' ||
		say "the guest does not answer a request for its stacks"
	for ((i = 0; i < 100 && quiet < 10; i++)); do
		sleep 0.1
		size=$(stat -c %s -- "$tmp/console.log")
		if [[ $size == "$last" ]]; then quiet=$((quiet + 1)); else quiet=0; fi
		last=$size
		running "$qemu_pid" || return
	done
}

# stop_qemu ends qemu, by force when it does not heed a TERM within 5 seconds.
stop_qemu() {
	local i
	kill -TERM "$qemu_pid" 2>/dev/null
	for ((i = 0; i < 50; i++)); do
		running "$qemu_pid" || break
		sleep 0.1
	done
	kill -KILL "$qemu_pid" 2>/dev/null
	wait "$qemu_pid"
	qemu_pid=
}

cleanup() {
	[[ -n ${terminal-} ]] && stty "$terminal"
	[[ -n ${feeder_pid-} ]] && kill "$feeder_pid" 2>/dev/null
	[[ -n ${timer_pid-} ]] && kill "$timer_pid" 2>/dev/null
	[[ -n ${qemu_pid-} ]] && stop_qemu 2>/dev/null
	[[ -n ${console_pid-} ]] && wait "$console_pid"
	[[ -n ${tmp-} ]] && rm -rf -- "$tmp"
}

on_signal() { # NAME STATUS
	say "stopped by SIG$1"
	exit "$2" # cleanup runs
}

case ${1-} in
-h | --help) usage; exit 0 ;;
--machine)
	[[ $# -eq 2 ]] || bad_usage "--machine and KERNEL are wanted"
	set -- - "$2" -
	describe=1
	;;
-*) bad_usage "unknown option $1" ;;
esac
[[ $# -ge 3 ]] || bad_usage "INITRAMFS, KERNEL and COMMAND are wanted"
initramfs=$1 kernel=$2
shift 2
[[ -n $1 ]] || bad_usage "the command is empty"

smp=${KRUN_SMP:-2} mem=${KRUN_MEM:-512} deadline=${KRUN_TIMEOUT:-300}
positive KRUN_SMP "$smp"
positive KRUN_MEM "$mem"
positive KRUN_TIMEOUT "$deadline"
gdb=${KRUN_GDB:-0} stdin=${KRUN_STDIN:-}
[[ $gdb =~ ^[0-9]{1,5}$ ]] || bad_usage "KRUN_GDB is '$gdb': 1 or the number of a port is wanted"
case $stdin in
'') if [[ $1 == sh && -t 0 ]]; then stdin=1; else stdin=0; fi ;;
0 | 1) ;;
*) bad_usage "KRUN_STDIN is '$stdin': 0 or 1 is wanted" ;;
esac

[[ -n ${describe-} || -e $initramfs ]] || cannot "no initramfs $initramfs: 'make initramfs.gz' builds it"
[[ -n ${describe-} || -f $initramfs && -r $initramfs && -s $initramfs ]] || cannot "cannot read initramfs $initramfs"

tmp=$(mktemp -d "${TMPDIR:-/tmp}/krun.XXXXXX") || cannot "cannot make a temporary directory in ${TMPDIR:-/tmp}"
trap cleanup EXIT
trap 'on_signal INT 130' INT
trap 'on_signal TERM 143' TERM
trap 'on_signal HUP 129' HUP
hung= bzimage=
trap 'hung="the guest was given up (SIGUSR1)"' USR1

detect_kernel
qemu=qemu-system-$arch
if ! command -v "$qemu" >/dev/null; then
	case $arch in
	x86_64) cannot "$qemu not found: install the package qemu-system-x86" ;;
	*) cannot "$qemu not found: install the package qemu-system-arm" ;;
	esac
fi

accel=${KRUN_ACCEL-}
case $accel in
'') if kvm_works; then accel=kvm; else accel=tcg; fi ;;
kvm | tcg) ;;
*) bad_usage "KRUN_ACCEL is '$accel': kvm or tcg is wanted" ;;
esac
if [[ -n ${describe-} ]]; then
	echo "$arch $accel $("$qemu" --version | head -n 1)"
	exit 0
fi

[[ $accel == tcg && -n $bzimage ]] && unpack_bzimage

results=${KRUN_RESULTS:-$tmp/results}
{ : >"$results"; } 2>/dev/null || cannot "cannot write KRUN_RESULTS file $results"

machine=()
case $arch in
x86_64)
	console=ttyS0 port=ttyS1
	machine+=(-machine pc -serial mon:stdio -serial "file:$results")
	;;
aarch64)
	# The board has one UART for the guest. A second, on PCI, needs nothing that
	# stock kernels have as a module only, and is the first of its kind.
	console=ttyAMA0 port=ttyS0
	machine+=(-machine virt -serial mon:stdio
		-chardev "file,id=results,path=${results//,/,,}" -device pci-serial,chardev=results)
	;;
esac
case $accel-$arch in
kvm-*) machine+=(-accel kvm -cpu max) ;;
# One thread for all virtual CPUs: with one each, qemu 7.2 may run a stale
# translation of code that another CPU has just patched, and the kernel dies of
# an int3 of its own (one boot in five of 7.3). It takes less CPU time, too.
tcg-aarch64) machine+=(-accel tcg,thread=single -cpu max,pauth-impdef=on) ;;
# qemu 7.2 leaves rubbish in the flags after CMPXCHG16B, which the kernel's allocator
# uses without a lock; an interrupt then brings it into EFLAGS (DF, NT), of which a 6.12
# died. Without the feature kernels do without.
tcg-*) machine+=(-accel tcg,thread=single -cpu qemu64,-cx16) ;;
esac

# Warnings are what a test guest is booted for: level 5 shows them. The kernels of
# Debian let nobody ask for stacks over the console unless told so.
# Expedited RCU: to close a source is to wait for a grace period many times. The
# tests of the kernel's cryptography would take a tenth of an emulated boot, and so
# would keys for modules, of which none is loaded.
append="console=$console panic=-1 sysrq_always_enabled rcupdate.rcu_expedited=1 cryptomgr.notests=1 quark.results=$port"
append+=" initcall_blacklist=load_system_certificate_list,jent_mod_init,crypto_kdf108_init"
# An emulated processor speculates nothing, and has no use for defences against that.
# With AppArmor and audit, which nothing in a guest uses, all takes a tenth longer.
[[ $accel == tcg ]] && append+=" mitigations=off apparmor=0 audit=0"
# On a busy host an emulated processor may not get round to its first ticks in the time
# that the kernel gives them, and it would panic of a timer that does not work.
[[ $accel-$arch == tcg-x86_64 ]] && append+=" no_timer_check"
[[ ${KRUN_VERBOSE:-0} == 0 ]] && append+=" loglevel=5"
if [[ " ${KRUN_APPEND-} " == *' -- '* || ${KRUN_APPEND-} == *$'\n'* ]]; then
	bad_usage "KRUN_APPEND holds -- or a newline: the command's words come as operands"
fi
[[ $stdin == 1 ]] && append+=" quark.stdin=$console"
if [[ $gdb != 0 ]]; then
	[[ $gdb == 1 ]] && gdb=1234
	machine+=(-gdb "tcp:127.0.0.1:$gdb" -S)
	append+=" nokaslr" # or the addresses of the symbols are wrong
	say "the guest waits for gdb: target remote :$gdb"
fi
append+="${KRUN_APPEND:+ $KRUN_APPEND} -- $(encode_words "$@")"
# COMMAND_LINE_SIZE is 2048 on both architectures, a NUL included; the kernel
# would cut the rest off in silence.
((${#append} < 2048)) || bad_usage "the kernel command line would be ${#append} bytes, 2047 fit: pass fewer or shorter arguments"

# The console goes through a pipe that drops carriage returns and keeps a copy
# to look for a panic in.
mkfifo "$tmp/console" || cannot "cannot make a pipe in $tmp"
sed -u 's/\r//g' <"$tmp/console" | tee "$tmp/console.log" &
console_pid=$!

# The console's input: what is written there reaches the guest, and never ends.
mkfifo "$tmp/input" || cannot "cannot make a pipe in $tmp"
exec {input}<>"$tmp/input"
if [[ $stdin == 1 ]]; then
	# What comes from standard input goes the same way. A terminal must not echo,
	# buffer or make signals of keys: that is for the one in the guest.
	if [[ -t 0 ]]; then
		terminal=$(stty -g) && stty raw -echo opost
	fi
	cat <&0 >&"$input" &
	feeder_pid=$!
fi
: >"$tmp/console.log"

"$qemu" "${machine[@]}" -smp "$smp" -m "$mem" \
	-nodefaults -display none -vga none -nic none -no-reboot \
	-kernel "$kernel" -initrd "$initramfs" -append "$append" \
	<&"$input" >"$tmp/console" 2>"$tmp/stderr" &
qemu_pid=$!
sleep "$deadline" &
timer_pid=$!
while :; do
	wait -n "$qemu_pid" "$timer_pid" # a signal ends it, too
	running "$qemu_pid" || break
	running "$timer_pid" || hung="deadline: the guest did not end within $deadline s (KRUN_TIMEOUT)"
	if [[ -n $hung ]]; then
		dump_stacks
		stop_qemu 2>/dev/null
		break
	fi
done
{ kill "$timer_pid"; wait "$timer_pid" "$qemu_pid"; } 2>/dev/null
qemu_pid= timer_pid=
wait "$console_pid"
console_pid=

# last_record TYPE prints the last whole record of a type, if there is one.
last_record() { grep -a "^{\"type\":\"$1\".*}\$" -- "$results" | tail -n 1; }

record=$(last_record end)
if [[ $record =~ ^\{\"type\":\"end\",\"status\":([0-9]{1,3})[,}] ]]; then
	status=${BASH_REMATCH[1]}
	if [[ $record =~ \"error\":\"(([^\"\\]|\\.)*)\" ]]; then
		say "the guest reports: ${BASH_REMATCH[1]}"
	fi
	exit "$status"
fi

panic=$(grep -a -o -m 1 'Kernel panic - not syncing.*' "$tmp/console.log")
if [[ -n $hung ]]; then
	say "$hung${panic:+; $panic}"
	exit 124
fi
if [[ -n $panic ]]; then
	say "the guest did not report: $panic"
elif [[ -z $(last_record hello) ]]; then
	say "the guest did not report: no hello, so it did not boot (KRUN_VERBOSE=1 shows the kernel's messages)"
else
	say "the guest did not report: it ended after its hello without an end record"
fi
[[ -s $tmp/stderr ]] && cat -- "$tmp/stderr" >&2 # what qemu itself has to say
exit 125
