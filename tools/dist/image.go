package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image writes an archive of an OCI layout with an image for each ARCH=TREE. It has the commands,
// static ones, and no other program.
func (r release) image(trees []string, w io.Writer) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, operand := range trees {
		arch, dir, ok := strings.Cut(operand, "=")
		if !ok {
			return fmt.Errorf("%q: ARCH=TREE is wanted", operand)
		}
		t, err := readTree(dir)
		if err != nil {
			return err
		}
		img, err := r.imageOf(arch, t)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir, err := os.MkdirTemp("", "quark-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// One descriptor with the name by which tools ask for the image.
	p, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	name := map[string]string{"org.opencontainers.image.ref.name": r.tag()}
	if err := p.AppendIndex(index, layout.WithAnnotations(name)); err != nil {
		return err
	}
	t, err := readTree(dir)
	if err != nil {
		return err
	}
	for i := range t {
		t[i].mode = t[i].mode&^0o777 | 0o644
		if t[i].mode.IsDir() {
			t[i].mode |= 0o111
		}
	}
	tw := tar.NewWriter(w)
	return errors.Join(t.writeTar(tw, "", r.time), tw.Close())
}

// tag is the version as a tag of images, which has no plus sign.
func (r release) tag() string {
	return strings.ReplaceAll(strings.TrimPrefix(r.version, "v"), "+", "-")
}

// accounts are those of the image. Root is who can have the capabilities of a container.
var accounts = map[string]string{
	"etc/passwd": "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n",
	"etc/group":  "root:x:0:\nnogroup:x:65534:\n",
}

func (r release) imageOf(arch string, t tree) (v1.Image, error) {
	layer, err := r.layer(t)
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: r.time}
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: created, CreatedBy: "make image", Comment: "quark " + r.version}})
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/quark-mon"},
		Cmd:        []string{"--ebpf", "--no-snapshot", "--json"},
		User:       "0:0",
		WorkingDir: "/",
		Env:        []string{"PATH=/usr/bin"},
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":    "quark",
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/quark-linux/quark",
		},
	}
	return mutate.ConfigFile(img, config)
}

// layer returns the files of the image: the commands, the licence and accounts.
func (r release) layer(t tree) (v1.Layer, error) {
	dir, err := os.MkdirTemp("", "quark-layer-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name, text := range accounts {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			return nil, err
		}
	}
	files, err := readTree(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range t {
		if f.mode.IsDir() || strings.HasPrefix(f.name, "usr/bin/") || strings.HasSuffix(f.name, "/LICENSE") {
			files = append(files, f)
		}
	}
	files = files.withoutEmpty()
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	if err := errors.Join(files.writeTar(tw, "", r.time), tw.Close()); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer))
}

// withoutEmpty returns the tree without directories in which there is no file.
func (t tree) withoutEmpty() (full tree) {
	used := make(map[string]bool)
	for _, f := range t {
		for dir := filepath.Dir(f.name); !f.mode.IsDir() && dir != "."; dir = filepath.Dir(dir) {
			used[dir] = true
		}
	}
	for _, f := range t {
		if !f.mode.IsDir() || used[f.name] {
			full = append(full, f)
		}
	}
	return full
}
