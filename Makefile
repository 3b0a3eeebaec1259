# What there is to run. `make` alone lists it.

PYTHON ?= python3
BIN := .venv/bin
PIP := bin/python -m pip --quiet --disable-pip-version-check install
SOURCES := src tests benchmarks docs

# Programs that tests start read bytecode, which is made once: on CI's machine too, where none is to be written.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: release help run test unit prove soak mutants bench limits lint coverage format docs manual pictures film promises lock clean

help:  ## list the targets
	@awk -F ':.*## +' '/^[a-z]+:.*##/ { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

run: .venv/.installed  ## start a node on ./.tokimori/ with example jobs and the page
	@exec sh examples/demo.sh

# Every check runs, so that one failure does not hide another. The tests mostly wait for other processes: five more at a
# time than there are cores keep the cores at work. One process finds them all and forks (tests/forks.py); it gives their
# files away in the order of tests/conftest.py. What ends before them is shown as a whole when it has ended.
test: .venv/.installed-dev  ## lint, then every test but the long proofs
	@failed=0; \
	$(MAKE) --no-print-directory --jobs --output-sync --keep-going lint coverage & others=$$!; \
	$(BIN)/pytest -q --forks $$(($$(nproc) + 5)) -m "not prove" --ignore tests/unit/model || failed=1; \
	wait $$others || { echo 'A linter, or the coverage of the rules, has failed: see above.'; failed=1; }; \
	exit $$failed

unit: .venv/.installed-dev  ## the tests of single modules; those of the rules of a run are run by `make coverage`
	@$(BIN)/pytest -q --forks $$(nproc) -m "not prove" tests/unit --ignore tests/unit/model

# Some proofs only compute, for the better part of an hour; others have bounds of seconds, and fail beside those.
COMPUTED := tests/simulation tests/prove tests/unit
PROOFS := -m "prove or hypothesis" --hypothesis-profile prove --dist worksteal --timeout 1800
prove: .venv/.installed-dev  ## the long proofs: sweeps, cluster, soak
	@failed=0; \
	$(BIN)/pytest -n $$(($$(nproc) + 1)) $(PROOFS) $(addprefix --ignore ,$(COMPUTED)) || failed=1; \
	$(BIN)/pytest -n $$(nproc) $(PROOFS) $(COMPUTED) || failed=1; \
	exit $$failed

SOAK ?= 1200
soak: .venv/.installed-dev  ## twenty minutes on each store: nodes, keepers and workers killed and frozen, clocks that jump
	$(BIN)/python -m tests.cluster.troubled_soak $(SOAK)

# What it has found stays in mutants/, so that a run which its hour has ended is gone on with by the next one. A name of
# `mutmut` or a pattern says which: make mutants MUTANTS='tokimori.model.settle.*'
MUTANTS ?=
mutants: .venv/.installed-dev  ## break lines of the rules one at a time; which no test misses. At most an hour
	@nice -n 10 timeout 3600 $(BIN)/mutmut run --max-children $$(nproc) $(if $(MUTANTS),'$(MUTANTS)') || test $$? = 124
	@$(BIN)/mutmut results | sed -n 's/^ *\(.*: survived\)/\1/p'

PEERS := .venv-bench/.installed .venv-bench-apscheduler4/.installed benchmarks/node_modules/.installed
bench: $(PEERS)  ## Tokimori and its peers side by side, in ratios
	.venv-bench/bin/python -m benchmarks

limits: .venv/.installed-dev  ## what the largest stores cost: the table of docs/reference/limits.md, in about a quarter of an hour
	$(BIN)/python -m benchmarks.limits

LINTERS := lint-check lint-format lint-types lint-floors
.PHONY: $(LINTERS)
lint: $(LINTERS)  ## ruff, mypy --strict and the floors

lint-check: .venv/.installed-dev
	$(BIN)/ruff check --quiet $(SOURCES)

lint-format: .venv/.installed-dev
	$(BIN)/ruff format --check --quiet $(SOURCES)

lint-types: .venv/.installed-dev
	$(BIN)/mypy --no-error-summary

lint-floors: .venv/.installed-dev
	$(BIN)/lint-imports --no-logo

coverage: .venv/.installed-dev  ## every branch of the rules of a run is taken by a test
	$(BIN)/coverage run -m pytest -q tests/unit/model
	$(BIN)/coverage report

