package soak

import (
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
// with the first one, so that what comes and goes is none, and of memory their medians. An error
// says that there are too few samples to say so.
func Grown(samples []Sample) (grown []string, err error) {
	if len(samples) < warmUp+fewest {
		return nil, fmt.Errorf("%d samples say nothing: %d are needed", len(samples), warmUp+fewest)
	}
	samples = samples[min(max(warmUp, len(samples)/4), longWarmUp):]
	third := len(samples) / 3
	for i, f := range samples[0].Figures {
		var first, last []int64
		for k := range third {
			first = append(first, samples[k].Figures[i].Value)
			last = append(last, samples[len(samples)-1-k].Figures[i].Value)
		}
		if f.Slack == 0 {
			if was, is := slices.Max(first), slices.Min(last); is > was {
				grown = append(grown, fmt.Sprintf("%s: %d, then %d", f.Name, was, is))
			}
			continue
		}
		was, is := median(first), median(last)
		if more := is - was; more > f.Slack && float64(more) > flat*float64(was) {
			grown = append(grown, fmt.Sprintf("%s: %s, then %s, %.1f %% more", f.Name, mebibytes(was), mebibytes(is), 100*float64(more)/float64(was)))
		}
	}
	return grown, nil
}

// median returns the lower one of the two in the middle.
func median(list []int64) int64 {
	list = slices.Sorted(slices.Values(list))
	return list[(len(list)-1)/2]
}
