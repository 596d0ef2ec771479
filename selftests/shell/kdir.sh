#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# check-kdir refuses a kernel that cannot work, with the reason. KTAP.
cd "$(dirname "$0")/../.." || exit 1
dir=$(mktemp -d build/kdir-test.XXXXXX)
trap 'rm -rf "$dir"' EXIT
n=0
# expect NAME EXIT TEXT: runs check-kdir on $dir
expect() {
	local said rc=0
	said=$(RUSTC=$dir/rustc BINDGEN=true scripts/check-kdir "$dir/k" 2>&1) || rc=$?
	n=$((n + 1))
	if [ "$rc" = "$2" ] && grep -qF -- "$3" <<<"$said"; then
		echo "ok $n $1"
	else
		sed 's/^/# /' <<<"exit $rc: $said"
		echo "not ok $n $1"
	fi
}
printf '#!/bin/sh\necho "rustc 1.85.1 (test)"\n' >"$dir/rustc"
chmod +x "$dir/rustc"
echo "KTAP version 1"
echo "1..8"
mkdir -p "$dir/k/include/config"
expect kdir_not_a_tree 1 "no Makefile there"
touch "$dir/k/Makefile"
expect kdir_not_configured 1 "not configured"
conf=$dir/k/include/config/auto.conf
echo 'CONFIG_RUSTC_VERSION_TEXT=rustc 1.85.1 (test)' >"$conf"
echo 6.12.3-amd64 >"$dir/k/include/config/kernel.release"
expect kdir_too_old 1 "too old, Fathom needs 7.2"
echo 7.2.12+deb13-amd64 >"$dir/k/include/config/kernel.release"
expect kdir_rust_off 1 "CONFIG_RUST is off"
echo CONFIG_RUST=y >>"$conf"
expect kdir_no_metadata 1 "no Rust metadata"
mkdir "$dir/k/rust"
touch "$dir/k/rust/libkernel.rmeta" "$dir/k/rust/libcore.rmeta"
expect kdir_good 0 "Linux 7.2.12+deb13-amd64, rustc 1.85.1 (test)"
printf '#!/bin/sh\necho "rustc 1.90.0 (other)"\n' >"$dir/rustc"
expect kdir_other_rustc 1 "need the very same compiler"

# And a real one: the stock tree, with the compilers of the sysroot, as a user would.
. scripts/lib.sh
set +e
n=8
log=build/log/kdir-real.log
if FATHOM_PATH=$KERNEL_PATH scripts/enter make KDIR="$STOCK" modules >"$log" 2>&1 &&
	[ -s build/kdir/kmod/tcp_theta_powertcp.ko ]; then
	echo "ok $n kdir_of_the_stock_kernel_builds"
else
	tail -n 20 "$log" | sed 's/^/# /'
	echo "not ok $n kdir_of_the_stock_kernel_builds"
fi
