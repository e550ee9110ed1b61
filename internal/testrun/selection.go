package testrun

import (
	"fmt"
	"path"
)

// Job is a test on a backend.
type Job struct {
	Test    *Test
	Backend string
}

func (j Job) String() string { return j.Test.Name + " @ " + j.Backend }

// sharesWith is whether one process can run both.
func (j Job) sharesWith(next Job) bool {
	return j.Backend == next.Backend && j.Test.Shared == next.Test.Shared && !j.Test.Alone && !next.Test.Alone
}

// choose returns the tests whose names match one of the patterns in only, all
// if there are none, without those that match one in except. Every pattern has to
// match a test.
func choose(tests []Test, only, except []string) ([]*Test, error) {
	chosen := make(map[string]bool)
	for _, t := range tests {
		chosen[t.Name] = len(only) == 0
	}
	mark := func(pattern string, value bool) error {
		found := false
		for _, t := range tests {
			ok, err := path.Match(pattern, t.Name)
			if err != nil {
				return fmt.Errorf("pattern %q: %w", pattern, err)
			}
			if ok {
				chosen[t.Name], found = value, true
			}
		}
		if !found {
			return fmt.Errorf("no test is called %q (-l lists them)", pattern)
		}
		return nil
	}
	for _, p := range only {
		if err := mark(p, true); err != nil {
			return nil, err
		}
	}
	for _, p := range except {
		if err := mark(p, false); err != nil {
			return nil, err
		}
	}
	var list []*Test
	for i := range tests {
		if chosen[tests[i].Name] {
			list = append(list, &tests[i])
		}
	}
	return list, nil
}

// jobs returns every test on every backend, backend by backend, and at the end
// those that need none.
func jobs(tests []*Test, backends []string) (list []Job) {
	for _, b := range backends {
		for _, t := range tests {
			if !t.NoBackend {
				list = append(list, Job{t, b})
			}
		}
	}
	for _, t := range tests {
		if t.NoBackend {
			list = append(list, Job{t, noBackend})
		}
	}
	return list
}
