# The first call of any target makes .venv; later calls reuse it until pyproject.toml or constraints.txt change.
.DEFAULT_GOAL := help
.PHONY: help env demo serve test lint format golden audit mutants engines bench evidence release docs

PY := .venv/bin/python

help:        ## this list
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/ /'

.venv/made: pyproject.toml constraints.txt
	python3 -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test]'
	touch .venv/made

env: .venv/made  ## make the virtual environment .venv

demo: .venv/made  ## all five releases end to end; writes suffice-demo.html
	$(PY) -m suffice demo --force

serve: .venv/made  ## the service on an invented clinic, with pages; prints where, and tokens
	$(PY) -m suffice serve --task demo

# Two workers already fill two cores: more threads would only wait for each other.
test: export OMP_NUM_THREADS := 1
test: export OPENBLAS_NUM_THREADS := 1
test: .venv/made lint  ## lint, types and the whole test suite
	$(PY) -m pytest -n 2 --dist worksteal -m 'not audit and not engines'

lint: .venv/made  ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: .venv/made  ## let ruff rewrite the layout
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

golden: export OMP_NUM_THREADS := 1
golden: export OPENBLAS_NUM_THREADS := 1
golden: .venv/made  ## make the golden files of all that is published anew, and print what changed
	cd tests && ../$(PY) -m golden.make

docs: .venv/made  ## write docs/cli.md, docs/format.md and the import graph anew, and the site into build/docs
	$(PY) docs/cli_reference.py > docs/cli.md
	$(PY) docs/format_reference.py
	$(PY) docs/import_graph.py
	$(PY) docs/accuracy_figure.py
	$(PY) -m sphinx --fail-on-warning --keep-going --quiet --doctree-dir build/doctrees docs build/docs
	@echo build/docs/index.html

audit: .venv/made  ## the auditor on every mechanism; full-size checks: 2,000 pairs of neighbours, 500 of histories, 20,000 mutated files
	$(PY) -m suffice audit all
	$(PY) -m suffice audit --compare releases --effort 33
	$(PY) -m pytest -o faulthandler_timeout=3600 -m audit

mutants: .venv/made  ## privacy faults planted one by one in a copy: a test must notice each
	$(PY) lab/mutants/run.py

# An environment of its own: spark is 460 MB, and the server of object storage wants other versions.
.venv-engines/made: pyproject.toml constraints.txt constraints-s3.txt
	python3 -m venv .venv-engines
	.venv-engines/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[engines]'
	python3 -m venv .venv-engines/s3
	.venv-engines/s3/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-s3.txt 'moto[s3]' flask flask-cors
	touch .venv-engines/made

engines: export OMP_NUM_THREADS := 1
engines: export OPENBLAS_NUM_THREADS := 1
engines: .venv-engines/made  ## every engine, with workers killed and files changed; says what it skipped and why
	.venv-engines/bin/python -m pytest -m engines
	$(if $(wildcard lab/bench/engines.py),.venv-engines/bin/python lab/bench/engines.py)

bench: .venv/made  ## every performance claim, as ratios measured in one run; DATA=DIR for all of them
	$(PY) lab/bench/run.py $(if $(DATA),--data $(DATA))

evidence: .venv/made  ## measure what the pages state and is stale, and write the pages; DATA=DIR
	$(PY) lab/evidence.py --data $(DATA)

release: .venv/made  ## source archive, wheel, changelog, components and checksums in dist/; tries the wheel in clean Pythons
	$(PY) lab/release.py $(if $(PYTHONS),--python $(PYTHONS))
