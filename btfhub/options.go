// Package btfhub has the options that select the types (BTF) of the running kernel. Package
// internal/btfhub implements them.
package btfhub

import "github.com/quark-linux/quark/internal/btfhub"

// Options select the types: Path names a file. The zero value is right for most callers: the file
// that [PathVariable] names, else the kernel's own, else an archive in the binary.
type Options = btfhub.Options

// PathVariable is the environment variable with the path of a BTF file.
const PathVariable = btfhub.PathVariable
