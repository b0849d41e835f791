#!/bin/bash
# image.sh OUT: makes OUT/vmlinuz and OUT/initramfs, from Debian's kernel package, busybox and what has been built in $B.
#
# The kernel package is only unpacked, never installed: /boot and the host's modules are left alone. It is fetched once, into
# build/vm; VM_KERNEL=linux-image-amd64 takes the kernel with all modules instead of the small one for virtual machines.
set -eu
: "${B:=build/release}"
out=$1
cache=build/vm
package=${VM_KERNEL:-linux-image-cloud-amd64}
mkdir -p "$out" "$cache"

if [ ! -e "$cache/$package/boot" ]; then
  real=$(apt-cache depends "$package" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image[^ ]*\)$/\1/p' | head -1)
  if [ -z "$real" ]; then
    apt-get update -qq >/dev/null 2>&1 || true
    real=$(apt-cache depends "$package" | sed -n 's/^ *Depends: \(linux-image[^ ]*\)$/\1/p' | head -1)
  fi
  [ -n "$real" ] || { echo "vm: Debian has no package $package here" >&2; exit 1; }
  rm -rf "$cache/$package.part" && mkdir "$cache/$package.part"
  (cd "$cache/$package.part" && apt-get download -qq -o APT::Sandbox::User=root "$real" 2>&1 | sed '/^W:/d' >&2; dpkg-deb -x ./*.deb .; rm ./*.deb)
  mv "$cache/$package.part" "$cache/$package"
fi
kernel=$(ls "$cache/$package"/boot/vmlinuz-*)
version=${kernel##*/vmlinuz-}
cp "$kernel" "$out/vmlinuz"

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,sbin,dev,proc,sys,tmp,run,root,etc,usr/bin,usr/sbin,usr/lib,var/lib,tests/tools,mnt,home} "$root/lib/modules"
chmod 1777 "$root/tmp"
cp /bin/busybox "$root/bin/busybox"
for applet in $(/bin/busybox --list); do
  case $applet in busybox | init | linuxrc) ;; *) ln -s busybox "$root/bin/$applet" ;; esac
done

# put FILE [WHERE]: with the libraries that it needs.
put() {
  install -D -m 755 "$1" "$root/${2:-$1}"
  ldd "$1" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p; s/^[[:space:]]*\(\/lib[^ ]*\) .*/\1/p' | while read -r lib; do
    [ -e "$root$lib" ] || install -D -m 755 "$(readlink -f "$lib")" "$root$lib"
  done
}
for program in bash ps pgrep date taskset setpriv crun ip rdma ibv_rc_pingpong ibv_devinfo; do
  path=$(command -v $program || true)
  [ -n "$path" ] || continue
  rm -f "$root/bin/$program"
  put "$path" "/bin/$program"
done
# What libibverbs knows soft-RoCE by.
provider=/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so
if [ -e $provider ]; then
  put $provider
  install -D -m 644 /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/rxe.driver"
fi
for file in "$B"/bin/*; do [ -L "$file" ] || [ -d "$file" ] || put "$file" "/build/bin/${file##*/}"; done
put "$B/tests/bin/agent" /build/tests/bin/agent
for file in "$B"/tests/tools/*; do
  case $file in *.d | *.o | */herd) ;; *) put "$file" "/build/tests/tools/${file##*/}" ;; esac
done
[ -z "${VM_BENCH:-}" ] || put "$B/tests/bench/launcher_bench" /build/tests/bench/launcher_bench
cp -P "$B"/libbourse.so* "$root/build/"
find "$root/build" -type f -exec strip -g {} + 2>/dev/null || true
cp tests/vm/init "$root/init" && chmod 755 "$root/init"
cp tests/vm/*.sh "$root/tests/" && rm -f "$root"/tests/{image,run,all}.sh
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\nada:x:1000:1000::/home:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nada:x:1000:\n' >"$root/etc/group"
echo "passwd: files" >"$root/etc/nsswitch.conf"
cp /lib/x86_64-linux-gnu/libnss_files.so.2 "$root/lib/x86_64-linux-gnu/" 2>/dev/null || true

# Modules that the tests ask for, each after what it depends on.
modules="$cache/$package/lib/modules/$version"
[ -e "$modules/modules.dep" ] || /sbin/depmod -b "$cache/$package" "$version" 2>/dev/null || true
[ -e "$modules/modules.dep" ] || /bin/busybox depmod -b "$PWD/$cache/$package" "$version"
for name in brd loop fuse overlay virtio_blk virtio_pci ext4 veth ${VM_MODULES:-}; do
  line=$(grep -m1 "/$name\.ko[^:]*:" "$modules/modules.dep" || true)
  [ -n "$line" ] || continue
  file=${line%%:*}
  for each in $(printf '%s\n' ${line#*:} | tac) "$file"; do
    [ -e "$root/lib/modules/${each##*/}" ] && continue
    cp "$modules/$each" "$root/lib/modules/"
    echo "${each##*/}" >>"$root/lib/modules/order"
  done
done
(cd "$root" && find . | cpio -o -H newc --quiet) >"$out/initramfs.part"
mv "$out/initramfs.part" "$out/initramfs"
