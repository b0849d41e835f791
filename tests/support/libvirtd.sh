# A libvirtd of the test's own: its directories are in a private mount namespace, its sockets below a directory of the test, so
# that neither the host's daemon nor its guests are touched. Sourced by tests; the emulators it starts are its.
#
#   libvirtd_start DIR   LIBVIRTD_URI is then its address, LIBVIRTD_USER who runs its emulators; 1 where it cannot be had (LIBVIRTD_WHY says why)
#   libvirtd_kill DIR [SIGNAL]
#   libvirtd_stop DIR    ends it and every guest, and the emulators that it had asked what they can do when it was killed

libvirtd_start() {
  local dir=$1 i
  LIBVIRTD_URI="qemu:///system?socket=$dir/sock/libvirt-sock"
  for i in libvirtd virsh qemu-system-x86_64 unshare; do
    command -v $i >/dev/null || [ -x /usr/sbin/$i ] || { LIBVIRTD_WHY="$i is not installed"; return 1; }
  done
  [ "$(id -u)" = 0 ] || { LIBVIRTD_WHY="only root can run a libvirtd of its own"; return 1; }
  # As Debian's package has it, where it is installed whole.
  LIBVIRTD_USER=root LIBVIRTD_GROUP=root
  if id libvirt-qemu >/dev/null 2>&1; then LIBVIRTD_USER=libvirt-qemu LIBVIRTD_GROUP=$(id -gn libvirt-qemu); fi
  mkdir -p "$dir/sock"
  cat >"$dir/libvirtd.conf" <<CONF
unix_sock_dir = "$dir/sock"
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_rw_perms = "0700"
log_outputs = "3:file:$dir/libvirtd.log"
CONF
  cat >"$dir/start" <<'START'
dir=$1
mount --make-rprivate /
for d in run/libvirt var/lib/libvirt var/log/libvirt var/cache/libvirt etc/libvirt; do
  mkdir -p "/$d" "$dir/state/$d" && mount --bind "$dir/state/$d" "/$d" || exit 1
done
mkdir -p /var/lib/libvirt/qemu /var/log/libvirt/qemu
# As udev leaves it for the emulators' user, where this machine has no udev: what libvirtd may use and they may not makes it ask every
# emulator again and again what it can do.
if [ -c /dev/kvm ]; then
  [ -e "$dir/kvm" ] || { mknod "$dir/kvm" c 10 232 && chgrp "$3" "$dir/kvm" && chmod 660 "$dir/kvm"; }
  mount --bind "$dir/kvm" /dev/kvm
fi
cat >/etc/libvirt/qemu.conf <<CONF
user = "$2"
group = "$3"
stdio_handler = "file"
security_driver = "none"
cgroup_controllers = []
namespaces = []
remember_owner = 0
CONF
exec /usr/sbin/libvirtd -f "$dir/libvirtd.conf" -p "$dir/pid"
START
  mkdir -p /run/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt /etc/libvirt
  rm -f "$dir/pid"
  unshare -m sh "$dir/start" "$dir" "$LIBVIRTD_USER" "$LIBVIRTD_GROUP" >"$dir/out" 2>&1 </dev/null &
  LIBVIRTD_PID=$!
  for i in $(seq 300); do
    [ -S "$dir/sock/libvirt-sock" ] && virsh -q -c "$LIBVIRTD_URI" uri >/dev/null 2>&1 && break
    kill -0 $LIBVIRTD_PID 2>/dev/null || break
    sleep 0.1
  done
  LIBVIRTD_SPACES="${LIBVIRTD_SPACES:-} $(readlink "/proc/$LIBVIRTD_PID/ns/mnt")" # of each life; guests outlive it
  virsh -q -c "$LIBVIRTD_URI" uri >/dev/null 2>&1 && return 0
  LIBVIRTD_WHY="libvirtd does not start: $(tail -3 "$dir/out" "$dir/libvirtd.log" 2>/dev/null | tr '\n' ' ')"
  return 1
}

libvirtd_kill() {
  kill -"${2:-KILL}" "$LIBVIRTD_PID" 2>/dev/null
  [ "${2:-KILL}" = STOP ] || [ "${2:-KILL}" = CONT ] || wait "$LIBVIRTD_PID" 2>/dev/null
}

libvirtd_stop() {
  local name
  for name in $(virsh -q -c "$LIBVIRTD_URI" list --name 2>/dev/null); do virsh -q -c "$LIBVIRTD_URI" destroy "$name" >/dev/null 2>&1; done
  libvirtd_kill "$1" TERM
  local process space
  for process in /proc/[0-9]*; do
    space=$(readlink "$process/ns/mnt" 2>/dev/null) || continue
    [ "$space" != "$(readlink /proc/self/ns/mnt)" ] || continue
    case " $LIBVIRTD_SPACES " in *" $space "*) kill -9 "${process#/proc/}" 2>/dev/null ;; esac
  done
  rm -rf "$1"
}
