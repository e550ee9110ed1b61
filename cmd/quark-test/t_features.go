package main

import "github.com/quark-linux/quark/backends/features"

// kernelFeatures checks the table of features against this kernel.
func kernelFeatures(t *test) {
	for _, f := range features.Table {
		found, err := f.Check()
		t.Logf("%s: %s: %s", f.Backend, f.Name, found)
		if err != nil {
			t.Errorf("%v", err)
		}
	}
}
