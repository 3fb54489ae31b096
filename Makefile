# make stage2     build stage 2, judge it against stage 1, say whether it may be merged
# make fp16_v9_pipeline, make fp16     one rung of the FP16 ladder, all of them
# make help       every target
#
# The environment is made on first use in $(VENV). VENV=none uses $(PYTHON) as it is.

PYTHON ?= python3
VENV ?= .venv
STAGES := $(shell ls tasks | sed -n 's/^\(stage[0-9]*\)_.*/\1/p' | sort -V)
FP16 := $(shell ls tasks | grep '^fp16_' | sort -V)
# e.g. make stage2 ARGS='--profile cpu --seeds 0'
ARGS ?=
# As one word of the shell, whatever it holds.
quoted = '$(subst ','\'',$(1))'

ifeq ($(VENV),none)
RUN_PYTHON := $(call quoted,$(PYTHON))
else
RUN_PYTHON := $(call quoted,$(VENV)/bin/python)
endif
GATES := $(RUN_PYTHON) -m gates

.PHONY: help setup check test lint types doctor compare clean stages fp16 $(STAGES) $(FP16)
.DEFAULT_GOAL := help

help: ## show this list
	@echo "targets:"
	@echo "  $(firstword $(STAGES)) … $(lastword $(STAGES))   build and judge one stage; ARGS='--profile cpu' passes options on"
	@echo "  fp16_v…           the same for a rung of the FP16 ladder: $(FP16)"
	@grep -hE '^[a-z0-9]+:.*##' Makefile | sed -E 's/^([a-z0-9]+):.*## (.*)/\1|\2/' | while IFS='|' read -r name text; do printf '  %-17s %s\n' "$$name" "$$text"; done
	@echo "variables: PYTHON=python3.12, VENV=none (use PYTHON as it is), ARGS='…', BASE=RUN CAND=RUN (compare)"

setup: ## make or update the environment in .venv
ifneq ($(VENV),none)
	@$(call quoted,$(PYTHON)) scripts/setup_venv.py --venv $(call quoted,$(VENV))
endif

$(STAGES) $(FP16): setup
	@$(GATES) run $@ $(ARGS)

# Each of $(1), whatever became of those before; the first exit code that is not 0.
run_all = status=0; for task in $(1); do $(GATES) run $$task $(ARGS) || { code=$$?; [ $$status -ne 0 ] || status=$$code; }; done; exit $$status

stages: setup ## all FP8 stages in order
	@$(call run_all,$(STAGES))

fp16: setup ## all FP16 rungs in order
	@$(call run_all,$(FP16))

test: setup ## the test suite (skipped: what needs a CUDA device without one, and what is slow unless GATES_SLOW=1)
	@$(RUN_PYTHON) -m pytest -q -n auto --dist worksteal $(ARGS)

lint: setup ## ruff over the Python code: mistakes, and the form
	@$(RUN_PYTHON) -m ruff check .
	@$(RUN_PYTHON) -m ruff format --check -q .

types: setup ## mypy over gates/
	@$(RUN_PYTHON) -m mypy

check: lint types test ## what must pass before a change is committed

doctor: setup ## what was found on this machine, and what each missing tool costs
	@$(GATES) doctor

compare: setup ## two runs side by side: make compare BASE=RUN CAND=RUN
	@test -n $(call quoted,$(BASE)) -a -n $(call quoted,$(CAND)) || { echo "error: make compare needs BASE and CAND" >&2; echo "hint: make compare BASE=latest:stage1 CAND=latest:stage2" >&2; exit 2; }
	@$(GATES) compare $(call quoted,$(BASE)) $(call quoted,$(CAND))

clean: ## remove build products; results stay
	rm -rf build

.DEFAULT:
	@$(call quoted,$(PYTHON)) -c 'import difflib, sys; name, *known = sys.argv[1:]; near = difflib.get_close_matches(name, known, 3); print(f"error: no target {name!r}\nhint: " + (f"did you mean {chr(32).join(near)}? " if near else "") + "`make help` lists the targets", file=sys.stderr); sys.exit(2)' "$@" $(STAGES) $(FP16) stages fp16 help setup check test lint types doctor compare clean
