# Two commands matter: `make demo` and `make test`. Each sets up all that it needs in .venv.
#
# Set-up writes to standard error, so that `make -s demo ARGS="--json"` leaves only the demo's output on standard output.

# The first interpreter that runs and is new enough; a name on PATH may be a shim without a Python behind it.
ifeq ($(strip $(PYTHON)),)
PYTHON := $(shell for python in python3.13 python3.12 python3.11 python3 python; do \
	if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo "$$python"; break; fi; done)
endif

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
ARGS ?=
TESTARGS ?=
JOBS ?= 5
FULL ?=
PEERS ?=
AGAINST ?=
TURNS ?=

# The tests start thousands of Python processes. Without compiled modules, each of them would compile all of Holdfast.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test boundary lint format bench reference pins clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo    run the system on an embedded Postgres      ARGS="--seconds 20 --json"'
	@echo '             with a dashboard and its buttons            ARGS=--no-dashboard without'
	@echo 'make test    lint, then all tests                        TESTARGS="-k claim"'
	@echo '             on several servers at a time                JOBS=5'
	@echo 'make boundary  two services and each broker between them, killed and stopped at every probe: 132 runs'
	@echo '             (Kafka is left out: its mock keeps nothing)'
	@echo 'make lint    ruff, mypy --strict, import-linter'
	@echo 'make format  format the source with ruff'
	@echo 'make bench   run the benchmarks, about ten minutes       ARGS="drain pinned", FULL=1 for full sizes, ARGS=--help'
	@echo '             with other job queues, to compare           PEERS=all, or PEERS=pgboss,pgqueuer'
	@echo '             this tree against a commit, in turns        AGAINST=HEAD~1 ARGS="drain pickup", TURNS=25'
	@echo 'make reference  renew docs/api.md from the docstrings'
	@echo 'make pins    renew requirements/*.txt (needs uv)'
	@echo 'make clean   remove .venv and all caches'
	@echo
	@echo 'PYTHON=...                      the interpreter to use, 3.11 or newer (now: $(PYTHON))'
	@echo 'HOLDFAST_DATABASE_URL=...       use a running server instead of an embedded one'
	@echo 'HOLDFAST_TEST_OLD_POSTGRES=...  bin folder of the oldest supported Postgres; `make test` then runs on it, too'
	@echo '                                (tools/fetch-old-postgres fetches one and prints the folder)'
	@echo 'HOLDFAST_TEST_PGBOUNCER=...     the program; `make test` then runs through it in transaction mode, too'
	@echo 'redis-server, rabbitmq-server, prometheus, chromium, node'
	@echo '                                on PATH: `make test` then tests what speaks to them, too (otherwise it names the'
	@echo '                                tests that it left out; .ci/run installs all)'

demo: $(VENV)/.runtime
	@$(BIN)/holdfast demo $(ARGS)

# The tests mostly wait for commits and leases, so several run at the same time, each on its own server.
# The later runs leave out tests that do not use that server; see tests/conftest.py. With both an old server and a pooler,
# one run goes through the pooler to the old server, and another takes the tests that are about sessions of the server.
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
OLD := HOLDFAST_TEST_POSTGRES=old
POOLED := HOLDFAST_TEST_POOLER=1
test: lint
	$(PYTEST) $(TESTARGS)
ifneq ($(HOLDFAST_TEST_OLD_POSTGRES),)
ifneq ($(HOLDFAST_TEST_PGBOUNCER),)
	$(OLD) $(POOLED) $(PYTEST) -m "not slow" $(TESTARGS)
	$(OLD) $(PYTEST) -m "direct and not slow" $(TESTARGS)
else
	$(OLD) $(PYTEST) -m "not slow" $(TESTARGS)
endif
else
	@echo 'Left out: the run on the oldest supported Postgres (HOLDFAST_TEST_OLD_POSTGRES is not set; see make help).'
ifneq ($(HOLDFAST_TEST_PGBOUNCER),)
	$(POOLED) $(PYTEST) -m "not slow" $(TESTARGS)
endif
endif
ifeq ($(HOLDFAST_TEST_PGBOUNCER),)
	@echo 'Left out: the run through PgBouncer (HOLDFAST_TEST_PGBOUNCER is not set; see make help).'
endif
ifeq ($(HOLDFAST_BOUNDARY),)
	@echo 'Left out: the full matrix of services and brokers (make boundary).'
endif

boundary: $(VENV)/.dev
	HOLDFAST_BOUNDARY=all $(BIN)/python -m pytest -n $(JOBS) --dist worksteal tests/boundary -k matrix $(TESTARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev
	@$(BIN)/python -m bench $(if $(FULL),--full) $(if $(PEERS),--peers $(PEERS)) \
		$(if $(AGAINST),--against $(AGAINST)) $(if $(TURNS),--turns $(TURNS)) $(ARGS)

reference: $(VENV)/.dev
	$(BIN)/python tools/api_reference.py

# The two sets have the same versions: the smaller one is compiled with the larger as a constraint.
COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links
pins:
	$(COMPILE) --upgrade --all-extras pyproject.toml requirements/build.in requirements/dev.in -o requirements/dev.txt
	$(COMPILE) --upgrade --extra speed --extra embedded --extra dashboard -c requirements/dev.txt \
		pyproject.toml requirements/build.in -o requirements/runtime.txt

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@if ! "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
		echo 'Holdfast needs Python 3.11 or newer; $(if $(PYTHON),$(PYTHON) is not,none was found on PATH).' >&2; \
		echo 'Install one, or name it: make PYTHON=/path/to/python3.12 ...' >&2; exit 1; fi
	@echo "Making $(VENV) with $(PYTHON)" >&2
	@rm -rf $(VENV)
	@"$(PYTHON)" -m venv $(VENV) >&2 || { rm -rf $(VENV); \
		echo 'This Python cannot make virtual environments. On Debian: apt install python3-venv' >&2; exit 1; }
	@touch $@

# The hashes cover everything that is downloaded; the package itself is then built here with the pinned tools.
$(VENV)/.runtime: $(VENV)/.created requirements/runtime.txt pyproject.toml
	@echo 'Installing requirements/runtime.txt' >&2
	@$(PIP) --require-hashes -r requirements/runtime.txt >&2
	@$(PIP) --no-deps --no-build-isolation -e . >&2
	@touch $@

$(VENV)/.dev: $(VENV)/.created requirements/dev.txt pyproject.toml
	@echo 'Installing requirements/dev.txt' >&2
	@$(PIP) --require-hashes -r requirements/dev.txt >&2
	@$(PIP) --no-deps --no-build-isolation -e . >&2
	@touch $@
