package fidelity

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Append appends the report to a file as one line of JSON. The file may be a serial line that
// carries other records too.
func (r *Report) Append(path string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if _, err = f.Write(append(b, '\n')); err != nil {
		err = fmt.Errorf("write the report: %w", err)
	}
	return errors.Join(err, f.Close())
}

// maxLine is the longest accepted record in bytes.
const maxLine = 64 << 20

// Read returns the reports in a file of records, one per line. Records of other types are skipped.
// Of several reports of one run only the last, which is the most complete, is kept. A file
// without a report is an error.
func Read(path string) (list []*Report, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if list, err = decode(f); err == nil && len(list) == 0 {
		err = errors.New("the file has no report: quark-fidelity run -o writes one")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return list, nil
}

func decode(in io.Reader) (list []*Report, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		var kind struct {
			Type string `json:"type"`
		}
		if len(line) == 0 || json.Unmarshal(line, &kind) != nil || kind.Type != recordType {
			continue
		}
		r := new(Report)
		if err := json.Unmarshal(line, r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if n := len(list); n > 0 && list[n-1].sameRun(r) {
			list[n-1] = r
			continue
		}
		list = append(list, r)
	}
	return list, lines.Err()
}

func (r *Report) sameRun(o *Report) bool {
	return r.Kernel == o.Kernel && r.Arch == o.Arch && r.Time.Equal(o.Time)
}
