# Kernels and first file systems for guests of tests. Debian's kernel packages are fetched once, into build/vm, and only unpacked:
# /boot and the host's modules are left alone. Sourced by tests.
#
#   guests_prepare   GUESTS_KERNEL is the host architecture's; 1 where it cannot be had (GUESTS_WHY says why)
#   guests_arm       GUESTS_ARM_KERNEL and GUESTS_ARM_BUSYBOX; 1 likewise
#   guests_initramfs BUSYBOX OUT

guests_newest() { ls "$1"/boot/vmlinuz-* 2>/dev/null | head -1; }

guests_prepare() {
  local cache=build/vm/linux-image-cloud-amd64 real
  command -v cpio >/dev/null || { GUESTS_WHY="cpio is not installed"; return 1; }
  [ -x /bin/busybox ] || { GUESTS_WHY="busybox-static is not installed"; return 1; }
  if [ -z "$(guests_newest $cache)" ]; then
    real=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image[^ ]*\)$/\1/p' | head -1)
    [ -n "$real" ] || { GUESTS_WHY="Debian has no package linux-image-cloud-amd64 here"; return 1; }
    rm -rf $cache.part && mkdir -p $cache.part
    (cd $cache.part && apt-get download -qq -o APT::Sandbox::User=root "$real" >/dev/null 2>&1 && dpkg-deb -x ./*.deb . && rm ./*.deb) ||
      { GUESTS_WHY="the package $real cannot be fetched"; return 1; }
    rm -rf $cache && mv $cache.part $cache
  fi
  GUESTS_KERNEL=$PWD/$(guests_newest $cache)
}

guests_arm() {
  local cache=$PWD/build/vm/arm64 real apt
  command -v qemu-system-aarch64 >/dev/null || { GUESTS_WHY="qemu-system-arm is not installed"; return 1; }
  if [ -z "$(guests_newest "$cache")" ]; then
    rm -rf "$cache.part" && mkdir -p "$cache.part/lists/partial" "$cache.part/apt/archives/partial"
    # A list of packages of its own: the host's architectures stay as they are.
    apt="-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists=$cache.part/lists -o Dir::Cache=$cache.part/apt
         -o APT::Sandbox::User=root -o Acquire::Languages=none"
    # shellcheck disable=SC2086
    apt-get $apt update >/dev/null 2>&1
    # shellcheck disable=SC2086
    real=$(apt-cache $apt depends linux-image-cloud-arm64 2>/dev/null | sed -n 's/^ *Depends: \(linux-image[^ ]*\)$/\1/p' | head -1)
    # shellcheck disable=SC2086
    [ -n "$real" ] && (cd "$cache.part" && apt-get $apt download "$real" busybox-static >/dev/null 2>&1 && for each in ./*.deb; do dpkg-deb -x "$each" .; done && rm ./*.deb) ||
      { GUESTS_WHY="Debian's arm64 packages cannot be fetched"; return 1; }
    rm -rf "$cache.part/lists" "$cache.part/apt" "$cache" && mv "$cache.part" "$cache"
  fi
  GUESTS_ARM_KERNEL=$(guests_newest "$cache")
  GUESTS_ARM_BUSYBOX=$cache/bin/busybox
}

guests_initramfs() {
  local root applet
  root=$(mktemp -d)
  mkdir -p "$root"/{bin,dev,proc,sys,tmp}
  cp "$1" "$root/bin/busybox"
  for applet in sh mount stty cat echo uname sleep poweroff sync kill mkdir printf nproc grep awk sed seq true ls dd; do ln -s busybox "$root/bin/$applet"; done
  (cd "$root" && find . | cpio -o -H newc --quiet) >"$2"
  rm -rf "$root"
}
