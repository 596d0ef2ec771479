#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# The eBPF toolchain of the sysroot builds an object with BTF. KTAP.
cd "$(dirname "$0")/../.." || exit 1
. scripts/lib.sh
set +e
log=build/log/bpf-probe.log
object=build/bpf-probe/bpfel-unknown-none/release/bpf-probe
echo "KTAP version 1"
echo "1..2"
# build-std is not stable yet; the bootstrap flag lets a stable compiler do it.
if scripts/enter env RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR="$TOP/build/bpf-probe" \
	RUSTFLAGS="-C linker=bpf-linker -C debuginfo=2 -C link-arg=--btf" \
	cargo build --release --manifest-path selftests/bpf-probe/Cargo.toml \
	-Zbuild-std=core --target bpfel-unknown-none >"$log" 2>&1; then
	echo "ok 1 ebpf_program_builds"
else
	tail -n 20 "$log" | sed 's/^/# /'
	echo "not ok 1 ebpf_program_builds"
fi
if scripts/enter readelf -S "$object" 2>>"$log" | grep -q ' \.BTF '; then
	echo "ok 2 ebpf_program_has_btf"
else
	echo "not ok 2 ebpf_program_has_btf"
fi
