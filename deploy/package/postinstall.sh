#!/bin/sh
# After the files of the package are installed: dpkg calls it with "configure" and the version
# that was installed before, rpm with the number of versions that are installed. DPKG_ROOT
# is set when dpkg installs into another directory.
set -e

root="${DPKG_ROOT:-}"

if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers ${root:+--root="$root"} hindsight.conf
elif ! getent passwd hindsight >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/hindsight --shell /usr/sbin/nologin hindsight
fi

# Keys and tokens belong here. The group is looked up where the package is installed.
group="$(awk -F: '$1 == "hindsight" { print $3 }' "$root/etc/group")"
chgrp "$group" "$root/etc/hindsight" "$root/etc/hindsight/hindsight-server.yaml"
chmod 0750 "$root/etc/hindsight"
chmod 0640 "$root/etc/hindsight/hindsight-server.yaml"

if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# An upgrade restarts a server that runs. A first installation starts none.
	systemctl try-restart hindsight-server.service
fi
if { [ "$1" = configure ] && [ -z "$2" ]; } || [ "$1" = 1 ]; then
	echo "hindsight-server is installed. Start it with: systemctl enable --now hindsight-server"
fi
