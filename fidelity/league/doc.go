// Package league compares quark's backends and the monitors of others under the same loads, one at
// a time and in turns, judged by the same truth.
//
// [Measure] runs the loads and makes rows, of which each is one load under one participant. [Write]
// and [Read] have them as lines of JSON, and [CSV] as a table for other programs. What is printed
// and drawn, by [Print] and [Page], are medians of rows with their intervals, see [Estimate].
//
// docs/league.md says how it is measured and what the figures are worth.
package league
