#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes the guest that the NIC's RDMA is tested against: guest.sh DIRECTORY. A kernel with Soft-RoCE and an initramfs, of
# Debian's packages alone; in DIRECTORY are vmlinuz and initrd then. Made anew when what it is made of has changed.
# Exit status 77: something is missing that is not ours to bring.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
export PATH="/usr/sbin:/usr/bin:/sbin:/bin:$PATH"
mkdir -p "$1"
out=$(readlink -f "$1")

lacking() {
	echo "$*" >&2
	exit 77
}

modules='crc32_generic virtio_pci virtio_net virtio_console af_packet rdma_rxe ib_uverbs rdma_ucm ib_umad null_blk nvmet nvmet_rdma nvme_rdma'
programs='ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong
	rping ucmatose udaddy rdma_client rdma_server cmtime riostream rstream udpong
	ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_atomic_bw ib_atomic_lat
	ip rdma nvme'
packages='busybox-static ibverbs-utils ibverbs-providers rdmacm-utils rdma-core perftest nvme-cli iproute2 libc6'

# A kernel that is installed and has Soft-RoCE (the cloud kernels have not); else the package, which stays uninstalled: a
# kernel in /boot changes how the machine starts.
find_kernel() {
	local rxe package archive
	for rxe in /lib/modules/*/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko*; do
		release=$(cut -d/ -f4 <<<"$rxe")
		if [ -r "/boot/vmlinuz-$release" ] && [ -s "/lib/modules/$release/modules.dep" ]; then
			root=/ vmlinuz=/boot/vmlinuz-$release
			return
		fi
	done
	archive=$(find "$out" -maxdepth 1 -name 'linux-image-*.deb' | sort -V | tail -n 1)
	if [ -z "$archive" ]; then
		package=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
		[ -n "$package" ] || lacking "apt knows no linux-image-amd64"
		(cd "$out" && apt-get download "$package" >&2) || lacking "apt cannot bring $package"
		archive=$(find "$out" -maxdepth 1 -name 'linux-image-*.deb' | sort -V | tail -n 1)
	fi
	root=$out/kernel
	if [ ! -e "$root/of-$(basename "$archive")" ]; then
		rm -rf "$root"
		dpkg-deb -x "$archive" "$root"
		touch "$root/of-$(basename "$archive")"
	fi
	release=$(ls "$root/lib/modules")
	vmlinuz=$root/boot/vmlinuz-$release
	[ -s "$root/lib/modules/$release/modules.dep" ] || depmod -b "$root" "$release"
}

for program in qemu-system-x86_64 cpio depmod modprobe busybox; do
	command -v "$program" >/dev/null || lacking "$program is not installed"
done
find_kernel

# shellcheck disable=SC2086 # lists of words, here and below
stamp=$({
	echo "$release" && cat "$here/guest.sh" "$here/init"
	dpkg-query -W -f '${Package} ${Version}\n' $packages 2>&1 || true
} | sha256sum)
if [ "$(cat "$out/stamp" 2>/dev/null)" = "$stamp" ] && [ -s "$out/vmlinuz" ] && [ -s "$out/initrd" ]; then
	exit 0
fi

tree=$(mktemp -d "$out/tree.XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{bin,dev,proc,sys,etc/libibverbs.d,tmp,root,run,usr/lib,usr/lib64}
ln -s usr/lib usr/lib64 "$tree/"
ln -s bin "$tree/sbin"

# bring FILE...: these, and the libraries that they want, where they are here.
bring() {
	local file library
	for file in "$@"; do
		ldd "$file" 2>/dev/null | grep -oE '/[^ ]+' | while read -r library; do
			[ ! -e "$tree$library" ] || continue
			mkdir -p "$tree$(dirname "$library")"
			cp -L "$library" "$tree$library"
		done
	done
}

cp "$(command -v busybox)" "$tree/bin/busybox"
for program in $("$tree/bin/busybox" --list | grep -vx -e busybox -e ip); do
	ln -s busybox "$tree/bin/$program"
done
for program in $programs; do
	path=$(command -v "$program") || lacking "$program is not installed"
	cp -L "$path" "$tree/bin/$program"
	bring "$path"
done
# What no ldd tells: rxe's provider, and what pthread_exit loads.
providers=(/usr/lib/*/libibverbs/librxe-*.so)
mkdir -p "$tree$(dirname "${providers[0]}")"
cp -L "${providers[@]}" "$tree$(dirname "${providers[0]}")"
bring "${providers[@]}"
cp /etc/libibverbs.d/rxe.driver "$tree/etc/libibverbs.d/"
for library in /usr/lib/x86_64-linux-gnu/libgcc_s.so.1 /lib/x86_64-linux-gnu/libgcc_s.so.1; do
	if [ -e "$library" ]; then
		mkdir -p "$tree$(dirname "$library")"
		cp -L "$library" "$tree$library"
		break
	fi
done

for module in $modules; do
	modprobe -d "$root" -S "$release" --show-depends "$module" | awk '$1 == "insmod" { print $2 }'
done | awk '!seen[$0]++' | while read -r file; do
	name=$(basename "$file")
	case $name in
	*.xz) xz -dc "$file" >"$tree/root/${name%.xz}" ;;
	*.zst) zstd -qdc "$file" >"$tree/root/${name%.zst}" ;;
	*) cp "$file" "$tree/root/" ;;
	esac
	echo "${name%.[xz]*}"
done >"$tree/etc/modules"

echo 'root:x:0:0:root:/root:/bin/sh' >"$tree/etc/passwd"
printf '127.0.0.1 localhost\n' >"$tree/etc/hosts"
install -m 755 "$here/init" "$tree/init"
# Not compressed: an emulated processor is slow to unpack.
(cd "$tree" && find . | cpio --quiet -o -H newc -R 0:0) >"$out/initrd.new"
cp "$vmlinuz" "$out/vmlinuz"
mv "$out/initrd.new" "$out/initrd"
echo "$stamp" >"$out/stamp"
echo "guest: Linux $release, $(($(stat -c %s "$out/initrd") >> 20)) MiB" >&2
