package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of go test -json (see go doc test2json) or of go build -json.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

type testKey struct{ pkg, test string }

// readGoTest counts the tests in a go test -json stream and shows the stream's output: of tests
// that failed all of it, of the rest the packages' lines. A test with subtests counts by them. A
// package that failed though no test of it did, for it does not build or a panic ended it, counts
// as one failed test.
func readGoTest(r io.Reader, w io.Writer) (Counts, error) {
	var counts Counts
	outcome := make(map[testKey]string)
	output := make(map[testKey][]string)
	parents := make(map[testKey]bool)
	var order []testKey
	failedPackages := make(map[string]bool)

	br := bufio.NewReader(r)
	for {
		line, err := br.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(w, line) // not every line of go's is JSON
			} else {
				key := testKey{e.Package, e.Test}
				switch e.Action {
				case "build-output":
					fmt.Fprint(w, e.Output)
				case "output":
					if e.Test == "" {
						if !slices.Contains([]string{"PASS\n", "FAIL\n"}, e.Output) {
							fmt.Fprint(w, e.Output)
						}
					} else {
						output[key] = append(output[key], e.Output)
					}
				case "run":
					if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
						parents[testKey{e.Package, e.Test[:i]}] = true
					}
				case "pass", "fail", "skip":
					if e.Test != "" {
						outcome[key] = e.Action
						order = append(order, key)
						if e.Action == "fail" {
							fmt.Fprint(w, strings.Join(output[key], ""))
						}
						delete(output, key)
					} else if e.Action == "fail" {
						failedPackages[e.Package] = true
					}
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return counts, err
		}
	}

	explained := make(map[string]bool) // packages with a failed test
	for _, key := range order {
		switch outcome[key] {
		case "pass":
			if !parents[key] {
				counts.Passed++
			}
		case "skip":
			counts.Skipped++
		case "fail":
			explained[key.pkg] = true
			if !parents[key] || !hasFailedChild(key, outcome) {
				counts.fail(key.pkg + " " + key.test)
			}
		}
	}
	var rest []string
	for pkg := range failedPackages {
		if !explained[pkg] {
			rest = append(rest, pkg)
		}
	}
	slices.Sort(rest)
	for _, pkg := range rest {
		for key, lines := range output { // of tests that never ended
			if key.pkg == pkg && key.test != "" {
				fmt.Fprint(w, strings.Join(lines, ""))
			}
		}
		counts.fail(pkg)
	}
	return counts, nil
}

func hasFailedChild(parent testKey, outcome map[testKey]string) bool {
	for key, o := range outcome {
		if o == "fail" && key.pkg == parent.pkg && strings.HasPrefix(key.test, parent.test+"/") {
			return true
		}
	}
	return false
}
