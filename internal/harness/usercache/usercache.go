// Package usercache names the directories in the user's cache for data that takes long to obtain
// again: kernel images, programs for guests, results of guests. [Files] keeps files there with
// their checksums.
package usercache

import (
	"os"
	"path/filepath"
)

// Dir returns the directory quark/NAME under $XDG_CACHE_HOME or $HOME/.cache, or fallback if
// neither is set.
func Dir(name, fallback string) string {
	base, err := os.UserCacheDir()
	if err != nil {
		return fallback
	}
	return filepath.Join(base, "quark", name)
}
