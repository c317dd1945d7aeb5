#!/bin/sh
# After the files are removed. The data and their user stay: they cannot be made again.
set -e

if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
case "$1" in
remove | 0) echo "The data of hindsight stay in /var/lib/hindsight." ;;
esac
