// Package getent looks up users and groups by getent(1), which also queries directory services.
package getent

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// Lookup returns the name and the id of the entry in the database "passwd" or "group" that has key
// as its name or id. Both are empty if there is no entry. Only a timeout is an error.
func Lookup(database, key string) (name, id string, err error) {
	if key == "" || key[0] == '-' {
		return "", "", nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "getent", database, key)
	c.WaitDelay = time.Second // a child process of getent may keep the pipe open
	line, _ := c.Output()
	entry := strings.SplitN(string(line), ":", 4)
	if len(entry) < 4 {
		return "", "", ctx.Err()
	}
	return entry[0], entry[2], nil
}