format: .venv/.installed-dev  ## let ruff write what it can
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: .venv/.installed  ## write what of docs/ is made from the code
	$(BIN)/python -m docs.made

manual: .venv/.installed-dev docs  ## the manual as a site: build/manual/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "See build/manual/index.html."

PICTURES ?=
pictures: .venv/.installed-dev  ## pictures of the page in build/pictures/; some of them: make pictures PICTURES='now-* jobs-1440-*'
	$(BIN)/python -m docs.pictures $(PICTURES)

film: .venv/.installed-dev  ## the film of a terminal in docs/assets/
	$(BIN)/python -m docs.pictures.film

promises: .venv/.installed-dev  ## run the tests of each promise on each store, and write docs/explanation/promises.md
	$(BIN)/python -m docs.made.promises

lock:  ## write requirements-dev.lock anew, with the newest versions
	scratch=$$(mktemp -d) && $(PYTHON) -m venv $$scratch && \
	$$scratch/bin/pip install --quiet --upgrade pip && \
	$$scratch/bin/pip install --quiet --group dev . && \
	{ head -n 1 requirements-dev.lock; $$scratch/bin/pip freeze --exclude tokimori; } > $$scratch/lock && \
	mv $$scratch/lock requirements-dev.lock && rm -r $$scratch

# The time of the last commit stands in the files, so that the same commit makes the same bytes.
release: .venv-release/.installed  ## build and check the wheel and the sdist, with a list of what they need (SBOM)
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) .venv-release/bin/python -m build --no-isolation --quiet
	.venv-release/bin/twine check --strict dist/*
	$(PYTHON) -m venv --clear dist/.venv && dist/.venv/bin/pip install --quiet "$$(ls dist/*.whl)[all]"
	.venv-release/bin/cyclonedx-py environment --output-reproducible -o dist/sbom.json dist/.venv
	sed -i 's#file://$(CURDIR)/##' dist/sbom.json  # where it was built is nobody's business
	.venv-release/bin/pip-licenses --python dist/.venv/bin/python --format=markdown --output-file=dist/licences.md
	rm -rf dist/.venv && cd dist && sha256sum *.whl *.tar.gz > SHA256SUMS

.venv-release/.installed: pyproject.toml | .venv-release/bin/python
	.venv-release/bin/pip install --quiet --upgrade pip && .venv-release/bin/pip install --quiet --group release
	@touch $@

clean:  ## remove what was built, tested and cached; .tokimori/ and its jobs stay
	rm -rf .venv .venv-release .venv-bench .venv-bench-apscheduler4 benchmarks/node_modules
	rm -rf mutants .coverage .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -r {} +

%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tokimori needs Python 3.11 or newer: make PYTHON=python3.11")'
	@$(PYTHON) -m venv $* || { rm -rf $*; echo 'This Python makes no venv. On Debian: apt-get install python3-venv' >&2; exit 2; }

# A stamp is newer than what it was installed from, so that nothing is installed twice.
.venv/.installed: pyproject.toml requirements-dev.lock | .venv/bin/python
	.venv/$(PIP) --constraint requirements-dev.lock --editable .
	@touch $@

.venv/.installed-dev: .venv/.installed
	.venv/$(PIP) --requirement requirements-dev.lock
	@$(BIN)/python -m tests.servers
	@touch $@

.venv-bench/.installed: pyproject.toml benchmarks/requirements.txt | .venv-bench/bin/python
	@grep -v ^python-dateutil requirements-dev.lock > .venv-bench/constraints.txt  # Celery pins an older one
	.venv-bench/$(PIP) --constraint .venv-bench/constraints.txt --requirement benchmarks/requirements.txt --editable .
	@.venv-bench/bin/python -m tests.servers
	@touch $@

.venv-bench-apscheduler4/.installed: benchmarks/requirements-apscheduler4.txt | .venv-bench-apscheduler4/bin/python
	.venv-bench-apscheduler4/$(PIP) --constraint requirements-dev.lock --requirement $<
	@touch $@

# Without npm its peers are missing from the tables, which say so.
benchmarks/node_modules/.installed: benchmarks/package.json benchmarks/package-lock.json
	@if command -v npm > /dev/null; then npm ci --silent --prefix benchmarks && touch $@; fi
