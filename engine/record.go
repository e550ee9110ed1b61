package engine

// Recorder gets the input of an engine, in order. The Writer of package engine/trace implements it.
type Recorder interface {
	// Begin is called first.
	Begin(source Source, clock *Clock)

	// Read is called before each read of the source, with the time.
	Read(now uint64)

	// Record gets an event that the source inserts, or, before the first Read, a process that
	// the engine learns. It must not keep or change r.
	Record(r *RawEvent)
}

// recorded is a buffer that passes each inserted event to a recorder first.
type recorded struct {
	*Buffer
	to Recorder
}

// Insert implements Sink.
func (s recorded) Insert(r *RawEvent) {
	s.to.Record(r)
	s.Buffer.Insert(r)
}
