// Package getent looks up users and groups by getent(1), which also asks directory services.
package getent

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// Lookup returns the name and the id of the entry for one of them in "passwd" or "group". They are
// empty if there is none. An error is only an answer that takes too long.
func Lookup(database, key string) (name, id string, err error) {
	if key == "" || key[0] == '-' {
		return "", "", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "getent", database, key)
	c.WaitDelay = time.Second // a child of it may keep the pipe open
	line, _ := c.Output()
	entry := strings.SplitN(string(line), ":", 4)
	if len(entry) < 4 {
		return "", "", ctx.Err()
	}
	return entry[0], entry[2], nil
}
