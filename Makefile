# What one does with this repository. Everything here works with Go, a C
# compiler (for the race detector) and git; nothing else has to be installed.

GO        ?= go
BIN       ?= bin/belay
PKGS      ?= ./...
# Two test processes at a time: the packages that start real processes and
# databases have stated deadlines, which a crowded machine would break.
TESTFLAGS ?= -race -shuffle=on -timeout 20m -p 2
# `make bench BENCH=Append` runs the benchmarks whose name matches.
BENCH     ?= .
BENCHTIME ?= 1s
BENCHPKGS ?= $(shell grep -rl --include='*_test.go' '^func Benchmark' cmd internal | xargs -r -n1 dirname | sort -u | sed 's|^|./|')
GAUNTLET_OUT ?= bin/gauntlet
TOOL      := $(GO) tool -modfile=tools/go.mod

.DEFAULT_GOAL := build
.PHONY: build symbols test torture sizes gauntlet bench bench-context lint format generate demo

## build: the program, at bin/belay; without the debugger's tables, which are a third of it (a panic's trace needs none of them)
build:
	$(GO) build -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/belay

## symbols: the program that reads the symbols of eight languages beside Go, at bin/belay-symbols, where belay finds it. It needs a C compiler and a minute
symbols:
	cd symbols && CGO_ENABLED=1 $(GO) build -trimpath -ldflags '-s -w' -o $(abspath $(dir $(BIN)))/belay-symbols .

## test: every test, race detector on
test:
	$(GO) test $(TESTFLAGS) $(PKGS)

## torture: kill the program at every failpoint and at random instants, 5,000 times on SQLite and 1,000 on PostgreSQL (TORTURE_DB=sqlite|postgres, TORTURE_KILLS=N, TORTURE_SEED=N)
torture:
	$(GO) run ./internal/torture

## sizes: 64 workers and 1,000 goals on one PostgreSQL, with kills; every claim checked off the ledger
sizes:
	BELAY_SIZES=1 $(GO) test -count=1 -v -timeout 40m -run TestManyWorkersAndGoals ./cmd/belay

## gauntlet: the ways in which agents go wrong, played against this belay (GAUNTLET_OUT=DIR keeps the page)
gauntlet: build
	$(BIN) eval run evals/gauntlet --out $(GAUNTLET_OUT)

## bench: every benchmark, one package at a time so that none disturbs another
bench:
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -p 1 $(BENCHPKGS)

## bench-context: long runs over real repositories, and what their working view costs and holds (docs/view.md)
bench-context: build
	$(GO) run ./internal/viewbench -belay $(BIN)

## lint: format, vet, staticcheck, and the shape of the code
lint:
	@files=$$(find . -name '*.go' -not -path '*/testdata/*' -print0 | xargs -0 gofmt -l) || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted (make format):"; echo "$$files"; exit 1; fi
	$(GO) vet $(PKGS)
	$(TOOL) staticcheck $(PKGS)
	$(GO) test ./internal/archtest

## format: rewrite the Go files as gofmt has them
format:
	find . -name '*.go' -not -path '*/testdata/*' -print0 | xargs -0 gofmt -w

## generate: rewrite what is written from the code (docs/events.md, docs/openapi.json)
generate:
	$(GO) generate $(PKGS)

## demo: a small bug fixed under the ledger; no key, no network
demo:
	$(GO) run ./cmd/belay demo
