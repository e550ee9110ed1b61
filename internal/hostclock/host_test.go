package hostclock

import "testing"

// An image has no id of machine-id(5) in the file.
func TestMachineID(t *testing.T) {
	const id = "3d1219c7c4c5404aaa1f6d2a48adfda4"
	for text, want := range map[string]string{id: id, "uninitialized": "", "": "", id[1:]: "", "x" + id[1:]: ""} {
		if got := machineID(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
