package api

//go:generate go test -count=1 -run TestTheDocumentOfTheAPIIsCurrent -update .
