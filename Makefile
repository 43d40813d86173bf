# The front door. Every target sets the machine up by itself; docs/building.md tells the rest.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help dependencies build demo test bench kernels format tidy clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 18

demo: build  ## attention of a real model's layer, from files to a file, checked and timed
	@scripts/demo.sh

test: dependencies  ## everything CI runs; a part of it: scripts/test.sh STAGE...
	@scripts/test.sh

build: dependencies  ## the release build, in build/
	@mkdir -p build/logs
	@cmake --preset release > build/logs/configure.txt || { cat build/logs/configure.txt; exit 1; }
	@cmake --build build

bench: build  ## a quick measurement of this machine, beside the peers that are installed
	@build/tilefold bench cpu --quick

kernels: build  ## registers, spills, shared memory, machine code and CPU time of every CUDA kernel
	@cmake --build build --target tilefold_kernels_100a
	@scripts/kernel_table.py
	@scripts/kernel_budgets.py
	@scripts/sass_check.py

format: dependencies  ## rewrites every source as clang-format 14 does
	@scripts/list_files.sh '*.cpp' '*.hpp' '*.h' '*.c' '*.cu' '*.cuh' | xargs clang-format-14 -i

tidy: dependencies  ## clang-tidy over src/ and apps/
	@scripts/test.sh tidy

clean:  ## removes build/, and nvcc's wheels with it
	@rm -rf build

dependencies:
	@scripts/install_dependencies.sh
