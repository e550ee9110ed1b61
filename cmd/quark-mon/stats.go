package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark"
)

const statsHeader = "  insertions    removals        aggs    non-aggs        lost     gc-cols    buffered   processes\n"

func statsRow(s *quark.Stats) string {
	return fmt.Sprintf("%12d%12d%12d%12d%12d%12d%12d%12d\n", s.Insertions, s.Removals, s.Aggregations, s.NonAggregations,
		s.Lost(), s.GarbageCollections, s.Buffered, s.Processes)
}

// summary returns a sentence with the numbers of delivered and lost events.
func (m *monitor) summary(s *quark.Stats) string {
	var b strings.Builder
	fmt.Fprintf(&b, "quark-mon: %s, ", countNoun(s.Aggregations+s.NonAggregations, "event", "events"))
	if s.Source.Bound {
		b.WriteString("at least ")
	}
	fmt.Fprintf(&b, "%s lost", groupDigits(s.Lost()))
	var causes []string
	for l := range quark.Loss(quark.NumLosses) {
		if n := s.Source.Lost[l]; n > 0 {
			causes = append(causes, fmt.Sprintf("%s %s", l, groupDigits(n)))
		}
	}
	if len(causes) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(causes, ", "))
	}
	if m.filtered {
		fmt.Fprintf(&b, ", %s filtered, %s unsure", groupDigits(s.Filtered), groupDigits(s.Unsure))
	}
	if n := s.Source.Unread; n > 0 {
		fmt.Fprintf(&b, ", %s not read from /proc", groupDigits(n))
	}
	if n := s.Source.Blocked; n > 0 {
		fmt.Fprintf(&b, ", %s blocked", groupDigits(n))
	}
	return b.String() + "\n"
}

// countNoun returns a number with the right form of its noun.
func countNoun(n uint64, one, many string) string {
	if n == 1 {
		many = one
	}
	return groupDigits(n) + " " + many
}

// groupDigits returns a number with commas between groups of three digits.
func groupDigits(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// printStats prints one line of -M or -vvv, and a heading before every 20th line.
func (m *monitor) printStats() error {
	s, err := m.q.Stats()
	if err != nil {
		return err
	}
	if m.count && m.json {
		line, err := json.Marshal(newStatsRecord(&s))
		if err != nil {
			return err
		}
		_, err = m.stats.Write(append(line, '\n'))
		return err
	}
	if m.rows%20 == 0 {
		io.WriteString(m.stats, statsHeader)
	}
	m.rows++
	_, err = io.WriteString(m.stats, statsRow(&s))
	return err
}

// statsRecord is a line of -M -j.
type statsRecord struct {
	Time               time.Time         `json:"time"`
	Backend            string            `json:"backend"`
	Types              string            `json:"types,omitempty"`
	Insertions         uint64            `json:"insertions"`
	Removals           uint64            `json:"removals"`
	Aggregations       uint64            `json:"aggregations"`
	NonAggregations    uint64            `json:"non_aggregations"`
	GarbageCollections uint64            `json:"garbage_collections"`
	Late               uint64            `json:"late"`
	Filtered           uint64            `json:"filtered"`
	Unsure             uint64            `json:"unsure"`
	Buffered           int               `json:"buffered"`
	Processes          int               `json:"processes"`
	Produced           uint64            `json:"produced"`
	Lost               uint64            `json:"lost"`
	LostBy             map[string]uint64 `json:"lost_by"`
	LostIsLowerBound   bool              `json:"lost_is_lower_bound"`
	Unread             uint64            `json:"unread"`
	Blocked            uint64            `json:"blocked"`
}

func newStatsRecord(s *quark.Stats) *statsRecord {
	r := &statsRecord{
		Time: time.Now().UTC(), Backend: s.Backend, Types: s.Types, Insertions: s.Insertions, Removals: s.Removals,
		Aggregations: s.Aggregations, NonAggregations: s.NonAggregations, GarbageCollections: s.GarbageCollections,
		Late: s.Late, Filtered: s.Filtered, Unsure: s.Unsure, Buffered: s.Buffered, Processes: s.Processes, Produced: s.Source.Produced, Lost: s.Lost(),
		LostBy: make(map[string]uint64), LostIsLowerBound: s.Source.Bound, Unread: s.Source.Unread, Blocked: s.Source.Blocked,
	}
	for l := range quark.Loss(quark.NumLosses) {
		r.LostBy[l.String()] = s.Source.Lost[l]
	}
	return r
}
