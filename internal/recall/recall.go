package recall

import (
	"context"

	"belay/internal/moment"
)

// Kind says what a hit is.
type Kind string

// The kinds of hits.
const (
	Operation Kind = "operation" // a call with its result
	Said      Kind = "said"      // what people and the model said, planned and decided
	Fact      Kind = "fact"      // any other event
	File      Kind = "file"      // a part of a file of the repository
	Symbol    Kind = "symbol"    // where a name is defined
)

// Query is what is looked for. Zero values do not narrow.
type Query struct {
	Text string
	// Goal is one goal; without it Repo names those of one repository.
	Goal, Repo string
	// File is a path, a folder or a bare file name.
	File    string
	Tool    string
	Outcome string
	// Since and Until bound the time of events.
	Since, Until moment.Time
	// Kinds are those that are wanted.
	Kinds []Kind
	// Limit is how many hits come back at most; 0 means DefaultLimit.
	Limit int
}

// The number of hits: by default, and at the most.
const (
	DefaultLimit = 10
	MaxLimit     = 100
)

// Wants reports whether hits of a kind are asked for.
func (q Query) Wants(kinds ...Kind) bool {
	if len(q.Kinds) == 0 {
		return true
	}
	for _, k := range kinds {
		for _, w := range q.Kinds {
			if k == w {
				return true
			}
		}
	}
	return false
}

// OnlyEvents reports whether a filter is set that a file of the repository
// cannot pass.
func (q Query) OnlyEvents() bool {
	return q.Tool != "" || q.Outcome != "" || !q.Since.IsZero() || !q.Until.IsZero()
}

// Hit is one thing that was found, with the reference by which all of it can be
// read.
type Hit struct {
	Kind Kind `json:"kind"`
	// Ref is event:GOAL/SEQ, or path:LINE for what stands in the repository.
	Ref  string      `json:"ref"`
	Goal string      `json:"goal,omitempty"`
	Seq  uint64      `json:"seq,omitempty"`
	Op   string      `json:"op_id,omitempty"`
	Time moment.Time `json:"time,omitzero"`
	Path string      `json:"path,omitempty"`
	Line int         `json:"line,omitempty"`
	Tool string      `json:"tool,omitempty"`
	// Outcome is how the operation ended, "" while it is open.
	Outcome string `json:"outcome,omitempty"`
	// Action is what was done or said, in a line.
	Action string `json:"action"`
	// Text are the lines of the feedback, or of the file, that fit best.
	Text string `json:"text,omitempty"`
	// Whole is the address of the whole output, if it is kept apart.
	Whole string `json:"artifact,omitempty"`
	// Because is what the model said when it asked for the operation.
	Because string `json:"because,omitempty"`
	// Then is what came of it: how a failure was got over.
	Then []Link `json:"then,omitempty"`
	// Alike counts further hits with the same action and the same text.
	Alike int `json:"alike,omitempty"`
	// By names the searches that found it: text, vectors, symbols.
	By []string `json:"by,omitempty"`
}

// Link is an operation that follows from another.
type Link struct {
	Ref     string `json:"ref"`
	Op      string `json:"op_id"`
	Action  string `json:"action"`
	Outcome string `json:"outcome"`
}

// Answer is what a search came to.
type Answer struct {
	Hits []Hit `json:"hits"`
	// Notes say what the answer lacks, in words: a part that is not indexed yet,
	// an embedder that did not answer.
	Notes []string `json:"notes,omitempty"`
}

// Recall finds. Files is the repository to search as well, nil for none; what
// more sources find is fused with it.
type Recall interface {
	Search(ctx context.Context, q Query, files Files, more ...Source) (Answer, error)
	Close() error
}

// Files is the content of a repository at one instant.
type Files interface {
	// Root names the repository: its absolute path.
	Root() string
	// Tree identifies the content: equal trees hold the same files.
	Tree(ctx context.Context) (string, error)
	// List are the files of a tree, by path, with what identifies their bytes.
	List(ctx context.Context, tree string) ([]FileID, error)
	// Read reads files of a tree, at most limit bytes of each.
	Read(ctx context.Context, tree string, paths []string, limit int64) (map[string][]byte, error)
}

// FileID is one file of a tree.
type FileID struct{ Path, ID string }

// Source is a further ranking beside the index's own, best hits first, that is
// fused with them.
type Source interface {
	// Name is what Hit.By calls it.
	Name() string
	Find(ctx context.Context, q Query) ([]Hit, error)
}

// Embedder turns texts into vectors whose angle tells how much they are alike.
type Embedder interface {
	// Name identifies the vectors: those of two names are never compared.
	Name() string
	// Embed returns one vector for each text.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}
