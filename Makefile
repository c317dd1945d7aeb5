# build, demo, reproduce, test, bench and fuzz need Go and make alone. The other
# targets compile their tools into .tools/ on first use, at the versions below.

GO      ?= go
TOOLS   := $(CURDIR)/.tools
VERSION ?= $(shell sed -n 's/^VERSION = "\(.*\)"$$/\1/p' clients/python/hindsight/_version.py)
# FUZZTIME is the time of one fuzz target, BENCH selects benchmarks, ARGS is
# passed on.
FUZZTIME ?= 10s
BENCH    ?= .
ARGS     ?=

# Programs, tests and checks have the same flags, so the build cache holds each package once, and paths of
# directories are in none. Without grpcnotrace, gRPC's traces make the linker keep every exported method: 9 MB.
# The linker strips the debugging information (DWARF); to write it takes a fifth of a first build's processor time.
BUILD_FLAGS := -trimpath -tags=grpcnotrace -gcflags=all=-dwarf=false
export GOFLAGS := $(strip $(filter-out $(BUILD_FLAGS),$(shell $(GO) env GOFLAGS)) $(BUILD_FLAGS))

GOLANGCI_LINT_VERSION      := v2.15.0
BUF_VERSION                := v1.57.2
PROTOC_GEN_GO_VERSION      := v1.36.12
PROTOC_GEN_GO_GRPC_VERSION := v1.6.2
GRPC_GATEWAY_VERSION       := v2.32.0
GOVULNCHECK_VERSION        := v1.8.0
NFPM_VERSION               := v2.45.0
CYCLONEDX_GOMOD_VERSION    := v1.9.0
GORELEASER_VERSION         := v2.15.1
BENCHSTAT_VERSION          := v0.0.0-20260908200009-22c9c6c9d4da

# The name of a stamp has the version, so a new version is installed.
GOLANGCI_LINT      := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION).stamp
BUF                := $(TOOLS)/buf-$(BUF_VERSION).stamp
PROTOC_GEN_GO      := $(TOOLS)/protoc-gen-go-$(PROTOC_GEN_GO_VERSION).stamp
PROTOC_GEN_GO_GRPC := $(TOOLS)/protoc-gen-go-grpc-$(PROTOC_GEN_GO_GRPC_VERSION).stamp
PROTOC_GEN_OPENAPI := $(TOOLS)/protoc-gen-openapiv3-$(GRPC_GATEWAY_VERSION).stamp
GOVULNCHECK        := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION).stamp
NFPM               := $(TOOLS)/nfpm-$(NFPM_VERSION).stamp
CYCLONEDX_GOMOD    := $(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_GOMOD_VERSION).stamp
GORELEASER         := $(TOOLS)/goreleaser-$(GORELEASER_VERSION).stamp
BENCHSTAT          := $(TOOLS)/benchstat-$(BENCHSTAT_VERSION).stamp
PROTOC_PLUGINS     := $(PROTOC_GEN_GO) $(PROTOC_GEN_GO_GRPC) $(PROTOC_GEN_OPENAPI)

# buf looks for its plugins on the path.
BUF_RUN := PATH="$(TOOLS):$$PATH" $(TOOLS)/buf

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: programs bin/hindsight-bench ## build bin/hindsight-server, bin/hindsight and bin/hindsight-bench, static

.PHONY: programs
programs: ## build bin/hindsight-server and bin/hindsight alone
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/hindsight-server ./cmd/server
	CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/hindsight ./cmd/client

.PHONY: demo
demo: programs ## start a server, stream a changing environment, show skill and regret
	bin/hindsight demo --server bin/hindsight-server $(ARGS)

.PHONY: cluster
cluster: programs ## start three servers as one cluster, stream through it, kill its owner, report what it cost
	bin/hindsight demo --server bin/hindsight-server --servers 3 $(ARGS)

# SERVERS is the number of servers of the torture. Several are a cluster, for an hour.
SERVERS ?= 1

.PHONY: torture
torture: ## crashes and damage of the store, often; kill a server under load for a minute, and check the data it leaves; SERVERS=3: a cluster, all faults, an hour; SERVERS=5 ARGS='-torture-groups 4': of groups
ifeq ($(SERVERS),1)
	$(GO) test -count 1 -timeout 30m ./internal/store -long
	$(GO) test -run 'TestTorture$$' -count 1 -v -timeout 10m ./cmd/server -torture 60s $(ARGS)
