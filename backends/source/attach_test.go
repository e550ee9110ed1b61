package source

import (
	"errors"
	"testing"

	"github.com/quark-linux/quark/engine"
)

func TestAttach(t *testing.T) {
	for a := range Attach(numAttaches) {
		if err := a.Validate(); err != nil || a.String() == "" {
			t.Errorf("%d: %q, %v", a, a, err)
		}
	}
	var wrong *engine.OptionError
	if a := Attach(numAttaches); !errors.As(a.Validate(), &wrong) || wrong.Option != "Attach" || a.String() != "attach(4)" {
		t.Errorf("%s: %v", a, a.Validate())
	}
}
