//go:build linux

package ecs_test

import (
	"context"
	"fmt"
	"os"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export/ecs"
)

// Write a document a line, as quark-mon --ecs does.
func Example() {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer q.Close()
	encoder := ecs.NewEncoder(q)
	var line []byte
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		line = append(encoder.Append(line[:0], ev), '\n')
		os.Stdout.Write(line)
	}
}
