// Package top counts events and lays out the counts for a screen: rates, the busiest trees and the
// failing commands. It does not use a terminal. Its memory is bounded.
package top
