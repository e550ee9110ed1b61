// Command testsum runs the steps of make test and sums them up.
//
//	testsum run [-gotest | -records] DIR NAME COMMAND...  run one step, keep its outcome in DIR
//	testsum report DIR                                    print "N passed, N failed" over DIR
//
// A step that fails does not stop the next ones: run exits with 0, and report counts it and exits
// with 1. With -gotest the command is a go test -json, and its stream is shown as go test would
// show it and counted by test. With -records the command leaves quark's result records in
// DIR/NAME.jsonl. Any other step counts as one test.
package main
