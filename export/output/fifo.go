package output

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/quark-linux/quark/export/internal/spool"
)

// fifo is a FIFO. It stays open while nobody reads it: what the last reader left in it is the next
// one's, who gets what comes after it without half a line between.
type fifo struct {
	name  string
	f     *os.File
	begun int // bytes of the next entry's line that are in the FIFO
}

// openFIFO does not wait for a reader: as one that ends may come back, the first line tries.
func openFIFO(name string) (*fifo, error) {
	f := &fifo{name: name}
	if err := f.open(); err != nil && !errors.Is(err, syscall.ENXIO) {
		return nil, err
	}
	return f, nil
}

func (f *fifo) open() error {
	opened, err := os.OpenFile(f.name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("no program reads this FIFO: %w", err)
	}
	if err != nil {
		return err
	}
	if st, err := opened.Stat(); err != nil || st.Mode().Type() != os.ModeNamedPipe {
		return errors.Join(fmt.Errorf("%s is no FIFO any more", f.name), err, opened.Close())
	}
	f.f, f.begun = opened, 0
	return nil
}

func (f *fifo) close() error {
	if f.f == nil {
		return nil
	}
	return f.f.Close()
}

func (f *fifo) send(ctx context.Context, batch []entry) spool.Outcome {
	return oneByOne(ctx, batch, func(e *entry) error {
		if err := renew(&f.f, f.name, f.open); err != nil {
			return err
		}
		err := within(ctx, f.f, func() error {
			n, err := f.f.Write(e.line[f.begun:])
			f.begun += n
			return err
		})
		if err == nil {
			f.begun = 0
		}
		return err
	})
}
