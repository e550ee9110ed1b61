#!/bin/sh
# The life of the library's packages in a directory tree with Debian and a compiler: install, compile
# the example as its comment says, watch with it, purge.
set -e
export LC_ALL=C DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin

mount -t proc proc /proc
mount --rbind /host-sys /sys
# Names of files, links and directories, without what any package changes.
files() {
	find / -xdev \( -path /proc -o -path /sys -o -path /host-sys -o -path /dev -o -path /tmp -o -path /run -o -path /var/cache -o -path /var/lib/dpkg \
		-o -path /var/lib/apt -o -path /var/log \) -prune -o -printf '%y %m %u %p %l\n' | sort
}
files >/run/before
apt-get install -y /libquark0.deb /libquark-dev.deb
ldconfig -p | grep libquark.so.0
cd /tmp
for static in '' -static; do
	cc /usr/share/doc/libquark/examples/monitor.c $(pkg-config ${static:+--static} --cflags --libs quark) $static -o monitor$static
	: >seen # of the monitor before, which is not to be taken for this one's
	./monitor$static -f 'comm == "true"' >seen 2>said &
	monitor=$!
	tries=0
	until grep 'exe=/usr/bin/true' seen; do
		kill -0 $monitor || { cat said; exit 1; }
		tries=$((tries + 1))
		[ $tries -lt 300 ] || { echo "monitor$static saw nothing"; cat said; exit 1; }
		/usr/bin/true
		sleep 0.1
	done
	kill -INT $monitor
	wait $monitor
	cat said
done
apt-get install -y /quark.deb # beside the commands
apt-get purge -y quark libquark0 libquark-dev
ldconfig -p | grep libquark && exit 1
files >/run/after
diff /run/before /run/after
echo 'nothing is left'
