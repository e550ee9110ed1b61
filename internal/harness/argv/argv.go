// Package argv encodes a command and its arguments for a kernel command line, and decodes them in
// pid 1.
//
// The kernel splits its command line at white space, removes quotes, drops empty words and passes
// at most 32 of the words after "--" to pid 1. So every byte that a URL escapes becomes %XX, except
// the slash. Before an empty argument, and after the first maxWords arguments, %00 separates
// arguments instead of a space. No argument contains that byte.
package argv

import (
	"fmt"
	"net/url"
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
		b.WriteString(strings.ReplaceAll(url.PathEscape(word), "%2F", "/"))
	}
	return b.String()
}

// Decode returns the arguments from a kernel command line's words after "--".
func Decode(words []string) (args []string, err error) {
	for _, word := range words {
		text, err := url.PathUnescape(word)
		if err != nil {
			return nil, fmt.Errorf("kernel argument %q: %w", word, err)
		}
		args = append(args, strings.Split(text, "\x00")...)
	}
	return args, nil
}
