// Package packaging has the lists of installed files (files and library), the script of make
// install and make uninstall, the systemd units and the package scripts. Its Go code is tests: the
// installation is complete and can be removed, commands complete their options, and a unit grants
// exactly the privileges that quark-mon needs.
package packaging