else
	$(GO) test -run TestPowerCuts -count 1 -v -timeout 3h ./internal/cluster -power-cuts 5000 -power-runs 8 -storm-rounds 60
	$(GO) test -run TestTortureCluster -count 1 -v -timeout 3h ./cmd/server -torture 1h -torture-servers $(SERVERS) $(ARGS)
endif

.PHONY: reproduce
reproduce: build bin/hindsight-research ## published streams through every learner, as records too, and the greedy adversary, into research/results
	bin/hindsight-research papers --server bin/hindsight-server $(ARGS)
	bin/hindsight-research records --server bin/hindsight-server
	bin/hindsight-research adversary

.PHONY: compare
compare: bin/hindsight-research ## published streams through the papers' methods and through retrained trees, into research/results
	bin/hindsight-research papers baselines $(ARGS)
	python3 research/peers/peers.py $(ARGS)
	python3 research/peers/keys.py --program bin/hindsight $(ARGS)

.PHONY: bin/hindsight-bench bin/hindsight-research
bin/hindsight-bench:
	CGO_ENABLED=0 $(GO) -C research build -ldflags '-s -w' -o ../$@ ./bench

bin/hindsight-research:
	CGO_ENABLED=0 $(GO) -C research build -o ../$@ .

.PHONY: performance
performance: build bin/hindsight-research ## calls, kernels and learners beside what the machine could do, into research/results
	bin/hindsight-research performance --server bin/hindsight-server $(ARGS)

.PHONY: sizing
sizing: build bin/hindsight-research ## what models cost a server, beside what "hindsight-research size" answers, into research/results
	bin/hindsight-research sizing --server bin/hindsight-server $(ARGS)

.PHONY: lines
lines: ## count the hand-written lines of Go: of the product, and of its tests
	@echo "product $$(git ls-files '*.go' | grep -vE '^research/|_test\.go$$|/(model|store)test/' | xargs grep -L '^// Code generated' | xargs cat | wc -l)"
	@echo "tests   $$(git ls-files '*_test.go' | grep -v '^research/' | xargs cat | wc -l)"

.PHONY: compile
compile: ## compile every package and its tests into the build cache, and link nothing
	@CGO_ENABLED=0 $(GO) list -export -test -f '{{with .Error}}{{.}}{{end}}' ./...
	@CGO_ENABLED=0 $(GO) -C research list -export -test -f '{{with .Error}}{{.}}{{end}}' ./...

# A test that takes minutes, or that needs another program, asks for HINDSIGHT_E2E and skips without it.

