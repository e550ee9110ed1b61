# quark's artefacts and test runs; make help lists them. Plain Go work stays plain: go build ./...

SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := build

GO     ?= go
# Not overridden by the environment's: a GOARCH on the command line is the guest's, not that of the
# tools run here.
HOSTGO  = GOOS= GOARCH= $(GO)
# Root, who installs what was made before, often has no Go; then it is the machine's.
MACHINE := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
GOARCH := $(or $(GOARCH),$(shell $(GO) env GOARCH 2>/dev/null),$(MACHINE))
OUT    := build/$(GOARCH)
GOHOSTARCH := $(or $(GOHOSTARCH),$(shell $(GO) env GOHOSTARCH 2>/dev/null),$(MACHINE))
HOSTBIN := build/$(GOHOSTARCH)
export CGO_ENABLED := 0
# Binaries must not depend on the path or the commit: results of guests are kept for the same ones.
GOBUILD = GOOS=linux GOARCH=$(GOARCH) $(GO) build -buildvcs=false -trimpath -ldflags '-s -w'
COMMANDS := $(notdir $(patsubst %/,%,$(wildcard cmd/*/)))
# export is a module of its own: who imports quark does not get what the exporters depend on.
MODULES := . export
# The tools that tools/go.mod pins.
TOOL = $(HOSTGO) tool -modfile=$(abspath tools/go.mod)
SUBMAKE = $(MAKE) --no-print-directory

ifeq ($(V),1)
Q :=
else
Q := @
endif

# What runs in guests: KERNELS="NAME..." are kernels of the catalogue or kernel_images/local/,
# without the architecture, which ARCHES="amd64 arm64" chooses; patterns too; by default those that
# the catalogue marks. BACKENDS="b k c" and TESTS="NAME..." select as well. PKG="./DIR..." are the
# packages whose Go tests run, PKG= for none; TESTS selects them as PACKAGE.TEST.
ARCHES ?= $(GOARCH)
KERNELS ?=
BACKENDS ?=
TESTS ?=
PKG ?= ./backends/ebpf ./backends/kprobe ./backends/cnproc ./backends/features ./exitsnoop ./fidelity/fuzz .
# KNOBS="NAME=VALUE..." are variables of the tests, APPEND="audit=1" further words of the kernel's
# command line, GUEST_JOBS=N guests at a time, FRESH=1 runs what is known from before, SHARD=I/N a
# part. STEP=prepare makes what guests need and boots none, STEP=run makes nothing: a machine of a
# cluster has what another one made.
KNOBS ?=
APPEND ?=
GUEST_JOBS ?=
FRESH ?=
SHARD ?=
STEP ?=
# BENCH and FUZZ are further options of the verbs of quark-fidelity.
BENCH ?=
FUZZ ?=
MATRIX := build/matrix

OTHER := $(if $(filter arm64,$(GOARCH)),amd64,arm64)
image_of_$(GOARCH) := initramfs.gz
image_of_$(OTHER) := initramfs-$(OTHER).gz
GUESTS = $(if $(filter run,$(STEP)),,.deps-guest kernel-images $(foreach a,$(ARCHES),$(image_of_$(a))) $(HOSTBIN)/quark-matrix)
# Words of a command line: each of the list as an operand of an option.
each = $(foreach word,$(2),$(1) '$(word)')
empty :=
prepared = $(if $(filter prepare,$(STEP)),exit 0;)
run_matrix = $(prepared) $(HOSTBIN)/quark-matrix run -o $(MATRIX) $(call each,--arch,$(ARCHES)) \
	$(foreach a,$(ARCHES),--initramfs $(a)=$(image_of_$(a))) $(call each,-b,$(BACKENDS)) $(call each,-t,$(TESTS)) $(call each,-e,$(KNOBS)) \
	$(if $(FRESH),--fresh) $(if $(SHARD),--shard $(SHARD)) $(if $(APPEND),--append '$(APPEND)') \
	$(if $(GUEST_JOBS),-j $(GUEST_JOBS)) $(call each,$(empty),$(KERNELS))
# The variables of a run on every kernel, with types hidden all tests, too.
EVERY = ARCHES='amd64 arm64' TESTS='$(or $(TESTS),*)' KERNELS='$(or $(KERNELS),* odd/*$(if $(wildcard kernel_images/local/*), local/*))'

.PHONY: build
build:
	$(Q)mkdir -p $(OUT)
	$(Q)$(GOBUILD) -o $(OUT)/ $(addprefix ./cmd/,$(COMMANDS)) ./initramfs/init
	$(Q)cd export && $(GOBUILD) -o $(abspath $(OUT))/ ./cmd/...

# The C library: lib/libquark.so.0 and libquark.a, include/quark.h, lib/pkgconfig/quark.pc. It needs
# cgo; for the other architecture the compiler of gcc-aarch64-linux-gnu or gcc-x86-64-linux-gnu.
.PHONY: bindings
BINDINGS := $(OUT)/libquark
bindings:
	$(Q)./.ci/deps cc $(if $(filter $(GOHOSTARCH),$(GOARCH)),,cross-$(GOARCH))
	$(Q)[ -n '$(NUMBER)' ]
	$(Q)GO=$(GO) GOARCH=$(GOARCH) QUARK_VERSION=$(NUMBER) bindings/c/build.sh $(BINDINGS)

.PHONY: .deps-guest kernel-images FORCE
.deps-guest:
	@./.ci/deps apt $(ARCHES)

kernel-images:
	$(Q)$(HOSTGO) run ./kernel_images $(call each,-arch,$(ARCHES)) $(call each,$(empty),$(KERNELS))

# initramfs.gz is the image of GOARCH, initramfs-ARCH.gz that of another architecture;
# initramfs-debug.gz has a shell.
initramfs%gz: FORCE
	$(Q)GO='$(GO)' GOARCH=$(GOARCH) FILES='$(FILES)' initramfs/build.sh $@

$(HOSTBIN)/quark-matrix: FORCE
	$(Q)GOOS= GOARCH= $(GO) build -buildvcs=false -trimpath -ldflags '-s -w' -o $@ ./cmd/quark-matrix

# -count=1: the tests depend on this kernel and on krun.sh, which Go's test cache does not know.
# ALSO: guests of make test run quark-test with the kernel's types only; make test-kernel runs it
# with hidden types, and Go tests, too.
ALSO ?= -j 2 --btf present
# The guests run beside the Go tests, which wait more than they compute. The packages that take
# longest begin first, so that the end waits for none. A process that a test leaves behind must not
# keep pipe 3 open: sum would wait for it.
LONGEST := ./fidelity ./backends/ebpf ./fidelity/fuzz . ./internal/harness/matrix ./cmd/quark-test
.PHONY: test test-all test-kernel test-kernel-all guest-test race test-exporters deps
test: deps build $(GUESTS)
	$(Q)for m in $(MODULES); do $(GO) vet -C $$m ./... || exit; done
	$(Q)$(prepared) rm -f $(MATRIX)/results.json; set -o pipefail; { { $(run_matrix) $(ALSO); } >&3 3>&- & \
	for m in $(MODULES); do PATH="$(abspath $(OUT)):$$PATH" $(HOSTGO) test -C $$m -count=1 -vet=off -json $$([ $$m != . ] || echo $(LONGEST)) ./...; done 3>&-; \
	wait $$!; } 3>&1 | $(HOSTBIN)/quark-matrix sum -o $(MATRIX)

# Tests that are too slow for make test say so where package thorough skips or shortens them.
test-all: export QUARK_TEST_ALL := 1
test-all:
	$(Q)$(SUBMAKE) test $(EVERY) ALSO='$(addprefix --packages ,$(PKG))'

# Each kernel runs as it is with all backends, and with its BTF hidden: quark's own types do.
test-kernel: $(GUESTS)
	$(Q)$(run_matrix) $(addprefix --packages ,$(PKG))

test-kernel-all:
	$(Q)$(SUBMAKE) test-kernel $(EVERY)

# Ordinary Go tests in guests: RUN is a regular expression, RACE=1 the race detector.
guest-test: $(GUESTS)
	$(Q)status=0; for k in $(or $(KERNELS),6.1-cloud); do echo "== $$k"; \
		GOOS=linux GOARCH=$(GOARCH) $(if $(RACE),CGO_ENABLED=1 )$(GO) test -count=1 -trimpath $(if $(V),-v) $(if $(RUN),-run '$(RUN)') \
			-ldflags '-s -w$(if $(RACE), -linkmode external -extldflags -static)' $(if $(RACE),-race -timeout 4h) \
			-exec "$(abspath $(HOSTBIN))/quark-matrix exec --arch $(GOARCH) --initramfs $(abspath $(image_of_$(GOARCH))) --kernel $$k $(if $(APPEND),--append '$(APPEND)') $(call each,-e,$(KNOBS))" $(PKG) || status=$$?; \
	done; exit $$status

# Close, Drain and Wake from everywhere, 1,000 times on each backend, as root; kprobe in a guest.
race: export QUARK_TRIES ?= 1000
race:
	@./.ci/deps cc
	$(Q)CGO_ENABLED=1 $(HOSTGO) test -race -count=1 -timeout 1h -run 'Close|Drain|Wake|Signal' . ./exitsnoop ./cmd/quark-mon
	$(Q)$(SUBMAKE) guest-test RACE=1 PKG=. RUN=TestCloseFromAnywhere/kprobe KNOBS=QUARK_TRIES=$(QUARK_TRIES)

# A real Prometheus.
test-exporters:
	@./.ci/deps exporters
	$(Q)$(HOSTGO) test -C export -count=1 -v -run 'Prom|Dashboard' ./prom

deps:
	@./.ci/deps apt $(ARCHES) cc test

# Measurements on this host and in guests. bench runs one guest at a time, as another would take its
# processor; only its ratios are worth something there, as guests' clocks tick slowly.
.PHONY: fidelity fidelity-matrix fuzz bench
fidelity: build
	$(Q)rm -f build/fidelity.jsonl
	$(Q)$(OUT)/quark-fidelity run -o build/fidelity.jsonl -p build/fidelity.html

fidelity-matrix: MATRIX := build/fidelity-matrix
fidelity-matrix: build $(GUESTS)
	$(Q)status=0; $(run_matrix) --deadline-test 60m --keep /tmp/fidelity.jsonl \
		--command 'quark-fidelity run -v --hold-time 1s -o /tmp/fidelity.jsonl' || status=$$?; \
	cat $(MATRIX)/guests/*/files/fidelity.jsonl >$(MATRIX).jsonl && $(OUT)/quark-fidelity report -p $(MATRIX).html $(MATRIX).jsonl && exit $$status

bench: MATRIX := build/bench
ifeq ($(KERNELS),)
bench: build
	$(Q)rm -f $(MATRIX).jsonl
	$(Q)$(OUT)/quark-fidelity bench -o $(MATRIX).jsonl -p $(MATRIX).html $(BENCH) >$(MATRIX).txt
	$(Q)cat $(MATRIX).txt
else
bench: build $(GUESTS)
	$(Q)status=0; $(run_matrix) -j 1 --deadline-test 50m --keep /tmp/bench.jsonl \
		--command 'quark-fidelity bench -n 3 --for 30m -o /tmp/bench.jsonl $(BENCH)' || status=$$?; \
	$(OUT)/quark-fidelity bench -p $(MATRIX).html $(MATRIX)/guests/*/files/bench.jsonl && exit $$status
endif

# A defect ends the run of its guest; the script that shows it again is among the guest's files.
fuzz: MATRIX := build/fuzz
fuzz: $(GUESTS)
	$(Q)$(run_matrix) --deadline-test 40m --keep '/tmp/fuzz-*.script' --command 'quark-fidelity fuzz --faults --for 15m -o /tmp $(FUZZ)'

# Checks, and what is generated and committed.
.PHONY: lint vulncheck apidiff bench-check generate docs btfhub
lint:
	$(Q)for m in $(MODULES); do (cd $$m && $(TOOL) golangci-lint run && $(HOSTGO) mod tidy -diff) || exit; done
	$(Q)$(HOSTGO) test ./internal/style

vulncheck:
	$(Q)for m in $(MODULES); do $(TOOL) govulncheck -C $$m ./... || exit; done

# The public packages, and the commit to compare them with.
API := . ./engine ./engine/container ./engine/enginetest ./engine/filter ./engine/glob ./engine/trace ./exitsnoop ./export ./export/ecs ./export/otlp ./export/prom
API_BASE = $(shell git describe --tags --abbrev=0 2>/dev/null)
apidiff:
	$(Q)TOOL='$(TOOL)' .ci/apidiff '$(API_BASE)' $(API)

bench-check:
	$(Q)./.ci/deps bench
	$(Q).ci/benchcheck '$(or $(BENCH_BASE),HEAD^)'

generate:
	$(Q)./.ci/deps generate
	$(Q)$(HOSTGO) generate ./...

# The manual pages, checked, and as HTML under docs/html.
docs:
	$(Q)./.ci/deps docs
	$(Q)mandoc -T lint -W warning docs/*.[378]
	$(Q)mkdir -p docs/html
	$(Q)for page in docs/*.[378]; do mandoc -T html -O man=%N.%S.html $$page >docs/html/$$(basename $$page).html || exit; done

# Kernels that the archive has already stay in it.
btfhub:
	$(Q)$(HOSTGO) run ./kernel_images '*'
	$(Q)$(HOSTGO) run ./btfhub/mkbtfhub kernel_images/{amd64,arm64}/* $(BTFHUB_ARCHIVE_PATH)

include packaging/build.mk

.PHONY: help clean
help:
	@echo 'build             the commands, into $(OUT)/ (GOARCH=arm64)'
	@echo 'install           the commands, pages, completions and unit, below PREFIX=/usr/local; make uninstall removes them'
	@echo 'install-library   libquark with its header and pages; make bindings builds it, make uninstall-library removes it'
	@echo 'deb rpm image     packages of this architecture and the container image, into build/dist; make library'
	@echo 'dist              all that a release has, for DIST_ARCHES="amd64 arm64"; make test-dist installs it (root)'
	@echo 'test              vet, quark-test in guests, the Go tests, among them (as root) quark-test'"'"'s'
	@echo 'test-kernel       quark-test in guests (KERNELS="6.1-cloud..." BACKENDS="b k c" TESTS="t_exit*"; FRESH=1)'
	@echo 'test-kernel-all   on every kernel of the catalogue, amd64 and arm64; make test-all: and make test'
	@echo 'guest-test        Go tests in guests (PKG=./backends/kprobe KERNELS=6.1-cloud RUN=REGEXP)'
	@echo 'race              the race detector on Close, Drain and Wake (root); test-exporters'
	@echo 'fidelity          what the backends report of known workloads (root); fidelity-matrix: in guests (KERNELS)'
	@echo 'fuzz              generated workloads in guests, with faults (FUZZ="-k --seed N")'
	@echo 'bench             what the backends and other monitors cost and see (root; KERNELS=... in guests, BENCH="-n 3")'
	@echo 'lint vulncheck    golangci-lint and go mod tidy; known vulnerabilities'
	@echo 'apidiff           what the interface lost since the last release (API_BASE=COMMIT)'
	@echo 'bench-check       fails if a cost is 10 % above that of BENCH_BASE=HEAD^ (root)'
	@echo 'generate docs     generated files; the manual pages, checked, as HTML'
	@echo 'btfhub            the archive of types: the catalogue'"'"'s kernels and BTFHUB_ARCHIVE_PATH'
	@echo 'kernel-images     the images of KERNELS; initramfs.gz, initramfs-debug.gz: of guests, with FILES="FILE..."'
	@echo 'deps clean        the Debian packages that tests need; remove what make made'

clean:
	$(Q)rm -rf build initramfs*.gz initramfs*.gz.new kernel_images/amd64 kernel_images/arm64
