# What CI runs and what you run are the same lines. `make` alone lists the targets.
SHELL := bash

PYTHON  ?= python3
VENV    ?= .venv
EXTRAS  ?= all,cli,sb3,torchrl# fewer: make test EXTRAS=jax GROUPS=test VENV=.venv-jax
GROUPS  ?= test,envs
WORKERS ?= 2
NAME    :=# which tests of `make test-with`, or which program of `make bench`
ARGS    ?=# more for the command: make test ARGS="tests/core -x"

# Environments: the first, one on top of it with all packages that it can take, and those that conflict with it.
MORE       := $(VENV)-more
MORE_EXTRAS := jax-envs,playground,warp,dm,sbx,skrl,tianshou,rllib,rsl-rl,ray
MJLAB      := $(VENV)-mjlab
MANISKILL  := $(VENV)-maniskill
GENESIS    := $(VENV)-genesis
SITE       := $(VENV)-site
TF_PADDLE  := .venv-tf-paddle
OLDEST     := .venv-oldest
NEWEST     := .venv-newest
TENSORFLOW ?= tensorflow-cpu

# The rows of `make test-with NAME=...`: which tests, and the environment, if it is not $(MORE).
ROWS := jax-envs packages learners learning ray mjlab maniskill genesis late site tf-paddle oldest newest
OF_jax-envs  = -n $(WORKERS) -m jax_envs tests/envs tests/test_examples.py
OF_packages  = -n $(WORKERS) -m packages tests/envs tests/frameworks tests/in_jit tests/wrappers tests/test_examples.py
OF_learners  = -n $(WORKERS) -m learners tests/learners tests/test_docs.py tests/test_examples.py
OF_learning  = -n $(WORKERS) -m learning tests/test_examples_learn.py
OF_ray       = -m ray tests/scale tests/learners tests/test_examples.py
OF_mjlab     = -m mjlab tests/envs/simulators tests/test_examples.py
OF_maniskill = -m maniskill tests/envs/simulators
OF_genesis   = -m genesis tests/envs/simulators
OF_site      = -m site tests/test_site.py
OF_late      = -m late tests/late_device
OF_tf-paddle = tests/frameworks/test_tensorflow_and_paddle.py
OF_oldest    = -n $(WORKERS)
OF_newest    = -n $(WORKERS)
IN_late      = $(VENV)
IN_mjlab     = $(MJLAB)
IN_maniskill = $(MANISKILL)
IN_genesis   = $(GENESIS)
IN_site      = $(SITE)
IN_tf-paddle = $(TF_PADDLE)
IN_oldest    = $(OLDEST)
IN_newest    = $(NEWEST)
IN           = $(or $(IN_$(NAME)),$(MORE))
ROW          = $(if $(filter 1,$(words $(NAME))),$(filter $(NAME),$(ROWS)))

BIN    := $(VENV)/bin
READY  := $(VENV)/.ready-$(EXTRAS)-$(GROUPS)
CODE   := src tests tools benchmarks examples docs/conf.py setup.py
PYTEST := python -m pytest -q
BUILT  := pyproject.toml setup.py src/arrayferry/_core/_speedups.c src/arrayferry/envs/_words.c constraints.txt
ASAN   := build/asan
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
PURE   := $(addprefix tests/,boundary core envs/test_packing.py frameworks spaces test_properties.py test_speed.py)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-with test-gpu test-pure test-asan stress bench coverage lint docs wheel release-check ci clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## see what it does, in about half a minute
	@$(BIN)/python examples/demo.py $(ARGS)

test: $(READY) ## the tests: about 8 minutes on 2 cores
	@echo "All tests take about 8 minutes on 2 cores; each dot is a test, and the percentage grows."
	@$(BIN)/$(PYTEST) -n $(WORKERS) $(ARGS)

test-with: $(if $(ROW),$(IN)/.ready) ## the tests that need more: NAME=jax-envs, packages, learners, mjlab, ray and others
	@$(if $(ROW),,echo "NAME is one of: $(ROWS)"; exit 2)
	@$(IN)/bin/$(PYTEST) $(OF_$(NAME)) $(ARGS)

