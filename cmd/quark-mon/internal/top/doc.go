// Package top counts the events of processes and lays the counts out for a screen: rates, the
// busiest trees and the commands that fail. It has no terminal, and its memory is bounded.
package top
