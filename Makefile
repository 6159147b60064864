# Everything an engineer or a new user types. `make help` lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
CPP := $(wildcard cpp/*.cpp cpp/*/*.cpp cpp/*/*.hpp)
NATIVE := $(CPP) CMakeLists.txt pyproject.toml
EXTRAS := neural,serve,plots,skos,stem,files,tune,scale,mlflow,dev

.DEFAULT_GOAL := help
.PHONY: faults asan fuzz soak chaos help wheel demo serve test test-fast check fix bench docs screenshots build clean

help: ## List these commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

demo: $(VENV)/.base ## Build, install and tag real text: the docstrings of this Python
	$(BIN)/tagwood demo --output .cache/demo
	@echo "To see the model in the browser: make serve"

serve: $(VENV)/.serve ## Show the demo model in the browser, at http://127.0.0.1:8000/
	test -d .cache/demo || $(BIN)/tagwood demo --output .cache/demo
	$(BIN)/tagwood serve .cache/demo

test: $(VENV)/.all ## Install with all extras and run the whole test suite
	scripts/install-browser.sh
	$(BIN)/python -m pytest --durations=15 src tests

test-fast: $(VENV)/.all ## The tests without browser and neural training, in less than two minutes
	$(BIN)/python -m pytest -m "not neural and not browser and not slow" --ignore=tests/e2e src tests

faults: $(VENV)/.all ## Inject faults and memory limits into every command, and forge model folders of every kind
	$(BIN)/python -m tests.faults.injection
	$(BIN)/python -m tests.faults.memory
	$(BIN)/python -m tests.faults.zoo build/zoo
	$(BIN)/python -m tests.faults.forging build/zoo --trials $(or $(TRIALS),5000)

asan: $(VENV)/.all ## Kernel tests and forged model folders under AddressSanitizer and UndefinedBehaviorSanitizer
	$(BIN)/python -m tests.faults.zoo build/zoo
	scripts/with-kernels.sh sanitized -m pytest --hypothesis-profile=ci tests/kernels
	scripts/with-kernels.sh sanitized -m tests.faults.forging build/zoo --trials $(or $(TRIALS),5000)

fuzz: $(VENV)/.all ## Mutated files for every reader (SECONDS=600, or 20,000 files), then the whole command line (CASES=5000)
	$(BIN)/python -m tests.faults.fuzz $(if $(SECONDS),--seconds $(SECONDS) --start $$RANDOM)
	$(BIN)/python -m tests.support.fuzzing --cases $(or $(CASES),5000)

soak: $(VENV)/.all ## A service under load with swaps, kills and a full disk (MINUTES=20)
	$(BIN)/python -m tests.faults.soak --minutes $(or $(MINUTES),20)

chaos: $(VENV)/.all ## A service under load: 20 killed workers, 20 new or bad models, one overwritten, a full disk
	$(BIN)/python -m tests.faults.chaos

check: $(VENV)/.all ## Lint, types, import directions, C++ format, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/codespell src tests cpp docs benchmarks experiments scripts README.md CONTRIBUTING.md CHANGELOG.md Makefile

fix: $(VENV)/.all ## Repair what the linters can repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

bench: $(VENV)/.all ## Run all benchmarks beside other tools (hours); results go to docs/benchmarks
	$(BIN)/python -m benchmarks --publish

wheel: ## Build portable wheels for every Python from 3.11 on that is installed, and the sdist, into dist/
	scripts/build-wheels.sh

docs: $(VENV)/.all ## Build the site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

screenshots: $(VENV)/.all ## Take the screenshots of the web page for docs/images
	scripts/install-browser.sh
	TAGWOOD_SCREENSHOTS=docs/images $(BIN)/python -m pytest tests/e2e/test_screenshots.py
	if command -v pngquant >/dev/null; then pngquant --force --ext .png --skip-if-larger docs/images/page-*.png; fi

build: $(VENV)/.base ## Build the native module and install the package

clean: ## Remove everything that the other commands made
	rm -rf $(VENV) build .cache src/tagwood/_kernels/_native.pyi

$(VENV)/.tools: constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip
	$(PIP) scikit-build-core nanobind cmake ninja
	touch $@

$(VENV)/.base: $(VENV)/.tools $(NATIVE)
	$(PIP) --no-build-isolation --editable .
	touch $@

$(VENV)/.serve: $(VENV)/.base
	$(PIP) --no-build-isolation --editable ".[serve]"
	touch $@

# torch first and by its pinned version: any other pulls gigabytes of CUDA.
$(VENV)/.all: $(VENV)/.base
	$(PIP) torch==2.13.0
	$(PIP) --no-build-isolation --editable ".[$(EXTRAS)]"
	touch $@
