# Every target does its own set-up: make test and make demo work on a machine that has make, bash and Python 3.11.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test lint faults faults-long bench constraints format clean

PY := .venv/bin/python
# Made again whenever what describes the environment changes; it lies in .venv, so that removing .venv is enough.
STAMP := .venv/.set-up
PYTEST_ARGS ?=
FAULTS ?=
TYPED := src/novelo $(wildcard tests/typing)

# The stamp holds the folder it was made in: an environment that was copied along would import the other folder's novelo.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt scripts/setup.sh
	@scripts/setup.sh

demo: $(STAMP) ## Set up, then hold a short conversation across a restart, with no network and no key
	@$(PY) -m novelo.demo

test: lint ## Set up, then check style and types and run every test (PYTEST_ARGS='-k window' for some)
	$(PY) -m pytest $(PYTEST_ARGS)

lint: $(STAMP) ## Check style, format and types only
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy $(TYPED)

format: $(STAMP) ## Put the files into their format and apply the safe fixes
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

faults: $(STAMP) ## Show the fault tests against their demands, in at most ten minutes (FAULTS='--only T5,T7')
	$(PY) benchmarks/faults/run.py --minutes 10 $(FAULTS)

faults-long: $(STAMP) ## The same with the demands' full numbers: two hours
	$(PY) benchmarks/faults/run.py --long $(FAULTS)

bench: $(STAMP) ## List the benchmarks and how to run each
	@$(PY) scripts/list_benchmarks.py

constraints: $(STAMP) ## Pin the newest packages that fit pyproject.toml in constraints.txt
	@scripts/constraints.sh $(PY)

clean: ## Remove the environment, caches and builds
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
