#!/usr/bin/env bash
# Boots a systemd in a container over a copy-on-write view of this machine's files, and stays
# until it ends: boot.sh WORK NAME BIND...
#
# To be run in a mount namespace of its own (unshare --mount). WORK is an empty directory beside
# which WORK.seed holds the files to add; each BIND is an option for systemd-nspawn. Readiness and
# the process id of the container's systemd are told on NOTIFY_SOCKET by systemd-nspawn.
set -euo pipefail

work=$1
name=$2
shift 2

options=(--register=no)
if [ ! -d /run/systemd/system ]; then
    # No systemd on this machine that could give the container a place, so make one. A systemd of
    # today wants control groups of version 2, wherever this machine has them.
    options+=(--keep-unit)
    if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
        umount -R /sys/fs/cgroup 2>/dev/null || true
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
    fi
    mkdir "/sys/fs/cgroup/$name"
    echo $$ >"/sys/fs/cgroup/$name/cgroup.procs"
fi

mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
cp -a "$work.seed/." "$work/upper/"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"

exec systemd-nspawn --quiet --directory="$work/root" --machine="$name" --boot --console=pipe \
    --private-network --notify-ready=yes "${options[@]}" "$@" \
    systemd.unit=basic.target systemd.journald.forward_to_console=no
