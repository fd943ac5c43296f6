package event

// InstructionsFound is the repository's own words for agents in a folder that
// the goal has come to, or such words that have changed since they were shown.
type InstructionsFound struct {
	// Path is the file, relative to the workspace root.
	Path string `json:"path"`
	// Text is what it says; empty when it is gone, or when there was no more
	// room for it.
	Text Text `json:"text,omitzero"`
	// Hash is the SHA-256 of the file's bytes, "" when it is gone.
	Hash string `json:"hash,omitempty"`
	// Changed says that the file was known already, with other words.
	Changed bool `json:"changed,omitempty"`
	// By is the op_id that came to the folder or changed the file, or "external".
	By string `json:"by,omitempty"`
}
