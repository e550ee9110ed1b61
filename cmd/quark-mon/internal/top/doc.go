// Package top counts what processes do and lays it out for a screen: rates, the busiest trees and
// the commands that fail. It has no terminal, and its memory does not grow with what processes do.
package top
