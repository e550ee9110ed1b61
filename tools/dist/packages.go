package main

import (
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// scripts is where the scripts of packages are, from the repository's root, where dist runs.
const scripts = "packaging/scripts"

// copyright is the file that Debian's policy (12.5) wants in the directory of each package, and where
// it is here.
const copyright = "packaging/copyright"

// part is one package of those that are made of a tree.
type part struct {
	deb, rpm    string // its names
	section     string // by Debian's list
	summary     string
	description string
	service     bool // it has a unit: the scripts are for that
	has         func(name string) bool
	of          string // the part of the same version that it needs
}

// parts are those that -part names. The library is in two: what programs run with, whose name has
// the number of the interface at Debian, and what compilers want.
var parts = map[string]part{
	"quark": {deb: "quark", rpm: "quark", section: "admin", service: true,
		summary:     "Process telemetry for Linux",
		description: "Tells what processes do: forks, execs, exits and changes of ids, in order over\nall CPUs, from eBPF, kprobes or the proc connector.",
		has:         func(string) bool { return true }},
	"libquark": {deb: "libquark0", rpm: "libquark", section: "libs",
		summary:     "Process telemetry for Linux: C library",
		description: "What processes do, as events for programs in C and others: forks, execs, exits\nand changes of ids, in order over all CPUs.",
		has:         func(name string) bool { return !forCompilers(name) }},
	"libquark-dev": {deb: "libquark-dev", rpm: "libquark-devel", section: "libdevel", of: "libquark",
		summary:     "Process telemetry for Linux: files to compile with",
		description: "The header, the static library, the file for pkg-config, the manual pages and\nexamples of libquark.",
		has:         forCompilers},
}

// forCompilers reports whether a file of the library is wanted by those who compile with it only.
func forCompilers(name string) bool {
	return path.Base(name) != "LICENSE" && !sharedLibrary(name)
}

// sharedLibrary reports whether a file is what programs are linked with when they start.
func sharedLibrary(name string) bool { return strings.Contains(path.Base(name), ".so.") }

// deb writes a package for Debian and its relatives.
func (r release) deb(t tree, w io.Writer) error {
	info, p := r.info(t)
	info.Name = p.deb
	info.Deb.Compression = "gzip" // which all releases of dpkg know
	libraries, err := t.libraries(p.has)
	if err != nil {
		return err
	}
	if len(libraries) > 0 {
		info.Depends = append(info.Depends, "libc6 (>= "+newestGlibc(libraries)+")")
		info.Deb.Triggers.ActivateNoAwait = []string{"ldconfig"}
	}
	if p.section != "admin" {
		info.Deb.Fields = map[string]string{"Multi-Arch": "same"}
	}
	if p.of != "" {
		info.Depends = append(info.Depends, parts[p.of].deb+" (= "+r.packageVersion()+")")
	}
	own := "/usr/share/doc/" + p.deb
	if !slices.ContainsFunc(info.Contents, func(c *files.Content) bool { return c.Destination == own }) {
		info.Contents = append(info.Contents, &files.Content{Type: files.TypeDir, Destination: own,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: r.time}})
	}
	info.Contents = append(info.Contents, &files.Content{Source: copyright, Destination: own + "/copyright",
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o644, MTime: r.time}})
	return pack(deb.Default, "deb", info, w)
}

// rpm writes a package for Fedora, RHEL, SUSE and their relatives.
func (r release) rpm(t tree, w io.Writer) error {
	info, p := r.info(t)
	info.Name = p.rpm
	info.RPM.Summary = p.summary
	info.Description = p.description
	info.RPM.BuildHost = "localhost" // not the name of the machine that made it
	info.RPM.Compression = "gzip:9"
	libraries, err := t.libraries(p.has)
	if err != nil {
		return err
	}
	for _, l := range libraries {
		info.Provides = append(info.Provides, l.soname+"()(64bit)")
		info.Depends = append(info.Depends, l.versions...)
	}
	if p.of != "" {
		info.Depends = append(info.Depends, parts[p.of].rpm+" = "+r.packageVersion())
	}
	return pack(rpm.DefaultRPM, "rpm", info, w)
}

// packageVersion is the version as packages have it: a pre-release is older than the release.
func (r release) packageVersion() string {
	return strings.Replace(strings.TrimPrefix(r.version, "v"), "-", "~", 1)
}

func pack(p nfpm.Packager, format string, info *nfpm.Info, w io.Writer) error {
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	return p.Package(info, w)
}

// info returns what packages of all kinds have, and which part of the tree it is.
func (r release) info(t tree) (*nfpm.Info, part) {
	p := parts[r.part]
	info := &nfpm.Info{
		Arch:        r.arch,
		Version:     r.version,
		Section:     p.section,
		Priority:    "optional",
		Maintainer:  "quark authors <https://github.com/quark-linux/quark>",
		Homepage:    "https://github.com/quark-linux/quark",
		License:     "Apache-2.0",
		Description: p.summary + "\n" + p.description,
		MTime:       r.time,
	}
	// The commands are static: they depend on nothing.
	if p.service {
		info.Scripts = nfpm.Scripts{
			PostInstall: filepath.Join(scripts, "postinstall.sh"),
			PreRemove:   filepath.Join(scripts, "preremove.sh"),
			PostRemove:  filepath.Join(scripts, "postremove.sh"),
		}
	}
	info.DisableGlobbing = true
	for _, f := range t {
		c := &files.Content{Source: f.path, Destination: "/" + f.name, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time}}
		switch {
		case !f.mode.IsDir() && !p.has(f.name):
			continue
		case f.link != "":
			c.Source, c.Type = f.link, files.TypeSymlink
		case !f.mode.IsDir():
		case strings.Contains(f.name, "/doc/") && t.below(f.name).any(p.has):
			// A directory of quark's own goes with the package.
			c.Source, c.Type = "", files.TypeDir
		default:
			continue
		}
		if strings.HasPrefix(f.name, "etc/") && !f.mode.IsDir() {
			c.Type = files.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, c)
	}
	return info, p
}
