# Every target does its own set-up: on a fresh machine any of them may be the first. `make help` explains them.

GO ?= go
# Pinned, so that a new release does not turn a green tree red.
GOLANGCI_LINT = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
# Starts one set of servers, runs a command on them, and ends them.
SERVE = $(GO) run ./internal/testenv/serve --
TEST_TIMEOUT ?= 15m
FUZZ_TIME ?= 20s

.DEFAULT_GOAL := help
.PHONY: help deps build test race lint fmt demo drill matrix bench fuzz clean

help: ## explains the targets (the default)
	@echo 'usage: make TARGET'
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## finds or fetches the servers that the lab and the tests start, and names each; may be run again at any time
	@$(GO) run ./internal/lab/deps

build: ## builds bin/idemctl
	$(GO) build -trimpath -o bin/idemctl ./cmd/idemctl

test: deps ## runs all tests on MariaDB, MySQL, Redis, an embedded Kafka and Apache Kafka, started for the run
	$(SERVE) $(GO) test -timeout $(TEST_TIMEOUT) ./...

race: deps ## the same under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(SERVE) $(GO) test -race -timeout $(TEST_TIMEOUT) ./...

lint: ## checks formatting, vets, runs the pinned golangci-lint, and checks that go.mod is tidy
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(GOLANGCI_LINT) run
	$(GO) mod tidy -diff

fmt: ## formats the code
	gofmt -w .

demo: deps build ## replays the incident on throw-away servers and shows that no coupon is granted twice
	bin/idemctl demo

drill: deps build ## sends orders and faults through the guard and the designs it replaces, and fails if the guard loses or repeats one
	bin/idemctl drill --orders 200

matrix: ## runs the conformance suites on every server version that is promised, and prints the table of docs/compatibility.md
	@$(GO) run ./internal/lab/deps --all
	@$(GO) run ./internal/testenv/matrix

bench: deps ## measures idemctl against rivals on the same servers, and prints a BENCH line each; BENCH='-run NAME,…' limits it
	@for need in kcat:kcat pt-archiver:percona-toolkit; do \
	  command -v $${need%%:*} >/dev/null && continue; \
	  echo "bench: installing the package $${need#*:}"; \
	  if [ "$$(id -u)" = 0 ]; then become=; else become='sudo -n'; fi; \
	  command -v apt-get >/dev/null && $$become apt-get update -qq && \
	    $$become env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $${need#*:} >/dev/null || \
	    echo "bench: $${need%%:*} could not be had; the lines that need it are left out"; \
	done
	@$(GO) run ./internal/bench $(BENCH)

fuzz: ## runs every fuzz test for FUZZ_TIME (20s)
	@set -e; for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZ_TIME) $$pkg; \
	  done; \
	done

clean: ## removes what was built; the servers in the cache stay
	rm -rf bin dist
	find . -name '*.test' -type f -delete
