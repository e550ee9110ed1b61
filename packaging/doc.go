// Package packaging has what is installed and how: the lists (files and library), the script that
// make install and make uninstall run, the units of systemd and the scripts of packages. What it
// has of Go are tests: that what is installed is complete and can be removed, that commands
// complete their options, and that a unit grants what quark-mon needs and no more.
package packaging
