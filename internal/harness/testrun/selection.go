package testrun

import (
	"fmt"
	"path"
	"slices"
)

// Job is one run of a test: on one backend, or on several together.
type Job struct {
	Test     *Test
	Backends []string
}

// cell returns the name of the test on backend i.
func (j Job) cell(i int) string { return j.Test.Name + " @ " + j.Backends[i] }

// sharesWith reports whether one process can run both jobs.
func (j Job) sharesWith(next Job) bool {
	return slices.Equal(j.Backends, next.Backends) && j.Test.Shared == next.Test.Shared && !j.Test.Alone && !next.Test.Alone
}

// choose returns the tests with a name that matches a pattern in only, or all if it is empty,
// without those that match a pattern in except. Every pattern has to match a test.
func choose(tests []Test, only, except []string) (list []*Test, err error) {
	for _, p := range slices.Concat(only, except) {
		if _, err := path.Match(p, ""); err != nil {
			return nil, fmt.Errorf("pattern %q: %w", p, err)
		}
		if !slices.ContainsFunc(tests, func(t Test) bool { return matches([]string{p}, t.Name) }) {
			return nil, fmt.Errorf("no test is called %q (-l lists them)", p)
		}
	}
	for i, t := range tests {
		if (len(only) == 0 || matches(only, t.Name)) && !matches(except, t.Name) {
			list = append(list, &tests[i])
		}
	}
	return list, nil
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name) // choose refuses malformed patterns
		return ok
	})
}

// jobs returns every test on every backend: joint tests on all backends together, the
// tests between them backend by backend, and at the end the tests without a backend.
func jobs(tests []*Test, backends []string) (list []Job) {
	var some, none []*Test
	for _, t := range tests {
		if t.NoBackend {
			none = append(none, t)
		} else {
			some = append(some, t)
		}
	}
	for len(some) > 0 {
		joint, n := some[0].joint(), 1
		for n < len(some) && some[n].joint() == joint {
			n++
		}
		sets := [][]string{backends}
		if !joint {
			sets = slices.Collect(slices.Chunk(backends, 1))
		}
		for _, set := range sets {
			for _, t := range some[:n] {
				list = append(list, Job{t, set})
			}
		}
		some = some[n:]
	}
	for _, t := range none {
		list = append(list, Job{t, []string{noBackend}})
	}
	return list
}
