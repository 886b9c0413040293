# Two commands do everything on a machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
STORE ?= sqlite
KILLS ?= 20
MINUTES ?= 30
RESTARTS ?= $(if $(filter sqlite,$(STORE)),0,3)
APPENDFSYNC ?= always
SCENARIO ?= submit-claim-complete
WORKLOAD ?=

# Every test process rewrites and compiles every test when nothing may be kept.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv demo test check bench chaos soak nightly docs clean

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,bench]'
	$(BIN)/python -m compileall -q src # an installed package has its bytecode, and starts three times as fast with it
	touch $@

# The demo needs the package only, not what developers need.
$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	touch $@

demo: $(if $(wildcard $(STAMP)),venv,$(VENV)/.core)
	$(BIN)/flowfabric demo

PURE = tests/rules tests/codec tests/test_ids.py tests/test_policy.py tests/test_plan.py

# The pure tests come first, once, under the coverage gate. The others run four at a time on two cores,
# since many wait for processes that they start, or for Postgres.
test: venv
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || echo "no pgbouncer here: the tests of tests/store/postgres/test_pooler.py that need one are left out"
	$(BIN)/pytest -n 2 $(PURE) \
		--cov=flowfabric.rules --cov=flowfabric.plan --cov=flowfabric.codec --cov-branch --cov-fail-under=100 --cov-report=term:skip-covered
	$(BIN)/pytest -n 4 --dist loadgroup -m "not nightly" $(addprefix --ignore=,$(PURE))

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tests.pairs
	$(BIN)/python -m docs.generate --check

bench: venv
	$(BIN)/python -m benchmarks $(SCENARIO) --store $(STORE) $(if $(WORKLOAD),--workload $(WORKLOAD))

chaos: venv
	$(BIN)/python -m tests.chaos --store $(STORE) --kills $(KILLS) --restarts $(RESTARTS) $(if $(filter valkey,$(STORE)),--appendfsync $(APPENDFSYNC))

soak: venv
	$(BIN)/python -m tests.soak --store $(STORE) --minutes $(MINUTES)

nightly: venv
	$(BIN)/pytest -n 3 --dist loadgroup -m nightly
	$(BIN)/python -m tests.chaos --store sqlite --kills 300
	$(BIN)/python -m tests.chaos --store postgres --kills 300 --restarts 15
	$(BIN)/python -m tests.chaos --store valkey --kills 300 --restarts 15
	$(BIN)/python -m tests.chaos --store valkey --kills 100 --restarts 10 --appendfsync everysec
	$(BIN)/python -m tests.soak --store sqlite --minutes 15
	$(BIN)/python -m tests.soak --store postgres --minutes 15
	$(BIN)/python -m tests.soak --store valkey --minutes 15

docs: venv
	$(BIN)/python -m docs.generate

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
