# Two commands on a fresh machine: `make run` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# a file's tests stay in one process: what it makes for all of them is made once
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: run test test-fast coverage lint format faults fuzz soak bench docs docs-serve clean

run: $(VENV)/.run ## train a SphereNet beside its CNN and write the report; ARGS="--data cifar10" for CIFAR-10
	$(BIN)/python examples/first_run.py $(ARGS)

test: $(VENV)/.dev lint ## types, lint and tests
	$(PYTEST)

test-fast: $(VENV)/.dev ## the tests that take no seconds, for every change
	$(PYTEST) -m 'not slow'

coverage: $(VENV)/.dev ## which lines the tests reach, by file
	$(PYTEST) --cov=hypersphere --cov-report=term-missing:skip-covered

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs ## the site in site/, tutorials included (minutes); warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python tools/check_site.py site

docs-serve: $(VENV)/.docs ## the site on http://127.0.0.1:8000, built again when a page changes
	HYPERSPHERE_DOCS_EXECUTE=$${HYPERSPHERE_DOCS_EXECUTE:-0} $(BIN)/python -m mkdocs serve

faults: $(VENV)/.dev ## hundreds of kills, failing disks, flipped bits, torn files: the table of docs/reliability.md
	cd tests/faults && PYTHONPATH=.:../train OMP_NUM_THREADS=1 ../../$(BIN)/python faults.py --cases $(or $(CASES),40) --out ../../benchmarks/results/faults.json

fuzz: $(VENV)/.dev ## never NaN: 10,000 operators drawn at random, CASES=10000 (minutes; the tests draw 500)
	HYPERSPHERE_FUZZ=$(or $(CASES),10000) $(BIN)/python -m pytest -n0 --timeout=0 tests/operators/test_never_nan.py

soak: $(VENV)/.dev ## faults at random and a process that must not grow, MINUTES=15
	cd tests/faults && PYTHONPATH=.:../train OMP_NUM_THREADS=1 ../../$(BIN)/python soak.py --minutes $(or $(MINUTES),15)

bench: $(VENV)/.dev ## the numbers in docs and README (minutes)
	for name in operators losses energy orthogonal training identification checkpoints; do $(BIN)/python benchmarks/$$name.py; done

# torch comes first and alone, pinned, so that no other package can pull another build of it.
$(VENV)/.torch: constraints.txt
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "Python 3.11 or newer is needed"'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch==2.13.0
	touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml
	$(PIP) --editable '.[train,plots]'
	touch $@

$(VENV)/.docs: $(VENV)/.run
	$(PIP) --editable '.[docs]'
	touch $@

$(VENV)/.dev: $(VENV)/.run
	$(PIP) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site
