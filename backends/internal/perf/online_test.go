package perf

import "testing"

func TestParseCPUEvent(t *testing.T) {
	for _, tc := range []struct {
		s        string
		cpu      int
		gone, ok bool
	}{
		{"online@/devices/system/cpu/cpu1\x00ACTION=online\x00", 1, false, true},
		{"offline@/devices/system/cpu/cpu12\x00", 12, true, true},
		{"change@/devices/system/cpu/cpu12\x00", 0, false, false},
		{"online@/devices/system/cpu/cpuidle\x00", 0, false, false},
		{"online@/devices/system/memory/memory1\x00", 0, false, false},
		{"online@/devices/system/cpu/cpu", 0, false, false},
		{"", 0, false, false},
	} {
		cpu, gone, ok := parseCPUEvent([]byte(tc.s))
		if ok != tc.ok || ok && (cpu != tc.cpu || gone != tc.gone) {
			t.Errorf("%q: got cpu %d, gone %v, ok %v", tc.s, cpu, gone, ok)
		}
	}
}

func FuzzParseCPUEvent(f *testing.F) {
	f.Add([]byte("online@/devices/system/cpu/cpu1\x00"))
	f.Fuzz(func(t *testing.T, b []byte) { parseCPUEvent(b) })
}
