# make stage2     build stage 2, judge it against stage 1, say whether it may be merged
# make help       every target
#
# The environment is made on first use in $(VENV). VENV=none uses $(PYTHON) as it is.

PYTHON ?= python3
VENV ?= .venv
STAGES := stage0 stage1 stage2 stage3
# e.g. make stage2 ARGS='--profile cpu --seeds 0'
ARGS ?=

ifeq ($(VENV),none)
RUN_PYTHON := $(PYTHON)
else
RUN_PYTHON := $(VENV)/bin/python
endif
GATES := $(RUN_PYTHON) -m gates

.PHONY: help setup test lint doctor compare clean stages $(STAGES)
.DEFAULT_GOAL := help

help: ## show this list
	@echo "targets:"
	@echo "  stage0 … stage3   build and judge one stage; ARGS='--profile cpu' passes options on"
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/^([a-z]+):.*## (.*)/\1|\2/' | while IFS='|' read -r name text; do printf '  %-17s %s\n' "$$name" "$$text"; done
	@echo "variables: PYTHON=python3.12, VENV=none (use PYTHON as it is), ARGS='…', BASE=RUN CAND=RUN (compare)"

setup: ## make or update the environment in .venv
ifneq ($(VENV),none)
	@$(PYTHON) scripts/setup_venv.py --venv $(VENV)
endif

$(STAGES): setup
	@$(GATES) run $@ $(ARGS)

stages: setup ## all stages in order
	@status=0; for stage in $(STAGES); do $(GATES) run $$stage $(ARGS) || { code=$$?; [ $$status -ne 0 ] || status=$$code; }; done; exit $$status

test: setup ## the test suite (skipped: what needs a CUDA device without one, and what is slow unless GATES_SLOW=1)
	@$(RUN_PYTHON) -m pytest -q -n auto --dist worksteal $(ARGS)

lint: setup ## ruff over the Python code
	@$(RUN_PYTHON) -m ruff check .

doctor: setup ## what was found on this machine, and what each missing tool costs
	@$(GATES) doctor

compare: setup ## two runs side by side: make compare BASE=RUN CAND=RUN
	@test -n "$(BASE)" -a -n "$(CAND)" || { echo "error: make compare needs BASE and CAND" >&2; echo "hint: make compare BASE=latest:stage1 CAND=latest:stage2" >&2; exit 2; }
	@$(GATES) compare "$(BASE)" "$(CAND)"

clean: ## remove build products; results stay
	rm -rf build
