#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# What must be true of every module that was built. KTAP.
cd "$(dirname "$0")/../.." || exit 1
. scripts/lib.sh
set +e
modules=(build/stock/kmod/*.ko)
n=0
# empty NAME WHAT WHY: passes when WHAT is empty
empty() { if [ -z "$2" ]; then result "$1" 0; else result "$1" 1 "$3$2"; fi; }
result() { # NAME EXIT-CODE [WHY]
	n=$((n + 1))
	if [ "$2" = 0 ]; then echo "ok $n $1"; else
		[ -z "${3:-}" ] || sed 's/^/# /' <<<"$3"
		echo "not ok $n $1"
	fi
}
echo "KTAP version 1"
echo "1..6"

said=$(scripts/enter scripts/check-panic build/stock/kmod/*.ko build/lab/kmod/*.ko 2>&1)
result modules_cannot_panic $? "$said"

# The check itself: a module that indexes an array by a parameter must be refused.
log=build/log/panic-module.log
FATHOM_PATH=$KERNEL_PATH scripts/enter make -C "$STOCK" M="$TOP/selftests/panic-module" \
	MO="$TOP/build/panic-module" CC=x86_64-linux-gnu-gcc-14 modules >"$log" 2>&1
said=$(scripts/enter scripts/check-panic build/panic-module/panics.ko 2>&1)
rc=$?
grep -q panicking <<<"$said" || rc="$rc, and it says nothing of panicking"
if [ "$rc" = 1 ]; then rc=0; fi
result panic_check_finds_a_module_that_can "$rc" "exit $rc: $said (build log: $log)"

# Text of at most 16 KiB: one module is one law.
big=$(for m in "${modules[@]}"; do
	scripts/enter size -A "$m" | awk -v m="$m" '$1 ~ /^\.text/ {t += $2} END {if (t > 16384) print m, t}'
done)
empty module_text_at_most_16_KiB "$big" ""

# BTF, so that BPF programs can see our types.
missing=$(for m in "${modules[@]}"; do scripts/enter readelf -S "$m" | grep -q '\.BTF' || echo "$m"; done)
empty modules_have_btf "$missing" "without BTF: "

# vermagic is what the kernel compares first when it loads a module.
other=$(for m in "${modules[@]}"; do scripts/enter modinfo -F vermagic "$m" | grep -q "^$KABI " || echo "$m"; done)
empty modules_are_of_the_stock_kernel "$other" "other vermagic: "

# Every parameter says what it is, in its unit.
bare=$(for m in "${modules[@]}"; do
	scripts/enter modinfo -F parm "$m" | grep -vE '^[a-z_0-9]+:.{10,}' | sed "s|^|$m: |"
done)
empty parameters_are_described "$bare" ""
