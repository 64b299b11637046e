# Everything a bare machine with Python 3.11 needs: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Made once: each of the workers would compile all test files anew.
COMPILED := $(VENV)/.compiled
# Three workers per core (tests/lab/lanes.py); a file's tests stay together, and the order stays.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder

# New property examples; at a landing the commit seeds them. One test plays all histories of a machine.
SEARCH := --hypothesis-profile search --timeout 1800
DRAWN_BY = $(or $(SEED),$(shell git rev-parse HEAD 2>/dev/null),0)
# Tests start our programs a thousand times: each start would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test verify node node-if-possible gpu soak test-1.36 check lock release bench bench-fleet replay fuzz search chaos histories docs generate pictures format clean
.DEFAULT_GOAL := help

help: ## Say what can be made
	@grep -hE '^[a-z0-9.-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9.-]+):.*## /  make \1\t/'

demo: $(STAMP) ## Watch Draguard taint a failed GPU on a real control plane (KEEP=1 leaves it up)
	$(BIN)/python -m tools.demo $(if $(KEEP),--keep)

test: $(STAMP) check $(COMPILED) ## Set up and test: lint, types, contracts, every package on real servers
	$(BIN)/python -m tests.lab.builds test
	$(BIN)/pytest $(PARALLEL) -m "not verify and not node and not gpu" $(TESTS)

verify: $(STAMP) ## Test what is exhaustive: each version and setting, browser, documents, new examples, ten mutants, a real node
	$(BIN)/python -m tests.lab.builds verify
	$(BIN)/pytest $(PARALLEL) -m verify $(TESTS)
	HISTORIES=600 $(BIN)/pytest $(PARALLEL) -m hypothesis $(SEARCH) --hypothesis-seed=$(DRAWN_BY) $(TESTS)
	$(BIN)/python -m tests.mutants --drawn 10 --seed $(DRAWN_BY) --package remediator --quick --share 80
	$(if $(TESTS),,$(MAKE) node-if-possible)

node: $(STAMP) ## Test on a real node: kubelet, containerd, images, Helm. Needs root (KEEP=1 leaves it up)
	$(BIN)/python -m tests.lab.node.packages
	$(BIN)/python -m tests.lab.builds node
	KEEP=$(KEEP) $(BIN)/pytest $(if $(KEEP),--timeout 0) -m node $(or $(TESTS),tests/node)

node-if-possible: $(STAMP)
	@if $(BIN)/python -m tests.lab.node.packages; then $(MAKE) node; \
	else echo "nothing was tested on a real node: the lines above say what is missing"; fi

gpu: $(STAMP) ## Test on this machine's own GPU, while no other program uses it (needs the driver, CUDA's nvcc, root)
	$(BIN)/python -m tests.lab.builds test
	$(BIN)/pytest -m gpu $(or $(TESTS),tests/gpu)

soak: $(STAMP) ## Run the large counts before an issue is closed, into docs/soak.md (SOAK="--only chaos")
	$(BIN)/python -m benchmarks.soak --write docs/soak.md $(SOAK)

test-1.36: $(STAMP) ## The eviction scenarios on the programs of Kubernetes 1.36 (builds them once)
	$(BIN)/pytest --kubernetes 1.36 tests/chain/test_taint_and_move.py

check: $(STAMP) ## Lint, types and import contracts only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: $(STAMP) ## Measure the budgets of docs/benchmarks.md on this machine
	$(BIN)/python -m benchmarks

bench-fleet: $(STAMP) ## Measure the remediator on 10,000 nodes of the real apiserver (FLEET="--nodes 200" for less)
	$(BIN)/python -m benchmarks.fleet $(FLEET)

replay: $(STAMP) ## Score Draguard and others on drawn fleet histories, into docs/replay.md and README.md
	$(BIN)/python -m benchmarks.replay --write docs/replay.md $(REPLAY)
	$(BIN)/python -m benchmarks.replay --summary README.md

fuzz: $(STAMP) ## Send a million made-up inputs through every reader of foreign data (docs/fuzzing.md)
	$(BIN)/python -m tests.fuzz $(FUZZ)

search: $(STAMP) ## Try all properties with examples that were not tried before; the tests take the same ones each time
	$(BIN)/pytest $(PARALLEL) -m hypothesis $(SEARCH) $(TESTS)

chaos: $(STAMP) ## Kill, freeze and cut everything for a while (MINUTES=10 SEED=1), and judge what was done
	CHAOS_SECONDS=$$(( $(or $(MINUTES),10) * 60 )) CHAOS_SEED=$(or $(SEED),1) $(BIN)/pytest -s tests/chain/test_chaos.py

histories: $(STAMP) ## Play random histories of hardware, users and crashes against the remediator (HISTORIES=20000)
	HISTORIES=$(or $(HISTORIES),20000) $(BIN)/pytest --timeout 0 --hypothesis-profile search tests/remediator/histories

lock: $(STAMP) ## Pin what pyproject.toml needs, with hashes (UPGRADE=1: to the newest versions)
	$(BIN)/uv pip compile --system-certs --quiet pyproject.toml --all-extras --group dev --universal \
		--generate-hashes --no-annotate --no-header $(if $(UPGRADE),--upgrade) -o constraints.txt
	$(MAKE) $(STAMP)
	$(BIN)/python -m deploy

release: $(STAMP) ## Write a release's files into dist/; the images where buildah is (URL=where they will be served)
	rm -rf dist
	$(BIN)/python -m tools.release $(if $(URL),--url $(URL)) $(if $(REGISTRY),--registry $(REGISTRY)) $(DIGESTS:%=--digest %)

docs: $(STAMP) ## Write the generated tables of the documents anew
	$(BIN)/python -m tools.generated_docs

generate: docs ## Write everything that is generated anew: documents, dashboards, rules, chart files, manifests
	$(BIN)/python -m dashboards
	$(BIN)/python -m alerts
	$(BIN)/python -m deploy

pictures: $(STAMP) ## Draw the pictures of the documents anew, in some ten minutes
	$(BIN)/python -m tests.lab.pictures

format: $(STAMP) ## Put the code into its standard form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove what was installed here; slow builds stay in the user's cache folder
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache

$(COMPILED): $(STAMP)
	@$(BIN)/pytest --collect-only -qq > $@ || { cat $@; rm $@; exit 1; }

$(STAMP): pyproject.toml constraints.txt deploy/locked/build.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--require-hashes -r deploy/locked/build.txt
	$(BIN)/uv pip install --system-certs --quiet --python $(BIN)/python -c constraints.txt \
		-e '.[allocation,exporter,remediator,cli,simulator]' --group dev
	touch $@
