# What CI runs and what you run are the same lines. `make` alone lists the targets.
SHELL := bash

PYTHON  ?= python3
VENV    ?= .venv
EXTRAS  ?= all,cli,test,test-envs,test-learners# fewer: make test EXTRAS=jax,test VENV=.venv-jax
OLDEST_EXTRAS ?= all,cli,sb3,test,test-envs# no TensorDict goes with the oldest torch
WORKERS ?= 2
ARGS    ?=# more for the command: make test ARGS="-k torch -x"

TFP_VENV   ?= .venv-tfp
TFP_EXTRAS ?= paddle,test
TENSORFLOW ?= tensorflow-cpu

FIELD_VENV ?= .venv-field

BENCH_VENV ?= .venv-bench

PYTHONS ?=# the interpreters of `make wheel`; all that there are, unless you name them

LEARNERS_VENV ?= .venv-learners

ENVS_VENV   ?= .venv-envs
ENVS_EXTRAS ?= jax-envs,playground,torch,test,test-envs

BIN    := $(VENV)/bin
READY  := $(VENV)/.ready-$(EXTRAS)
CODE   := src tests tools benchmarks examples docs/conf.py setup.py
PYTEST := python -m pytest -q
EXAMPLE := tests/test_examples.py::test_each_example_runs[
BUILT  := pyproject.toml setup.py src/arrayferry/_core/_speedups.c src/arrayferry/envs/_words.c constraints.txt
ASAN   := build/asan
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
PURE   := $(addprefix tests/,core frameworks spaces wrappers test_speed.py)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-pure test-asan test-oldest test-newest test-tf-paddle stress bench coverage lint docs wheel release-check test-agents test-field test-envs bench-envs bench-scale test-ray bench-ray test-learners clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## see what it does, in about half a minute
	@$(BIN)/python examples/demo.py $(ARGS)

test: $(READY) ## the tests: about 5 minutes on 2 cores
	@echo "All tests take about 5 minutes on 2 cores; each dot is a test, and the percentage grows."
	@$(BIN)/$(PYTEST) -n $(WORKERS) $(ARGS)

test-pure: $(READY) ## the tests of what is also written in C, without the C
	@ARRAYFERRY_PURE_PYTHON=1 $(BIN)/$(PYTEST) -n $(WORKERS) $(PURE) $(ARGS)

test-asan: $(READY) ## the tests of the core, with the C under the address and undefined-behaviour sanitizers
	@rm -rf $(ASAN) && mkdir -p $(ASAN) && cp -r pyproject.toml src tests tools $(ASAN)
	@$(BIN)/python tools/build_c.py $(ASAN)/src/arrayferry $(SANITIZE)
	@# its frames are larger than the interpreter's limits assume
	@ulimit -s unlimited; cd $(ASAN) && LD_PRELOAD="$(foreach lib,asan stdc++,$(shell $(CC) -print-file-name=lib$(lib).so))" \
		ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH=src:tests \
		$(abspath $(BIN))/$(PYTEST) -p no:cacheprovider tests/core $(ARGS)

test-oldest: .venv-oldest/.ready ## the tests with the oldest versions that pyproject.toml allows
	@.venv-oldest/bin/$(PYTEST) -n $(WORKERS) $(ARGS)

test-newest: .venv-newest/.ready ## the tests with the newest versions that there are
	@.venv-newest/bin/$(PYTEST) -n $(WORKERS) $(ARGS)

test-tf-paddle: $(TFP_VENV)/.ready ## the tests of TensorFlow and Paddle, in an environment of their own
	@TF_CPP_MIN_LOG_LEVEL=2 $(TFP_VENV)/bin/$(PYTEST) -m own_process $(ARGS)

test-agents: $(LEARNERS_VENV)/.ready ## the tests of learners with many agents
	@$(LEARNERS_VENV)/bin/$(PYTEST) -m agents tests/agents $(ARGS)
	@$(LEARNERS_VENV)/bin/$(PYTEST) $(EXAMPLE)pettingzoo_torch]

test-learners: $(LEARNERS_VENV)/.ready ## every learner's own tests, and the runs in which each learns CartPole
	@$(LEARNERS_VENV)/bin/$(PYTEST) -n $(WORKERS) -m "not stress" tests/learners tests/test_docs.py tests/test_examples.py -k "learn or with_ or ppo" $(ARGS)

test-field: $(FIELD_VENV)/.ready ## the environments of other packages, and Warp, in an environment of their own
	@$(FIELD_VENV)/bin/$(PYTEST) -n $(WORKERS) tests/field $(addprefix $(EXAMPLE),ppo_in_jit] dm_control_torch] every_package]) $(ARGS)

test-envs: $(ENVS_VENV)/.ready ## the tests of environments written in JAX, with the packages that make them
	@$(ENVS_VENV)/bin/$(PYTEST) -n $(WORKERS) tests/envs/test_packages.py $(EXAMPLE)gymnax_torch] $(ARGS)

test-ray: $(LEARNERS_VENV)/.ready ## the tests of Ray's actors and RLlib, on clusters of this machine; ARGS="-m stress" for the goals in full
	@$(LEARNERS_VENV)/bin/$(PYTEST) tests/scale/test_ray.py $(EXAMPLE)rllib_jax] $(ARGS)

stress: $(VENV)/.ready-stress ## every goal of docs/reliability.md, with its figures; half an hour, ARGS=--quick for less
	@$(if $(or $(findstring --quick,$(ARGS)),$(findstring --only,$(ARGS))),,$(BIN)/$(PYTEST) -n $(WORKERS) -m stress)
	@PYTHONPATH=tests $(BIN)/python -m reliability --workers $(WORKERS) $(ARGS)