# The race detector finds something only where two goroutines run: in a package that starts a goroutine,
# takes a lock, or is a server or its client. A test that is parallel to save time shares nothing. The tests
# of cmd and cmd/server run programs that are compiled without the detector. A learner starts no goroutine:
# of the tests of conformity, those of predictions and of stats call it concurrently.
LEARNERS      := $(addprefix ./internal/model/,auto awv classifier gate kons raker scaling)
CONCURRENT    := ^[[:space:]]*(defer )?go [a-zA-Z_(]|^[[:space:]]*"sync(/atomic)?"$$|x/sync/|\.Go\(|AfterFunc|"net/http|"google\.golang\.org/grpc"
RACE_PACKAGES  = $(filter-out ./cmd ./cmd/server ./internal/model/%,$(shell grep -rlE '$(CONCURRENT)' --include='*.go' --exclude='*_test.go' client cmd internal | sed 's,/[^/]*$$,,; s,^,./,' | sort -u))

# A busy machine takes longer for a package than the ten minutes that go test allows.
TEST_TIMEOUT := -timeout 30m

# run prints a command of a recipe and runs it. If it fails, the recipe goes on, and fails at its end.
run = echo '$(1)'; $(1) || status=1

# A package that waits leaves its processor to another one. The last -p of a command counts.
# So do tests that wait for elections and disks; the long forms keep the processors busy.
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN)
PARALLEL   := -p $(shell echo $$(($(PROCESSORS) + 1))) $(if $(HINDSIGHT_E2E),,-parallel $(shell echo $$(($(PROCESSORS) * 2))))

# The packages that take longest, longest first, so that no processor waits for one of them at the end.
LONGEST := ./web ./cmd/server ./clients ./internal/cluster ./internal/store ./cmd ./internal/model/catalog

# Packages that run the server program share one. It is linked again only when it changes.
.PHONY: test
test: export CGO_ENABLED := 0
test: export HINDSIGHT_TEST_SERVER := $(CURDIR)/bin/test/hindsight-server
test: $(if $(HINDSIGHT_E2E),$(NFPM)) ## test every package, without C and the race detector
	@$(GO) build -o $(HINDSIGHT_TEST_SERVER) ./cmd/server
	@status=0; $(call run,$(GO) test $(PARALLEL) $(TEST_TIMEOUT) $(LONGEST) ./... $(ARGS)); $(call run,$(GO) -C research test $(PARALLEL) $(TEST_TIMEOUT) ./... $(ARGS)); exit $$status

.PHONY: test-race
test-race: export CGO_ENABLED := 1
test-race: ## test the packages with goroutines with the race detector; it needs a C compiler
	@printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | $$($(GO) env CC) -x c -o /dev/null - || \
	{ echo 'test-race: no working C compiler; install gcc and libc6-dev'; exit 1; }
	@status=0; $(call run,$(GO) test $(TEST_TIMEOUT) -race -vet=off -short $(RACE_PACKAGES) $(ARGS)); \
	$(call run,$(GO) test $(TEST_TIMEOUT) -race -vet=off -short -run "Conform/./(pure|stats|learner)/(pure|stats)" $(LEARNERS) $(ARGS)); exit $$status

.PHONY: test-e2e
test-e2e: ## run make test with the long forms of tests, and those with a browser, Prometheus, Python, packages, documents
	HINDSIGHT_E2E=1 $(MAKE) test ARGS='-p 2 $(ARGS)'

.PHONY: test-slow
test-slow: ## test every package and list the slowest ten tests
	@$(GO) test -json ./... $(ARGS) | awk -f .ci/slow.awk | sort -rn | head

.PHONY: bench
bench: ## run the benchmarks (BENCH=regexp)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./... $(ARGS)

# BASE is the commit to compare with, COUNT the number of rounds. Every round runs the benchmarks of
# both, every other round in the other order, so that drift of the machine falls on both.
BASE     ?= HEAD
COUNT    ?= 10
PACKAGES ?= ./internal/model/qr

.PHONY: bench-compare
bench-compare: $(BENCHSTAT) ## run the benchmarks of PACKAGES at BASE=ref and here in turns, COUNT times each, compare (BENCH=regexp)
	@dir=$$(mktemp -d) || exit 1; \
	trap 'git worktree remove --force "$$dir/tree"; rm -rf "$$dir"' EXIT; trap 'exit 1' INT TERM; \
	git worktree add --quiet --detach "$$dir/tree" '$(BASE)' || exit 1; \
	for package in $(PACKAGES); do \
		(cd "$$dir/tree" && $(GO) test -c -o "$$dir/base.test" "$$package") && $(GO) test -c -o "$$dir/here.test" "$$package" || exit 1; \
		order='base here'; \
		for round in $$(seq $(COUNT)); do \
			for side in $$order; do \
				if [ $$side = base ]; then tree="$$dir/tree"; else tree=.; fi; \
				(cd "$$tree/$$package" && "$$dir/$$side.test" -test.run '^$$' -test.bench '$(BENCH)' -test.benchmem $(ARGS)) >>"$$dir/$$side.txt" || \
				{ cat "$$dir/$$side.txt"; exit 1; }; \
			done; \
			order="$${order#* } $${order% *}"; \
		done; \
	done; \
	$(TOOLS)/benchstat base="$$dir/base.txt" here="$$dir/here.txt"

.PHONY: fuzz
fuzz: ## run every fuzz target for a short time (FUZZTIME=10s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' client cmd internal | sort | \
	while IFS=: read -r file target; do \
		target=$${target#func }; \
		echo "fuzz $$target in ./$${file%/*}"; \
		$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "./$${file%/*}" </dev/null || exit 1; \
	done

.PHONY: check
check: lint proto-check proto-breaking tidy-check web-check vuln ## all checks that are not tests

.PHONY: tidy-check
tidy-check: ## check go.mod and go.sum
	@$(GO) mod tidy -diff && $(GO) -C research mod tidy -diff || \
	{ echo 'tidy-check: go.mod or go.sum are not tidy; run: go mod tidy'; exit 1; }

.PHONY: lint
lint: $(GOLANGCI_LINT) ## golangci-lint
	$(TOOLS)/golangci-lint run ./...
	cd research && $(TOOLS)/golangci-lint run --config ../.golangci.yml ./...

# A scan of the modules alone takes a second. It tells whether the database answers before
# the scan of all packages begins.
.PHONY: vuln
vuln: $(GOVULNCHECK) ## govulncheck: known vulnerabilities in what the programs call
	@said=$$($(TOOLS)/govulncheck -scan module -C web 2>&1); \
	case "$$said" in \
	*'fetching vulnerabilities:'*) echo "vuln: the database of vulnerabilities does not answer, nothing checked: $${said##*fetching vulnerabilities: }";; \
	*) $(TOOLS)/govulncheck ./...;; \
	esac

