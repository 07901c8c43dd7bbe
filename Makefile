# Every target sets itself up in .venv; nothing but Python 3.11+, git and make is needed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup serve demo test lint types openapi migration lock bench bench-accuracy audit fuzz soak clean

help: ## list the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## install everything, pinned by hash, into .venv

$(READY): requirements.lock pyproject.toml hatch_build.py $(wildcard app/core/kernel/*.p[yx][xd] app/core/kernel/*.h)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Discreet needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

serve: $(READY) ## run the service on http://127.0.0.1:8000 (PORT=… for another port)
	$(BIN)/discreet serve $(if $(PORT),--port $(PORT))

demo: $(READY) ## show all of it in seconds, on a throwaway server
	$(BIN)/discreet demo

# In memory where there is room: no test cuts the power, so waiting for a disk proves nothing and is most of the time.
SCRATCH = $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {found = 1} END {print found ? "/dev/shm" : "$${TMPDIR:-/tmp}"}')

test: $(READY) ## run every test, each database test on SQLite and on PostgreSQL
	TMPDIR=$(SCRATCH) OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadscope --no-loadscope-reorder

lint: $(READY) ## check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## check types, strictly
	$(BIN)/mypy

openapi: $(READY) ## write openapi/openapi.json from the app
	$(BIN)/discreet openapi > openapi/openapi.json

bench: $(READY) ## measure ingest beside its peers; writes benchmarks/RESULTS.md and ingest.svg (QUICK=1 for a shorter run)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r benchmarks/requirements.lock
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.ingest $(if $(QUICK),--quick) $(PARTS)

audit: $(READY) ## attack our own releases; prints how much of each privacy claim can be shown to be needed
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.audit

fuzz: $(READY) ## throw strange bytes at the compiled kernel under AddressSanitizer, then 100,000 bodies at the service
	$(BIN)/python -m tests.fuzz
	TMPDIR=$(SCRATCH) OPENBLAS_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.service $(if $(BODIES),--bodies $(BODIES))

soak: $(READY) ## load a server for ten minutes on each database while its workers are killed (SECONDS=… for other lengths)
	$(BIN)/python -m tests.soak $(if $(SECONDS),--seconds $(SECONDS))

migration: $(READY) ## write a migration for changed tables: make migration MESSAGE="add a column"
	$(BIN)/python migrations/develop.py write "$(MESSAGE)"

lock: $(READY) ## pin the dependencies anew
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --all-extras --group dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url --python-version 3.11 -c requirements.lock benchmarks/requirements.in -o benchmarks/requirements.lock

clean: ## remove what setup made
	rm -rf .venv

bench-accuracy: $(READY) ## measure bars, thresholds and errors; writes benchmarks/ACCURACY.md and accuracy.svg (QUICK=1: shorter, writes nothing)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m benchmarks.accuracy $(if $(QUICK),--quick) $(PARTS)
