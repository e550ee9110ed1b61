// Package refusals carries, from the host to the tests in a guest, which backends a machine is
// expected to refuse, and with which words. A variable of the environment has both; it is a word of
// the guest's kernel command line and so has neither spaces nor quotes.
package refusals

import (
	"fmt"
	"net/url"
)

// Variable is the name of the variable. It may be set and empty: none is refused.
const Variable = "QUARK_REFUSED"

// Encode returns the variable's value for words of the reason by backend.
func Encode(words map[string]string) string {
	v := make(url.Values)
	for backend, w := range words {
		v.Set(backend, w)
	}
	return v.Encode()
}

// Decode is the inverse of Encode.
func Decode(value string) (words map[string]string, err error) {
	v, err := url.ParseQuery(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	words = make(map[string]string)
	for backend := range v {
		words[backend] = v.Get(backend)
	}
	return words, nil
}
