#!/bin/sh
# After the files are there. The service is not started: sudo systemctl enable --now quark-mon.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload || true
# dpkg says configure and the version that was there before, rpm how many versions are there now.
if [ "$1" = configure ] && [ -n "$2" ] || [ "$1" = 2 ]; then
	systemctl try-restart quark-mon.service || true
fi
