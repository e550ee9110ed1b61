package distropkg

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// An rpm has a lead of 96 bytes, of which only the magic still counts, a header with signatures,
// padded to 8 bytes, a header that describes the package, and the packed cpio archive of its files
// (format V3 and V4 of rpm.org).
const (
	rpmMagic    = "\xed\xab\xee\xdb"
	rpmLead     = 96
	headerMagic = "\x8e\xad\xe8\x01"
	headerStart = 16
	indexEntry  = 16

	// maxHeader bounds an index and the values of a header. A kernel's package with its names
	// of modules has some 2 MB.
	maxHeader = 64 << 20
)

// Tags of the header, and the types of values that are texts.
const (
	tagName    = 1000
	tagVersion = 1001
	tagRelease = 1002
	tagArch    = 1022

	typeString     = 6
	typeI18NString = 9
)

var errHeader = errors.New("a header of the rpm is damaged")

func (p *Package) readRPM(r *bufio.Reader) error {
	if _, err := r.Discard(rpmLead); err != nil {
		return err
	}
	_, size, err := rpmHeader(r)
	if err != nil {
		return err
	}
	if _, err := r.Discard(-size & 7); err != nil {
		return err
	}
	texts, _, err := rpmHeader(r)
	if err != nil {
		return err
	}
	p.Name, p.Version, p.Arch = texts[tagName], texts[tagVersion]+"-"+texts[tagRelease], goArch(texts[tagArch])
	head, _ := r.Peek(len(cpioMagic))
	content, err := p.decompress(r, string(head) == cpioMagic)
	if err != nil {
		return err
	}
	p.files = &cpioFiles{r: content}
	return nil
}

// rpmHeader reads a header and returns its texts by their tags, and the size of the values.
func rpmHeader(r io.Reader) (texts map[uint32]string, size int, err error) {
	var start [headerStart]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", errHeader, err)
	}
	entries, bytesOfValues := binary.BigEndian.Uint32(start[8:]), binary.BigEndian.Uint32(start[12:])
	if string(start[:4]) != headerMagic || entries > maxHeader/indexEntry || bytesOfValues > maxHeader {
		return nil, 0, errHeader
	}
	// A forged size costs no memory that the file does not have.
	var b bytes.Buffer
	all := int64(entries)*indexEntry + int64(bytesOfValues)
	if n, err := b.ReadFrom(io.LimitReader(r, all)); err != nil || n < all {
		return nil, 0, errors.Join(errHeader, err)
	}
	index, values := b.Next(int(entries)*indexEntry), b.Bytes()
	texts = make(map[uint32]string)
	for ; len(index) > 0; index = index[indexEntry:] {
		tag, kind, at := binary.BigEndian.Uint32(index), binary.BigEndian.Uint32(index[4:]), binary.BigEndian.Uint32(index[8:])
		if kind != typeString && kind != typeI18NString {
			continue
		}
		if at >= uint32(len(values)) {
			return nil, 0, errHeader
		}
		text, _, ok := bytes.Cut(values[at:], []byte{0})
		if !ok {
			return nil, 0, errHeader
		}
		if _, repeated := texts[tag]; !repeated {
			texts[tag] = string(text)
		}
	}
	return texts, len(values), nil
}
