# The short way in: each target makes the machine ready, then calls CMake's presets.
#   TORCH_DIR=<unpacked libtorch>  use that one instead of the pinned wheel
#   JOBS=2                         compilers at once; each takes up to 2 GiB of memory

JOBS ?= 2
PREFIX ?= $(HOME)/.local
SECONDS ?= 60
export TORCH_DIR
export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)

release := build/release
fuzz := build/fuzz
configure := cmake $(if $(TORCH_DIR),-DTORCH_DIR=$(abspath $(TORCH_DIR)),) --preset

.DEFAULT_GOAL := help
.PHONY: help run build test lint tidy asan tsan fuzz bench interop install clean

help: ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: build ## build, then train the quickstart recipe
	build/accel-run recipes/quickstart.yaml

build: ## leave the executable at build/accel-run
	@tools/bootstrap.sh
	@$(configure) release
	@cmake --build $(release) --target accel-run
	@ln -sfn release/accel-run build/accel-run

test: build ## build and run every test
	@cmake --build $(release)
	ctest --test-dir $(release) --output-on-failure

lint: build ## check layout, layers, sizes, headers, recipes and generated documents
	@tools/bootstrap.sh lint
	ctest --test-dir $(release) --output-on-failure --label-regex lint

tidy: ## run clang-tidy over what needs no libtorch
	@tools/bootstrap.sh tidy
	@$(configure) tidy
	cmake --build build/tidy

asan: ## test what needs no libtorch under the address and undefined-behaviour sanitizers
	@tools/bootstrap.sh
	@$(configure) asan
	@cmake --build build/asan
	ctest --test-dir build/asan --output-on-failure --label-regex unit

tsan: ## test what needs no libtorch under the thread sanitizer
	@tools/bootstrap.sh
	@$(configure) tsan
	@cmake --build build/tsan
	ctest --test-dir build/tsan --output-on-failure --label-regex unit

fuzz: ## run each fuzz target for SECONDS=60
	@tools/bootstrap.sh fuzz
	@$(configure) fuzz
	@cmake --build $(fuzz)
	tools/fuzz.sh $(fuzz) $(SECONDS)

bench: build ## measure the cost of the loop
	@cmake --build $(release) --target bench
	bench/run.sh $(release)

interop: build ## compare with the Python packages, in a venv of its own
	@tools/bootstrap.sh interop
	tools/interop.sh build/interop build/accel-run

install: build ## copy the executable, libtorch and the recipes to PREFIX=~/.local
	cmake --install $(release) --prefix $(PREFIX)

clean: ## remove what was built; libtorch stays in the cache
	rm -rf build
