package engine

// Gap describes events that a source lost: cause, CPU, time span and number. A source inserts a
// [RawEvent] of [KindGap] with From as its Time. So the gap precedes all states that the lost
// events could have changed.
type Gap struct {
	Cause Loss
	CPU   uint32 // the CPU that lost them, or AllCPUs

	// From and To enclose the times of the lost events, in CLOCK_MONOTONIC nanoseconds.
	From, To uint64

	// Count is a lower bound of the number of lost events. 0 is unknown.
	Count uint64
}

// AllCPUs is the CPU of a [Gap] that may concern any CPU.
const AllCPUs = ^uint32(0)

// SetGap makes r the event of a gap.
func (r *RawEvent) SetGap(g Gap) {
	r.Kind, r.Time, r.Gap = KindGap, g.From, &g
}
