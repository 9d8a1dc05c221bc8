# The front door. `make list` shows what it offers; CMake does the building.
BUILD ?= build
JOBS ?= 2
PREFIX ?= /usr/local
BUILD_TYPE ?= Release

.DEFAULT_GOAL := list
.PHONY: list demo test check soak coverage bench gpu-bundle test-gpu test-emulated \
	test-emulated-short test-torch format install clean build dependencies emulated

## list: show this list
list:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' $(MAKEFILE_LIST) | expand -t 21

## demo: build, train a policy that grows small networks, compare it with static ones, fit one to real images, train one that proves; two minutes on two AVX-512 cores
demo: build
	@tools/demo $(BUILD)/programs/esper

## test: install what is missing, build, run all tests (a few minutes)
test: build
	@ctest --test-dir $(BUILD) --output-on-failure -j$(JOBS)

## check: sanitizers, fuzzers, layout, format, scripts, static analysis (about half an hour)
check:
	@tools/install_dependencies check
	@tools/run_checks

## soak: repeat the tests with sanitizers, and fuzz, for hours; stop it with Ctrl-C, SOAK_ROUNDS limits it
soak:
	@tools/install_dependencies check
	@tools/run_checks soak

## coverage: run all tests with counters, print lines and branches reached per folder (about 15 minutes)
coverage:
	@tools/install_dependencies coverage
	@tools/measure_coverage

## bench: run the benchmarks and print a table (esper bench --help for more)
bench: build
	@$(BUILD)/programs/esper bench

## gpu-bundle: build a folder with program and tests that runs on a machine with a GPU
gpu-bundle:
	@tools/make_gpu_bundle

## test-gpu: run the tests of the bundle on this machine's GPU
test-gpu:
	@test -x gpu-bundle/run_tests || { echo "no gpu-bundle/ here: run make gpu-bundle first" >&2; exit 1; }
	@gpu-bundle/run_tests

## test-emulated: run the tests of CUDA code on the CPU, without a GPU or nvcc (some minutes)
test-emulated: emulated
	@cmake --build build-emulated -j$(JOBS)
	@ctest --test-dir build-emulated --output-on-failure -j$(JOBS) -L gpu
	@# last thread first: code that depends on the order is missing a barrier
	@ES_CUDA_ORDER=reverse ctest --test-dir build-emulated --output-on-failure -j$(JOBS) -L gpu

# all that growth on a GPU does, and what no other test on the CPU runs
emulated_short := emulation device_cuda cuda_matrix fused_tile fused_known fused_host fused_seed fused_share growth_device \
	growth_device_rules growth_planned growth_overflow lifecycle_parity host_trainer grow_episode_device decision_device \
	policy_inference ppo_parity fit_api proof_rules_parity proof_env_device
# single operations against the CPU
emulated_operations := activation batchnorm blend channel_scale concat conv2d cross_entropy depthwise dropout elementwise embedding \
	finite_step gather groupnorm layernorm linear lstm masked_copy matmul norm_mix optimiser pool set_pool slab_hash slab_norms \
	slab_strides tree_sum
# of programs whose other tests take longer
emulated_modes := $(addsuffix .parity,$(emulated_operations)) lstm.shared_parity lstm.no_steps growth_share.cuda decision_parity.parity \
	policy_parity.set_parity grow_hash.cuda_checked
# scripts that run the program
emulated_scripts := fit_device device_commands

## test-emulated-short: of these, all but the longest, in one order of threads (every change)
test-emulated-short: emulated
	@cmake --build build-emulated -j$(JOBS) --target esper \
		$(addsuffix _test,$(emulated_short) $(basename $(emulated_modes)))
	@ctest --test-dir build-emulated --output-on-failure -j$(JOBS) \
		-R "^($$(echo $(emulated_short) $(emulated_modes) $(emulated_scripts) | tr ' ' '|'))(\.|\$$)"

## test-torch: install PyTorch (640 MB, some minutes), run the tests of exports to it
test-torch: build
	@tools/install_dependencies torch
	@ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -R '^export_torch$$'

## format: format all tracked C and CUDA files
format:
	@tools/install_dependencies check
	@git ls-files "*.c" "*.h" "*.cu" "*.cuh" "*.cpp" | xargs clang-format -i

## install: install program, library, headers and policies under PREFIX (default /usr/local)
install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

## clean: remove what make has built
clean:
	@rm -rf $(BUILD) build-sanitize build-thread build-emulated build-fuzz build-coverage gpu-bundle

dependencies:
	@tools/install_dependencies

emulated: dependencies
	@test -f build-emulated/build.ninja || \
		cmake -G Ninja -S . -B build-emulated -DCMAKE_BUILD_TYPE=Release -DES_CUDA_EMULATED=ON

build: dependencies
	@test -f $(BUILD)/build.ninja || cmake -G Ninja -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=$(BUILD_TYPE)
	@cmake --build $(BUILD) -j$(JOBS)
