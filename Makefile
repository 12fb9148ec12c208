# `make demo` and `make test` do all of their own set-up; see README.md.
SHELL := /bin/sh
RELEASE ?= 20

.PHONY: check

check:
	@venv=$$(qa/venv.sh) && \
	"$$venv/bin/ruff" check . && \
	"$$venv/bin/mypy" && \
	"$$venv/bin/python" -m pytest
