# What users install: make install, make uninstall, make dist. packaging/files says what that is.

PREFIX  ?= /usr/local
DESTDIR ?=
# The version that -V prints, and the time of all files in archives: that of the commit. The same
# commit gives the same bytes, wherever and whenever it is built, with the same Go.
# Both are asked of git when they are first used.
VERSION ?= $(eval VERSION := $(shell packaging/version.sh))$(VERSION)
SOURCE_DATE_EPOCH ?= $(eval SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct))$(SOURCE_DATE_EPOCH)
RELEASE  := build/release
HOSTARCH := $(GOHOSTARCH)
INSTALLED := $(shell awk '$$1 == "command" {print $$2}' packaging/files)
# Not make build's binaries: those in guests have no version, so that results of guests can be kept.
RELEASEBUILD = CGO_ENABLED=0 GOOS=linux GOFLAGS= $(GO) build -buildvcs=false -trimpath \
	-ldflags '-s -w -X github.com/quark-linux/quark/internal/command.version=$(VERSION)'

.PHONY: release install uninstall installed
# The commands of GOARCH, and what they print for shells: that of this machine's own.
release:
	$(Q)[ -n '$(VERSION)' ]
	$(Q)mkdir -p $(RELEASE)/$(GOARCH)/completions $(RELEASE)/$(HOSTARCH)
	$(Q)GOARCH=$(GOARCH) $(RELEASEBUILD) -o $(RELEASE)/$(GOARCH)/ $(addprefix ./cmd/,$(filter $(COMMANDS),$(INSTALLED)))
	$(Q)cd export && GOARCH=$(GOARCH) $(RELEASEBUILD) -o $(abspath $(RELEASE)/$(GOARCH))/ ./cmd/...
ifneq ($(GOARCH),$(HOSTARCH))
	$(Q)GOARCH=$(HOSTARCH) $(RELEASEBUILD) -o $(RELEASE)/$(HOSTARCH)/ $(addprefix ./cmd/,$(filter $(COMMANDS),$(INSTALLED)))
	$(Q)cd export && GOARCH=$(HOSTARCH) $(RELEASEBUILD) -o $(abspath $(RELEASE)/$(HOSTARCH))/ ./cmd/...
endif
	$(Q)for c in $(INSTALLED); do for s in bash zsh fish; do \
		$(RELEASE)/$(HOSTARCH)/$$c completion $$s >$(RELEASE)/$(GOARCH)/completions/$$c.$$s || exit; done; done

INSTALL_SH = PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' DESTDIR='$(DESTDIR)' packaging/install.sh

# Without Go, which root often has not, what make release has made before.
install:
	$(Q)if command -v $(GO) >/dev/null; then $(PARTS) release; fi
	$(Q)$(INSTALL_SH) install files $(RELEASE)/$(GOARCH)

uninstall:
	$(Q)$(INSTALL_SH) uninstall files $(RELEASE)/$(GOARCH)

# The places of what make install installs.
installed:
	$(Q)$(INSTALL_SH) list files $(RELEASE)/$(GOARCH)

# The C library. packaging/library says what of it is installed. Programs find it after ldconfig(8).
.PHONY: install-library uninstall-library installed-library
LIBDIR ?= $(PREFIX)/lib
install-library:
	$(Q)if command -v $(GO) >/dev/null; then $(PARTS) bindings; fi
	$(Q)$(INSTALL_SH) install library $(BINDINGS)
	$(Q)if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi

uninstall-library:
	$(Q)$(INSTALL_SH) uninstall library $(BINDINGS)

installed-library:
	$(Q)$(INSTALL_SH) list library $(BINDINGS)

# The parts of a release, into DIST, for DIST_ARCHES. All but checksums, guest images and types are
# made by tools/dist of what make install installs: by that of the tree below STAGE.
DIST ?= build/dist
DIST_ARCHES ?= amd64 arm64
DISTTOOL := build/tools/dist
STAGE = $(RELEASE)/stage/$(GOARCH)
NUMBER = $(VERSION:v%=%)
DIST_NAME = $(DIST)/quark_$(NUMBER)
LIBRARY_NAME = $(DIST)/libquark_$(NUMBER)

