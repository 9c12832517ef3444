#!/usr/bin/env bash
# By hand, when the sandbox has changed: runs its tests of limits once more on a kernel with cgroups of version 2, as
# root, as a plain user to whom a group was delegated as systemd does it, and as one without. It takes a virtual
# machine, Debian's kernel in QEMU without acceleration with this host's files underneath, which boots in twenty
# seconds and needs root to install it.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
  echo 'only root can make groups and hand them on' >&2
  exit 1
fi
if [ "$(uname -m)" != x86_64 ]; then
  echo 'the virtual machine of this test is for x86-64' >&2
  exit 1
fi
binary=$(scripts/sandbox-tests.sh)
vm=$PWD/target/cgroup2
mkdir -p "$vm/share"

setup() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get update --quiet --quiet
  apt-get install --yes --quiet --no-install-recommends qemu-system-x86 busybox-static kmod cpio >/dev/null
  rm -rf "$vm/kernel" "$vm/initrd"
  mkdir -p "$vm/kernel" "$vm/initrd"/{bin,modules,proc,sys,dev,below,over,root}
  local package version
  package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
  (cd "$vm/kernel" && apt-get download --quiet --quiet "$package" && dpkg -x ./*.deb . && rm ./*.deb)
  version=$(ls "$vm/kernel/lib/modules")
  depmod --basedir "$vm/kernel" "$version"
  local at=10 module
  for module in virtio_pci 9pnet_virtio 9p overlay; do
    modprobe --dirname "$vm/kernel" --set-version "$version" --show-depends "$module"
  done | awk '/^insmod/ && !seen[$2]++ { print $2 }' | while read -r module; do
    cp "$module" "$vm/initrd/modules/$at-${module##*/}"
    at=$((at + 1))
  done
  cp /bin/busybox "$vm/initrd/bin/"
  cat > "$vm/initrd/init" <<'INIT'
#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
for module in /modules/*; do $B insmod "$module"; done
share() { $B mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=512000,cache=loose "$1" "$2"; }
share host /below
$B mount -t tmpfs tmpfs /over
$B mkdir /over/upper /over/work
$B mount -t overlay -o lowerdir=/below,upperdir=/over/upper,workdir=/over/work overlay /root
$B mount -t proc proc /root/proc; $B mount -t sysfs sys /root/sys; $B mount -t devtmpfs dev /root/dev
$B mkdir -p /root/dev/shm
for folder in dev/shm tmp run; do $B mount -t tmpfs -o mode=1777 tmpfs "/root/$folder"; done
$B mount -t cgroup2 cgroup2 /root/sys/fs/cgroup
$B mkdir /root/tmp/share
share share /root/tmp/share
$B ip link set lo up
exec $B switch_root /root /bin/sh /tmp/share/run
INIT
  chmod +x "$vm/initrd/init"
  (cd "$vm/initrd" && find . | cpio --quiet --create --format=newc) | gzip > "$vm/initrd.gz"
  # Last, so that an interrupted set-up is done again.
  cp "$vm"/kernel/boot/vmlinuz-* "$vm/vmlinuz"
}
[ -f "$vm/vmlinuz" ] && command -v qemu-system-x86_64 >/dev/null || setup

install -m 755 "$binary" "$vm/share/it"
cat > "$vm/share/run" <<'RUN'
export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/tmp/t
uname -r
install -m 755 /tmp/share/it /tmp/it
mkdir -m 1777 /tmp/t
cd /
groups=/sys/fs/cgroup
tests='ordinary::a_program_gets hostile::a_fork_bomb hostile::processes_and_threads hostile::memory_in_every attacks::no_cgroup attacks::a_box_goes_first attacks::root_hands attacks::a_crash attacks::nothing_in_a_box_runs'
plain='setpriv --reuid=65534 --regid=65534 --clear-groups'
# enter GROUP COMMAND: runs a command in a group.
enter() { sh -c 'echo $$ > "$0/cgroup.procs" && exec "$@"' "$@"; }
# Rights that boxes are not to have.
rights='prlimit --rtprio=50 --nice=40'
# A dump would be handed to this.
printf '#!/bin/sh\ncat > /tmp/dump\n' > /tmp/handler
chmod 755 /tmp/handler
echo '|/tmp/handler' > /proc/sys/kernel/core_pattern
echo '+memory +pids' > $groups/cgroup.subtree_control

echo '== root, in the group of a service'
mkdir -p $groups/system.slice/helve.service
enter $groups/system.slice/helve.service $rights /tmp/it --color=never --test-threads=2 $tests
echo '== a plain user, in a group that is its own'
mkdir -p $groups/user.slice/app.slice/helve.scope
echo '+memory +pids' > $groups/user.slice/cgroup.subtree_control
chown -R 65534:65534 $groups/user.slice/app.slice
enter $groups/user.slice/app.slice/helve.scope $rights $plain env HELVE_TEST_DELEGATED=1 /tmp/it --color=never --test-threads=2 $tests
echo '== a plain user, in a group that is not'
$plain /tmp/it --color=never --test-threads=2 ordinary::a_program_gets attacks::no_cgroup
echo '== left behind'
find $groups -name 'helve-*'
[ ! -e /tmp/dump ] || echo 'a dump was taken of a program in a box'
echo '== end'
/bin/busybox poweroff -f
RUN
timeout 900 qemu-system-x86_64 -M pc,accel=tcg -cpu max -m 4096 -smp 2 -nographic -no-reboot \
  -kernel "$vm/vmlinuz" -initrd "$vm/initrd.gz" -append 'console=ttyS0 quiet loglevel=0 panic=-1' \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
  -virtfs local,path="$vm/share",mount_tag=share,security_model=none,readonly=on </dev/null |
  tr -d '\r' | tee "$vm/log"
# A filter that fits no test passes, too: each run must have had as many as it names, or more.
passed=$(sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$vm/log" | tr '\n' ' ')
if ! echo "$passed" | awk '{ exit !(NF == 3 && $1 >= 9 && $2 >= 9 && $3 >= 2) }' ||
  [ "$(sed -n '/^== left behind$/,/^== end$/p' "$vm/log" | wc -l)" != 2 ]; then
  echo 'the tests with cgroups of version 2 have failed' >&2
  exit 1
fi
