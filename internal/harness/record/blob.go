package record

import (
	"fmt"
	"path"
	"path/filepath"
)

// blobPart is the number of bytes of a file in a line: in base64 far less than MaxLine, so that a
// line does not occupy the port for long.
const blobPart = 48 << 10

// Blobs returns the records of a file. An empty file has one record.
func Blobs(name string, content []byte) []Blob {
	parts := max(1, (len(content)+blobPart-1)/blobPart)
	list := make([]Blob, parts)
	for i := range list {
		list[i] = Blob{Name: name, Part: i, Parts: parts, Data: content[i*blobPart : min(len(content), (i+1)*blobPart)]}
	}
	return list
}

// Files assembles files from their records.
type Files struct {
	Whole map[string][]byte // by name, complete ones
	open  map[string][]Blob
	size  int
}

// maxFiles limits the bytes of all files of a guest.
const maxFiles = 256 << 20

// Add adds a record. The parts of a file have to come in order; parts of several may be mixed.
func (f *Files) Add(b Blob) error {
	if !filepath.IsLocal(b.Name) || path.Clean(b.Name) != b.Name {
		return fmt.Errorf("file %q: a relative path is wanted", b.Name)
	}
	parts := f.open[b.Name]
	if _, twice := f.Whole[b.Name]; twice || b.Part != len(parts) || b.Part >= b.Parts || b.Part > 0 && b.Parts != parts[0].Parts {
		return fmt.Errorf("file %q: part %d of %d is out of order", b.Name, b.Part, b.Parts)
	}
	if f.size += len(b.Data); f.size > maxFiles {
		return fmt.Errorf("file %q: the files of a guest may have %d bytes in all", b.Name, maxFiles)
	}
	if f.open == nil {
		f.open, f.Whole = make(map[string][]Blob), make(map[string][]byte)
	}
	parts = append(parts, b)
	f.open[b.Name] = parts
	if len(parts) < b.Parts {
		return nil
	}
	content := []byte{}
	for _, p := range parts {
		content = append(content, p.Data...)
	}
	f.Whole[b.Name] = content
	delete(f.open, b.Name)
	return nil
}

// Missing returns the name of a file that lacks parts, or "".
func (f *Files) Missing() string {
	for name := range f.open {
		return name
	}
	return ""
}
