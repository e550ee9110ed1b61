// Package style holds the tests of how the repository is written: the width of comments, and the
// paths that its documents name. What golangci-lint can check is in .golangci.yml instead.
package style
