// Package style holds the tests of how the repository is written: the width of comments, the paths
// that its documents name, and the arrows between its packages. What golangci-lint can check is in
// .golangci.yml instead.
package style
