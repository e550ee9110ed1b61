package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Release returns the code name of this machine's release of Debian, such as bookworm.
func Release() (string, error) {
	b, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", fmt.Errorf("read this machine's Debian release: %w", err)
	}
	return codename(string(b))
}

func codename(osRelease string) (string, error) {
	for line := range strings.Lines(osRelease) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok && name != "" {
			return strings.Trim(name, `"'`), nil
		}
	}
	return "", errors.New("read this machine's Debian release: /etc/os-release has no VERSION_CODENAME")
}

// Newest fetches the lists of a release, and of its updates if the machine's apt has them. It
// returns the newest version of each package that exists.
func (a *Apt) Newest(ctx context.Context, release string, names ...string) (map[string]Package, error) {
	suites := []string{release, release + "-updates", release + "-security"}
	suites = slices.DeleteFunc(suites, func(s string) bool { return !slices.Contains(a.from.suites, s) })
	if len(suites) == 0 {
		return nil, fmt.Errorf("apt's sources name no archive of %s, this machine's release", release)
	}
	if _, err := a.Update(ctx, suites...); err != nil {
		return nil, err
	}
	all, err := a.Show(ctx, names...)
	if err != nil {
		return nil, err
	}
	newest := make(map[string]Package)
	for _, p := range all {
		old, ok := newest[p.Name]
		older := false
		if ok {
			if older, err = Older(old.Version, p.Version); err != nil {
				return nil, err
			}
		}
		if !ok || older {
			newest[p.Name] = p
		}
	}
	return newest, nil
}
