// Package usercache names the directories in the user's cache in which quark keeps what takes long
// to get again: kernel images, results of guests.
package usercache

import (
	"os"
	"os/user"
	"path/filepath"
)

// Dir returns the directory quark/NAME under $XDG_CACHE_HOME or the home directory's .cache, or,
// for a user without a home, fallback.
func Dir(name, fallback string) string {
	base, err := os.UserCacheDir()
	if err != nil {
		u, err := user.Current()
		if err != nil || u.HomeDir == "" || u.HomeDir == "/nonexistent" {
			return fallback
		}
		base = filepath.Join(u.HomeDir, ".cache")
	}
	return filepath.Join(base, "quark", name)
}
