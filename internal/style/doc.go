// Package style tests the form of the repository: the width of comments, paths in documents, and
// the allowed imports. golangci-lint's checks are in .golangci.yml.
package style
