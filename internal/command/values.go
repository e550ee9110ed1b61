package command

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// File is the value of an option that names a file.
type File string

// Set implements pflag.Value.
func (f *File) Set(name string) error {
	switch name {
	case "":
		return errors.New("the name is empty")
	case "-":
		return errors.New("write /dev/stdin or /dev/stdout, or ./- for the file of this name")
	}
	*f = File(name)
	return nil
}

func (f *File) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *File) Type() string { return "file" }

// Span is the value of an option for a duration above 0. A plain number means seconds.
type Span time.Duration

// Set implements pflag.Value.
func (s *Span) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a time: use seconds, or a unit as in 100ms or 5m", text)
	case d <= 0:
		return errors.New("must be above 0")
	}
	*s = Span(d)
	return nil
}

func (s *Span) String() string {
	if *s == 0 {
		return "" // then the help shows no default
	}
	return time.Duration(*s).String()
}

// Type implements pflag.Value.
func (s *Span) Type() string { return "time" }
