#!/bin/sh
# Before the files are removed. dpkg says "remove", or "upgrade" when another version
# follows; rpm says how many versions stay.
set -e

case "$1" in
remove | 0)
	if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
		systemctl disable --now hindsight-server.service
	fi
	;;
esac
