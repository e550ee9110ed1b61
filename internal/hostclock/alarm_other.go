//go:build !linux

package hostclock

// alarm needs Linux.
type alarm struct{}

func newAlarm() alarm    { return alarm{} }
func (alarm) fd() int    { return -1 }
func (alarm) rang() bool { return false }
func (alarm) close()     {}
