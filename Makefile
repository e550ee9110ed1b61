# quark's artefacts and test runs. Plain Go work stays plain: go build ./..., go test ./...
#
# make V=1 shows the commands. GOARCH=arm64 builds for arm64.

SHELL := /bin/bash
.DELETE_ON_ERROR:

GO     ?= go
# Not overridden by the environment's: a GOARCH on the command line is the guest's, not that of the tools run here.
HOSTGO  = GOOS= GOARCH= $(GO)
GOARCH ?= $(shell $(GO) env GOARCH)
OUT    := build/$(GOARCH)
RUN    := build/test

# What the archive holds depends on the binaries only, so they must not depend on the path or the commit.
export CGO_ENABLED := 0
GOBUILD = GOOS=linux GOARCH=$(GOARCH) $(GO) build -buildvcs=false -trimpath -ldflags '-s -w'

COMMANDS := $(notdir $(patsubst %/,%,$(wildcard cmd/*/)))
GUEST    := $(filter quark-exitsnoop quark-fidelity quark-mon quark-test,$(COMMANDS))

# The rows of the catalogue that make test and make test-kernel boot, without the architecture, and how many at a time:
# a guest has two processors, which software emulation runs on one.
KERNELS ?= $(if $(filter arm64,$(GOARCH)),6.1-cloud 6.12-cloud,5.10-cloud 6.1-cloud 6.12-cloud newest-cloud)
# nobtf has nothing to hide.
GUESTS := $(filter-out guest-nobtf-hidden,$(foreach k,$(KERNELS),guest-$(k) guest-$(k)-hidden))
GUEST_JOBS ?= $(shell nproc)

ifeq ($(V),1)
Q :=
else
Q := @
endif

.PHONY: all bench build fidelity fidelity-matrix images test test-kernel generate deps deps-generate clean help FORCE
all: build

help:
	@echo 'make build          the commands, into $(OUT)/ (GOARCH=arm64 for arm64)'
	@echo 'make fidelity       what each backend of this host sees of what really happens, as a table and build/fidelity.html (as root)'
	@echo 'make fidelity-matrix the same in guests with Debian kernels: build/fidelity-matrix.html and .jsonl (KERNELS="NAME...")'
	@echo 'make bench          throughput and cost of the backends, next to other programs that are installed (as root)'
	@echo 'make test           everything: vet, go test, quark-test on this host (as root) and in guests'
	@echo 'make test-kernel    quark-test in guests with Debian kernels, all backends, BTF present and hidden (KERNELS="NAME...")'
	@echo 'make initramfs.gz   the image that guests run'
	@echo 'make btfhub         the archive of kernels'"'"' types (BTFHUB_ARCHIVE_PATH=DIR adds those of a btfhub-archive)'
	@echo 'make kernel-nobtf   builds a kernel without types, for make test-kernel KERNELS=nobtf (some minutes, see make deps-kernel)'
	@echo 'make generate       the committed generated files (see make deps-generate)'
	@echo 'make deps           the Debian packages that the tests need'
	@echo 'make clean          remove what make made; the cache of kernels stays'
	@echo 'make ... V=1        show the commands'

build:
	$(Q)mkdir -p $(OUT)
	$(Q)for c in $(COMMANDS); do $(GOBUILD) -o $(OUT)/$$c ./cmd/$$c || exit; done
	$(Q)$(GOBUILD) -o $(OUT)/init ./initramfs/init

fidelity: build
	$(Q)rm -f build/fidelity.jsonl
	$(Q)$(OUT)/quark-fidelity run -x -o build/fidelity.jsonl -p build/fidelity.html

bench: build
	$(Q)$(OUT)/quark-fidelity bench

# The table in README.md.
.PHONY: fidelity-readme
fidelity-readme: fidelity
	$(Q)$(OUT)/quark-fidelity report -d docs/storms.svg build/fidelity.jsonl | cat -s >build/fidelity.txt
	$(Q)awk '/^<!-- end -->/ {print "```"; while ((getline line < "build/fidelity.txt") > 0) print line; print "```"; skip = 0} \
		!skip {print} /^<!-- fidelity/ {skip = 1}' README.md >build/README.md
	$(Q)mv build/README.md README.md

# A guest in which a backend fails says so in its report, which is the last command's to judge.
fidelity-matrix: images initramfs.gz
	$(Q)rm -rf build/fidelity-matrix && mkdir -p build/fidelity-matrix
	$(Q)for k in $(KERNELS); do echo "== $$k"; \
		KRUN_RESULTS=build/fidelity-matrix/$$k.jsonl KRUN_TIMEOUT=900 ./krun.sh initramfs.gz kernel_images/$(GOARCH)/$$k \
			quark-fidelity run -x -o /run/quark-results >build/fidelity-matrix/$$k.log 2>&1 || echo "$$k: see build/fidelity-matrix/$$k.log"; done
	$(Q)cat build/fidelity-matrix/*.jsonl >build/fidelity-matrix.jsonl
	$(Q)$(HOSTGO) run ./cmd/quark-fidelity report -p build/fidelity-matrix.html build/fidelity-matrix/*.jsonl

# The Go tool knows what is up to date; the file is left alone when nothing has changed in it.
initramfs.gz: build FORCE
	$(Q)$(HOSTGO) run ./initramfs -o $@.new -arch $(GOARCH) -init $(OUT)/init \
		$(if $(filter nobtf,$(KERNELS)),-file kernel_images/$(GOARCH)/nobtf.btf) $(addprefix $(OUT)/,$(GUEST))
	$(Q)if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

FORCE:

# -count=1: the tests look at this kernel and at krun.sh, which Go's test cache does not know of.
test: deps build images initramfs.gz
	$(Q)rm -rf $(RUN) && mkdir -p $(RUN)
	$(Q)$(HOSTGO) build -o $(RUN)/testsum ./internal/testsum
	$(Q)$(RUN)/testsum run $(RUN) vet $(GO) vet ./...
	$(Q)$(RUN)/testsum run -gotest $(RUN) go-test $(GO) test -count=1 -json ./...
	$(Q)if [ "$$(id -u)" = 0 ]; then \
		$(RUN)/testsum run -records $(RUN) host $(OUT)/quark-test -j $(RUN)/host.jsonl; \
	else \
		echo '== host: not root, so quark-test does not run on this host'; \
	fi
	$(Q)$(MAKE) --no-print-directory -j$(GUEST_JOBS) --output-sync=target $(GUESTS)
	@$(RUN)/testsum report $(RUN)

# The guests alone, with a closing line of their own.
test-kernel: images initramfs.gz
	$(Q)rm -rf $(RUN) && mkdir -p $(RUN)
	$(Q)$(HOSTGO) build -o $(RUN)/testsum ./internal/testsum
	$(Q)$(MAKE) --no-print-directory -j$(GUEST_JOBS) --output-sync=target $(GUESTS)
	@$(RUN)/testsum report $(RUN)

# A kernel from elsewhere, such as nobtf, is there already.
images:
	$(Q)if [ -n '$(filter-out nobtf,$(KERNELS))' ]; then \
		$(HOSTGO) run ./kernel_images $(addsuffix -$(GOARCH),$(filter-out nobtf,$(KERNELS))); fi
	$(Q)if [ -n '$(filter nobtf,$(KERNELS))' ] && [ ! -e kernel_images/$(GOARCH)/nobtf.btf ]; then \
		echo 'no kernel nobtf: make kernel-nobtf builds it' >&2; exit 1; fi

# Each kernel runs as it is with all backends, and with its BTF hidden with those that need types. Emulation on two loaded
# cores may be ten times slower than on an idle machine: the deadlines are for that.
GUESTRUN = $(RUN)/testsum run -records $(RUN) $@ env KRUN_RESULTS=$(RUN)/$@.jsonl KRUN_TIMEOUT=900
.PHONY: $(GUESTS)
$(filter %-hidden,$(GUESTS)): guest-%-hidden:
	$(Q)$(GUESTRUN) KRUN_APPEND=quark.hide_btf=1 ./krun.sh initramfs.gz kernel_images/$(GOARCH)/$* \
		quark-test -b -k -j /run/quark-results
$(filter-out %-hidden,$(GUESTS)): guest-%:
	$(Q)$(GUESTRUN) ./krun.sh initramfs.gz kernel_images/$(GOARCH)/$* quark-test -b -k -c -j /run/quark-results

generate:
	$(Q)$(HOSTGO) generate ./...

# Each dependency as PACKAGE:FILE, where FILE shows that it is there.
DEPS_amd64 := qemu-system-x86:/usr/bin/qemu-system-x86_64
DEPS_arm64 := qemu-system-arm:/usr/bin/qemu-system-aarch64
DEPS := $(DEPS_$(GOARCH)) \
	ca-certificates:/etc/ssl/certs/ca-certificates.crt \
	debian-archive-keyring:/usr/share/keyrings/debian-archive-keyring.gpg \
	forkstat:/usr/sbin/forkstat|/usr/bin/forkstat \
	xz-utils:/usr/bin/xz zstd:/usr/bin/zstd
DEPS_GENERATE := clang-19:/usr/bin/clang-19 llvm-19:/usr/bin/llvm-strip-19 libbpf-dev:/usr/include/bpf/bpf_helpers.h

# The types of kernels are kept in the user's cache, so only the first time takes long. BTFHUB_FETCH= fetches nothing.
BTFHUB_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/quark/btf
BTFHUB_FETCH ?= 2
.PHONY: btfhub
btfhub:
	$(Q)mkdir -p $(BTFHUB_CACHE)
	$(Q)if [ -n "$(BTFHUB_FETCH)" ]; then $(HOSTGO) run ./kernel_images -t $(BTFHUB_CACHE) -n $(BTFHUB_FETCH); fi
	$(Q)$(HOSTGO) run ./btfhub/mkbtfhub $(BTFHUB_CACHE) $(BTFHUB_ARCHIVE_PATH)

# A kernel that has no types at all, built from Debian's source; they come in a file, from the same build. It is kept in the
# user's cache. make test-kernel KERNELS=nobtf runs it.
DEPS_KERNEL := gcc:/usr/bin/gcc make:/usr/bin/make libc6-dev:/usr/include/stdio.h flex:/usr/bin/flex bison:/usr/bin/bison \
	bc:/usr/bin/bc libelf-dev:/usr/include/libelf.h libssl-dev:/usr/include/openssl/ssl.h xz-utils:/usr/bin/xz \
	dwarves:/usr/bin/pahole debian-archive-keyring:/usr/share/keyrings/debian-archive-keyring.gpg
.PHONY: kernel-nobtf deps-kernel
kernel-nobtf: deps-kernel
	$(Q)$(HOSTGO) run ./kernel_images -b
guest-nobtf: export KRUN_APPEND = quark.env.QUARK_BTF_PATH=/nobtf.btf

deps:
	@./.ci/deps $(foreach d,$(DEPS),'$(d)')

deps-generate:
	@./.ci/deps $(foreach d,$(DEPS_GENERATE),'$(d)')

deps-kernel:
	@./.ci/deps $(foreach d,$(DEPS_KERNEL),'$(d)')

clean:
	$(Q)rm -rf build initramfs.gz initramfs.gz.new kernel_images/amd64 kernel_images/arm64
