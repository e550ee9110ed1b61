package main

import (
	"bufio"
	"encoding/json"
	"io"
)

// record is what is read of quark-test's records; other types, a guest's hello and end among them,
// are passed over.
type record struct {
	Type    string `json:"type"`
	Test    string `json:"test"`
	Backend string `json:"backend"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
}

// readRecords counts result records. A test that was started and has no result failed: the last one
// started is what a crash or a hang is known by.
func readRecords(r io.Reader) (Counts, error) {
	var counts Counts
	type cell struct{ test, backend string }
	var open []cell
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		var rec record
		if json.Unmarshal(line, &rec) == nil {
			c := cell{rec.Test, rec.Backend}
			switch rec.Type {
			case "start":
				open = append(open, c)
			case "result":
				for i := range open {
					if open[i] == c {
						open = append(open[:i], open[i+1:]...)
						break
					}
				}
				name := rec.Test + " @ " + rec.Backend
				switch rec.State {
				case "pass":
					counts.Passed++
				case "skip":
					counts.Skipped++
				default:
					if rec.Reason != "" {
						name += ": " + rec.Reason
					}
					counts.fail(name)
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
	for _, c := range open {
		counts.fail(c.test + " @ " + c.backend + ": started and never ended")
	}
	return counts, nil
}