# Parts for one architecture, by a make of its own.
PARTS = $(MAKE) --no-print-directory VERSION='$(VERSION)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)'

.PHONY: disttool stage deb rpm tarball sbom image dist
disttool:
	$(Q)mkdir -p $(DISTTOOL)
	$(Q)cd tools/dist && CGO_ENABLED=0 GOFLAGS= $(HOSTGO) build -buildvcs=false -trimpath -o $(abspath $(DISTTOOL))/ . tool
MKDIST = $(DISTTOOL)/dist -version $(VERSION) -time $(SOURCE_DATE_EPOCH) -arch $(GOARCH)

# What each kind of package begins with: deb and rpm below /usr, the archive below /usr/local.
stage: release
	$(Q)rm -rf $(STAGE) && mkdir -p $(DIST)
	$(Q)PREFIX=/usr DESTDIR=$(STAGE)/rpm packaging/install.sh install files $(RELEASE)/$(GOARCH)
	$(Q)PREFIX=/usr DESTDIR=$(STAGE)/deb ZSH_COMPLETIONS=share/zsh/vendor-completions packaging/install.sh install files $(RELEASE)/$(GOARCH)
	$(Q)PREFIX=/usr/local DESTDIR=$(STAGE)/tar packaging/install.sh install files $(RELEASE)/$(GOARCH)

# Of one version only, so that *.deb is one file.
deb: stage disttool
	$(Q)rm -f $(DIST)/quark_*_$(GOARCH).deb
	$(Q)$(MKDIST) -o $(DIST_NAME)_$(GOARCH).deb deb $(STAGE)/deb
rpm: stage disttool
	$(Q)rm -f $(DIST)/quark_*_$(GOARCH).rpm
	$(Q)$(MKDIST) -o $(DIST_NAME)_$(GOARCH).rpm rpm $(STAGE)/rpm
tarball: stage disttool
	$(Q)$(MKDIST) -o $(DIST_NAME)_linux_$(GOARCH).tar.gz tar $(STAGE)/tar
sbom: stage disttool
	$(Q)$(MKDIST) -o $(DIST_NAME)_linux_$(GOARCH).cdx.json sbom $(STAGE)/rpm

# The C library, in the same kinds of packages: what programs run with, and what compilers want.
# Debian's names and folders are by its policy. It is linked with the glibc of the compiler.
MULTIARCH = $(if $(filter arm64,$(GOARCH)),aarch64,x86_64)-linux-gnu
LIBSTAGE = $(RELEASE)/library/$(GOARCH)
.PHONY: library
library: bindings disttool
	$(Q)rm -rf $(LIBSTAGE) && mkdir -p $(DIST)
	$(Q)rm -f $(DIST)/libquark*_$(GOARCH).deb $(DIST)/libquark*_$(GOARCH).rpm
	$(Q)PREFIX=/usr LIBDIR=/usr/lib/$(MULTIARCH) DESTDIR=$(LIBSTAGE)/deb packaging/install.sh install library $(BINDINGS)
	$(Q)PREFIX=/usr LIBDIR=/usr/lib64 DESTDIR=$(LIBSTAGE)/rpm packaging/install.sh install library $(BINDINGS)
	$(Q)PREFIX=/usr/local LIBDIR=/usr/local/lib PC_PREFIX='$${pcfiledir}/../..' DESTDIR=$(LIBSTAGE)/tar packaging/install.sh install library $(BINDINGS)
	$(Q)$(MKDIST) -part libquark -o $(DIST)/libquark0_$(NUMBER)_$(GOARCH).deb deb $(LIBSTAGE)/deb
	$(Q)$(MKDIST) -part libquark-dev -o $(DIST)/libquark-dev_$(NUMBER)_$(GOARCH).deb deb $(LIBSTAGE)/deb
	$(Q)$(MKDIST) -part libquark -o $(LIBRARY_NAME)_$(GOARCH).rpm rpm $(LIBSTAGE)/rpm
	$(Q)$(MKDIST) -part libquark-dev -o $(DIST)/libquark-devel_$(NUMBER)_$(GOARCH).rpm rpm $(LIBSTAGE)/rpm
	$(Q)$(MKDIST) -o $(LIBRARY_NAME)_linux_$(GOARCH).tar.gz tar $(LIBSTAGE)/tar
	$(Q)$(MKDIST) -o $(LIBRARY_NAME)_linux_$(GOARCH).cdx.json sbom $(LIBSTAGE)/rpm