test-gpu: $(READY) ## the goals of the late device on a real GPU, and again with torch's sanitizer of streams
	@$(BIN)/$(PYTEST) -m gpu tests/gpu $(ARGS)
	@TORCH_CUDA_SANITIZER=1 $(BIN)/$(PYTEST) -m gpu tests/gpu $(ARGS)

test-pure: $(READY) ## the tests of what is also written in C, without the C
	@ARRAYFERRY_PURE_PYTHON=1 $(BIN)/$(PYTEST) -n $(WORKERS) $(PURE) $(ARGS)

test-asan: $(READY) ## the tests of the core, with the C under the address and undefined-behaviour sanitizers
	@rm -rf $(ASAN) && mkdir -p $(ASAN) && cp -r pyproject.toml src tests tools $(ASAN)
	@$(BIN)/python tools/build_c.py $(ASAN)/src/arrayferry $(SANITIZE)
	@# its frames are larger than the interpreter's limits assume
	@ulimit -s unlimited; cd $(ASAN) && LD_PRELOAD="$(foreach lib,asan stdc++,$(shell $(CC) -print-file-name=lib$(lib).so))" \
		ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=src:tests \
		$(abspath $(BIN))/$(PYTEST) -p no:cacheprovider tests/core $(ARGS)

stress: $(VENV)/.ready-stress ## every goal of docs/reliability.md, with its figures; half an hour, ARGS=--quick for less
	@$(if $(or $(findstring --quick,$(ARGS)),$(findstring --only,$(ARGS))),,$(BIN)/$(PYTEST) -n $(WORKERS) -m stress)
	@PYTHONPATH=tests $(BIN)/python -m reliability --workers $(WORKERS) $(ARGS)

bench: $(MORE)/.ready ## how fast it is here, against all rivals; NAME=jax_envs, scale, scale_ray or another of benchmarks/
	@$(MORE)/bin/python $(if $(NAME),-W ignore )benchmarks/$(or $(NAME),bench).py $(ARGS)

coverage: $(READY) ## the tests, and the lines that they do not reach
	@$(BIN)/$(PYTEST) -n $(WORKERS) --cov --cov-report=term $(ARGS)

lint: $(VENV)/.ready-lint ## style, types, import arrows, spelling, workflows
	@$(BIN)/ruff check --quiet $(wildcard $(CODE))
	@$(BIN)/ruff format --check --quiet $(wildcard $(CODE)) || { echo "to repair: $(BIN)/ruff format"; exit 1; }
	@echo "ruff: fine"
	@$(BIN)/mypy
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/python tools/check_imports.py
	@$(BIN)/codespell *.md docs/*.md $(CODE)
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/zizmor -q --offline --no-progress .github
	@$(BIN)/cffconvert --validate -i CITATION.cff

docs: $(VENV)/.ready-docs ## the documentation, as HTML
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel: $(VENV)/.ready-wheel ## the sdist and a wheel in dist/, checked, and the wheel installed and tried
	@rm -rf dist
	@ARRAYFERRY_REQUIRE_SPEEDUPS=1 $(BIN)/python -m build -q
	@$(BIN)/twine check --strict dist/*
	@folder=$$(mktemp -d) && trap "rm -rf $$folder" EXIT && $(PYTHON) -m venv $$folder && \
		$$folder/bin/python -m pip install -qq -c constraints.txt dist/*.whl && \
		$$folder/bin/python tools/smoke.py numpy --speedups yes

release-check: ## whether version and changelog are ready: make release-check TAG=v1.2.3
	@$(PYTHON) tools/release_check.py $(TAG)

ci: ## everything that every change must pass; 20 minutes on 2 cores, with what it installs
	@step() { printf '\n==== %s  [%d s]\n' "$$*" "$$SECONDS"; $(MAKE) --no-print-directory "$$@"; }; set -e; \
		for target in lint docs test test-pure; do step $$target; done; \
		for name in late jax-envs packages learners; do step test-with NAME=$$name; done

clean: ## remove all that the other targets made, environments too
	@rm -rf .venv* docs/_build build dist src/*.egg-info src/arrayferry/_core/*.so .coverage* htmlcov .hypothesis .benchmarks .*_cache
	@find src tests tools benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Environments: made once, and again when a requirement changes.
comma := ,
groups = $(foreach group,$(subst $(comma), ,$(GROUPS)),--group $(group))

# install(venv, what to install, what to say, other constraints); dependency groups need pip 25.1
define install
	@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@printf '%s' "Installing $(3) into $(1), once "
	@start=$$SECONDS; (while sleep 5 >/dev/null 2>&1; do printf .; done) & trap "kill $$!" EXIT; \
		pip="$(1)/bin/python -m pip install -qq --disable-pip-version-check"; $$pip "pip>=25.1" && \
		$$pip --no-compile -c $(or $(4),constraints.txt) $(2) && echo " $$((SECONDS - start)) s"
	@touch $@
endef

$(READY): $(BUILT)
	$(call install,$(VENV),-e ".[$(EXTRAS)]" $(groups),arrayferry with the frameworks and test tools (about 2 GB; some minutes))

$(VENV)/.ready: $(READY)
	@touch $@

$(VENV)/.ready-%: $(READY)
	$(call install,$(VENV),--group $*,the tools of make $* (half a minute))

# Makes an environment that also sees the packages of $(VENV), so that frameworks are installed once.
on_top = test -x $(1)/bin/python || { $(PYTHON) -m venv $(1) && \
	$(BIN)/python -c 'import site; print(*site.getsitepackages())' >"$$(echo $(1)/lib/python*/site-packages)/on_top.pth"; }

