# pycron: everything from a bare checkout. Each target does its own set-up.
#
#   make run         start the daemon on examples/quickstart.toml; Ctrl-C ends it
#   make test        all tests but the long ones and the one that boots a systemd
#   make test-quick  of those, all that start no daemon
#   make test-long   the long ones
#   make check       formatting, lints, types, import rules
#   make coverage    the tests once more, with the branches that they take
#   make bench       measure, beside the machine's limits and other daemons (QUICK=1, ONLY=late,idle)
#   make bench-parts  measure its parts, each beside something that does the same
#   make dist        wheel and sdist, into dist/
#   make test-wheel  the end-to-end tests, against the wheel installed on its own
#   make test-systemd  boot a systemd in a container and run the units there (root)
#   make clean       remove what was built; distclean: the virtual environment too
#
# PYTHON=/usr/bin/python3.12 picks the interpreter, VENV= another place for its packages, WORKERS=0
# runs the tests one after the other, AGAIN=1 those that failed the last time.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?=
VENV ?= .venv
BIN := $(VENV)/bin
STATE := build/run
WHEEL_VENV := build/wheel-venv
PYTEST := $(BIN)/python -m pytest
# Most of the time a test waits for a second to come, so more workers than processors do no harm.
WORKERS ?= 8
# Tests take a millisecond or a minute: whoever is through gets the next one, in the order of
# tests/conftest.py.
PYTEST_SHARED := $(PYTEST) -n $(WORKERS) --dist load --maxschedchunk 1
# What is compiled is kept: else each worker compiles all tests anew, at every run.
unexport PYTHONDONTWRITEBYTECODE
# AGAIN=1: only what failed the last time, one after the other, with nothing beside it.
AGAIN ?=
ifneq ($(AGAIN),)
PYTEST_SHARED := $(PYTEST) --last-failed --last-failed-no-failures none
endif
BENCH_PATH ?=

.PHONY: help run test test-quick test-long check coverage bench bench-parts dist test-wheel test-systemd clean distclean

help:
	@sed -n '/^# *make/s/^# *//p' Makefile

# --- set-up: once, and again when pyproject.toml changes ---------------------------------------

$(VENV)/.stamp-run: pyproject.toml .ci/venv
	@echo "setting up $(VENV) (once) ..."
	@.ci/venv "$(VENV)" "$(PYTHON)" -- --editable .
	@touch $@

$(VENV)/.stamp-dev: $(VENV)/.stamp-run
	@echo "adding the tools for tests and checks (once) ..."
	@.ci/venv "$(VENV)" "$(PYTHON)" -- --group dev
	@touch $@

# One compiles the tests for all workers, who begin at the same time and would each do it.
$(VENV)/.stamp-compiled: $(VENV)/.stamp-dev
	@echo "compiling the tests (once) ..."
	@$(PYTEST) --collect-only -q -p no:cacheprovider >/dev/null || true # the tests tell of faults
	@touch $@

# --- run ---------------------------------------------------------------------------------------

run: $(VENV)/.stamp-run
	@if $(BIN)/pycron status --state-dir $(STATE) >/dev/null 2>&1; then \
	    echo "make run goes on in another terminal already; end that one first"; exit 1; fi
	@rm -rf $(STATE)
	@mkdir -p $(dir $(STATE))
	@echo
	@echo "pycron runs the jobs of examples/quickstart.toml. Ctrl-C ends it (twice: at once)."
	@echo "Its state is thrown away by the next make run. Look at it from another terminal:"
	@echo
	@echo "    cd $(CURDIR)"
	@echo "    export PYCRON_STATE_DIR=$(CURDIR)/$(STATE)"
	@echo "    export PYCRON_CRONTAB=$(CURDIR)/examples/quickstart.toml"
	@echo "    $(BIN)/pycron history"
	@echo "    $(BIN)/pycron logs slow"
	@echo "    $(BIN)/pycron status"
	@echo
	@exec $(BIN)/pycron run examples/quickstart.toml --state-dir $(STATE)

# --- tests and checks --------------------------------------------------------------------------

test: $(VENV)/.stamp-compiled
	$(PYTEST_SHARED) -m "not long and not systemd"

test-quick: $(VENV)/.stamp-compiled
	$(PYTEST_SHARED) -m "not long and not systemd" --ignore tests/e2e

test-long: $(VENV)/.stamp-dev
	$(PYTEST) -m "long and not systemd"

test-systemd: $(VENV)/.stamp-dev
	$(PYTEST) -m systemd tests/packaging

check: $(VENV)/.stamp-dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

coverage: $(VENV)/.stamp-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not long and not systemd"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --show-missing

# As root and with a C compiler; what cannot be measured, or no registry has, is said. PEERS= names
# the other daemons (all, none, a,b,c), BENCH_PATH directories with those that no registry has.
bench: $(VENV)/.stamp-dev
	@BENCH_PATH="$(BENCH_PATH)" $(BIN)/python -m tests.benchmarks $(ONLY) $(if $(QUICK),--quick) \
	    $(if $(PEERS),--peers "$(PEERS)") $(if $(OUT),--out "$(OUT)")

bench-parts: $(VENV)/.stamp-dev
	@for each in beside ledger schedule scheduler spawn tasks; do \
	    echo "== $$each"; $(BIN)/python -m "tests.benchmarks.parts.$$each"; done

# --- packages ----------------------------------------------------------------------------------

dist: $(VENV)/.stamp-dev
	@rm -rf dist
	$(BIN)/python -m hatchling build -d dist

test-wheel: dist $(VENV)/.stamp-compiled
	@rm -rf $(WHEEL_VENV)
	@.ci/venv $(WHEEL_VENV) "$(PYTHON)" -- dist/*.whl
	PYCRON=$(CURDIR)/$(WHEEL_VENV)/bin/pycron $(PYTEST_SHARED) tests/e2e -m "not long"

clean:
	rm -rf build dist $(VENV)/.stamp-compiled .coverage .coverage.* .hypothesis .mypy_cache \
	    .pytest_cache .ruff_cache .import_linter_cache
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv .venv-*
