#!/bin/sh
# Run a command as the user nobody, without a home, on a file system that is read-only but for one
# folder: what systemd's DynamicUser and ProtectSystem=strict, or a read-only container, give it.
#
#   unshare --mount sh as_nobody.sh FOLDER BASE COLD COMMAND...
#
# BASE is where Python is installed: a folder of root alone would hide it from nobody. Of a COLD
# folder the contents are hidden; "" for none.
set -e
folder=$1 base=$2 cold=$3
shift 3
mount --make-rprivate /
mount -t tmpfs -o mode=755 none /srv
mkdir /srv/base /srv/folder
mount --bind "$base" /srv/base
mount --bind "$folder" /srv/folder
case $base in
/root/*)
    mount -t tmpfs -o mode=755 none /root
    mkdir -p "$base"
    mount --bind /srv/base "$base"
    ;;
esac
[ -z "$cold" ] || mount -t tmpfs -o mode=755 none "$cold"
mount -t tmpfs -o mode=755 none /tmp
awk '{ print $2 }' /proc/self/mounts | grep -v -e '^/proc' -e '^/sys' -e '^/dev' -e '^/srv/folder' |
    while read -r place; do mount -o remount,ro,bind "$place" 2>/dev/null || true; done
cd /srv/folder
exec env -i PATH="$PATH" HOME=/nonexistent PYTHONDONTWRITEBYTECODE=1 \
    setpriv --reuid=nobody --regid=nogroup --clear-groups --no-new-privs "$@"
