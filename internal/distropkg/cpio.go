package distropkg

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The archive in an rpm has the format "new ASCII" of cpio(5): for each file a header of
// hexadecimal numbers, the name and the content, the last two padded to 4 bytes.
const (
	cpioMagic  = "07070"
	cpioHeader = 110
	cpioEnd    = "TRAILER!!!"

	maxName = 1 << 16

	modeType    = 0o170000
	modeRegular = 0o100000
	modeLink    = 0o120000
)

var errCPIO = errors.New("the cpio archive is damaged")

// cpioFiles are the files of a cpio archive.
type cpioFiles struct {
	r    io.Reader
	left int64 // of the present file
	pad  int64 // after it
}

func (c *cpioFiles) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.r.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	if errors.Is(err, io.EOF) && c.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *cpioFiles) next() (File, error) {
	for {
		f, mode, err := c.header()
		if err != nil {
			return File{}, err
		}
		switch mode & modeType {
		case modeRegular:
			return f, nil
		case modeLink:
			link, err := io.ReadAll(io.LimitReader(c, maxName))
			f.Link = string(link)
			return f, err
		}
	}
}

// header skips what is left of the file before and reads the next header.
func (c *cpioFiles) header() (f File, mode uint64, err error) {
	skip := c.left + c.pad
	if n, err := io.CopyN(io.Discard, c.r, skip); n < skip {
		return f, 0, fmt.Errorf("%w: %w", errCPIO, noEOF(err))
	}
	var h [cpioHeader]byte
	if _, err := io.ReadFull(c.r, h[:]); err != nil {
		return f, 0, fmt.Errorf("%w: %w", errCPIO, noEOF(err))
	}
	if string(h[:len(cpioMagic)]) != cpioMagic || h[5] != '1' && h[5] != '2' {
		return f, 0, fmt.Errorf("%w: a header starts with %q", errCPIO, h[:6])
	}
	field := func(at int) uint64 {
		v, e := strconv.ParseUint(string(h[at:at+8]), 16, 32)
		err = errors.Join(err, e)
		return v
	}
	mode, size, length := field(14), field(54), field(94)
	if err != nil || length == 0 || length > maxName {
		return f, 0, errCPIO
	}
	name := make([]byte, length+-(cpioHeader+length)&3)
	if _, err := io.ReadFull(c.r, name); err != nil {
		return f, 0, fmt.Errorf("%w: %w", errCPIO, noEOF(err))
	}
	text := string(name[:length-1]) // without the NUL
	if text == cpioEnd {
		return f, 0, io.EOF
	}
	c.left, c.pad = int64(size), int64(-size&3)
	return File{Name: clean(text), Size: int64(size)}, mode, nil
}

// noEOF makes the end of a truncated archive an error.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) || err == nil {
		return io.ErrUnexpectedEOF
	}
	return err
}
