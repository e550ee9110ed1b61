package soak

import (
	"errors"
	"fmt"
	"slices"
)

const (
	// At least warmUp samples are not judged, and at most longWarmUp, a quarter of all:
	// meanwhile caches are filled, and buffers grow to what the largest burst so far needs.
	warmUp, longWarmUp = 2, 30
	// fewest is how many have to be left: three thirds of two.
	fewest = 6
	// flat is by which part memory may be more at the end.
	flat = 0.05
)

// Grown names what was more at the end than at the begin. It compares the last third of the samples
// with the first one, so that what comes and goes is none, and of memory the least of each that was
// not amid the events of others. An error says that there are too few samples to say so of memory,
// or of anything.
func Grown(samples []Sample) (grown []string, err error) {
	if len(samples) < warmUp+fewest {
		return nil, fmt.Errorf("%d samples say nothing: %d are needed", len(samples), warmUp+fewest)
	}
	samples = samples[min(max(warmUp, len(samples)/4), longWarmUp):]
	third := len(samples) / 3
	first, last := samples[:third], samples[len(samples)-third:]
	calmFirst, calmLast := calm(first), calm(last)
	for i, f := range samples[0].Figures {
		value := func(s Sample) int64 { return s.Figures[i].Value }
		if f.Slack == 0 {
			if was, is := slices.Max(each(first, value)), slices.Min(each(last, value)); is > was {
				grown = append(grown, fmt.Sprintf("%s: %d, then %d", f.Name, was, is))
			}
			continue
		}
		if len(calmFirst) == 0 || len(calmLast) == 0 {
			err = errBusy
			continue
		}
		was, is := slices.Min(each(calmFirst, value)), slices.Min(each(calmLast, value))
		if more := is - was; more > f.Slack && float64(more) > flat*float64(was) {
			grown = append(grown, fmt.Sprintf("%s: %s, then %s, %.1f %% more", f.Name, mebibytes(was), mebibytes(is), 100*float64(more)/float64(was)))
		}
	}
	return grown, err
}

// errBusy is the error of samples that say nothing of memory at the begin, or at the end.
var errBusy = errors.New("other processes had many events all the time: nothing is known of memory, soak on a calm machine")

// calm returns the samples that were not amid the events of others.
func calm(samples []Sample) (list []Sample) {
	for _, s := range samples {
		if !s.Busy {
			list = append(list, s)
		}
	}
	return list
}

func each(samples []Sample, value func(Sample) int64) (list []int64) {
	for _, s := range samples {
		list = append(list, value(s))
	}
	return list
}
