package engine

// Field names a group of process attributes that is known or unknown as a whole. Zero and the empty
// string are values: only the flag marks a field as unknown.
type Field uint8

func (f Field) String() string {
	if int(f) < NumFields {
		return fieldNames[f]
	}
	return "unknown_field"
}

// Set returns the set with f alone.
func (f Field) Set() Fields { return 1 << f }

// Fields is a set of fields.
type Fields uint64

// SetOf returns the set of the given fields.
func SetOf(fields ...Field) (s Fields) {
	for _, f := range fields {
		s |= f.Set()
	}
	return s
}

// Has reports whether f is in s.
func (s Fields) Has(f Field) bool { return s&(1<<f) != 0 }

// With returns s with f added.
func (s Fields) With(f Field) Fields { return s | 1<<f }

// String joins the names with ",".
func (s Fields) String() string { return string(s.append(nil)) }

// append appends the text of String.
func (s Fields) append(b []byte) []byte {
	start := len(b)
	for f := range Field(NumFields) {
		if !s.Has(f) {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, f.String()...)
	}
	return b
}

// appendJSON appends the names as an array, after a key with its bracket. It skips an empty set.
func (s Fields) appendJSON(b []byte, key string) []byte {
	if s == 0 {
		return b
	}
	b = append(b, key...)
	for ; s != 0; s &= s - 1 {
		b = append(append(append(b, '"'), s.first().String()...), '"', ',')
	}
	b[len(b)-1] = ']'
	return b
}