$(MORE)/.ready: $(READY)
	@$(call on_top,$(MORE))
	$(call install,$(MORE),-e ".[$(MORE_EXTRAS)]" --group packages,environments$(comma) learners and Ray (about 2 GB; some minutes))

$(MJLAB)/.ready: $(READY)
	@$(call on_top,$(MJLAB))
	@grep -vE '^(mujoco|rich|rsl-rl-lib)' constraints.txt >$(MJLAB)/constraints.txt  # mjlab has pins of its own
	$(call install,$(MJLAB),-e . --group mjlab,mjlab and its learners (about 1 GB; a minute),$(MJLAB)/constraints.txt)
	@# Isaac Lab's own step functions, apart: TorchRL would try to import the rest of it
	@$(MJLAB)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --target $(MJLAB)/isaaclab isaaclab==2.3.2.post1

$(MANISKILL)/.ready: $(READY)
	@$(call on_top,$(MANISKILL))
	@grep -E '^(gymnasium|mani_skill|numpy|torch)==' constraints.txt >$(MANISKILL)/constraints.txt  # it has pins of its own
	$(call install,$(MANISKILL),-e . --group maniskill,ManiSkill (about 1 GB; a minute),$(MANISKILL)/constraints.txt)

$(GENESIS)/.ready: $(READY)
	@$(call on_top,$(GENESIS))
	@grep -vE '^(mujoco|numpy|pillow|rich)' constraints.txt >$(GENESIS)/constraints.txt  # it has pins of its own
	$(call install,$(GENESIS),-e . --group genesis,Genesis (about 2 GB; two minutes),$(GENESIS)/constraints.txt)

$(SITE)/.ready: $(READY)
	@$(call on_top,$(SITE))
	$(call install,$(SITE),-e . --group site,Sphinx and what drives a browser (half a minute))

$(TF_PADDLE)/.ready: $(BUILT)
	$(call install,$(TF_PADDLE),-e ".[paddle]" --group test $(TENSORFLOW),TensorFlow and Paddle (about 2 GB; some minutes))

$(OLDEST)/.ready: $(BUILT) constraints-oldest.txt
	@# no TensorDict goes with the oldest torch; which comes with gigabytes of CUDA, unless pip finds builds for the CPU
	$(call install,$(OLDEST),-e ".[all$(comma)cli$(comma)sb3]" $(groups),arrayferry with the oldest frameworks (about 6 GB; some minutes),constraints-oldest.txt)

$(NEWEST)/.ready: $(BUILT)
	@# torch apart: its newest builds come with gigabytes of CUDA
	$(call install,$(NEWEST),-e ".[$(EXTRAS)]" $(groups) "$$(grep ^torch== constraints.txt)",arrayferry with the newest frameworks (about 2 GB; some minutes),/dev/null)
