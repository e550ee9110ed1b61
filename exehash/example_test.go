package exehash_test

import (
	"context"
	"fmt"
	"log"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/exehash"
)

func Example() {
	q, err := quark.Open(quark.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer q.Close()
	var hashes exehash.Cache
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			log.Fatal(err)
		}
		if !ev.Events.Has(quark.EventExec) {
			continue
		}
		if sum, err := hashes.Sum(ev.Process); err == nil {
			fmt.Printf("%x %s\n", sum.SHA256, ev.Process.Image.Exe)
		}
	}
}
