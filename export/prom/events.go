package prom

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quark-linux/quark"
)

// status is the outcome of an event, for kinds that have one.
type status uint8

const (
	statusNone status = iota
	statusSuccess
	statusFailure
	statusSignal
	statusUnknown
	numStatuses
)

func (s status) String() string {
	return [numStatuses]string{"", "success", "failure", "signal", "unknown"}[s]
}

// kindGone is the index of GONE in a tally. GONE is not a kind of raw event.
const kindGone = quark.NumKinds

// tally counts events by kind and status, with single threads counted separately.
type tally [2][quark.NumKinds + 1][numStatuses]atomic.Uint64

func (t *tally) count(ev *quark.Event) {
	scope := &t[0]
	if ev.Thread {
		scope = &t[1]
	}
	for i := range ev.Parts {
		scope[ev.Parts[i].Kind][statusOf(ev, ev.Parts[i].Kind)].Add(1)
	}
	if ev.Events.Has(quark.EventGone) {
		scope[kindGone][statusUnknown].Add(1)
	}
}

func statusOf(ev *quark.Event, kind quark.Kind) status {
	switch kind {
	case quark.KindExecFailed:
		return statusFailure
	case quark.KindExit:
		p := ev.Process
		switch {
		case p == nil || !p.Known.Has(quark.FieldExit):
			return statusUnknown
		case p.Exit.Signal() != 0:
			return statusSignal
		case p.Exit.Code() != 0:
			return statusFailure
		}
		return statusSuccess
	}
	return statusNone
}

// statuses returns the statuses that events of a kind can have. All are exported before the first
// event, so that a rate that includes the first event is right.
func statuses(kind int) []status {
	switch quark.Kind(kind) {
	case quark.KindExit:
		return []status{statusSuccess, statusFailure, statusSignal, statusUnknown}
	case quark.KindExecFailed:
		return []status{statusFailure}
	case kindGone:
		return []status{statusUnknown}
	}
	return []status{statusNone}
}

func (t *tally) collect(out chan<- prometheus.Metric) {
	for scope, name := range []string{"process", "thread"} {
		for kind := range t[scope] {
			if kind == int(quark.KindGap) {
				continue // losses are counted by cause
			}
			label := "gone"
			if kind != kindGone {
				label = strings.ToLower(quark.Kind(kind).String())
			}
			for _, s := range statuses(kind) {
				n := t[scope][kind][s].Load()
				if n > 0 || scope == 0 {
					out <- prometheus.MustNewConstMetric(descEvents, prometheus.CounterValue, float64(n), label, s.String(), name)
				}
			}
		}
	}
}
