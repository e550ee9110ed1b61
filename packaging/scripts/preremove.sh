#!/bin/sh
# Before the files go. dpkg says remove or upgrade, rpm how many versions will be left.
set -e
case $1 in remove | 0) ;; *) exit 0 ;; esac
command -v systemctl >/dev/null || exit 0
# Also in a directory tree where systemd does not run.
systemctl --no-reload disable quark-mon.service >/dev/null 2>&1 || true
if [ -d /run/systemd/system ]; then
	systemctl stop quark-mon.service || true
fi
