# What a person types. Each target makes .venv first where it is missing or stale (.ci/environment).
# PYTHON=/path/to/python picks the interpreter; otherwise the first Python >= 3.11 on PATH is taken.
.PHONY: demo ui test test-full lint clean
BIN := .venv/bin
DAGSTER_HOME ?= $(CURDIR)
export PYTHON
unexport PYTHONDONTWRITEBYTECODE

demo:
	@.ci/environment demo
	@$(BIN)/relgrade demo

ui:
	@.ci/environment demo
	@mkdir -p .relgrade/dagster
	@DAGSTER_HOME="$(DAGSTER_HOME)" $(BIN)/dagster dev

lint:
	@.ci/environment test
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/pytest -n 2 --dist loadscope

test-full: lint
	RELGRADE_FULL=1 $(BIN)/pytest -n 2 --dist loadscope

# State stays: .relgrade holds what people answered.
clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find relgrade_assets relgrade_tests -name __pycache__ -type d -prune -exec rm -rf {} +
