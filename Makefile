# Two commands on a machine with Python 3.11+ and make: `make up` runs the hub, `make test` checks everything.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests bench examples
# The tests start hundreds of processes. Without compiled files each of them compiles the whole hub first.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: up venv test check types unit browser conformance agents bench soak faults format lock clean peers

up: venv
	$(BIN)/interlock up

venv: .venv/.ready

# uv installs in seconds, pip takes more than a minute for the same. pip gets uv, and does the rest where uv cannot reach
# the package index. Both take exactly the versions and hashes of the lock files.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
UV := VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --system-certs

.venv/.ready: requirements.lock bootstrap.lock pyproject.toml
	@$(PYTHON) -m venv --clear .venv
	@$(PIP) --require-hashes -r bootstrap.lock || true
	@$(UV) --require-hashes -r requirements.lock || $(PIP) --require-hashes -r requirements.lock
	@$(UV) --no-deps --no-build-isolation -e . || $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# The suite and the conformance runs often wait, and the type checker never does: it uses the time that they leave.
test: venv check
	$(MAKE) --no-print-directory -j 3 types unit conformance

check: venv
	$(BIN)/ruff check $(wildcard $(SOURCES))
	$(BIN)/ruff format --check $(wildcard $(SOURCES))

# Everything is checked for the platform here, and for the others each file whose types can differ there. A cache for each
# platform: one that they shared would be thrown away by every run. A machine for one run writes none.
CACHES := $(if $(CI),/dev/null,.mypy_cache)
types: venv
	nice -n 5 $(BIN)/mypy --cache-dir $(CACHES)
	files=$$($(BIN)/python tests/platform_files.py) && for platform in darwin win32; do \
	  nice -n 5 $(BIN)/mypy --platform $$platform --cache-dir $(CACHES)$(if $(CI),,/$$platform) --follow-imports silent $$files \
	    || exit 1; done

# Tests wait for processes, timers and each other's peers more than they compute: three workers keep one core busy.
WORKERS ?= 6

# A test that fails beside the others and passes alone has a race. The second run names it in the output, and the change lands.
# To rewrite the assertions of all test files takes longer than to import them: the second run does it, for those that failed.
unit: venv
	$(BIN)/pytest -n $(WORKERS) --assert=plain --showlocals || { echo "Tests failed beside others. Each runs once more, alone:"; \
		$(BIN)/pytest --verbose --last-failed --last-failed-no-failures none --maxfail 3; }

# `make unit` runs the tests in a browser where there is one, and skips them elsewhere.
browser: venv
	@command -v chromium >/dev/null || apt-get install -y -qq chromium || echo "no chromium here: its tests are skipped"
	$(BIN)/pytest -q tests/web/test_console_browser.py tests/web/test_docs_page.py

# The official suite: our server, the hub in front of it and of the official SDK's, and our client.
conformance: venv
	$(BIN)/python tests/conformance/run.py

# Real coding agents from npm, with a scripted model on loopback: ten minutes. It writes the table of docs/agents.md.
agents: venv
	$(BIN)/python tests/agents/run.py --write

# Public servers and clients from npm and PyPI, through the hub. Installs them into .peers/, and writes docs/peers.md.
peers: venv
	PYTHONPATH=tests $(BIN)/python -m peers.public_peers

# Ratios against what else there is, in one run; see bench/gateway.py for what is measured how.
bench: venv
	$(BIN)/python bench/gateway.py --install --json bench-results.json
	$(BIN)/python bench/rooms.py --json bench-rooms.json

# A million calls of 200 principals over one server: none may reach the wrong one. Ten thousand requests of 10 MB: memory
# comes back. Ten minutes of large messages of the worst shapes: how long a neighbour waits beside them. Ten minutes of
# structured nonsense from clients and servers: nothing holds the loop for 5 ms. Examples that no run of the tests had
# before, for every property.
soak: venv
	$(BIN)/python bench/confidentiality.py
	$(BIN)/python bench/large_bodies.py
	$(BIN)/python bench/stalls.py --repeat 1 --campaign 600
	$(BIN)/python bench/fuzz.py --seconds 600
	$(BIN)/pytest -n $(WORKERS) -m hypothesis --hypothesis-profile=campaign

# Faults of the hub, servers, clients, configurations, the store, the machine and the network: what must hold after each is
# checked. See bench/faults.py, store_faults.py, machine_faults.py, network_faults.py and flapping.py. The full counts take
# about an hour: 140 kills of the hub under load, 1,000 of a server, 1,000 servers of which 100 flap, 10,000 tools and idle
# connections, the process stopped for 30 s. `make faults FULL=` runs small counts in five minutes.
FULL ?= 1
CYCLES ?= $(if $(FULL),1000,10)
SERVERS ?= $(if $(FULL),1000,100)
STOPPED ?= $(if $(FULL),30,3)
KILL_ROUNDS ?= $(if $(FULL),10,1)
faults: venv
	KILL_ROUNDS=$(KILL_ROUNDS) $(BIN)/pytest -q --timeout 3600 tests/hub/test_hub_kills.py
	$(BIN)/python bench/faults.py --cycles $(CYCLES)
	$(BIN)/python bench/store_faults.py
	$(BIN)/python bench/machine_faults.py --tools $$(($(SERVERS) * 10)) --connections $$(($(SERVERS) * 10)) --stopped $(STOPPED)
	$(BIN)/python bench/network_faults.py
	$(BIN)/python bench/flapping.py --good $$(($(SERVERS) * 9 / 10)) --flapping $$(($(SERVERS) / 10)) --seconds 5 --strict

format: venv
	$(BIN)/ruff check --fix-only --quiet $(wildcard $(SOURCES))
	$(BIN)/ruff format --quiet $(wildcard $(SOURCES))

# Versions and hashes, no addresses.
lock: venv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-annotate --no-header \
	  --python-version 3.11 --group dev pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .node .peers .mypy_cache .ruff_cache .pytest_cache dist build
