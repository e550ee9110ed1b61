// Package argv encodes a command and its arguments for a kernel command line, and decodes them in
// pid 1.
//
// The kernel splits its command line at white space, removes quotes, drops empty words and passes
// at most 32 of the words after "--" to pid 1. So a byte with a meaning to the kernel becomes %XX.
// Before an empty argument, and after the first maxWords arguments, %00 separates arguments instead
// of a space. No argument contains that byte.
package argv

import (
	"fmt"
	"strconv"
	"strings"
)

// maxWords bounds the words that spaces separate. The kernel's limit of 32 includes its own
// unrecognized arguments.
const maxWords = 20

// Encode returns arguments in the form for a kernel command line after "--".
func Encode(words []string) string {
	var b strings.Builder
	for i, word := range words {
		switch {
		case i == 0:
		case word == "" || i >= maxWords:
			b.WriteString("%00")
		default:
			b.WriteByte(' ')
		}
		for _, c := range []byte(word) {
			if plain(c) {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("_.,:=/@+^~-", c) >= 0
}

// Decode returns the arguments from a kernel command line's words after "--".
func Decode(words []string) (args []string, err error) {
	for _, word := range words {
		var b strings.Builder
		for i, part := range strings.Split(word, "%") {
			if i > 0 {
				c, err := strconv.ParseUint(part[:min(2, len(part))], 16, 8)
				if err != nil || len(part) < 2 {
					return nil, fmt.Errorf("kernel argument %q: want two hex digits after %%", word)
				}
				b.WriteByte(byte(c))
				part = part[2:]
			}
			b.WriteString(part)
		}
		args = append(args, strings.Split(b.String(), "\x00")...)
	}
	return args, nil
}
