//go:build linux

package features

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Check holds the claim against the running kernel. It returns what was found, in words, and an error if that is not what
// was claimed.
func (f Feature) Check() (found string, err error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	release := unix.ByteSliceToString(u.Release[:])
	old, err := older(release, f.Since)
	if err != nil {
		return "", err
	}
	err = f.Probe()
	switch {
	case err == nil && old:
		return "there", fmt.Errorf("%s: %s is there on Linux %s, claimed is %s", f.Backend, f.Name, release, f.Since)
	case err == nil:
		return "there", nil
	case errors.Is(err, errors.ErrUnsupported) && old:
		return "absent before " + f.Since, nil
	}
	if f.Built != nil {
		if why := f.Built(); why != "" {
			return why, nil
		}
	}
	return "absent", fmt.Errorf("%s: %s, which Linux has since %s: %w", f.Backend, f.Name, f.Since, err)
}

// older tells whether a release, as uname -r, is older than version x.y.
func older(release, version string) (bool, error) {
	r, err := majorMinor(release)
	if err != nil {
		return false, err
	}
	v, err := majorMinor(version)
	if err != nil {
		return false, err
	}
	return r < v, nil
}

// majorMinor returns 1000 x + y of x.y and whatever follows.
func majorMinor(version string) (int, error) {
	parts := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) < 2 || version == "" || version[0] < '0' || version[0] > '9' {
		return 0, fmt.Errorf("version %q: x.y is wanted", version)
	}
	x, err1 := strconv.Atoi(parts[0])
	y, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil || y > 999 {
		return 0, fmt.Errorf("version %q: x.y is wanted", version)
	}
	return 1000*x + y, nil
}
