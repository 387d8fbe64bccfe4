# Each target sets up the virtual environment .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO := $(VENV)/.demo
# The kernels in C (docs/kernels.md); without a compiler there are none, which is no harm.
NATIVE := src/softset/counting/kernels/native
# Modules are compiled once, and not again by every process that a test starts.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-slow test-integrations test-gpu test-lowest bench lint coverage dist docs gallery browser clean

demo: $(DEMO)
	$(BIN)/softset demo --force

test: lint
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not slow"
	cd papers && ../$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not slow"

test-slow: $(READY)
	$(BIN)/python -m pytest -q -m slow
	cd papers && ../$(BIN)/python -m pytest -q -m slow

# The libraries of softset.integrations, and the package behind softset-papers[adversarial], in an
# environment of their own that also sees .venv.
WHERE := import sysconfig; print(sysconfig.get_path('purelib'))
test-integrations: $(READY)
	$(PYTHON) -m venv .venv-integrations
	$(BIN)/python -c "$(WHERE)" > $$(.venv-integrations/bin/python -c "$(WHERE)")/softset.pth
	.venv-integrations/bin/python -m pip install --quiet --constraint constraints.txt \
		torchmetrics skorch transformers accelerate keras lightning ap_perf
	PYTHONPATH=src .venv-integrations/bin/python -m pytest -q tests/integrations \
		src/softset/integrations "tests/test_docs.py::test_code_of_every_page_runs[docs/integrations.md]"
	cd papers && PYTHONPATH=../src:src ../.venv-integrations/bin/python -m pytest -q \
		tests/baselines/test_adversarial.py

# The kernels for GPUs without a GPU: Triton's interpreter runs them on the CPU, its compiler makes them
# for GPUs that are not there. Triton would be of no use in .venv, whose torch is for CPUs.
test-gpu: $(READY)
	$(PYTHON) -m venv .venv-gpu
	$(BIN)/python -c "$(WHERE)" > $$(.venv-gpu/bin/python -c "$(WHERE)")/softset.pth
	.venv-gpu/bin/python -m pip install --quiet --no-deps --constraint constraints.txt triton
	PYTHONPATH=src TRITON_INTERPRET=1 .venv-gpu/bin/python -m pytest -q -n auto --dist worksteal \
		tests/counting/kernels/test_triton.py
	PYTHONPATH=src .venv-gpu/bin/python -m pytest -q -n auto --dist worksteal \
		tests/counting/kernels/test_triton_compiled.py

# The lowest versions that pyproject.toml allows, without the packages of [onnx] and [dev] that need
# newer ones; their tests are skipped.
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --constraint constraints-lowest.txt torch
	.venv-lowest/bin/python -m pip install --quiet --constraint constraints-lowest.txt \
		--editable ".[boosting,cli,report,plot,excel]" pytest pytest-xdist hypothesis fastapi httpx
	.venv-lowest/bin/python -m pytest -q -n auto --dist worksteal -m "not slow"

# Of the rooms that every number goes through.
coverage: $(READY)
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m "not slow" --cov --cov-report=term \
		tests/counting tests/metrics tests/decisions tests/losses tests/fuzz/test_losses.py \
		tests/test_common.py tests/test_pixels.py tests/test_faults.py tests/test_many_ways.py \
		src/softset/counting src/softset/metrics src/softset/decisions src/softset/losses

# Wheel and sdist, checked as a registry would, and the wheel once installed.
dist:
	rm -rf dist .venv-dist
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/python -m pip install --quiet --constraint constraints.txt build twine check-wheel-contents
	.venv-dist/bin/python -m build --outdir dist .
	.venv-dist/bin/python -m build --outdir dist papers
	.venv-dist/bin/python -m twine check --strict dist/*
	.venv-dist/bin/check-wheel-contents dist/*.whl

# The site, in site/; a broken link or an undocumented public name is an error (--quiet would not count
# warnings).
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site

# What the examples print and draw, for the site.
gallery: $(READY)
	$(BIN)/python docs/tools/gallery.py

bench: $(READY)
	$(BIN)/python benchmarks/losses.py
	$(BIN)/python benchmarks/training.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What the demo needs; the developers' tools come on top.
$(DEMO): pyproject.toml constraints.txt hatch_build.py $(wildcard $(NATIVE)/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[boosting,cli,report]"
	touch $@

$(READY): $(DEMO) papers/pyproject.toml
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]" --editable ./papers
	touch $@

# For the tests of the report in a real browser; without one they are skipped and say so.
browser:
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq chromium) \
		|| echo "chromium could not be installed: the tests in a browser will be skipped"

clean:
	rm -rf $(VENV)
