// Package webshell detects shells that a web server has started.
package webshell

import (
	"context"
	"iter"
	"path"

	"github.com/quark-linux/quark"
)

var (
	servers = map[string]bool{"nginx": true, "apache2": true, "httpd": true}
	shells  = map[string]bool{"sh": true, "bash": true, "dash": true}
)

// Shell is a shell and the web server's process that forked it, which may have ended since.
type Shell struct{ Shell, Server *quark.Process }

// Find yields each such shell when it is executed.
func Find(ctx context.Context, q *quark.Queue) iter.Seq2[Shell, error] {
	return func(yield func(Shell, error) bool) {
		for ev, err := range q.Events(ctx) {
			if err != nil {
				yield(Shell{}, err)
				return
			}
			if p := ev.Process; ev.Events.Has(quark.EventExec) && runs(p, shells) {
				// PPID is another once the server has ended; Birth never changes.
				server := q.LookupIdentity(p.Birth.Parent)
				if server != nil && runs(server, servers) && !yield(Shell{p.Clone(), server.Clone()}, nil) {
					return
				}
			}
		}
	}
}

func runs(p *quark.Process, programs map[string]bool) bool {
	return p.Known.Has(quark.FieldExe) && programs[path.Base(p.Image.Exe)]
}
