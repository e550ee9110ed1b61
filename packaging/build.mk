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

.PHONY: release install uninstall
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

# The C library. packaging/library says what of it is installed. Programs find it after ldconfig(8).
.PHONY: install-library uninstall-library
LIBDIR ?= $(PREFIX)/lib
install-library:
	$(Q)if command -v $(GO) >/dev/null; then $(PARTS) bindings; fi
	$(Q)$(INSTALL_SH) install library $(BINDINGS)
	$(Q)if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi

uninstall-library:
	$(Q)$(INSTALL_SH) uninstall library $(BINDINGS)

# The parts of a release, into DIST, for DIST_ARCHES. nfpm, crane and cyclonedx-gomod, which
# tools/go.mod pins, make them of the trees that make install fills. All files have the commit's time.
DIST ?= build/dist
DIST_ARCHES ?= amd64 arm64
STAGE = $(RELEASE)/stage/$(GOARCH)
NUMBER = $(VERSION:v%=%)
DIST_NAME = $(DIST)/quark_$(NUMBER)
LIBRARY_NAME = $(DIST)/libquark_$(NUMBER)

# Parts for one architecture, by a make of its own.
PARTS = $(SUBMAKE) VERSION='$(VERSION)' SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)'

# nfpm CONFIG TREE FILE VARIABLES
nfpm = GOARCH= VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) STAGE=$(2) PACKAGE_ARCH=$(GOARCH) $(4) \
	$(TOOL) nfpm package --config packaging/nfpm/$(1).yaml --packager $(patsubst .%,%,$(suffix $(3))) --target $(3) >/dev/null
# archive TREE DIRECTORY FILE packs TREE below DIRECTORY, the same bytes for the same files.
archive = tar -C $(1) --sort=name --format=gnu --mtime=@$(SOURCE_DATE_EPOCH) --owner=root:0 --group=root:0 \
	--transform='s,^\.,$(2),S' -cf - . | gzip -9n >$(3)
aged = find $(1) -exec touch -hd @$(SOURCE_DATE_EPOCH) {} +

.PHONY: .stage deb rpm .tarball image dist
# What each kind of package begins with: deb and rpm below /usr, the archive below /usr/local. The
# packages name their file in /etc by themselves, as one that its owner may change.
PACKAGES := $(shell awk '$$1 == "package" {print $$2}' packaging/files)
.stage: release
	$(Q)rm -rf $(STAGE) && mkdir -p $(DIST)
	$(Q)PREFIX=/usr DESTDIR=$(STAGE)/rpm packaging/install.sh install files $(RELEASE)/$(GOARCH)
	$(Q)for p in $(PACKAGES); do \
		PACKAGE=$$p PREFIX=/usr DESTDIR=$(STAGE)/rpm.$$p packaging/install.sh install files $(RELEASE)/$(GOARCH) && \
		PACKAGE=$$p PREFIX=/usr DESTDIR=$(STAGE)/deb.$$p ZSH_COMPLETIONS=share/zsh/vendor-completions packaging/install.sh install files $(RELEASE)/$(GOARCH) || exit; done
	$(Q)rm -rf $(STAGE)/rpm/etc $(STAGE)/*.quark/etc
	$(Q)PREFIX=/usr/local DESTDIR=$(STAGE)/tar packaging/install.sh install files $(RELEASE)/$(GOARCH)
	$(Q)$(call aged,$(STAGE))

# Of one version only, so that *.deb has each package once.
deb rpm: .stage
	$(Q)for p in $(PACKAGES); do \
		rm -f $(DIST)/$${p}_*_$(GOARCH).$@; \
		$(call nfpm,$$p,$(STAGE)/$@.$$p,$(DIST)/$${p}_$(NUMBER)_$(GOARCH).$@) || exit; done
.tarball: .stage
	$(Q)$(call archive,$(STAGE)/tar/usr/local,quark-$(NUMBER)-linux-$(GOARCH),$(DIST_NAME)_linux_$(GOARCH).tar.gz)

# The C library, in the same kinds of packages: what programs run with, and what compilers want.
# Debian's names and folders are by its policy. It is linked with the glibc of the compiler.
MULTIARCH = $(if $(filter arm64,$(GOARCH)),aarch64,x86_64)-linux-gnu
LIBSTAGE = $(RELEASE)/library/$(GOARCH)
# The newest version of glibc's symbols that the library needs.
GLIBC = $$(readelf -VW $(BINDINGS)/lib/libquark.so.0 | sed -n 's/.*Name: GLIBC_\([0-9.]*\) .*/\1/p' | sort -V | tail -n 1)
lib_deb = NAME=$(1) LIBDIR=/usr/lib/$(MULTIARCH) GLIBC=$(GLIBC) PACKAGE_VERSION=$(subst -,~,$(NUMBER))
lib_rpm = NAME=$(1) LIBDIR=/usr/lib64 GLIBC=$(GLIBC) PACKAGE_VERSION=$(subst -,~,$(NUMBER))
.PHONY: library
library: bindings
	$(Q)rm -rf $(LIBSTAGE) && mkdir -p $(DIST)
	$(Q)rm -f $(DIST)/libquark*_$(GOARCH).deb $(DIST)/libquark*_$(GOARCH).rpm
	$(Q)PREFIX=/usr LIBDIR=/usr/lib/$(MULTIARCH) DESTDIR=$(LIBSTAGE)/deb packaging/install.sh install library $(BINDINGS)
	$(Q)PREFIX=/usr LIBDIR=/usr/lib64 DESTDIR=$(LIBSTAGE)/rpm packaging/install.sh install library $(BINDINGS)
	$(Q)PREFIX=/usr/local LIBDIR=/usr/local/lib PC_PREFIX='$${pcfiledir}/../..' DESTDIR=$(LIBSTAGE)/tar packaging/install.sh install library $(BINDINGS)
	$(Q)$(call aged,$(LIBSTAGE))
	$(Q)$(call nfpm,libquark,$(LIBSTAGE)/deb,$(DIST)/libquark0_$(NUMBER)_$(GOARCH).deb,$(call lib_deb,libquark0))
	$(Q)$(call nfpm,libquark-dev,$(LIBSTAGE)/deb,$(DIST)/libquark-dev_$(NUMBER)_$(GOARCH).deb,$(call lib_deb,libquark-dev))
	$(Q)$(call nfpm,libquark,$(LIBSTAGE)/rpm,$(LIBRARY_NAME)_$(GOARCH).rpm,$(call lib_rpm,libquark))
	$(Q)$(call nfpm,libquark-dev,$(LIBSTAGE)/rpm,$(DIST)/libquark-devel_$(NUMBER)_$(GOARCH).rpm,$(call lib_rpm,libquark-devel))
	$(Q)$(call archive,$(LIBSTAGE)/tar/usr/local,libquark-$(NUMBER)-linux-$(GOARCH),$(LIBRARY_NAME)_linux_$(GOARCH).tar.gz)

