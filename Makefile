# make demo: set up and run the main job on built-in data.  make test: set up and pass all tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow test-gpu check types format docs map setup clean

CHECK_BIN := .venv-check/bin
CHECK_STAMP := .venv-check/.installed

setup: $(STAMP)

$(CHECK_STAMP): constraints.txt
	$(PYTHON) -m venv .venv-check
	$(CHECK_BIN)/pip install -q -c constraints.txt ruff import-linter
	touch $(CHECK_STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt torch
	$(BIN)/pip install -q -c constraints.txt -e ".[dev,hf,ray,slurm,data,translate,onnx,log]"
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/glassformer demo

# Two processes of one thread each: on two cores that is faster than one process with two threads, and than three processes.
test: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(ARGS)

test-slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m slow $(ARGS)

# What says something on CUDA, on one GPU: minutes. Where a machine has its own torch: make test-gpu GPU_PYTHON=python3.
GPU_PYTHON ?= $(BIN)/python
GPU_TESTS := gpu generation model/kernels model/test_softmax_mixer.py training/test_cuda_graph.py training/test_step_acceleration.py \
	training/test_trainer.py training/parallel/test_launch.py conformance/test_no_waiting.py checking/test_fast_paths.py \
	lens/test_capture.py benchmark journeys/test_labels.py pretrained/test_adapter_export.py
test-gpu:
	GLASSFORMER_TESTS_AT_ONCE=1 OMP_NUM_THREADS=1 PYTHONPATH=$(CURDIR)/src:$$PYTHONPATH $(GPU_PYTHON) -m pytest -n 14 --dist worksteal -m "not slow and not browser" \
		--timeout 150 -p no:benchmark $(addprefix tests/,$(GPU_TESTS)) $(ARGS)

# Style and the direction of imports: tools that read text, in an environment of their own, so that it takes seconds anywhere.
check: $(CHECK_STAMP)
	$(CHECK_BIN)/ruff format --check -q .
	$(CHECK_BIN)/ruff check -q .
	PYTHONPATH=src $(CHECK_BIN)/lint-imports

# Types need every package that is typed, torch too.
types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix -q .
	$(BIN)/ruff format -q .

# The documentation as a site in site/: no fonts or scripts from elsewhere; broken links fail. Read it: python3 -m http.server -d site
docs: $(STAMP)
	$(BIN)/pip install -q -c constraints.txt -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is in site/. To read it with its search: python3 -m http.server -d site"

# Rewrites what is generated from the source: the layers in ARCHITECTURE.md and docs/map.md.
map: $(STAMP)
	$(BIN)/python tests/architecture/write_map.py

clean:
	rm -rf $(VENV) .venv-check build dist site src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
