// Package render turns results into bytes: tables for people, TSV for shell tools, JSON and JSON lines for programs, and
// progress for whoever waits. It is the only user of the table and progress bar libraries, and decides nothing: callers
// hand it finished values.
//
// Whatever goes to a terminal is escaped here, so a control byte in an order id cannot move the cursor. Nothing here
// writes colour.
package render
