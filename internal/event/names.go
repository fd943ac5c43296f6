package event

// nameLen is how long the hex of a SHA-256 is.
const nameLen = 64

// NamesIn are the words of a payload that have the form of a SHA-256 in hex, as
// content is named: artifacts, trees, what was staged. They are found by their
// form, in JSON within JSON too, so that nothing that an event type of later
// brings is overlooked. What has the form need not be one.
func NamesIn(payload []byte) []string {
	var names []string
	run := 0
	for i := 0; i <= len(payload); i++ {
		if i < len(payload) && (payload[i] >= '0' && payload[i] <= '9' || payload[i] >= 'a' && payload[i] <= 'f') {
			run++
			continue
		}
		if run == nameLen {
			names = append(names, string(payload[i-run:i]))
		}
		run = 0
	}
	return names
}
