// Package chart draws the charts of the fidelity suite's pages as SVG: curves, bars and their axes,
// with one colour for each backend and monitor.
//
// A drawing has its colours as variables of the page's style sheet, [Style], which has them for a
// light and for a dark page. Alone, in a file, it has those of the light one.
package chart
