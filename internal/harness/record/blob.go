package record

import (
	"fmt"
	"path"
	"path/filepath"
)

// blobPart is the number of bytes of a file in a line. In base64 they are far less than MaxLine, so
// that a line does not occupy the port for long.
const blobPart = 48 << 10

// Blobs returns the records of a file. An empty file has one record.
func Blobs(name string, content []byte) (list []Blob) {
	for at := 0; at == 0 || at < len(content); at += blobPart {
		list = append(list, Blob{Name: name, Offset: at, Size: len(content), Data: content[at:min(len(content), at+blobPart)]})
	}
	return list
}

// Files assembles files from their records.
type Files struct {
	Whole map[string][]byte // complete files, by name
	open  map[string][]byte
	size  int
}

// maxFiles limits the bytes of all files of a guest.
const maxFiles = 256 << 20

// Add adds a record. The parts of a file must be in order; parts of several files may be mixed.
func (f *Files) Add(b Blob) error {
	if !filepath.IsLocal(b.Name) || path.Clean(b.Name) != b.Name {
		return fmt.Errorf("file %q: want a relative path", b.Name)
	}
	content := f.open[b.Name]
	if _, twice := f.Whole[b.Name]; twice || b.Offset != len(content) || b.Offset+len(b.Data) > b.Size {
		return fmt.Errorf("file %q: the part at %d of %d is out of order", b.Name, b.Offset, b.Size)
	}
	if f.size += len(b.Data); f.size > maxFiles {
		return fmt.Errorf("file %q: the files of a guest exceed %d bytes in total", b.Name, maxFiles)
	}
	if f.open == nil {
		f.open, f.Whole = make(map[string][]byte), make(map[string][]byte)
	}
	f.open[b.Name] = append(content, b.Data...)
	if len(f.open[b.Name]) == b.Size {
		f.Whole[b.Name] = f.open[b.Name]
		delete(f.open, b.Name)
	}
	return nil
}

// Missing returns the name of an incomplete file, or "".
func (f *Files) Missing() string {
	for name := range f.open {
		return name
	}
	return ""
}
