# Two commands do everything: `make demo` (the main job, on virtual Sparks) and `make test`.
SHELL := /bin/bash
TOPOLOGY ?= mesh
NODES ?=

.PHONY: help setup demo test test-all unit lint docs sanity lab-up lab-down bench clean
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## Install what the lab and the tests need (Debian or Ubuntu packages, a virtual environment)
	@tests/setup lab tools

demo: ## Boot a mesh of three virtual Sparks, provision and validate it, write a report
	@tests/demo

test: ## Everything a change must pass (fixed list, at most 45 minutes on two cores)
	@tests/run unit newest lint docs sanity playbooks scenarios lab

test-all: ## All of make test, every Molecule scenario, and the long tests
	@tests/run unit newest lint docs sanity playbooks all-scenarios lab package pythons long bench

unit: ## Unit tests alone
	@tests/run unit

lint: ## ansible-lint, production profile
	@tests/run lint

docs: ## Lint documentation and changelog
	@tests/run docs

sanity: ## ansible-test sanity and units
	@tests/run sanity

bench: ## Print the budgets and what was measured, on the lab
	@tests/run bench

lab-up: ## Boot a lab (TOPOLOGY=pair|mesh|ring|switch NODES=n)
	@tests/setup lab && tests/lab/lab up --topology $(TOPOLOGY) $(if $(NODES),--nodes $(NODES))

lab-down: ## Stop the lab
	@tests/lab/lab down

clean: ## Remove what was built here: lab, virtual environment, reports
	@-tests/lab/lab down
	rm -rf .lab .venv .venv-newest .ansible .cache build reports inventories/lab
