# Needs only make and Python 3.11 or newer. Everything is installed into .venv; running a target again is quick.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
PLAN ?= presets/plans/source-130b.yaml
PYTEST_ARGS ?= -n auto

.PHONY: help demo test lint format types floors unit bench accuracy clean

help: ## Show the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The newest suitable interpreter; PYTHON=/path/to/python overrides it.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed (set PYTHON=/path/to/python)" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)

# The version of the package is in pyproject.toml, so a change there reinstalls.
$(VENV)/.run: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run ## Estimate the shipped 130B plan (PLAN=file for another)
	$(BIN)/cann-plan estimate $(PLAN)

test: lint types floors unit ## Lint, type check, import floors, all tests

lint: $(VENV)/.dev ## Ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .

format: $(VENV)/.dev ## Apply the format and the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

types: $(VENV)/.dev ## mypy --strict
	$(BIN)/mypy --strict

floors: $(VENV)/.dev ## Modules import only from the floors below
	$(BIN)/lint-imports

unit: $(VENV)/.dev ## The tests (PYTEST_ARGS='-k name')
	$(BIN)/pytest $(PYTEST_ARGS)

bench: $(VENV)/.dev ## Speed, as ratios within one run
	$(BIN)/pytest benchmarks -q --benchmark-only

accuracy: $(VENV)/.dev ## Calibrate on the runs in tests/data/measured; writes profiles and docs/accuracy.md
	$(BIN)/python benchmarks/accuracy.py --write

clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .import_linter_cache
