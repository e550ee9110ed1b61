package cnproc

import (
	"math/rand/v2"
	"testing"
)

func TestSequence(t *testing.T) {
	for _, c := range []struct {
		name string
		seqs []uint32
		gaps uint64
	}{
		{"first", []uint32{7}, 0},
		{"in order", []uint32{7, 8, 9}, 0},
		{"one lost", []uint32{7, 9}, 1},
		{"many lost", []uint32{7, 1007}, 999},
		{"wrap", []uint32{0xfffffffe, 0xffffffff, 0, 1}, 0},
		{"loss over the wrap", []uint32{0xfffffffe, 2}, 3},
	} {
		var s sequence
		for i, seq := range c.seqs {
			if n, _ := s.saw(2, seq, uint64(i)); uint32(n) != seq {
				t.Errorf("%s: got number %d for %d", c.name, n, seq)
			}
		}
		if s.gaps != c.gaps {
			t.Errorf("%s: got %d lost, want %d", c.name, s.gaps, c.gaps)
		}
	}
}

// TestSequenceIsExact compares gaps with a plain count of the missing numbers.
func TestSequenceIsExact(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var s sequence
		var lost uint64
		next := [3]uint32{r.Uint32(), 0xffffff00, 0}
		var hidden [3]uint64
		for range 2000 {
			cpu := r.IntN(3)
			if s.sawAny(uint32(cpu)) && r.IntN(10) == 0 {
				n := uint32(r.IntN(500))
				next[cpu] += n
				hidden[cpu] += uint64(n)
				continue
			}
			lost += hidden[cpu]
			hidden[cpu] = 0
			s.saw(uint32(cpu), next[cpu], 0)
			next[cpu]++
		}
		if s.gaps != lost {
			t.Fatalf("seed %d: got %d lost, want %d", seed, s.gaps, lost)
		}
	}
}

func (s *sequence) sawAny(cpu uint32) bool { return int(cpu) < len(s.cpus) && s.cpus[cpu].seen }
