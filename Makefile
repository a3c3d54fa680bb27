# The developer's interface. Everything is installed into .venv; only Python 3.11 and
# Java 17 must be there.
PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Without it every process compiles all modules, and each worker of pytest rewrites them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

.PHONY: test
test: .venv/installed ## Everything that must pass: lint, types, layers, tests, wheel, docs
	$(MAKE) --no-print-directory --jobs 2 lint archive
	$(MAKE) --no-print-directory --jobs 2 unit beside

# What runs beside the tests, one after the other.
.PHONY: beside
beside:
	$(MAKE) --no-print-directory wheel
	$(MAKE) --no-print-directory docs

.PHONY: quick
quick: .venv/installed ## Lint, and the tests that need neither Java nor Spark (90 s)
	$(MAKE) --no-print-directory --jobs lint quicktests schedules

.PHONY: quicktests
quicktests: .venv/installed
	HYPOTHESIS_PROFILE=quick $(PYTEST) -n 2 --dist loadgroup --no-java -m "not types"

.PHONY: schedules
schedules: .venv/installed
	$(BIN)/python -m tests.delivery.simulate --schedules 10000
	$(BIN)/python -m tests.delivery.simulate --transactions --schedules 4000
	$(BIN)/python -m tests.processing.simulate --schedules 5000

.PHONY: simulate
simulate: .venv/installed ## A million schedules of faults against the machines of delivery and processing
	$(BIN)/python -m tests.delivery.simulate --schedules 1000000 $(SIMULATE)
	$(BIN)/python -m tests.delivery.simulate --transactions --schedules 200000 $(SIMULATE)
	$(BIN)/python -m tests.processing.simulate --schedules 1000000 $(SIMULATE)

.PHONY: differ
differ: .venv/installed ## Guarded clients beside bare ones, 300 seeded programs each: DIFFER='--seed 7'
	$(BIN)/python -W ignore -m tests.differ $(DIFFER)

.PHONY: atlas
atlas: .venv/installed ## What each client does with each answer, and what disagrees with verdicts: ATLAS='--only Produce'
	$(BIN)/python -W ignore -m tests.atlas $(ATLAS)

.PHONY: chaos
chaos: .venv/installed ## Guarded clients while three brokers, rights and the network fail: CHAOS='--all --seconds 600'
	$(BIN)/python -W ignore -m tests.chaos $(CHAOS)

.PHONY: deadlines
deadlines: .venv/installed ## Outcomes within the policy's deadline, under faults that last: DEADLINES='--deadlines 3'
	$(BIN)/python -W ignore -m tests.deadlines $(DEADLINES)

.PHONY: size
size: ## The statements of each room, without docstrings
	@$(PYTHON) scripts/size.py

.PHONY: lint
lint: .venv/installed ## ruff, mypy and the layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Classes for Spark's Java, recorded once, since most of its tests start a Java.
.PHONY: archive
archive: .venv/installed
	$(BIN)/python -m tests.quick_spark

# The clients' own time limits run on, however busy the machine is. So what failed beside
# three others runs once more, alone, and the first that fails again ends it. A test of a
# group is remembered with "@" and the group behind its name, which only xdist knows.
.PHONY: unit
unit: archive ## The tests, on a real broker; most of them wait, so four share two cores
	$(PYTEST) -n 4 --dist loadgroup || \
	if [ $$? -eq 1 ]; then \
	sed -i.bak 's/@[a-z-]*": true/": true/' .pytest_cache/v/cache/lastfailed; \
	$(PYTEST) --last-failed --last-failed-no-failures none --maxfail 1 -rp; \
	else exit 1; fi

.PHONY: wheel
wheel: .venv/installed ## Build the wheel; try each extra in an empty environment (4 min)
	$(BIN)/python scripts/check_wheel.py

# Always whole: Sphinx leaves out of the search what it does not write again.
.PHONY: docs
docs: .venv/installed ## The documentation, warnings as errors
	$(BIN)/sphinx-build -q -E -W --keep-going docs docs/_build/html

# Not part of `make test`, so that it needs no browser.
.PHONY: site
site: docs ## The documentation in a real browser (installs Chromium where there is none)
	$(BIN)/python -m pip install --quiet --editable '.[site]'
	command -v chromium chromium-browser google-chrome >/dev/null || \
	apt-get install --yes --quiet --no-install-recommends chromium
	$(PYTEST) tests/site --browser

.PHONY: release-check
release-check: .venv/installed ## What must hold before a release: equal builds, licences, no known vulnerability
	$(BIN)/python -m pip install --quiet --editable '.[release]'
	$(BIN)/python scripts/release_check.py $(RELEASE)

.PHONY: cover
cover: .venv/installed ## What the tests without Java reach, line by line, in htmlcov/
	$(PYTEST) -n 2 --no-java --cov --cov-report=html --cov-report=term:skip-covered

.PHONY: fuzz
fuzz: .venv/installed ## Mutated bytes for all readers (Linux): FUZZ='--seconds 60 --target policies'
	$(BIN)/python scripts/fuzz.py $(FUZZ)

.PHONY: mutate
mutate: .venv/installed ## A sample of small wrong changes, and whether tests fail (5 min; MUTATE=--adapters: 20 min)
	$(BIN)/python scripts/mutation $(MUTATE)

# Apart, because arroyo brings a package "tests", which would hide the one here.
.bench/installed: .venv/installed
	$(BIN)/python -m pip install --quiet --upgrade --target .bench '.[bench]'
	touch $@

.PHONY: bench
bench: .bench/installed ## Measure what guarding costs
	$(BIN)/python -m benchmarks

.PHONY: versions
versions: .venv/installed ## Lowest and newest clients, each Python that is here (an hour)
	$(BIN)/python scripts/try_versions.py

.PHONY: nightly
nightly: .venv/installed ## What takes too long for `make test`, resumable: NIGHTLY='--only differ', --list
	$(BIN)/python scripts/nightly.py $(NIGHTLY)

.PHONY: outages
outages: .venv/installed
	$(BIN)/python -m tests.soak outages --minutes 10

.PHONY: steady
steady: .venv/installed ## Memory, descriptors, threads, sockets stay flat: STEADY='--minutes 60 --state FILE'
	$(BIN)/python -W ignore -m tests.soak steady $(STEADY)

.PHONY: once
once: .venv/installed ## Spark exactly once, with processes killed: ONCE='--kills 200 --state FILE', --plain
	$(BIN)/python -m tests.soak once $(ONCE)

.PHONY: soak
soak: outages ## Spark through outages, and killed at random (two hours)
	$(BIN)/python -m tests.soak kills --runs 20
	$(BIN)/python -m tests.soak once --kills 200

.PHONY: demo
demo: .venv/installed ## The main job, on 336,776 real flights
	$(BIN)/kafkaguard demo

.PHONY: pictures
pictures: .venv/installed ## Run the demo and a lagging group, and draw all pictures anew
	$(BIN)/python scripts/generate_pictures.py --record

.PHONY: generate
generate: .venv/installed ## Make generated files again: errors, verdicts, public names, pictures
	$(BIN)/python scripts/generate_errors.py
	$(BIN)/python scripts/generate_setting_names.py
	$(BIN)/python scripts/generate_verdicts.py
	$(BIN)/python scripts/generate_client_words.py
	$(BIN)/python scripts/generate_public_api.py
	$(BIN)/python scripts/generate_pictures.py

.PHONY: clean
clean: ## Remove what was built
	rm -rf .venv dist build docs/_build htmlcov .coverage* .mypy_cache .ruff_cache .pytest_cache
