# Everything a developer or an operator does. Only python3 and make are needed to begin.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-compile
INSTALLED := .venv/.installed
DEVELOPING := .venv/.installed-dev
COMPILE := uv pip compile --universal --generate-hashes --python-version 3.11 --quiet \
  --override overrides.txt --no-annotate --no-header --no-emit-index-url
TOOLS := tests/node_modules/.installed

.PHONY: install run test test-all check format lock calibrate

install: $(INSTALLED)

# Redone only when what is to be installed has changed.
$(INSTALLED): requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-build-isolation --editable .
	touch $@

$(DEVELOPING): $(INSTALLED) requirements-dev.lock
	$(PIP) --require-hashes -r requirements-dev.lock
	touch $@

run: $(INSTALLED)
	$(BIN)/footnote run

test: $(DEVELOPING)
	$(BIN)/python -m pytest

# What needs Node and root: the whole app against a Slack and a model stand-in, in a network of its own.
test-all: test $(TOOLS)
	unshare --net sh -c 'ip link set lo up && $(BIN)/python -m pytest -m system'

$(TOOLS): tests/package.json
	sh tests/install_tools.sh
	touch $@

check: $(DEVELOPING)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(DEVELOPING)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Pins every package with its hashes. The local model's wheel declares sentence-transformers, and so
# torch: the override keeps both out. Needs uv.
lock:
	$(COMPILE) pyproject.toml requirements.in --output-file requirements.lock
	$(COMPILE) --group dev --constraint requirements.lock --output-file requirements-dev.lock

# Fits rag/calibration.json on the evaluation courses beside the repository.
calibrate: $(DEVELOPING)
	$(BIN)/python scripts/calibrate.py ../shared/data
