# `make demo` and `make test` do all of their own set-up; see README.md.
SHELL := /bin/sh
RELEASE ?= 20

.PHONY: check test test-cluster test-releases

check:
	@venv=$$(qa/venv.sh) && \
	"$$venv/bin/ruff" check . && \
	"$$venv/bin/mypy" && \
	"$$venv/bin/python" -m pytest

# The real-cluster tests on one release: make test-cluster RELEASE=18
test-cluster:
	RELEASE=$(RELEASE) "$$(qa/venv.sh)/bin/python" -m pytest -m cluster vstart-tests

test-releases:
	$(MAKE) test-cluster RELEASE=16
	$(MAKE) test-cluster RELEASE=18
	$(MAKE) test-cluster RELEASE=20

test: check test-releases
