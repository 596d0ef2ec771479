# shellcheck shell=bash
# What every script here shares: where things live, how a step talks, how it fails.
# Sourced, never run.

set -euo pipefail

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
CACHE=${FATHOM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/fathom}
mkdir -p "$CACHE/log"
CACHE=$(cd "$CACHE" && pwd -P)
SUITE=trixie # Debian 13: its compilers are the ones that Debian's backports kernel was built with.
DEB_ARCH=amd64
# shellcheck disable=SC2034 # these two are used by those who source this
RUST_TARGET=x86_64-unknown-linux-gnu
# shellcheck disable=SC2034
KERNEL_PATH=/usr/sbin:/usr/bin:/sbin:/bin # without the newer Rust, which the kernel must not see

say() { printf '%s\n' "$*"; }

# die WHAT [HINT...]: one error, and what to do about it.
die() {
	printf 'fathom: error: %s\n' "$1" >&2
	shift
	local hint
	for hint in "$@"; do printf '        try: %s\n' "$hint" >&2; done
	exit 1
}

# key FILE|TEXT...: a short fingerprint of what a product is made from.
key() {
	local part
	for part in "$@"; do
		# A file counts by its content and not by where it is.
		if [ -f "$part" ]; then cat "$part"; else printf '%s\n' "${part##*/}"; fi
	done | sha256sum | cut -c1-12
}

# How this user may make and enter a root file system: root, userns, sudo, or none.
privilege() {
	if [ "$(id -u)" = 0 ]; then
		echo root
	elif unshare --user --map-root-user --map-auto true 2>/dev/null; then
		echo userns
	elif sudo -n true 2>/dev/null; then
		echo sudo
	else
		echo none
	fi
}

# run TITLE LOG LINES HINT -- COMMAND...: runs COMMAND with its output in LOG, shows how far it is
# (LINES is how many lines the log has at the end of a good run; 0 when not known), and on failure
# says what failed, where the log is and HINT. Ctrl-C ends the command and everything it started.
run() {
	local title=$1 log=$2 lines=$3 hint=$4
	shift 5
	mkdir -p "$(dirname "$log")"
	local start=$SECONDS pid rc=0 shown=0 at
	setsid "$@" >"$log" 2>&1 </dev/null &
	pid=$!
	# shellcheck disable=SC2064 # pid is wanted as it is now
	trap "kill -TERM -- -$pid 2>/dev/null; printf '\n'; exit 130" INT TERM
	while kill -0 "$pid" 2>/dev/null; do
		sleep 0.2
		at=$((SECONDS - start))
		if [ -t 1 ]; then
			printf '\r  %-52s %s %4d s' "$title" "$(percent "$log" "$lines")" "$at"
		elif ((at >= shown + 60)); then
			shown=$at
			printf '  %-52s %s %4d s ...\n' "$title" "$(percent "$log" "$lines")" "$at"
		fi
	done
	wait "$pid" || rc=$?
	trap - INT TERM
	[ -t 1 ] && printf '\r'
	if [ "$rc" = 0 ]; then
		printf '  %-52s done %4d s\n' "$title" $((SECONDS - start))
		return 0
	fi
	printf '  %-52s FAILED (exit %d)\n' "$title" "$rc"
	tail -n 15 "$log" | sed 's/^/    | /' >&2
	die "$title failed" "$hint" "the whole log: $log" "the same command again: finished steps are kept"
}

# percent LOG LINES: "  42%", or blank when the end is not known.
percent() {
	local n=0
	[ "$2" = 0 ] && { printf '    '; return; }
	[ -f "$1" ] && n=$(wc -l <"$1")
	n=$((n * 100 / $2))
	((n > 99)) && n=99
	printf '%3d%%' "$n"
}

# The products, each named by what it is made from. `setup` makes them; the rest only looks.
# shellcheck disable=SC2034 # used by those who source this
products() {
	PACKAGES=$(awk '/^[a-z]/ {print $1}' "$TOP/scripts/packages")
	SYSROOT=$CACHE/sysroot-$(key "$SUITE" "$DEB_ARCH" "$PACKAGES" "$TOP/scripts/make-rust")
	VERSIONS=$CACHE/versions # the kernel that was looked up, see `kernel_version` in setup
	# KABI: 7.2.12+deb13-amd64; KDEB: the packages' version; KSRC: the source package's name.
	KABI='' KDEB='' KSRC=''
	# shellcheck disable=SC1090
	if kernel_versions_known; then . "$VERSIONS"; fi
	LINUX=$CACHE/linux-$KDEB
	# Kernel trees depend on the compilers of the sysroot, not on all of it.
	COMPILERS=$SYSROOT/.compilers
	STOCK=$CACHE/stock-$(key "$KDEB" "$COMPILERS" "$TOP/scripts/make-stock")
	LAB=$CACHE/lab-$(key "$KDEB" "$COMPILERS" "$TOP/scripts/make-lab" "$TOP/scripts/lab.config")
	LAB_DEBUG=$CACHE/lab-debug-$(key "$LAB" "$TOP/scripts/make-lab-debug" "$TOP/scripts/lab-debug.config")
}
kernel_versions_known() { [ -s "$VERSIONS" ]; }
products
