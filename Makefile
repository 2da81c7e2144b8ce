# coatcheck: `make help` says what there is.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

.DEFAULT_GOAL := help
.PHONY: help run test build ext lint fmt bench chaos chaos-cluster test-matrix docker-test clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Install what is missing, build, and serve the demo on http://127.0.0.1:8131
	tools/install.sh build run
	$(MAKE) build ext
	tools/run.sh

test: ## Install what is missing, build, and run every suite (10 to 25 minutes on two cores)
	tools/install.sh build run test
	$(MAKE) build ext
	tools/test.sh

build: ## Build the daemon: bin/coatcheck, one static file
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags '-s -w -X main.version=$(VERSION)' -o bin/coatcheck ./sidecar/cmd/coatcheck

ext: ## Build the PHP extension: phpext-shim/modules/coatcheck.so
	phpext-shim/build.sh

lint: ## Run golangci-lint and every other static check (the first run builds the linter: 8 minutes)
	tools/static.sh
	$(GO) tool -modfile=tools/go.mod golangci-lint run

fmt: ## Format the Go and C sources and the shell scripts
	tools/fmt.sh

bench: ## Measure against phpredis, Redis, memcached and files, and print ratios (20 minutes)
	tools/install.sh build run bench
	$(MAKE) build ext
	tests/bench/run.sh
	tests/bench/kv.sh
	tests/bench/memory.sh

chaos: ## Kill the daemon 200 times, and strike PHP 5,000 times; nothing acknowledged may be lost (4 minutes)
	CRASH_ROUNDS=200 $(GO) test -count=1 -timeout 30m -v -run NothingAcknowledged ./tests/crash
	CHAOS_ROUNDS=5000 $(GO) test -count=1 -timeout 30m -v -run ChaosOfPHPProcesses ./tests/e2e

chaos-cluster: ## Kill, stop, cut off and slow down hosts of real clusters, with all that they saw judged; CLUSTER_SEED repeats a run (needs root; 20 minutes)
	CLUSTER_LONG=1 $(GO) test -count=1 -timeout 60m -v ./tests/cluster

test-matrix: ## Repeat the package suites on PHP 8.4 with newer Laravel, Symfony and PHPUnit, in debootstrap roots (needs root; 30 minutes)
	tools/matrix/run.sh

docker-test: ## Build the images from a base of our own, run compose, check 20 of 20 (needs root)
	COATCHECK_DOCKER_TEST=1 docker/test.sh

clean: ## Remove what the other targets made (files that git ignores)
	git clean -fdXq -- bin run tests phpext-shim
