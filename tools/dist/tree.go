package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// tree is what make install made, sorted by name: directories before what is in them.
type tree []file

// file is a file, a directory or a link.
type file struct {
	name string // below the tree's root, as usr/bin/quark-mon
	path string // where it is
	mode fs.FileMode
	size int64
	link string // what a link has, the name of a file beside it
}

// readTree reads what is in a directory. All of it must be regular files, directories and links to
// files beside them.
func readTree(dir string) (t tree, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var link string
		switch info.Mode().Type() {
		case 0, fs.ModeDir:
		case fs.ModeSymlink:
			if link, err = os.Readlink(p); err != nil {
				return err
			}
			if filepath.Base(link) != link {
				return fmt.Errorf("%s is a link to %s, which is not beside it", p, link)
			}
			if _, err := os.Stat(p); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s is neither a file nor a directory", p)
		}
		f := file{name: filepath.ToSlash(strings.TrimPrefix(p, filepath.Clean(dir)+"/")), path: p, mode: info.Mode() & (fs.ModeDir | fs.ModePerm), link: link}
		if info.Mode().IsRegular() {
			f.size = info.Size()
		}
		t = append(t, f)
		return nil
	})
	if err == nil && len(t) == 0 {
		err = fmt.Errorf("%s is empty", dir)
	}
	return t, err
}

// product is what the tree is: quark, or libquark.
func (t tree) product() string {
	if t.any(sharedLibrary) {
		return "libquark"
	}
	return "quark"
}

// below returns what is below a directory of the tree, with names from there.
func (t tree) below(dir string) (sub tree) {
	for _, f := range t {
		if name, ok := strings.CutPrefix(f.name, dir+"/"); ok {
			f.name = name
			sub = append(sub, f)
		}
	}
	return sub
}

// any reports whether there is a file with such a name in the tree.
func (t tree) any(has func(name string) bool) bool {
	return slices.ContainsFunc(t, func(f file) bool { return !f.mode.IsDir() && has(f.name) })
}

// writeTar writes the tree as root's files of that time, below a directory; "" is none.
func (t tree) writeTar(w *tar.Writer, dir string, mtime time.Time) error {
	for _, f := range t {
		h := &tar.Header{Name: path.Join(dir, f.name), Mode: int64(f.mode.Perm()), Size: f.size, ModTime: mtime, Typeflag: tar.TypeReg,
			Uname: "root", Gname: "root", Format: tar.FormatGNU}
		switch {
		case f.mode.IsDir():
			h.Name, h.Typeflag = h.Name+"/", tar.TypeDir
		case f.link != "":
			h.Linkname, h.Typeflag = f.link, tar.TypeSymlink
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := copyFile(w, f.path); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, f)
	return err
}
