# Everything a person or CI runs. Needs only Python 3.11+, pip and make: the first target that needs it sets up .venv.
PYTHON ?= python3
VENV ?= .venv
MINIMUM ?= .venv-minimum
PEERS ?= .venv-peers
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/comband/__init__.py)

.PHONY: demo serve-demo test test-pages test-all test-minimum mutants check format bench peers docs linkcheck lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "comband needs Python 3.11 or newer; $$($(PYTHON) --version) was found. Say which to use: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: $(STAMP)  ## find the best of the built-in candidates, end to end
	$(BIN)/comband demo

serve-demo: $(STAMP)  ## the decision service with simulated visitors, and its page
	$(BIN)/comband serve --demo

# Where Python is told not to keep compiled files, every worker and every process that a test starts would compile all
# sources again, which is a minute of the suite.
test test-pages test-all test-minimum: export PYTHONDONTWRITEBYTECODE =

test: $(STAMP)  ## the test suite, within minutes
	$(BIN)/python -m pytest -n $(WORKERS)

test-pages: $(STAMP)  ## the documentation, built with warnings as errors, and looked at in a browser
	$(BIN)/python -m pytest -m slow tests/test_pages.py

test-all: $(STAMP)  ## the test suite and the long statistical suites
	$(BIN)/python -m pytest -n $(WORKERS) -m 'slow or not slow'

# Warnings are no errors here: old packages warn about one another.
test-minimum:  ## the test suite with the lowest versions that pyproject.toml declares, in an environment of its own
	test -x $(MINIMUM)/bin/python || $(PYTHON) -m venv $(MINIMUM)
	$(MINIMUM)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-minimum.txt hatchling editables
	$(MINIMUM)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(MINIMUM)/bin/python -m pytest -n $(WORKERS) -W default

mutants: $(STAMP)  ## break one line at a time: the tests named for it must notice
	WORKERS=$(WORKERS) $(BIN)/python -m tests.mutants

check: $(STAMP)  ## lint, format and types; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## apply the formatter and the safe lint fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## the benchmarks, in their quick form
	$(BIN)/python -m benchmarks --quick

# The peers, and torch with them, are gigabytes, and belong to this comparison alone.
peers:  ## comband beside what people use today, in its quick form, in an environment of its own
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers/requirements.txt
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(PEERS)/bin/python -m benchmarks.peers --quick

docs: $(STAMP)  ## the documentation as HTML in docs/_build/html/VERSION, beside other versions; warnings are errors
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html/$(VERSION)
	$(BIN)/python tools/doc_versions.py docs/_build/html
	@echo "Open docs/_build/html/index.html"

linkcheck: $(STAMP)  ## whether all links of the documentation lead somewhere; needs a network
	$(BIN)/python -m sphinx -q -b linkcheck docs docs/_build/linkcheck

lock:  ## renew requirements.lock and requirements-minimum.txt (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  --no-emit-find-links --extra dev pyproject.toml -o requirements.lock
	uv pip compile --resolution lowest-direct --python-version 3.11 --no-header --no-annotate --no-emit-index-url \
	  --no-emit-find-links --extra test pyproject.toml -o requirements-minimum.txt

clean:  ## remove everything that was built
	rm -rf .venv .venv-* docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
