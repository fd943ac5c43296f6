package event

// Standing is where git stands in a working tree.
type Standing struct {
	Head   string `json:"head,omitempty"`
	Branch string `json:"branch,omitempty"` // "" when HEAD is detached
	// Doing is what is going on, in words: a merge, a rebase.
	Doing string `json:"doing,omitempty"`
}

// Worktree is a checkout of a goal's own, made at the exact state in which the
// user's directory was.
type Worktree struct {
	// Of is the directory that it was made from: what belay apply brings the
	// result to.
	Of string `json:"of"`
	// Dir is the top of the checkout.
	Dir    string `json:"dir"`
	Head   string `json:"head,omitempty"`
	Branch string `json:"branch,omitempty"`
	// Copied and Linked are the ignored paths that it was given.
	Copied []string `json:"copied,omitempty"`
	Linked []string `json:"linked,omitempty"`
}
