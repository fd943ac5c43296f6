package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"belay/internal/cli"
	"belay/internal/ledger"
	"belay/internal/recall"
	"belay/internal/recall/embed"
	"belay/internal/recall/index"
	"belay/internal/service"
)

// envEmbeddings names the embedder, as --embeddings does. Its address and key are
// those of the openai model unless they are given.
const (
	envEmbeddings    = "BELAY_EMBEDDINGS"
	envEmbeddingsURL = "BELAY_EMBEDDINGS_URL"
	envEmbeddingsKey = "BELAY_EMBEDDINGS_KEY"
)

// searcher is the index over a ledger. Its file is opened by the first search.
// Each ledger has its own: two of one state directory know nothing of each other.
func searcher(state, db string, l ledger.Ledger, o cli.OpenOptions) (recall.Recall, error) {
	c := index.Config{Path: filepath.Join(state, index.FileName), Ledger: l, Secrets: secrets()}
	if db != "" {
		sum := sha256.Sum256([]byte(db))
		c.Path = filepath.Join(state, "recall-"+hex.EncodeToString(sum[:6])+".db")
	}
	if o.Embeddings != "" {
		provider, name, _ := strings.Cut(o.Embeddings, ":")
		if provider != "openai" || name == "" {
			return nil, fmt.Errorf("%w: --embeddings %q: name it as openai:NAME", service.ErrUsage, o.Embeddings)
		}
		at := embed.Config{Model: name, BaseURL: os.Getenv("OPENAI_BASE_URL"), Key: os.Getenv("OPENAI_API_KEY")}
		if u := os.Getenv(envEmbeddingsURL); u != "" {
			// A key is never sent to an address that it was not given for.
			at.BaseURL, at.Key = u, ""
		}
		if k := os.Getenv(envEmbeddingsKey); k != "" {
			at.Key = k
		}
		e, err := embed.New(at)
		if err != nil {
			return nil, err
		}
		c.Embedder = e
	}
	return index.New(c), nil
}
