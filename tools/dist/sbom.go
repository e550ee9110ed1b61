package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom writes the list of parts (CycloneDX) of the tree's commands and libraries: each with its
// SHA-256 and the modules it is linked from, as cyclonedx-gomod reads them from the binary. That
// program is beside this one, as make dist builds it.
func (r release) sbom(t tree, w io.Writer) error {
	all := cdx.NewBOM()
	all.Metadata = &cdx.Metadata{Component: &cdx.Component{BOMRef: t.product(), Type: cdx.ComponentTypeApplication, Name: t.product(), Version: r.version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}}}
	components := make(map[string]cdx.Component)
	dependencies := make(map[string][]string)
	for _, f := range t {
		dir, name := filepath.Split(f.name)
		if f.mode.IsDir() || f.link != "" || filepath.Base(dir) != "bin" && !sharedLibrary(name) {
			continue
		}
		kind := cdx.ComponentTypeApplication
		if sharedLibrary(name) {
			kind = cdx.ComponentTypeLibrary
		}
		bom, err := r.partsOf(f.path)
		if err != nil {
			return fmt.Errorf("list the parts of %s: %w", name, err)
		}
		h := sha256.New()
		if err := copyFile(h, f.path); err != nil {
			return err
		}
		components[name] = cdx.Component{BOMRef: name, Type: kind, Name: name, Version: r.version,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", h.Sum(nil))}}}
		dependencies[t.product()] = append(dependencies[t.product()], name)
		for _, c := range *bom.Components {
			components[c.BOMRef] = c
			dependencies[name] = append(dependencies[name], c.BOMRef)
		}
	}
	all.Components, all.Dependencies = new([]cdx.Component), new([]cdx.Dependency)
	for _, c := range components {
		*all.Components = append(*all.Components, c)
	}
	slices.SortFunc(*all.Components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	for ref, on := range dependencies {
		slices.Sort(on)
		*all.Dependencies = append(*all.Dependencies, cdx.Dependency{Ref: ref, Dependencies: &on})
	}
	slices.SortFunc(*all.Dependencies, func(a, b cdx.Dependency) int { return cmp.Compare(a.Ref, b.Ref) })
	e := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
	e.SetPretty(true)
	e.SetEscapeHTML(false)
	return e.EncodeVersion(all, cdx.SpecVersion1_6)
}

// partsOf returns what one binary is linked from.
func (r release) partsOf(binary string) (*cdx.BOM, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var errs strings.Builder
	c := exec.Command(filepath.Join(filepath.Dir(self), "cyclonedx-gomod"), "bin", "-json", "-std", "-noserial", "-notimestamp", "-version", r.version, binary)
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.String())
	}
	bom := new(cdx.BOM)
	if err := cdx.NewBOMDecoder(bytes.NewReader(out), cdx.BOMFileFormatJSON).Decode(bom); err != nil {
		return nil, err
	}
	if bom.Components == nil || len(*bom.Components) == 0 {
		return nil, fmt.Errorf("cyclonedx-gomod found nothing in it")
	}
	return bom, nil
}
