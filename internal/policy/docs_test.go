package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const docsFile = "../../docs/policy.md"

// knowledgeTable renders the built-in knowledge as docs/policy.md shows it.
func knowledgeTable() string {
	var b strings.Builder
	b.WriteString("| id | what belay knows | programs |\n| --- | --- | --- |\n")
	for _, k := range Builtin() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.ID, k.Says, strings.ReplaceAll(strings.Join(k.Programs, ", "), "|", `\|`))
	}
	return b.String()
}

func TestDocsShowTheBuiltinKnowledge(t *testing.T) {
	b, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "`belay policy explain` names it with each part.\n\n"
	head, table, ok := strings.Cut(string(b), mark)
	if !ok {
		t.Fatalf("%s has lost the line before the table: %q", docsFile, mark)
	}
	if *update {
		if err := os.WriteFile(docsFile, []byte(head+mark+knowledgeTable()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != knowledgeTable() {
		t.Errorf("the table in %s is not what the code knows; run go test ./internal/policy -run TestDocs -update", docsFile)
	}
}
