// Package selection has the options that choose a backend and events. quark-mon and quark-export
// share them.
package selection
