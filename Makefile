# The short way in: each target makes the machine ready, then calls CMake's presets.
#   TORCH_DIR=<unpacked libtorch>  use that one instead of the pinned wheel
#   JOBS=2                         compilers at once; each takes up to 2 GiB of memory

JOBS ?= 2
PREFIX ?= $(HOME)/.local
DIST ?= dist
SECONDS ?= 60
SEED ?= 0
KILLS ?= 2000
FLIPS ?= 10000
RECIPES ?= 300
STEPS ?= 30000
export TORCH_DIR
export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)

release := build/release
torch_dir := $(if $(TORCH_DIR),-DTORCH_DIR=$(abspath $(TORCH_DIR)))
# Nothing but errors and warnings: those go to the other stream.
configure = cmake $(torch_dir) --preset $(1) >/dev/null
# Tests that use all cores are RUN_SERIAL.
ctest = ctest --output-on-failure --parallel $(JOBS) --test-dir

.DEFAULT_GOAL := help
.PHONY: help run build test lint tidy asan tsan fuzz torture bench interop docs test-docs vsix install \
  dist test-dist gpu-kit clean

help: ## list these targets
	@sed -n 's/^\([a-z -]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

run: build ## build, then train the quickstart recipe
	build/accel-run recipes/quickstart.yaml

build: ## leave the executable at build/accel-run
	@tools/bootstrap.sh
	@$(call configure,release)
	@cmake --build $(release) --target accel-run accel
	@ln -sfn release/accel-run build/accel-run

test: build ## build and run every test
	@cmake --build $(release)
	$(ctest) $(release)

lint: build ## check layers, sizes, headers, layout, recipes and generated documents
	@tools/bootstrap.sh lint
	$(ctest) $(release) --label-regex lint

tidy: ## run clang-tidy over what needs no libtorch
	@tools/bootstrap.sh tidy
	@$(call configure,tidy)
	cmake --build build/tidy

asan: ## test what needs no libtorch under the address and undefined-behaviour sanitizers
	@tools/bootstrap.sh sanitize
	@$(call configure,asan)
	@cmake --build build/asan --target unit_tests
	$(ctest) build/asan --label-regex unit

tsan: ## test what starts threads and needs no libtorch under the thread sanitizer
	@tools/bootstrap.sh sanitize
	@$(call configure,tsan)
	@cmake --build build/tsan --target threads_tests
	$(ctest) build/tsan --label-regex threads

fuzz: ## run each fuzz target for SECONDS=60; SEED=1 repeats one
	@tools/bootstrap.sh sanitize
	@$(call configure,asan)
	@cmake --build build/asan --target fuzzers
	tools/fuzz.sh build/asan $(SECONDS) $(SEED)

torture: build ## KILLS=2000, FLIPS=10000, RECIPES=300 from number SEED=0 on, STEPS=30000, rank faults
	python3 tests/smoke/random_recipes.py $(release)/accel-run $(RECIPES) $(SEED)
	python3 tests/smoke/kills.py $(release)/accel-run $(KILLS) all
	python3 tests/smoke/damage.py $(release)/accel-run $(FLIPS)
	python3 tests/smoke/syscalls.py $(release)/accel-run 1
	python3 tests/smoke/ranks_deaths.py $(release)/accel-run all ddp canonical local_sgd power_sgd
	python3 tests/smoke/ranks_launcher.py $(release)/accel-run 100
	python3 tests/smoke/elastic.py $(release)/accel-run 50
	python3 tests/smoke/endurance.py $(release)/accel-run $(STEPS)
	ACCEL_TEST_MATRIX=full $(ctest) $(release) --tests-regex 'parallel$$|pipelines|compositions'

bench: build ## measure accel-run beside its peers: SECTIONS=steps,start ROUNDS=3 SHORT=1
	@tools/bootstrap.sh interop
	@cmake --build $(release) --target bench
	tools/interop.sh build/interop $(release) bench $(if $(SECTIONS),--sections $(SECTIONS)) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SHORT),--short)

interop: build ## compare with the Python packages, in a venv of its own
	@tools/bootstrap.sh interop
	@cmake --build $(release)
	tools/interop.sh build/interop $(release)

docs: ## build the documentation site in build/docs/site, with a generator of PyPI
	@tools/docs.sh

test-docs: docs ## check the site's links; in Chromium also search, narrow screens, dark mode
	python3 tests/docs/check_site.py build/docs/site

vsix: build ## package the extension for VS Code as build/accel-run.vsix
	python3 editors/vscode/package.py build/accel-run build/accel-run.vsix

install: build ## copy to PREFIX=~/.local; COMPONENT=runtime, plugin-sdk, library or docs
	cmake --install $(release) --prefix $(PREFIX) $(if $(COMPONENT),--component $(COMPONENT))

dist: build ## write the packages to DIST=dist: wheel, deb, tar.xz; LEVEL=0..9 of xz
	@tools/bootstrap.sh dist
	tools/dist.py $(release) $(DIST) $(if $(LEVEL),--level $(LEVEL))

gpu-kit: build ## write build/gpu-kit, which proves this build on a machine with a GPU and PyTorch 2.11
	@cmake --build $(release) --target accel_host_device accel_cuda_emulation cuda_kernels_test
	tools/gpu_kit/pack.py $(release) build/gpu-kit

test-dist: build ## build, install and run each package; FULL=1 also beside PyPI's torch and in a new Debian
	@tools/bootstrap.sh dist
	tests/smoke/packages.py $(release) $(if $(FULL),--full)

clean: ## remove what was built; libtorch stays in the cache
	rm -rf build