bench: $(BENCH_VENV)/.ready ## how fast it is here, against all rivals
	@$(BENCH_VENV)/bin/python benchmarks/bench.py $(ARGS)

bench-envs: $(ENVS_VENV)/.ready-bench ## how fast environments written in JAX are, stepped from torch
	@$(ENVS_VENV)/bin/python -W ignore benchmarks/jax_envs.py $(ARGS)

bench-ray: $(LEARNERS_VENV)/.ready ## what RayVectorEnv adds to bare actor calls
	@$(LEARNERS_VENV)/bin/python -W ignore benchmarks/scale_ray.py $(ARGS)

bench-scale: $(READY) ## how fast worker processes are, against Gymnasium's vector environments
	@cd benchmarks && $(abspath $(BIN))/python scale.py $(ARGS)

coverage: $(READY) ## the tests, and the lines that they do not reach
	@$(BIN)/$(PYTEST) -n $(WORKERS) --cov --cov-report=term $(ARGS)

lint: $(VENV)/.ready-lint ## style, types, import arrows, workflows
	@$(BIN)/ruff check --quiet $(wildcard $(CODE))
	@$(BIN)/ruff format --check --quiet $(wildcard $(CODE)) || { echo "to repair: $(BIN)/ruff format"; exit 1; }
	@echo "ruff: fine"
	@$(BIN)/mypy
	@$(BIN)/pyright --pythonpath $(BIN)/python
	@$(BIN)/python tools/check_imports.py
	@$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/zizmor -q --offline --no-progress .github
	@$(BIN)/cffconvert --validate -i CITATION.cff

docs: $(VENV)/.ready-docs ## the documentation, as HTML
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel: .venv-wheel/.ready ## sdist and wheels in dist/, each installed and tried in every Python: some minutes
	@.venv-wheel/bin/python tools/wheel.py $(PYTHONS)

release-check: ## whether version, changelog and ARRAYFERRY_HOME are ready: make release-check TAG=v1.2.3
	@$(PYTHON) tools/release_check.py $(TAG)

clean: ## remove all that the other targets made, environments too
	@rm -rf .venv* docs/_build build dist src/*.egg-info src/arrayferry/_core/*.so .coverage* htmlcov .hypothesis .benchmarks .*_cache
	@find src tests tools benchmarks examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# Environments: made once, and again when a requirement changes.
# install(venv, what to install, what to say, other constraints)
define install
	@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
	@printf '%s' "Installing $(3) into $(1), once "
	@start=$$SECONDS; (while sleep 5 >/dev/null 2>&1; do printf .; done) & trap "kill $$!" EXIT; \
		$(1)/bin/python -m pip install -qq --no-compile --disable-pip-version-check -c $(or $(4),constraints.txt) $(2) && echo " $$((SECONDS - start)) s"
	@touch $@
endef

# install_on_top(venv, what to install, what to say): one that also sees the packages of $(VENV), so that frameworks are installed once
define install_on_top
	@test -x $(1)/bin/python || { $(PYTHON) -m venv $(1) && $(BIN)/python -c 'import site; print(*site.getsitepackages())' >"$$(echo $(1)/lib/python*/site-packages)/on_top.pth"; }
	$(call install,$(1),$(2),$(3))
endef

$(READY): $(BUILT)
	$(call install,$(VENV),-e ".[$(EXTRAS)]",arrayferry with the frameworks and test tools (about 2 GB; some minutes))

$(VENV)/.ready-stress: $(READY)
	$(call install,$(VENV),-e ".[stress]",the fuzzer and more environments (half a minute))

$(VENV)/.ready-lint: $(READY)
	$(call install,$(VENV),-e ".[lint]",the linters (half a minute))

$(VENV)/.ready-docs: $(READY)
	$(call install,$(VENV),-e ".[docs]",Sphinx (half a minute))

.venv-oldest/.ready: $(BUILT) constraints-oldest.txt
	@# with gigabytes of CUDA, unless pip finds torch's builds for the CPU
	$(call install,.venv-oldest,-e ".[$(OLDEST_EXTRAS)]",arrayferry with the oldest frameworks (about 6 GB; some minutes),constraints-oldest.txt)

.venv-newest/.ready: $(BUILT)
	@# torch apart: its newest builds come with gigabytes of CUDA
	$(call install,.venv-newest,-e ".[$(EXTRAS)]" "$$(grep ^torch== constraints.txt)",arrayferry with the newest frameworks (about 2 GB; some minutes),/dev/null)

.venv-wheel/.ready: pyproject.toml constraints.txt
	$(call install,.venv-wheel,-e ".[wheel]",what builds and checks wheels (half a minute))

$(BENCH_VENV)/.ready: $(BUILT)
	$(call install,$(BENCH_VENV),-e ".[bench]",the rivals of the benchmark (about 3 GB; some minutes))

$(FIELD_VENV)/.ready: $(READY)
	$(call install_on_top,$(FIELD_VENV),-e ".[test-field]",the environments of other packages (about 2 GB; a minute))

$(ENVS_VENV)/.ready: $(READY)
	$(call install_on_top,$(ENVS_VENV),-e ".[$(ENVS_EXTRAS)]",packages of environments written in JAX (about 1 GB; a minute))

$(ENVS_VENV)/.ready-bench: $(ENVS_VENV)/.ready
	$(call install,$(ENVS_VENV),"torchrl>=0.6",TorchRL (half a minute))

$(TFP_VENV)/.ready: $(BUILT)
	$(call install,$(TFP_VENV),-e ".[$(TFP_EXTRAS)]" $(TENSORFLOW),TensorFlow and Paddle (about 2 GB; some minutes))

$(LEARNERS_VENV)/.ready: $(READY)
	$(call install_on_top,$(LEARNERS_VENV),-e ".[test-every-learner]",every learner and Ray (about 2 GB; a minute))
