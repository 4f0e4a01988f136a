# Each target makes .venv and installs what it needs; an install is repeated
# only when pyproject.toml has changed since.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint bench-evaluator bench-black-box bench-exact

help:
	@echo "make demo             run the demonstration"
	@echo "make test             run the tests"
	@echo "make lint             ruff check, ruff format --check, mypy --strict"
	@echo "make bench-evaluator  the short form of the evaluator benchmark"
	@echo "make bench-black-box  the short form of the black-box benchmark"
	@echo "make bench-exact      the short form of the benchmark of proofs"

demo: $(VENV)/.stamp-demo
	$(BIN)/treeopt demo

test: $(VENV)/.stamp-test
	$(BIN)/python -m pytest -n auto --dist worksteal

lint: $(VENV)/.stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict treeopt

bench-evaluator: $(VENV)/.stamp-bench
	$(BIN)/python bench/evaluator.py --quick

bench-black-box: $(VENV)/.stamp-bench
	$(BIN)/python bench/black_box.py --quick

bench-exact: $(VENV)/.stamp-bench
	$(BIN)/python bench/exact.py --quick

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
