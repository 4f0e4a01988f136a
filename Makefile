# Each target makes .venv and installs what it needs; an install is repeated
# only when pyproject.toml has changed since.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint bench

help:
	@echo "make demo             run the demonstration"
	@echo "make test             run the tests"
	@echo "make lint             ruff check, ruff format --check, mypy --strict, import contracts"
	@echo "make bench            the short form of every benchmark, in under a quarter of an hour"

demo: $(VENV)/.stamp-demo
	$(BIN)/treeopt demo

test: $(VENV)/.stamp-test
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict treeopt
	$(BIN)/lint-imports

BENCHMARKS := evaluator black_box exact forest_table forest_figures ablation unseen
BENCHMARKS += decisions tuning_tables tuning_landscape tuning_cost time_limits

bench: $(VENV)/.stamp-bench
	rm -f bench/results/*_quick*
	set -e; for name in $(BENCHMARKS); do $(BIN)/python bench/$$name.py --quick; done

# One stamp per set of extras.
$(VENV)/.stamp-demo: EXTRAS := xgboost,lightgbm
$(VENV)/.stamp-test: EXTRAS := test
$(VENV)/.stamp-bench: EXTRAS := bench,test

$(VENV)/.stamp-demo $(VENV)/.stamp-test $(VENV)/.stamp-bench: pyproject.toml | $(VENV)/.stamp-venv
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $@

# The stamp comes last, so that a half-made environment is made again.
$(VENV)/.stamp-venv:
	$(PYTHON) -m venv $(VENV)
	@touch $@
