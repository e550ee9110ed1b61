package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// tree is what make install made, sorted by name: directories before what is in them.
type tree []file

// file is a file or a directory.
type file struct {
	name string // below the tree's root, as usr/bin/quark-mon
	path string // where it is
	mode fs.FileMode
	size int64
}

// readTree reads what is in a directory. All of it must be regular files and directories.
func readTree(dir string) (t tree, err error) {
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !d.IsDir() && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a directory", p)
		}
		f := file{name: filepath.ToSlash(strings.TrimPrefix(p, filepath.Clean(dir)+"/")), path: p, mode: info.Mode() & (fs.ModeDir | fs.ModePerm)}
		if !d.IsDir() {
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

// writeTar writes the tree as root's files of that time, below a directory; "" is none.
func (t tree) writeTar(w *tar.Writer, dir string, mtime time.Time) error {
	for _, f := range t {
		h := &tar.Header{Name: path.Join(dir, f.name), Mode: int64(f.mode.Perm()), Size: f.size, ModTime: mtime, Typeflag: tar.TypeReg,
			Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if f.mode.IsDir() {
			h.Name, h.Typeflag = h.Name+"/", tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if f.mode.IsDir() {
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