.PHONY: fmt
fmt: $(GOLANGCI_LINT) $(BUF) ## format Go and proto files in place
	$(TOOLS)/golangci-lint fmt ./... ./research/...
	$(BUF_RUN) format -w

.PHONY: proto
proto: $(BUF) $(PROTOC_PLUGINS) ## lint the proto files and generate what belongs to them
	$(BUF_RUN) lint
	$(BUF_RUN) generate
	$(GO) run ./api/openapi/finish .tools/openapi api/openapi
	gzip -9nc api/openapi/openapi.json >api/openapi/openapi.json.gz

.PHONY: proto-check
proto-check: $(BUF) $(PROTOC_PLUGINS) ## check that what is generated belongs to the proto files
	$(BUF_RUN) lint
	@new=$$(mktemp -d) || exit 1; trap 'rm -rf "$$new"' EXIT; \
	$(BUF_RUN) generate -o "$$new" || exit 1; \
	$(GO) run ./api/openapi/finish "$$new/.tools/openapi" "$$new" || exit 1; \
	{ diff -ru --exclude='*.proto' api/proto "$$new/api/proto" && \
	diff -u api/openapi/openapi.json "$$new/openapi.json" && \
	gzip -dc api/openapi/openapi.json.gz | diff -u - "$$new/openapi.json"; } || \
	{ echo 'proto-check: what is generated does not belong to the proto files; run: make proto'; exit 1; }

# The baseline is a file, so that a clone of any depth has it.
.PHONY: proto-breaking
proto-breaking: $(BUF) ## check that the API breaks no client of the last release
	@$(BUF_RUN) breaking --against api/baseline.binpb || \
	{ echo 'proto-breaking: this breaks clients of the last release; CONTRIBUTING.md says when that may be'; exit 1; }

.PHONY: proto-baseline
proto-baseline: $(BUF) ## at a release: what the API must not break from now on
	$(BUF_RUN) build --exclude-source-info -o api/baseline.binpb

# The Python that has grpcio: python3, or Debian's where python3 is another one.
PYTHON ?= $(shell for p in python3 /usr/bin/python3; do "$$p" -c 'import grpc' >/dev/null 2>&1 && { echo "$$p"; break; }; done)

.PHONY: python-proto
python-proto: ## generate the stubs of clients/python (Debian's protobuf-compiler, -grpc and libprotobuf-dev)
	@case "$$(protoc --version)" in 'libprotoc 3.21.'*) ;; *) echo 'python-proto: protoc 3.21 is not installed'; exit 1;; esac
	PYTHON="$(PYTHON)" clients/python/tools/generate.sh clients/python

.PHONY: test-python
test-python: build ## test the Python client against bin/hindsight-server
	@if [ -z "$(PYTHON)" ]; then echo 'test-python: no Python with grpcio, nothing tested; install python3-grpcio'; else \
		cd clients/python && HINDSIGHT_SERVER="$(CURDIR)/bin/hindsight-server" "$(PYTHON)" -m unittest discover -t . -s tests $(ARGS); fi

.PHONY: notebook
notebook: programs ## store in examples/notebook.ipynb what its cells show (Debian's python3-sklearn, -pandas, -matplotlib)
	cd clients/python && HINDSIGHT_NOTEBOOK=notebook.ipynb HINDSIGHT_SERVER="$(CURDIR)/bin/hindsight-server" "$(PYTHON)" -m unittest tests.test_notebook.NotebookTest.test_cells

# WHEELS are the platforms, all five by default.
WHEELS ?=
.PHONY: wheel
wheel: ## build the Python package with the server inside for WHEELS, such as linux/amd64, into bin/wheels (Debian's python3-setuptools, -wheel)
	@if [ -z "$(PYTHON)" ]; then echo 'wheel: no Python with grpcio; install python3-grpcio, python3-setuptools and python3-wheel'; exit 1; fi
	GO='$(GO)' "$(PYTHON)" clients/python/tools/wheels.py bin/wheels '$(VERSION)' $(WHEELS)

.PHONY: web
web: web/node_modules ## build the console into web/dist
	cd web && npm run build

