# quark's artefacts and test runs. Plain Go work stays plain: go build ./..., go test ./...
#
# make V=1 shows the commands. GOARCH=arm64 builds for arm64.

SHELL := /bin/bash
.DELETE_ON_ERROR:

GO     ?= go
# Not overridden by the environment's: a GOARCH on the command line is the guest's, not that of the
# tools run here.
HOSTGO  = GOOS= GOARCH= $(GO)
# Root, who installs what was made before, often has no Go; then it is the machine's.
MACHINE := $(patsubst x86_64,amd64,$(patsubst aarch64,arm64,$(shell uname -m)))
GOARCH := $(or $(GOARCH),$(shell $(GO) env GOARCH 2>/dev/null),$(MACHINE))
OUT    := build/$(GOARCH)
STEPS  := build/test
GOHOSTARCH := $(or $(GOHOSTARCH),$(shell $(GO) env GOHOSTARCH 2>/dev/null),$(MACHINE))
HOSTBIN := build/$(GOHOSTARCH)

# What the archive holds depends on the binaries only, so they must not depend on the path or the
# commit.
export CGO_ENABLED := 0
GOBUILD = GOOS=linux GOARCH=$(GOARCH) $(GO) build -buildvcs=false -trimpath -ldflags '-s -w'

COMMANDS := $(notdir $(patsubst %/,%,$(wildcard cmd/*/)))
# All commands for guests are one binary in their image, under the name of each.
GUEST    := $(filter-out quark-matrix,$(COMMANDS))
# export is a module of its own: who imports quark does not get what the exporters depend on.
MODULES  := . export
GUESTDIRS = $(addprefix cmd/,$(GUEST)) initramfs/gotest
MULTI     = -multi $(OUT)/guest=$(subst $(SPACE),$(COMMA),$(notdir $(GUESTDIRS)))
COMMA := ,
SPACE := $() $()

# The architectures of the guests, and their images.
ARCHES ?= $(GOARCH)
OTHER := $(if $(filter arm64,$(GOARCH)),amd64,arm64)
image_of_$(GOARCH) := initramfs$(if $(MONITORS),-monitors).gz
image_of_$(OTHER) := initramfs$(if $(MONITORS),-monitors)-$(OTHER).gz
GUEST_IMAGES := $(foreach a,$(ARCHES),$(image_of_$(a)))

# KERNELS="NAME..." are kernels of the catalogue or kernel_images/local/, without the architecture,
# which ARCHES="arm64" chooses; patterns too; by default those that the catalogue marks.
# BACKENDS="b k c" and TESTS="NAME..." select as well, KNOBS="NAME=VALUE..." sets knobs, FRESH=1
# runs what is known from before, SHARD=I/N a part, GUEST_JOBS=N as many guests at a time instead of
# three for two CPUs. PKG="./DIR..." are the packages whose Go tests run in guests, PKG= for none;
# TESTS selects them as PACKAGE.TEST.
# STEP=prepare makes what test-kernel needs and boots no guest, STEP=run makes nothing: a machine of
# a cluster has what another one made.
# APPEND="audit=1" are further words for the guests' kernel command line.
#
# MONITORS=1 runs programs of others beside the backends where the fidelity of backends is measured,
# or MONITORS="NAME..." some; their image is larger.
MONITORS ?=
APPEND ?= $(if $(MONITORS),audit=1)
PKG ?= ./backends/ebpf ./backends/kprobe ./backends/cnproc ./backends/features ./exitsnoop ./fidelity/fuzz .
KERNELS ?=
BACKENDS ?=
TESTS ?=
KNOBS ?=
FRESH ?=
SHARD ?=
STEP ?=
MATRIX := build/matrix

# What STEP leaves out.
to_prepare = $(if $(filter run,$(STEP)),,$(1))
only_prepare = $(if $(filter prepare,$(STEP)),exit 0;)

ifeq ($(V),1)
Q :=
else
Q := @
endif

.PHONY: all bench build fidelity fidelity-matrix deps-bench guest-test kernel-images kernel-images-update test test-all test-kernel test-kernel-all coverage matrix-report generate deps deps-guest deps-generate clean help FORCE
all: build

help:
	@echo 'make build          the commands, into $(OUT)/ (GOARCH=arm64 for arm64)'
	@echo 'make install        the commands, their pages, completions and unit, below PREFIX=/usr/local, DESTDIR before it;'
	@echo '                    make uninstall removes them, make installed lists them'
	@echo 'make install-library   libquark, its header, pages and pkg-config file (needs a C compiler), libraries into LIBDIR=PREFIX/lib;'
	@echo '                    make uninstall-library removes them, make installed-library lists them'
	@echo 'make dist           a release of the current commit, build/dist: archives, .deb, .rpm, container image, guest images,'
	@echo '                    lists of parts (SBOM) and checksums (DIST_ARCHES="amd64 arm64"); make deb, rpm, tarball, image or library one of them'
	@echo 'make test-dist      the package in a Debian guest, the library'"'"'s with a compiler, the image as a container, and make dist'
	@echo '                    twice: the same bytes (root)'
	@echo 'make library        packages of libquark for C and others: .deb and .rpm, archive (GOARCH=arm64 with a cross compiler)'
	@echo 'make bindings       libquark for C and others, static and shared, with quark.h and quark.pc: build/$(GOARCH)/libquark'
	@echo 'make bench-bindings what an event costs in C and in Go'
	@echo 'make fidelity       what each backend of this host sees of what really happens, as a table and build/fidelity.html (as root)'
	@echo 'make fidelity-matrix the same in guests with Debian kernels: build/fidelity-matrix.html and .jsonl (KERNELS="NAME...")'
	@echo '                    (MONITORS=1: and what other programs see, or MONITORS="NAME..." some of them)'
	@echo 'make fuzz           15 minutes of generated workloads in guests, with faults: wrong values and uncounted loss, build/fuzz'
	@echo '                    (KERNELS="NAME..."; FUZZ="-k --seed N --for 5m" are options of quark-fidelity fuzz)'
	@echo 'make bench          what the backends and other installed monitors cost, see and report as lost: build/bench.html and .jsonl'
	@echo '                    (as root, 15 minutes; KERNELS="NAME..." in guests, MONITORS=1 with other monitors; BENCH="-n 3" are options)'
	@echo 'make test           everything: vet, go test, quark-test on this host (as root) and in guests'
	@echo 'make test-kernel    quark-test in guests with a few Debian kernels, all backends, and some of it with BTF hidden;'
	@echo '                    and the Go tests of PKG in guests of their own, by default with the oldest kernel only'
	@echo '                    (KERNELS="NAME..." BACKENDS="b k c" TESTS="NAME..." select; FRESH=1 runs again what is known)'
	@echo 'make test-kernel-all   the same with every kernel of the catalogue (or KERNELS), on amd64 and arm64, and all of it with BTF hidden'
	@echo 'make test-slurm     shards of both as jobs of a Slurm cluster on this machine, docs/slurm.sh (as root)'
	@echo 'make guest-test     ordinary Go tests in guests (PKG="./backends/kprobe ..." KERNELS="NAME..." RUN=REGEXP; 6.1-cloud by default)'
	@echo 'make test-all       make test with every kernel'
	@echo 'make coverage       what the tests cover, on this host and in guests (KERNELS, BACKENDS, TESTS as above)'
	@echo 'make matrix-report  puts the table of the last run into docs/kernels.md'
	@echo 'make kernel-images-update   takes the newest of each row of the catalogue and locks it (kernel_images/lock.json)'
	@echo 'make kernel-images  the images of KERNELS, from the cache or from Debian'
	@echo 'make initramfs.gz   the image that guests run (initramfs-arm64.gz for arm64)'
	@echo 'make initramfs-debug.gz   the same with a shell: ./krun.sh initramfs-debug.gz KERNEL sh'
	@echo 'make initramfs-monitors.gz   the image with programs of others that watch processes'
	@echo 'make monitors-update   takes the newest Debian packages of those programs'
	@echo 'make btfhub         adds the types of the catalogue'"'"'s kernels to the embedded archive, and those of BTFHUB_ARCHIVE_PATH,'
	@echo '                    a btfhub-archive'
	@echo 'make lint           what the compiler and vet do not say: .golangci.yml, go mod tidy -diff'
	@echo 'make apidiff        what the interface lost or changed since the last release, or API_BASE=COMMIT'
	@echo 'make test-exporters exports to Debian'"'"'s Prometheus, and to a real OpenTelemetry Collector that is killed and started again'
	@echo '                    (minutes the first time)'
	@echo 'make race           Close, Drain and Wake from all sides, 1,000 times on each backend and exitsnoop, with the race detector (as root)'
	@echo 'make vulncheck      the known vulnerabilities in what quark depends on and calls (needs the network)'
	@echo 'make docs           the manual pages, checked, and as HTML under docs/html'
	@echo 'make picture        the pictures of quark-mon in README.md, from a terminal (root)'
	@echo 'make svg            draws the process trees of quark-mon -C FILE.dot (DOT=FILE.dot... or those here)'
	@echo 'make generate       the committed generated files (see make deps-generate)'
	@echo 'make deps           the Debian packages that the tests need (ARCHES="amd64 arm64": for guests of both)'
	@echo 'make clean          remove what make made; the cache of kernels stays'
	@echo 'make ... V=1        show the commands'

build:
	$(Q)mkdir -p $(OUT)
	$(Q)$(GOBUILD) -o $(OUT)/ $(addprefix ./cmd/,$(COMMANDS)) ./initramfs/init
	$(Q)cd export && $(GOBUILD) -o $(abspath $(OUT))/ ./cmd/...
	$(Q)GO=$(GO) GOARCH=$(GOARCH) initramfs/multicall.sh $(OUT)/guest $(GUESTDIRS)

# The C library: lib/libquark.so.0 and libquark.a, include/quark.h, lib/pkgconfig/quark.pc. It needs
# cgo; for the other architecture the compiler of gcc-aarch64-linux-gnu or gcc-x86-64-linux-gnu.
.PHONY: bindings bench-bindings
BINDINGS := $(OUT)/libquark
bindings: deps-bindings
	$(Q)[ -n '$(NUMBER)' ]
	$(Q)GO=$(GO) GOARCH=$(GOARCH) QUARK_VERSION=$(NUMBER) bindings/c/build.sh $(BINDINGS)

bench-bindings: deps-bindings
	$(Q)$(HOSTGO) test -run '^$$' -bench Cost -benchtime 1x ./bindings/c/ctest

fidelity: build
	$(Q)rm -f build/fidelity.jsonl
	$(Q)$(OUT)/quark-fidelity run -o build/fidelity.jsonl -p build/fidelity.html

# Puts a file between the lines of a document that begin with <!-- NAME and <!-- end.
into = awk -v name='$(1)' -v file='$(2)' '/^<!-- end -->/ && on {while ((getline line < file) > 0) print line; on = 0} \
	!on {print} index($$0, "<!-- " name) == 1 {on = 1}' $(3) >build/into.md && mv build/into.md $(3)

# The table in README.md.
.PHONY: fidelity-readme
fidelity-readme: fidelity
	$(Q)echo '```' >build/fidelity.txt
	$(Q)$(OUT)/quark-fidelity report build/fidelity.jsonl | cat -s >>build/fidelity.txt
	$(Q)echo '```' >>build/fidelity.txt
	$(Q)$(call into,fidelity,build/fidelity.txt,README.md)

# On this host or, with KERNELS, in guests, one at a time: another one would take its processor. In
# guests only ratios are worth something, as their clocks tick slowly. MONITORS=1 takes the image
# that has other monitors. BENCH are further options of quark-fidelity bench.
BENCH ?=
ifeq ($(KERNELS),)
bench: build
	$(Q)rm -f build/bench.jsonl
	$(Q)$(OUT)/quark-fidelity bench -o build/bench.jsonl -p build/bench.html $(BENCH) >build/bench.txt
	$(Q)cat build/bench.txt
else
bench: MATRIX := build/bench
bench: deps-guest kernel-images build $(GUEST_IMAGES) $(HOSTBIN)/quark-matrix
	$(Q)status=0; $(run_matrix) -j 1 --deadline-all 50m --keep /tmp/bench.jsonl \
		--command 'quark-fidelity bench -n 3 --for 30m -o /tmp/bench.jsonl $(BENCH)' || status=$$?; \
	$(OUT)/quark-fidelity bench -p build/bench.html $(MATRIX)/guests/*/files/bench.jsonl && exit $$status
endif

# The tables in README.md and docs/benchmark.md, of this host, which must have nothing else to do.
.PHONY: bench-readme
bench-readme: bench
	$(Q)(echo '```'; cat build/bench.txt; echo '```') >build/bench.md
	$(Q)sed '/^Events seen/,/^$$/d; /^Proc connector/,/^$$/d' build/bench.md >build/glance.md
	$(Q)$(call into,bench,build/glance.md,README.md)
	$(Q)$(call into,bench,build/bench.md,docs/benchmark.md)

# Shards, which ran with SHARD= and MATRIX=, as one run: FROM="DIR..." are their directories.
.PHONY: test-kernel-merge
test-kernel-merge:
	$(Q)$(HOSTBIN)/quark-matrix merge -o $(MATRIX) $(FROM)

# The page has what other kernels gave before as well: KERNELS= runs it in pieces. An emulated
# machine is slow: the hold time is longer.
fidelity-matrix: MATRIX := build/fidelity-matrix
fidelity-matrix: deps-guest kernel-images $(GUEST_IMAGES) $(HOSTBIN)/quark-matrix
	$(Q)status=0; $(run_matrix) --keep /tmp/fidelity.jsonl \
		$(if $(MONITORS),--deadline-all 60m) \
		--command 'quark-fidelity run -v --hold-time 1s -o /tmp/fidelity.jsonl $(addprefix --monitor ,$(MONITORS:1=all))' || status=$$?; \
	cat $(MATRIX)/guests/*/files/fidelity.jsonl >build/fidelity-matrix.jsonl && \
	$(OUT)/quark-fidelity report -p build/fidelity-matrix.html build/fidelity-matrix.jsonl && exit $$status

# A defect ends the run of its guest; the script that shows it again is among the guest's files.
# FUZZ are further options, such as those for one backend, or the seed that was printed.
FUZZ ?=
.PHONY: fuzz
fuzz: MATRIX := build/fuzz
fuzz: deps-guest kernel-images $(GUEST_IMAGES) $(HOSTBIN)/quark-matrix
	$(Q)$(run_matrix) --deadline-all 40m --keep '/tmp/fuzz-*.script' \
		--command 'quark-fidelity fuzz --faults --for 15m -o /tmp $(FUZZ)'

# The types of local kernels without any.
LOCAL_BTF = $(wildcard $(if $(KERNELS),$(patsubst %,kernel_images/%*.btf,$(filter local/%,$(KERNELS))),kernel_images/local/*.btf))

# The Go tool knows what is up to date; the file is left alone when nothing has changed in it. A
# kernel without types has them in a file of the image. FILES are further ones.
define make_initramfs
	$(Q)$(HOSTGO) run ./initramfs -o $@.new -arch $(GOARCH) -init $(OUT)/init $(addprefix -archive ,$(ARCHIVES)) \
		$(addprefix -file ,$(FILES) $(LOCAL_BTF)) $(MULTI)
	$(Q)[ $$(wc -c <$@.new) -le 8000000 ] || [ -n '$(ARCHIVES)$(LOCAL_BTF)' ] || \
		{ echo '$@: more than 8 MB: every guest takes longer to boot' >&2; exit 1; }
	$(Q)if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
endef

initramfs.gz: build FORCE
	$(make_initramfs)

# That of the other architecture.
initramfs-$(OTHER).gz: FORCE
	$(Q)$(MAKE) --no-print-directory build GOARCH=$(OTHER)
	$(make_initramfs)
initramfs-$(OTHER).gz: private GOARCH = $(OTHER)
initramfs-$(OTHER).gz: private OUT = build/$(OTHER)
initramfs-$(OTHER).gz: private KERNELS =

# The same with programs of others, from the Debian packages of this machine's release. ./krun.sh
# wants KRUN_MEM=1024 for it, and KRUN_APPEND=audit=1 for auditd.
ARCHIVES :=
MAKE_MONITORS = $(HOSTGO) run ./initramfs/monitors -arch $(GOARCH) -o $(ARCHIVES)
initramfs-monitors.gz: private ARCHIVES = $(OUT)/monitors.cpio.zst
initramfs-monitors.gz: deps-monitors build FORCE
	$(Q)$(MAKE_MONITORS)
	$(make_initramfs)

initramfs-monitors-$(OTHER).gz: deps-monitors FORCE
	$(Q)$(MAKE) --no-print-directory build GOARCH=$(OTHER)
	$(Q)$(MAKE_MONITORS)
	$(make_initramfs)
initramfs-monitors-$(OTHER).gz: private GOARCH = $(OTHER)
initramfs-monitors-$(OTHER).gz: private OUT = build/$(OTHER)
initramfs-monitors-$(OTHER).gz: private ARCHIVES = build/$(OTHER)/monitors.cpio.zst
initramfs-monitors-$(OTHER).gz: private KERNELS =

.PHONY: monitors-update
monitors-update: ARCHIVES = $(OUT)/monitors.cpio.zst
monitors-update: deps-monitors
	$(Q)mkdir -p $(OUT)
	$(Q)$(MAKE_MONITORS) -u -l

# The same with a shell and a few commands, for ./krun.sh initramfs-debug.gz KERNEL sh.
initramfs-debug.gz: build FORCE
	$(Q)rm -rf $(OUT)/debug && mkdir -p $(OUT)/debug
	$(Q)cd initramfs/debug && GOOS=linux GOARCH=$(GOARCH) $(GO) build -tags goshsmall -buildvcs=false -trimpath -ldflags '-s -w' -o $(abspath $(OUT))/debug/ tool
	$(Q)mv $(OUT)/debug/gosh $(OUT)/debug/sh
	$(Q)$(HOSTGO) run ./initramfs -o $@ -arch $(GOARCH) -init $(OUT)/init $(MULTI) $(OUT)/debug/*

FORCE:

# -count=1: the tests look at this kernel and at krun.sh, which Go's test cache does not know of.
test: deps build kernel-images $(GUEST_IMAGES) $(HOSTBIN)/quark-matrix
	$(Q)rm -rf $(STEPS) && mkdir -p $(STEPS)
	$(Q)$(HOSTGO) build -o $(STEPS)/testsum ./internal/harness/testsum
	$(Q)$(STEPS)/testsum run $(STEPS) vet $(GO) vet ./...
	$(Q)$(STEPS)/testsum run $(STEPS) vet-export $(GO) vet -C export ./...
	$(Q)$(STEPS)/testsum run -gotest $(STEPS) go-test $(GO) test -count=1 -json ./...
	$(Q)$(STEPS)/testsum run -gotest $(STEPS) go-test-export $(GO) test -C export -count=1 -json ./...
	$(Q)if [ "$$(id -u)" = 0 ]; then \
		$(STEPS)/testsum run -records $(STEPS) host $(OUT)/quark-test -j $(STEPS)/host.jsonl; \
	else \
		echo '== host: not root, so quark-test does not run on this host'; \
	fi
	$(Q)rm -f $(MATRIX)/cells.jsonl && ln -s $(abspath $(MATRIX))/cells.jsonl $(STEPS)/kernels.jsonl
	$(Q)$(STEPS)/testsum run -records $(STEPS) kernels $(run_matrix) $(addprefix --packages ,$(PKG))
	@$(STEPS)/testsum report $(STEPS)

test-all:
	$(Q)$(MAKE) --no-print-directory test $(EVERY)

# The guests alone. Each kernel runs as it is with all backends, and with its BTF hidden to show
# that quark's own types do.
run_matrix = $(HOSTBIN)/quark-matrix run -o $(MATRIX) $(foreach a,$(ARCHES),--arch $(a)) \
	--initramfs $(subst $(SPACE),$(COMMA),$(strip $(foreach a,$(ARCHES),$(a)=$(image_of_$(a))))) \
	$(if $(FRESH),--fresh) $(if $(SHARD),--shard $(SHARD)) $(foreach b,$(BACKENDS),-b $(b)) $(foreach t,$(TESTS),-t '$(t)') \
	$(foreach e,$(KNOBS),-e '$(e)') $(if $(APPEND),--append '$(APPEND)') $(if $(MONITORS),--mem 1024) $(if $(GUEST_JOBS),-j $(GUEST_JOBS)) $(foreach k,$(KERNELS),'$(k)')

$(HOSTBIN)/quark-matrix: FORCE
	$(Q)GOOS= GOARCH= $(GO) build -buildvcs=false -trimpath -ldflags '-s -w' -o $@ ./cmd/quark-matrix

test-kernel: $(call to_prepare,deps-guest kernel-images $(GUEST_IMAGES) $(HOSTBIN)/quark-matrix)
	$(Q)$(only_prepare) $(run_matrix) $(addprefix --packages ,$(PKG))

# Ordinary Go tests in guests, as go test -exec runs them anywhere else; with MONITORS=1 in those
# that have the programs of others.
guest-test: deps-guest kernel-images $(image_of_$(GOARCH)) $(HOSTBIN)/quark-matrix
	$(Q)status=0; for k in $(or $(KERNELS),6.1-cloud); do echo "== $$k"; \
		GOOS=linux GOARCH=$(GOARCH) $(if $(RACE),CGO_ENABLED=1 )$(GO) test -count=1 -trimpath $(if $(V),-v) $(if $(RUN),-run '$(RUN)') \
			-ldflags '-s -w$(if $(RACE), -linkmode external -extldflags -static)' $(if $(RACE),-race -timeout 4h) \
			-exec "$(abspath $(HOSTBIN))/quark-matrix exec --arch $(GOARCH) --initramfs $(abspath $(image_of_$(GOARCH))) $(if $(MONITORS),--mem 1024 )--kernel $$k $(if $(APPEND),--append '$(APPEND)') $(foreach e,$(KNOBS),-e '$(e)')" $(PKG) || status=$$?; \
	done; exit $$status

# Shards as jobs of a Slurm cluster on this machine, with real guests: one is killed and queued
# again, and the merged table is the same as that of one run. As root.
.PHONY: test-slurm
test-slurm: deps-slurm
	$(Q)QUARK_SLURM='KERNELS=$(or $(KERNELS),5.10-cloud 6.1-cloud)|PKG=' $(HOSTGO) test -count=1 -v -timeout 2h -run Slurm ./cmd/quark-matrix

test-kernel-all:
	$(Q)$(MAKE) --no-print-directory test-kernel $(EVERY)

# With types hidden, too, all tests run.
EVERY = ARCHES='amd64 arm64' TESTS='$(or $(TESTS),*)' KERNELS='$(or $(KERNELS),* odd/*$(if $(wildcard kernel_images/local/*), local/*))'

# What the tests cover, on this host and in the guests, which run instrumented binaries and hand out
# what they covered. Whether they pass is for make test to say: a few that look at a program's words
# or files fail when it is instrumented.
COVER := build/coverage
coverage: deps-guest kernel-images $(HOSTBIN)/quark-matrix
	$(Q)rm -rf $(COVER) && mkdir -p $(COVER)/bin $(COVER)/host
	$(Q)for c in $(GUEST); do $(GOBUILD) -cover -coverpkg=./... -o $(COVER)/bin/$$c ./cmd/$$c || exit; done
	$(Q)$(GOBUILD) -o $(COVER)/bin/cover ./initramfs/cover
	$(Q)$(GOBUILD) -o $(COVER)/bin/covdata cmd/covdata
	$(Q)$(GOBUILD) -o $(COVER)/init ./initramfs/init
	$(Q)$(HOSTGO) run ./initramfs -o $(COVER)/initramfs.gz -arch $(GOARCH) -init $(COVER)/init $(COVER)/bin/*
	$(Q)chmod 1777 $(COVER)/host
	$(Q)GOCOVERDIR=$(abspath $(COVER))/host $(GO) test -short -cover -coverpkg=./... ./... -args \
		-test.gocoverdir=$(abspath $(COVER))/host >$(COVER)/go-test.log || grep FAIL $(COVER)/go-test.log
	$(Q)if [ "$$(id -u)" = 0 ]; then GOCOVERDIR=$(COVER)/host $(COVER)/bin/quark-test -j '' || true; fi
	$(Q)$(HOSTBIN)/quark-matrix run -o $(COVER)/matrix --arch $(GOARCH) --initramfs $(GOARCH)=$(COVER)/initramfs.gz \
		--wrap cover --keep /run/profile.gz --mem 1024 \
		$(foreach b,$(BACKENDS),-b $(b)) $(foreach t,$(TESTS),-t '$(t)') $(foreach k,$(KERNELS),'$(k)')
	$(Q)$(HOSTBIN)/quark-matrix coverage -o $(COVER)/matrix --host $(COVER)/host --profile $(COVER)/profile.txt

matrix-report: $(HOSTBIN)/quark-matrix
	$(Q)$(HOSTBIN)/quark-matrix report -o $(MATRIX) --readme docs/kernels.md

kernel-images-update:
	$(Q)$(HOSTGO) run ./kernel_images -u '*'

# What was put into kernel_images/local/ by hand is there already.
FETCHED = $(filter-out local/%,$(KERNELS))
kernel-images:
	$(Q)if [ -z '$(KERNELS)' ] || [ -n '$(FETCHED)' ]; then \
		$(HOSTGO) run ./kernel_images $(foreach a,$(ARCHES),-arch $(a)) $(foreach k,$(FETCHED),'$(k)'); fi

generate:
	$(Q)$(HOSTGO) generate ./...

# The manual pages, checked, and as HTML under docs/html.
.PHONY: docs deps-docs
docs: deps-docs
	$(Q)mandoc -T lint -W warning docs/*.[378]
	$(Q)mkdir -p docs/html
	$(Q)for page in docs/*.[378]; do mandoc -T html -O man=%N.%S.html $$page >docs/html/$$(basename $$page).html || exit; done

# What a terminal shows of quark-mon now.
.PHONY: picture deps-picture
picture: build deps-picture
	$(Q)docs/terminal.sh $(OUT)/quark-mon docs

# DOT files, such as quark-mon -C writes, as drawings.
DOT ?= $(wildcard *.dot)
.PHONY: svg deps-svg
svg: $(DOT:.dot=.svg)
	@[ -n '$^' ] || { echo 'there is no .dot file here: quark-mon -C FILE.dot makes one, DOT=FILE.dot names one elsewhere' >&2; exit 1; }

%.svg: %.dot | deps-svg
	$(Q)dot -Tsvg -o $@ $<

# The tools that tools/go.mod pins, in a module of their own: who imports quark does not get what
# they depend on.
TOOL = $(HOSTGO) tool -modfile=$(abspath tools/go.mod)

# A real OpenTelemetry Collector, which is killed and started again while quark exports to it. It is
# built from its Go modules, in a module of its own, which takes minutes the first time.
COLLECTOR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quark/collector
.PHONY: test-exporters deps-exporters
test-exporters: deps-exporters
	$(Q)$(HOSTGO) test -C export -count=1 -v -run 'Prom|Dashboard' ./prom
	$(Q)mkdir -p $(COLLECTOR)
	$(Q)$(HOSTGO) build -C export/otlp/testdata/collector -o $(COLLECTOR)/collector .
	$(Q)QUARK_COLLECTOR=$(COLLECTOR)/collector $(HOSTGO) test -C export -count=1 -v -run KilledCollector ./otlp

.PHONY: lint vulncheck
lint:
	$(Q)for m in $(MODULES); do (cd $$m && $(TOOL) golangci-lint run && $(HOSTGO) mod tidy -diff) || exit; done
	$(Q)$(HOSTGO) test ./internal/style

# Close, Drain and Wake from everywhere, 1,000 times on each backend, as root; kprobe in a guest.
# The race detector needs a C compiler.
.PHONY: race
race: export QUARK_TRIES ?= 1000
race:
	@./.ci/deps gcc:/usr/bin/gcc libc6-dev:/usr/include/stdio.h
	$(Q)CGO_ENABLED=1 $(HOSTGO) test -race -count=1 -timeout 1h -run 'Close|Drain|Wake|Signal' . ./exitsnoop ./cmd/quark-mon
	$(Q)$(MAKE) --no-print-directory guest-test RACE=1 PKG=. RUN=TestCloseFromAnywhere/kprobe KNOBS=QUARK_TRIES=$(QUARK_TRIES)

# Needs the network, for the list of what is known.
vulncheck:
	$(Q)for m in $(MODULES); do $(TOOL) govulncheck -C $$m ./... || exit; done

# What the interface lost or changed since API_BASE, the last release by default.
API := . ./engine ./engine/container ./engine/enginetest ./engine/filter ./engine/glob ./engine/trace ./exitsnoop ./btfhub ./export ./export/ecs ./export/otlp ./export/prom
API_BASE = $(shell git describe --tags --abbrev=0 2>/dev/null)
.PHONY: apidiff
apidiff:
	$(Q)[ -n '$(API_BASE)' ] || { echo 'there is no release to compare with: name a commit with API_BASE='; exit 0; }; \
	old=$$(mktemp -d); trap 'git worktree remove --force "$$old"' EXIT; \
	git worktree add --quiet --detach "$$old" '$(API_BASE)' || exit; \
	for p in $(API); do \
		[ -d "$$old/$$p" ] || continue; \
		(cd "$$old/$$p" && $(TOOL) apidiff -w "$$old/api" .) && \
		diff=$$(cd $$p && $(TOOL) apidiff -incompatible "$$old/api" .) || exit; \
		[ -z "$$diff" ] || { echo "$$p:"; echo "$$diff"; bad=1; }; \
	done; [ -z "$$bad" ]

# Each dependency as PACKAGE:FILE, where FILE shows that it is there. Guests need DEPS_GUEST.
DEPS_amd64 := qemu-system-x86:/usr/bin/qemu-system-x86_64
DEPS_arm64 := qemu-system-arm:/usr/bin/qemu-system-aarch64
DEPS_GUEST := $(foreach a,$(ARCHES),$(DEPS_$(a))) \
	ca-certificates:/etc/ssl/certs/ca-certificates.crt \
	debian-archive-keyring:/usr/share/keyrings/debian-archive-keyring.gpg \
	xz-utils:/usr/bin/xz
DEPS_MONITORS := ca-certificates:/etc/ssl/certs/ca-certificates.crt \
	debian-archive-keyring:/usr/share/keyrings/debian-archive-keyring.gpg xz-utils:/usr/bin/xz
# libquark is C and Go; its tests run C and Python, under valgrind, which needs symbols of libc.
DEPS_BINDINGS := gcc:/usr/bin/gcc libc6-dev:/usr/include/stdio.h
DEPS_CROSS_arm64 := gcc-aarch64-linux-gnu:/usr/bin/aarch64-linux-gnu-gcc libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdio.h
DEPS_CROSS_amd64 := gcc-x86-64-linux-gnu:/usr/bin/x86_64-linux-gnu-gcc libc6-dev-amd64-cross:/usr/x86_64-linux-gnu/include/stdio.h
# For TestSlurm, which starts a cluster of its own. make test does without: the packages have
# services, which the next boot would start.
DEPS_SLURM := munge:/usr/sbin/munged slurmctld:/usr/sbin/slurmctld slurmd:/usr/sbin/slurmd slurm-client:/usr/bin/sbatch
DEPS := $(DEPS_GUEST) forkstat:/usr/sbin/forkstat|/usr/bin/forkstat runc:/usr/sbin/runc|/usr/bin/runc crun:/usr/bin/crun \
	systemd:/usr/bin/systemd-analyze \
	$(DEPS_BINDINGS) valgrind:/usr/bin/valgrind libc6-dbg:/usr/share/doc/libc6-dbg python3:/usr/bin/python3 pkg-config:/usr/bin/pkg-config
# For make test-exporters. make test does without: the package has a service, which the next boot
# would start.
DEPS_EXPORTERS := prometheus:/usr/bin/prometheus
DEPS_BENCH := forkstat:/usr/sbin/forkstat|/usr/bin/forkstat libbpf-tools:/usr/sbin/exitsnoop bpftrace:/usr/bin/bpftrace \
	linux-perf:/usr/bin/perf strace:/usr/bin/strace
DEPS_GENERATE := clang-19:/usr/bin/clang-19 llvm-19:/usr/bin/llvm-strip-19 libbpf-dev:/usr/include/bpf/bpf_helpers.h

# Kernels that the archive has already stay in it.
.PHONY: btfhub
btfhub:
	$(Q)$(HOSTGO) run ./kernel_images '*'
	$(Q)$(HOSTGO) run ./btfhub/mkbtfhub kernel_images/{amd64,arm64}/* $(BTFHUB_ARCHIVE_PATH)

deps:
	@./.ci/deps $(foreach d,$(DEPS),'$(d)')

.PHONY: deps-bindings
deps-bindings:
	@./.ci/deps $(foreach d,$(DEPS_BINDINGS) $(if $(filter $(GOHOSTARCH),$(GOARCH)),,$(DEPS_CROSS_$(GOARCH))),'$(d)')

# The other monitors of make bench, which leaves out those that are not installed.
deps-bench:
	@./.ci/deps $(foreach d,$(DEPS_BENCH),'$(d)')

deps-exporters:
	@./.ci/deps $(foreach d,$(DEPS_EXPORTERS),'$(d)')

deps-docs:
	@./.ci/deps mandoc:/usr/bin/mandoc

deps-picture:
	@./.ci/deps tmux:/usr/bin/tmux

deps-svg:
	@./.ci/deps graphviz:/usr/bin/dot

.PHONY: deps-slurm
deps-slurm:
	@./.ci/deps $(foreach d,$(DEPS_SLURM),'$(d)')

deps-guest:
	@./.ci/deps $(foreach d,$(DEPS_GUEST),'$(d)')

.PHONY: deps-monitors
deps-monitors:
	@./.ci/deps $(foreach d,$(DEPS_MONITORS),'$(d)')

deps-generate:
	@./.ci/deps $(foreach d,$(DEPS_GENERATE),'$(d)')

include packaging/build.mk

clean:
	$(Q)rm -rf build initramfs*.gz initramfs*.gz.new kernel_images/amd64 kernel_images/arm64
