package engine

// FieldChange describes how the value of a field can change while a process runs.
type FieldChange struct {
	// By is the set of event kinds that can change the field. A source that does not report all
	// of them misses changes.
	By Events
	// Unseen describes how the field can change without an event; "" if it cannot.
	Unseen string
}

// ChangedUnseen returns the fields that can change without an event, or with an event that a source
// with this table does not always report.
func (t *CapabilityTable) ChangedUnseen() Fields {
	var reported Events
	for k := range t.Kinds {
		if t.all(Kind(k)) {
			reported |= Kind(k).Events()
		}
	}
	unseen := ChangeUnseen
	for f, c := range FieldChanges {
		if c.By&^reported != 0 {
			unseen |= Field(f).Set()
		}
	}
	if t.Kinds[KindNSChange].Omits&OmitUserNS != 0 {
		unseen |= FieldUserNS.Set()
	}
	if t.Kinds[KindIDChange].Omits&OmitPGID != 0 {
		unseen |= FieldPGID.Set()
	}
	return unseen
}

// Reported returns the kinds of events that the source reports, at least in part.
func (t *CapabilityTable) Reported() (kinds Events) {
	for k, c := range t.Kinds {
		if c.Origin != OriginNone {
			kinds |= Kind(k).Events()
		}
	}
	return kinds
}

// all reports whether the source reports every event of a kind.
func (t *CapabilityTable) all(k Kind) bool {
	return t.Kinds[k].Origin != OriginNone && t.Kinds[k].Partial == 0
}
