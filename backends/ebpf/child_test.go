package ebpf

import (
	"fmt"
	"testing"

	"github.com/quark-linux/quark/internal/sourcetest"
)

func TestMain(m *testing.M) { sourcetest.Main(m, map[string]func(){"dropped": dropped}) }

// dropped opens a source, says which programs it loaded, and uses it without
// privileges until it is killed.
func dropped() {
	s, err := Open(Options{})
	sourcetest.Try("open", err)
	for _, p := range s.programs {
		info, err := p.Info()
		sourcetest.Try("info", err)
		id, _ := info.ID()
		fmt.Print(id, " ")
	}
	sourcetest.Dropped(s)
	fmt.Scanln()
}