# An archive of an OCI layout: no daemon makes it, and skopeo, podman and crane take it.
image: disttool
	$(Q)for a in $(DIST_ARCHES); do $(PARTS) stage GOARCH=$$a || exit; done
	$(Q)$(MKDIST) -o $(DIST_NAME)_oci.tar image $(foreach a,$(DIST_ARCHES),$(a)=$(RELEASE)/stage/$(a)/rpm)

dist: disttool
	$(Q)rm -rf $(DIST) && mkdir -p $(DIST)
	$(Q)for a in $(DIST_ARCHES); do \
		image=initramfs.gz; [ $$a = $(HOSTARCH) ] || image=initramfs-$$a.gz; \
		$(PARTS) deb rpm tarball sbom library GOARCH=$$a && \
		$(MAKE) --no-print-directory $$image MONITORS= KERNELS= FILES= && \
		cp $$image $(DIST_NAME)_guest_$$a.initramfs.gz || exit; done
	$(Q)$(PARTS) image GOARCH=$(HOSTARCH)
	$(Q)cp internal/btfhub/archive.bin $(DIST_NAME)_types.bin
	$(Q)$(MKDIST) -o $(DIST)/SHA256SUMS sums $$(ls $(DIST)/*_*)

# What takes minutes: the package's life in a Debian guest, the image's files as a container, and all
# parts of a release twice, in other folders, the second time with nothing compiled before.
GUEST_KERNEL := 6.1-cloud
DEPS_DIST := rpm:/usr/bin/rpm mmdebstrap:/usr/bin/mmdebstrap runc:/usr/sbin/runc|/usr/bin/runc systemd:/usr/bin/systemd-analyze
.PHONY: deps-dist test-dist test-dist-bytes
deps-dist:
	@./.ci/deps $(foreach d,$(DEPS_DIST),'$(d)')

test-dist: deps-dist deps-guest deb rpm image library test-dist-bytes
	$(Q)$(HOSTGO) run ./kernel_images $(GUEST_KERNEL)
	$(Q)QUARK_DEB=$(abspath $(DIST_NAME)_$(GOARCH).deb) QUARK_RPM=$(abspath $(DIST_NAME)_$(GOARCH).rpm) QUARK_KERNEL=$(abspath kernel_images/$(GOARCH)/$(GUEST_KERNEL)) \
		QUARK_LIB_DEB=$(abspath $(DIST)/libquark0_$(NUMBER)_$(GOARCH).deb) QUARK_LIBDEV_DEB=$(abspath $(DIST)/libquark-dev_$(NUMBER)_$(GOARCH).deb) \
		QUARK_LIB_RPM=$(abspath $(LIBRARY_NAME)_$(GOARCH).rpm) QUARK_LIBDEV_RPM=$(abspath $(DIST)/libquark-devel_$(NUMBER)_$(GOARCH).rpm) \
		QUARK_IMAGE=$(abspath $(DIST_NAME)_oci.tar) QUARK_DIST=$(abspath $(DISTTOOL))/dist \
		$(HOSTGO) test -count=1 -v -timeout 1h ./packaging

test-dist-bytes:
	$(Q)dir=$$(mktemp -d) && trap 'chmod -R u+w "$$dir"; rm -rf "$$dir"' EXIT && \
	git clone -q . "$$dir/here" && git clone -q . "$$dir/else/where" && \
	env -u VERSION -u SOURCE_DATE_EPOCH $(MAKE) --no-print-directory -C "$$dir/here" dist DIST_ARCHES='$(DIST_ARCHES)' && \
	env -u VERSION -u SOURCE_DATE_EPOCH GOCACHE="$$dir/cache" $(MAKE) --no-print-directory -C "$$dir/else/where" dist DIST_ARCHES='$(DIST_ARCHES)' && \
	diff -r "$$dir/here/build/dist" "$$dir/else/where/build/dist" && cat "$$dir/here/build/dist/SHA256SUMS"
