package main

import "github.com/quark-linux/quark/backends/features"

// kernelFeatures holds the table of what the backends ask for against this kernel.
func kernelFeatures(t *test) {
	for _, f := range features.Table {
		found, err := f.Check()
		t.Logf("%s: %s: %s", f.Backend, f.Name, found)
		if err != nil {
			t.Errorf("%v", err)
		}
	}
}
