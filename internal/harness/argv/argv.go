// Package argv carries a command and its arguments through a kernel command line to pid 1.
//
// The kernel splits its command line at white space, takes quotes off, drops empty words and gives
// pid 1 at most 32 of those after "--". So a byte that could mean something to the kernel is
// written as %XX, and %00, a byte that no argument can hold, separates two arguments where a space
// would not do.
package argv

import (
	"fmt"
	"strconv"
	"strings"
)

// maxWords is how many words separated by spaces are made: well below the kernel's 32, which its
// own arguments count towards when it does not know them.
const maxWords = 20

// Encode returns words as they stand on a kernel command line after "--".
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

// Decode returns the arguments that the kernel command line's words after "--" stand for.
func Decode(words []string) (args []string, err error) {
	for _, word := range words {
		var b strings.Builder
		for rest := word; rest != ""; {
			before, after, escaped := strings.Cut(rest, "%")
			b.WriteString(before)
			if rest = after; !escaped {
				break
			}
			if len(rest) < 2 {
				return nil, fmt.Errorf("kernel argument %q: a %% that two hex digits do not follow", word)
			}
			c, err := strconv.ParseUint(rest[:2], 16, 8)
			if err != nil {
				return nil, fmt.Errorf("kernel argument %q: a %% that two hex digits do not follow", word)
			}
			b.WriteByte(byte(c))
			rest = rest[2:]
		}
		args = append(args, strings.Split(b.String(), "\x00")...)
	}
	return args, nil
}