.PHONY: web-check
web-check: ## check that web/dist belongs to the console's source, if npm is installed
	@if ! command -v npm >/dev/null 2>&1; then \
		echo 'web-check: npm is not installed, nothing checked'; \
	else \
		$(MAKE) --no-print-directory web/node_modules && cd web && npm run --silent types && npx tsc --noEmit || exit 1; \
		new=$$(mktemp -d) || exit 1; trap 'rm -rf "$$new"' EXIT; \
		npx vite build --logLevel warn --emptyOutDir --outDir "$$new" || exit 1; \
		diff -r dist "$$new" || { echo 'web-check: web/dist does not belong to its source; run: make web'; exit 1; }; \
	fi

# npm ci installs what the lock file names, and checks its hashes.
web/node_modules: web/package-lock.json
	cd web && npm ci
	@touch $@

.PHONY: reference
reference: ## write docs/reference anew from the code
	$(GO) test -count 1 -run 'Reference$$' ./docs ./internal/rpc ./cmd/server ./cmd/server/internal/config ./cmd/client/internal/cli -update

.PHONY: docker-lint
docker-lint: ## hadolint, if it is installed
	@if command -v hadolint >/dev/null 2>&1; then hadolint Dockerfile; \
	else echo 'docker-lint: hadolint is not installed, nothing checked'; fi

# The files that name images of registries, but for those of Kubernetes.
IMAGE_FILES := Dockerfile deploy/compose.yaml

.PHONY: docker-pin
docker-pin: ## write the digests of the images of the Dockerfile and of compose behind their tags
	deploy/image/pin.sh $(IMAGE_FILES)

# PLATFORMS and ARGS are passed on: ARGS=--push, or ARGS=--load for one platform.
PLATFORMS ?= linux/amd64,linux/arm64
IMAGE     ?= hindsight:$(VERSION)

.PHONY: docker
docker: ## build the image for PLATFORMS by docker buildx, with its SBOM and provenance
	docker buildx build --platform $(PLATFORMS) --sbom=true --provenance=mode=max \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) -t $(IMAGE) $(ARGS) .

.PHONY: docker-replay
docker-replay: ## run the build of the Dockerfile without docker, on the files that it copies
	$(GO) test -run TestImage -count 1 -v ./cmd -image

PACKAGE_ARCHES ?= amd64 arm64

.PHONY: packages
packages: $(NFPM) ## build the deb and the rpm for PACKAGE_ARCHES into bin/packages
	GO='$(GO)' NFPM='$(TOOLS)/nfpm' VERSION='$(VERSION)' deploy/package/build.sh bin/packages $(PACKAGE_ARCHES)

.PHONY: sbom
sbom: build $(CYCLONEDX_GOMOD) ## write what the programs are built from into bin/sbom, as CycloneDX
	@mkdir -p bin/sbom
	for program in hindsight-server hindsight; do \
		$(TOOLS)/cyclonedx-gomod bin -json -std -version '$(VERSION)' -output bin/sbom/$$program.cdx.json bin/$$program || exit 1; \
	done

.PHONY: deploy-check
deploy-check: $(NFPM) ## check compose and Kubernetes by their own types, and try the packages
	cd deploy/tools && $(GO) test ./...
	HINDSIGHT_E2E=1 $(GO) test -run TestPackage ./cmd

.PHONY: release-check
release-check: $(GORELEASER) ## check .goreleaser.yaml; the tool takes long to compile
	$(TOOLS)/goreleaser check

.PHONY: clean
clean: ## remove bin and the tools
	rm -rf bin .tools

$(GOLANGCI_LINT): PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
$(BENCHSTAT): PACKAGE := golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)
$(GOVULNCHECK): PACKAGE := golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
$(BUF): PACKAGE := github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)
$(PROTOC_GEN_GO): PACKAGE := google.golang.org/protobuf/cmd/protoc-gen-go@$(PROTOC_GEN_GO_VERSION)
$(PROTOC_GEN_OPENAPI): PACKAGE := github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv3@$(GRPC_GATEWAY_VERSION)
$(CYCLONEDX_GOMOD): PACKAGE := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_GOMOD_VERSION)
$(NFPM): PACKAGE := github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
$(GORELEASER): PACKAGE := github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
$(PROTOC_GEN_GO_GRPC): PACKAGE := google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PROTOC_GEN_GO_GRPC_VERSION)

$(TOOLS)/%.stamp:
	GOBIN=$(TOOLS) $(GO) install $(PACKAGE)
	@touch $@
