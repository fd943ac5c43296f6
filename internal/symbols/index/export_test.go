package index

// A test need not fill thousands of rows to see them go.
func init() { maxStale = 50 }
