//go:build linux

package features

import (
	"errors"
	"fmt"

	"github.com/quark-linux/quark/internal/kernelversion"
)

// Check compares the claim with the running kernel. It returns what was found, in words, and an
// error if that contradicts the claim.
func (f Feature) Check() (found string, err error) {
	release, err := kernelversion.Running()
	if err != nil {
		return "", err
	}
	old, err := kernelversion.Older(release, f.Since)
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
