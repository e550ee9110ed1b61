package usercache

import "testing"

func TestDir(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/c")
	if got := Dir("kernels", "f"); got != "/c/quark/kernels" {
		t.Errorf("got %s", got)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if got := Dir("kernels", "f"); got != "f" {
		t.Errorf("without HOME: got %s", got)
	}
}