# An archive of an OCI layout: no daemon makes it, and skopeo, podman and crane take it.
image:
	$(Q)for a in $(DIST_ARCHES); do $(PARTS) .stage GOARCH=$$a || exit; done
	$(Q)GOARCH= VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) TOOL='$(TOOL)' \
		packaging/image.sh $(DIST_NAME)_oci.tar $(foreach a,$(DIST_ARCHES),$(a)=$(RELEASE)/stage/$(a)/rpm)

# The lists of parts (SBOM) are those of the module and, as a list has the checksums of directories
# beside a module, of quark-export. They have the checksum of the tool, which must not depend on its
# path.
SBOM = GOFLAGS='-trimpath -buildvcs=false' $(TOOL) cyclonedx-gomod $(1) -json -std -noserial -notimestamp
dist:
	$(Q)rm -rf $(DIST) && mkdir -p $(DIST)
	$(Q)for a in $(DIST_ARCHES); do \
		image=initramfs.gz; [ $$a = $(HOSTARCH) ] || image=initramfs-$$a.gz; \
		$(PARTS) deb rpm .tarball library GOARCH=$$a && \
		$(SUBMAKE) $$image FILES= && \
		cp $$image $(DIST_NAME)_guest_$$a.initramfs.gz || exit; done
	$(Q)$(PARTS) image GOARCH=$(HOSTARCH)
	$(Q)$(call SBOM,mod) -type application -output $(DIST_NAME).cdx.json .
	$(Q)$(call SBOM,bin) -version $(VERSION) -output $(DIST)/quark-export_$(NUMBER).cdx.json $(RELEASE)/$(HOSTARCH)/quark-export
	$(Q)cp btfhub/archive.bin $(DIST_NAME)_types.bin
	$(Q)cd $(DIST) && sha256sum * >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS

# What takes minutes: the package's life in a Debian guest, the image's files as a container, and all
# parts of a release twice, in other folders, the second time with nothing compiled before.
GUEST_KERNEL := 6.1-cloud
.PHONY: test-dist
test-dist: .deps-guest deb rpm image library
	$(Q)./.ci/deps dist
	$(Q)packaging/twice.sh '$(DIST_ARCHES)'
	$(Q)$(HOSTGO) run ./kernel_images $(GUEST_KERNEL)
	$(Q)QUARK_DEB=$(abspath $(DIST_NAME)_$(GOARCH).deb) QUARK_RPM=$(abspath $(DIST_NAME)_$(GOARCH).rpm) QUARK_KERNEL=$(abspath kernel_images/$(GOARCH)/$(GUEST_KERNEL)) \
		QUARK_LIB_DEB=$(abspath $(DIST)/libquark0_$(NUMBER)_$(GOARCH).deb) QUARK_LIBDEV_DEB=$(abspath $(DIST)/libquark-dev_$(NUMBER)_$(GOARCH).deb) \
		QUARK_LIB_RPM=$(abspath $(LIBRARY_NAME)_$(GOARCH).rpm) QUARK_LIBDEV_RPM=$(abspath $(DIST)/libquark-devel_$(NUMBER)_$(GOARCH).rpm) \
		QUARK_IMAGE=$(abspath $(DIST_NAME)_oci.tar) \
		$(HOSTGO) test -count=1 -v -timeout 1h ./packaging
