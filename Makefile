# The developer's manual: every task is one line here. Needs git, make and python3 (3.11 to 3.14).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help demo test test-all fuzz audit lint format bench docs papers dist clean

help:            ## list the tasks
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 12

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/user: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[plots]' && touch $@

$(VENV)/dev: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable ./papers && touch $@

$(VENV)/docs: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,docs]' --editable ./papers && touch $@

$(VENV)/kernels: $(VENV)/user
	$(BIN)/tallyveil compile && touch $@

demo: $(VENV)/kernels   ## protect a synthetic census, see the error by level, and read the report (in tallyveil-demo)
	rm -rf tallyveil-demo && $(BIN)/tallyveil demo

test: $(VENV)/dev       ## every test that runs in minutes (2 cores)
	$(BIN)/tallyveil compile && $(BIN)/pytest -n 2 --dist loadscope -m "not slow"

test-all: $(VENV)/dev   ## the slow tests too
	$(BIN)/tallyveil compile && HYPOTHESIS_PROFILE=new $(BIN)/pytest -n 2

fuzz: $(VENV)/dev       ## 20,000 random inputs: each is refused in a line, or right (CASES=1000 FIRST=0 for others)
	$(BIN)/tallyveil compile && $(BIN)/python tests/fuzz/run_fuzz.py $(or $(CASES),20000) $(or $(FIRST),0)

audit: $(VENV)/dev      ## known vulnerabilities of the packages we need (skipped without a network)
	-$(BIN)/pip install --quiet --disable-pip-version-check pip-audit
	$(BIN)/python .ci/audit.py

lint: $(VENV)/dev       ## style and types
	$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/mypy

format: $(VENV)/dev     ## put the style right
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: $(VENV)/dev      ## our speed and memory beside the alternatives, in one run
	$(BIN)/python bench/startup.py && $(BIN)/python bench/noise.py && $(BIN)/python bench/histogram.py && $(BIN)/python bench/ipums.py && $(BIN)/python bench/topdown.py && $(BIN)/python bench/children.py && $(BIN)/python bench/epl.py && $(BIN)/python bench/sampling.py && $(BIN)/python bench/evaluate.py && $(BIN)/python bench/risk.py && $(BIN)/python bench/scan.py && $(BIN)/python bench/blue.py && $(BIN)/python bench/cluster.py && $(BIN)/python bench/rivals.py

docs: $(VENV)/docs      ## the manual as pages, in docs/_build/html
	$(BIN)/python docs/generate_reference.py && $(BIN)/python docs/generate_walks.py && $(BIN)/python docs/generate_graph.py && $(BIN)/sphinx-build -q -W -b html docs docs/_build/html && echo 'docs/_build/html/index.html'

papers: $(VENV)/dev     ## the papers' tables and figures computed again (in papers-out)
	$(BIN)/tallyveil reproduce -o papers-out

dist: $(VENV)/bin/pip   ## sdists and wheels of both distributions, checked and tried in an empty environment
	rm -rf dist && $(BIN)/pip install --quiet --disable-pip-version-check build twine
	$(BIN)/python -m build --outdir dist . && $(BIN)/python -m build --outdir dist papers && $(BIN)/twine check dist/*
	rm -rf dist/empty && $(PYTHON) -m venv dist/empty && dist/empty/bin/pip install --quiet --disable-pip-version-check dist/*.whl
	dist/empty/bin/tallyveil account --rho 1 && dist/empty/bin/tallyveil reproduce --list > dist/items.txt

clean:           ## remove what the tasks above made
	rm -rf $(VENV) tallyveil-demo papers-out dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
