# SPDX-License-Identifier: GPL-2.0
# Entry points for people; the kernel's build system reads Kbuild instead.

# Under the kernel's build (make -C KERNEL M=...) this file is not read. Everything below runs here.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

TOP := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
BUILD := $(TOP)/build
ENTER := $(TOP)/scripts/enter

.PHONY: help
help: ## this list
	@echo "Fathom: congestion control for datacenter TCP that reads the network."
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@echo
	@echo "  KDIR=DIR make modules   build the modules for your own Rust-enabled kernel tree"
	@echo "  FATHOM_CACHE=DIR        keep sysroot and kernel trees there (default: ~/.cache/fathom)"

# --- two commands ---------------------------------------------------------------------------------------
.PHONY: demo
demo: tools modules ## see it work: incast and multihop in the lab, a table and a page of plots
	@scripts/demo

.PHONY: test
test: tools modules vm ## all tests: unit, lab, stock kernel in a VM
	@scripts/test

# --- parts ------------------------------------------------------------------------------------------------
.PHONY: setup
setup: ## host packages, sysroot, toolchains, kernel trees (all cached)
	@scripts/setup
	@scripts/paths $(BUILD)/paths

.PHONY: update
update: ## look up anew which kernel Debian's backports offer
	@scripts/setup --update
	@scripts/paths $(BUILD)/paths

.PHONY: tools
tools: setup ## build/bin/fathom, the eBPF programs, and the program inside lab and VM
	@scripts/bpf $(BUILD)/bin/fathom-int.bpf
	@scripts/cargo build --quiet --release --locked -p fathom -p fathom-init
	@mkdir -p $(BUILD)/bin
	@. scripts/lib.sh; for b in fathom fathom-init; do \
		cmp -s $(BUILD)/target/$$RUST_TARGET/release/$$b $(BUILD)/bin/$$b || \
		cp --remove-destination $(BUILD)/target/$$RUST_TARGET/release/$$b $(BUILD)/bin/; done

.PHONY: modules
ifdef KDIR
modules: ## kernel modules, for the stock kernel and the lab
	@scripts/check-kdir "$(KDIR)"
	@$(MAKE) -C "$(KDIR)" M=$(TOP) MO=$(BUILD)/kdir modules
	@echo "modules: $(BUILD)/kdir/kmod/"
else
modules: setup
	@scripts/modules $(BUILD)
endif

.PHONY: lab-debug
lab-debug: setup ## the lab's kernel with KASAN, lockdep and the like, and the modules for it
	@scripts/setup --debug
	@scripts/modules $(BUILD) --debug

.PHONY: test-debug
test-debug: tools lab-debug ## the lab's tests and a soak on that kernel: any complaint of its fails
	@$(BUILD)/bin/fathom selftest --debug

.PHONY: vm
vm: modules ## what the VM boots: modules and modprobe, beside the stock kernel
	@. scripts/lib.sh; $(ENTER) sh scripts/stage-vm "$$LINUX" "$$KABI" $(BUILD)/stock/kmod $(BUILD)/vm

.PHONY: check
check: setup ## formatting, lints, docs, shell scripts, where unsafe lives
	@scripts/check

.PHONY: bench-laws
bench-laws: setup ## instructions per ACK of every law, beside CUBIC's and DCTCP's
	@$(ENTER) laws/bench/run

.PHONY: bench-kmod
bench-kmod: tools vm ## instructions per ACK of every module on the stock kernel, beside cubic, bbr and dctcp
	@$(ENTER) gcc -O2 -Wall -Wextra -shared -fPIC -o $(BUILD)/bin/blocks.so selftests/bench-kmod/blocks.c
	@$(BUILD)/bin/fathom bench-kmod --plugin $(BUILD)/bin/blocks.so

.PHONY: bench-int
bench-int: tools modules vm ## what telemetry costs: iperf3 with and without, GRO with and without XDP
	@$(BUILD)/bin/fathom vm --run bench-int
	@scripts/bench-native

.PHONY: soak
soak: tools modules vm ## 500 connections for five minutes a law over a bad path, on the stock kernel in a VM
	@$(BUILD)/bin/fathom vm --run soak

.PHONY: bench-sim
bench-sim: setup ## the simulator's speed, beside ns-3 on the same dumbbell
	@tools/sim/bench/run

.PHONY: golden
golden: tools modules ## a fixed set of scenarios against the numbers in scenarios/golden, exactly
	@$(BUILD)/bin/fathom golden

.PHONY: clean
clean: ## remove what was built here
	rm -rf $(BUILD)

.PHONY: distclean
distclean: clean ## remove the cache too (sysroot, kernel trees)
	@scripts/uncache
