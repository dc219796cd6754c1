# Dendrite's commands. `make` alone lists them.
VENV   := .venv
PY     := $(VENV)/bin/python
PRESET ?= release
JOBS   ?= $(shell nproc)
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

SETUP_STAMP := $(VENV)/.setup
REQUIREMENTS := $(wildcard requirements/*.txt)
CXX_SOURCES = $(shell find csrc -name '*.h' -o -name '*.cc')
PYTHON_SOURCES := benchmarks examples tests tools torch_dendrite torch_neuronx

.PHONY: help setup build test sanitize mutants fuzz demo bench lint format tidy wheel clean conformance

help:
	@echo "make setup   create $(VENV) and install what build, tests and demo need"
	@echo "make build   build into build/$(PRESET) and register the package in $(VENV)"
	@echo "make test    build, then every test (ARGS=--quick: one pass instead of every mode)"
	@echo "make sanitize  unit tests under ASan, UBSan, TSan, and clang's thread safety (ARGS='--only tsan')"
	@echo "make mutants   break the code one line at a time: a test must fail each time (ARGS='--only cache')"
	@echo "make fuzz    random programs on CPU and on neuron for ten minutes (ARGS=--help)"
	@echo "make conformance   PyTorch's own databases, every sample, against the checked-in lists (hours)"
	@echo "make demo    train three models on CPU and on neuron; table and timeline in demo_out/"
	@echo "make bench   time neuron against CPU (ARGS=--help for the cases)"
	@echo "make lint    clang-format, ruff, layers       make format   apply the first two"
	@echo "make tidy    clang-tidy, where it is installed   make wheel   a wheel in dist/"
	@echo "make clean   remove what build, demo and tests wrote"

setup: $(SETUP_STAMP)

$(SETUP_STAMP): $(REQUIREMENTS) tools/system_packages.sh
	bash tools/system_packages.sh
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install -q --disable-pip-version-check --no-deps -r requirements/build-nodeps.txt
	$(PY) -m pip install -q --disable-pip-version-check -r requirements/build.txt -r requirements/test.txt -r requirements/demo.txt
	touch $@

build: setup
	cmake --preset $(PRESET) $(CMAKE_FLAGS)
	cmake --build --preset $(PRESET) -j $(JOBS)
	$(PY) tools/dev_install.py

test: build
	$(PY) tools/run_tests.py --build build/$(PRESET) $(ARGS)

sanitize: setup
	$(PY) tools/sanitize.py --jobs $(JOBS) $(ARGS)

mutants: setup
	$(PY) -m tools.mutants $(ARGS)

fuzz: build
	$(PY) -m tests.fuzz $(ARGS)

conformance: build
	$(PY) -m tests.conformance check $(ARGS)

demo: build
	$(PY) -m examples.demo $(ARGS)

bench: build
	$(PY) -m benchmarks.run $(ARGS)

lint: setup
	clang-format --dry-run -Werror $(CXX_SOURCES)
	ruff check $(PYTHON_SOURCES)
	ruff format --check $(PYTHON_SOURCES)
	$(PY) tools/check_layers.py

format: setup
	clang-format -i $(CXX_SOURCES)
	ruff check --fix $(PYTHON_SOURCES)
	ruff format $(PYTHON_SOURCES)

tidy: setup
	cmake --preset core
	run-clang-tidy -quiet -p build/core '$(CURDIR)/csrc/'

wheel: setup
	$(PY) -m pip wheel --no-deps --no-build-isolation -w dist .

clean:
	rm -rf build dist demo_out .pytest_cache .ruff_cache
	rm -f torch_dendrite/*.so torch_dendrite/dendrite-compile-worker
