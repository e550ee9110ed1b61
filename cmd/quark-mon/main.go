package main

import "github.com/quark-linux/quark/cmd/quark-mon/watch"

func main() { watch.Main() }
