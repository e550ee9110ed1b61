# What users install: make install, make uninstall, make dist. packaging/files says what that is.

PREFIX  ?= /usr/local
DESTDIR ?=
# The version that -V prints, and the time of all files in archives: that of the commit. The same
# commit gives the same bytes, wherever and whenever it is built.
VERSION ?= $(shell packaging/version.sh)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
RELEASE  := build/release
HOSTARCH := $(shell $(GO) env GOHOSTARCH)
INSTALLED := $(shell awk '$$1 == "command" {print $$2}' packaging/files)
# Not make build's binaries: those in guests have no version, so that results of guests can be kept.
RELEASEBUILD = CGO_ENABLED=0 GOOS=linux GOFLAGS= $(GO) build -buildvcs=false -trimpath \
	-ldflags '-s -w -X github.com/quark-linux/quark/internal/command.version=$(VERSION)'

.PHONY: release install uninstall installed
# The commands of GOARCH, and what they print for shells: that of this machine's own.
release:
	$(Q)mkdir -p $(RELEASE)/$(GOARCH)/completions $(RELEASE)/$(HOSTARCH)
	$(Q)GOARCH=$(GOARCH) $(RELEASEBUILD) -o $(RELEASE)/$(GOARCH)/ $(addprefix ./cmd/,$(INSTALLED))
ifneq ($(GOARCH),$(HOSTARCH))
	$(Q)GOARCH=$(HOSTARCH) $(RELEASEBUILD) -o $(RELEASE)/$(HOSTARCH)/ $(addprefix ./cmd/,$(INSTALLED))
endif
	$(Q)for c in $(INSTALLED); do for s in bash zsh fish; do \
		$(RELEASE)/$(HOSTARCH)/$$c completion $$s >$(RELEASE)/$(GOARCH)/completions/$$c.$$s || exit; done; done

INSTALL_SH = PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' packaging/install.sh

# Root often has no Go: then make release was before.
install:
	$(Q)if command -v $(GO) >/dev/null; then $(MAKE) --no-print-directory release; fi
	$(Q)$(INSTALL_SH) install $(RELEASE)/$(GOARCH)

uninstall:
	$(Q)$(INSTALL_SH) uninstall $(RELEASE)/$(GOARCH)

# The places of what make install installs.
installed:
	$(Q)$(INSTALL_SH) list $(RELEASE)/$(GOARCH)
