// Package btfhub has the options that say where the types (BTF) of the running kernel are found.
// What the options lead to is for quark's own packages: internal/btfhub.
package btfhub

import "github.com/quark-linux/quark/internal/btfhub"

// Options select the types: their Path names a file. The zero value is right for most callers: the
// file that [PathVariable] names, else what the kernel offers, else an archive in the binary.
type Options = btfhub.Options

// PathVariable is the environment variable with the path of a BTF file.
const PathVariable = btfhub.PathVariable
