package main

import (
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// scripts is where the scripts of packages are, from the repository's root, where dist runs.
const scripts = "packaging/scripts"

// deb writes a package for Debian and its relatives.
func (r release) deb(t tree, w io.Writer) error {
	info := r.info(t)
	info.Deb.Compression = "gzip" // which all releases of dpkg know
	return pack(deb.Default, "deb", info, w)
}

// rpm writes a package for Fedora, RHEL, SUSE and their relatives.
func (r release) rpm(t tree, w io.Writer) error {
	info := r.info(t)
	info.RPM.Summary = "Process telemetry for Linux"
	info.RPM.BuildHost = "localhost" // not the name of the machine that made it
	info.RPM.Compression = "gzip:9"
	return pack(rpm.DefaultRPM, "rpm", info, w)
}

func pack(p nfpm.Packager, format string, info *nfpm.Info, w io.Writer) error {
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	return p.Package(info, w)
}

// info returns what packages of all kinds have.
func (r release) info(t tree) *nfpm.Info {
	info := &nfpm.Info{
		Name:        "quark",
		Arch:        r.arch,
		Version:     r.version,
		Section:     "admin",
		Priority:    "optional",
		Maintainer:  "quark authors <https://github.com/quark-linux/quark>",
		Homepage:    "https://github.com/quark-linux/quark",
		License:     "Apache-2.0",
		Description: "Process telemetry for Linux\nTells what processes do: forks, execs, exits and changes of ids, in order over\nall CPUs, from eBPF, kprobes or the proc connector.",
		MTime:       r.time,
		// The commands are static: they depend on nothing.
		Overridables: nfpm.Overridables{
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinstall.sh"),
				PreRemove:   filepath.Join(scripts, "preremove.sh"),
				PostRemove:  filepath.Join(scripts, "postremove.sh"),
			},
		},
	}
	info.DisableGlobbing = true
	for _, f := range t {
		c := &files.Content{Source: f.path, Destination: "/" + f.name, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.time}}
		switch {
		case !f.mode.IsDir():
		case path.Base(f.name) == info.Name:
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
	return info
}
