// Command gen writes docs/events.md, the reference of every event type, from
// the source of package event and package fault.
//
// The names, fields and words come from the syntax tree, the versions from the
// registry that the codec uses, so the page can only say what the code does. It
// runs by `go generate ./internal/event` or `make generate`.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	events := flag.String("events", ".", "folder of package event")
	faults := flag.String("faults", "../fault", "folder of package fault")
	out := flag.String("out", "../../docs/events.md", "file to write")
	flag.Parse()
	page, err := reference(*events, *faults)
	if err == nil {
		err = os.WriteFile(*out, page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen: the event reference was not written:", err)
		os.Exit(1)
	}
}
