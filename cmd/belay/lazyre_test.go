package main

import (
	"regexp"
	"testing"

	"belay/internal/lazyre"
)

// TestEveryExpressionCompiles: those that are compiled when they are first used
// would otherwise fail in front of a user.
func TestEveryExpressionCompiles(t *testing.T) {
	t.Parallel()
	texts := lazyre.All()
	if len(texts) < 40 {
		t.Errorf("only %d expressions are known", len(texts))
	}
	for _, text := range texts {
		if _, err := regexp.Compile(text); err != nil {
			t.Error(err)
		}
	}
}
