// Command webshell prints an alert for each shell that runs below a web server, at any depth, and
// for each shell that reads from a socket.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/quark-linux/quark"
)

// rules tags web servers, and passes shells with an inherited tag. A process with an unknown
// executable does not count as a web server. The socket of a reverse shell leads to another host.
const rules = `
tag web if known exe and exe == (nginx, apache2, httpd)
web-shell: pass if exec and tag == web and exe == (sh, bash, dash, zsh)
reverse-shell: pass if exec and known stdin_type and stdin_family == (inet, inet6) and exe == (sh, bash, dash, zsh)
drop on any
`

func main() {
	where, err := quark.ParseRules(rules)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	q, err := quark.OpenContext(ctx, quark.Options{Where: where})
	if err != nil {
		log.Fatal(err) // the error names the missing privilege or kernel option
	}
	defer q.Close()
	if err := alert(ctx, q, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// alert writes a line for each event that passes a rule.
func alert(ctx context.Context, q *quark.Queue, w io.Writer) error {
	for ev, err := range q.Events(ctx) {
		if err != nil {
			return err
		}
		if len(ev.Rules) == 0 {
			continue // an event of kind GAP
		}
		args, _ := ev.Process.Args() // empty if unknown
		note := ""
		if ev.Unsure { // the ancestors are unknown
			note = " (unsure)"
		}
		fmt.Fprintf(w, "%v: pid %d: %s%s\n", ev.Rules, ev.Process.PID, strings.Join(args, " "), note)
	}
	return nil
}
