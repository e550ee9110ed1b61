package engine

import (
	"reflect"
	"testing"
	"time"
)

// The cost of a process does not depend on the number of processes that had its pid within the
// grace time.
func TestManyLivesOfOnePID(t *testing.T) {
	const lives = 50000
	for _, c := range []struct {
		name   string
		starts bool
		kinds  []Kind
	}{
		{"all events", true, []Kind{KindFork, KindExec, KindExit}},
		{"no EXIT", true, []Kind{KindFork, KindExec}},
		{"no FORK", true, []Kind{KindExec, KindExit}},
		{"no start times", false, []Kind{KindFork, KindExec, KindExit}},
		{"no FORK and no start times", false, []Kind{KindExec, KindExit}},
	} {
		tab, now := table{clock: new(Clock), reports: reports{births: true, ends: true}}, uint64(time.Second)
		for n, began := 0, time.Now(); n < lives; n++ {
			r := RawEvent{PID: 7}
			if c.starts {
				r.Task = Task{Known: FieldStart.Set(), Start: now, StartUnit: 1}
			}
			for _, r.Kind = range c.kinds {
				r.Time = now
				tab.apply(&r, now)
				now += uint64(20 * time.Microsecond)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Fatalf("%s: %d processes took %v", c.name, n, d)
			}
		}
		if tab.count != lives {
			t.Errorf("%s: got %d processes of %d", c.name, tab.count, lives)
		}
		tab.collect(now, now)
		if live := tab.byPID.get(7); tab.count > 1 || tab.count == 1 && (live.life != living || live.older != nil) {
			t.Errorf("%s: got %d processes after the grace time", c.name, tab.count)
		}
	}
}

// A view is reused for another process: fill leaves no value of the previous process.
func TestFillWritesAll(t *testing.T) {
	var tab table
	p := &process{context: &noContext, image: &noImage}
	var fresh, used Process
	fillNonzero(reflect.ValueOf(&used).Elem())
	tab.fill(&fresh, p)
	tab.fill(&used, p)
	if !reflect.DeepEqual(fresh, used) {
		t.Errorf("reused view: got %+v\nwant %+v", used, fresh)
	}
}

// fillNonzero sets all members of v to nonzero values.
func fillNonzero(v reflect.Value) {
	// By address, unexported members can be set too.
	v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillNonzero(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fillNonzero(v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanInt() {
			v.SetInt(1)
		} else {
			v.SetUint(1)
		}
	}
}
