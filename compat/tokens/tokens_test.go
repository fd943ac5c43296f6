package tokens

import (
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"

	"belay/internal/model/wire"
)

// corpora are the kinds of text that an agent's requests are made of.
func corpora(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, ext := range map[string]string{"Go source": ".go", "Markdown": ".md", "YAML": ".yaml", "go.sum": ".sum"} {
		var b strings.Builder
		err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ext || b.Len() > 400_000 {
				return err
			}
			text, err := os.ReadFile(path)
			b.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		out[name] = b.String()
	}
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 20_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	out["base64"] = base64.StdEncoding.EncodeToString(noise)
	out["hex"] = hex.Dump(noise)
	out["Chinese"] = strings.Repeat("代理在真实的仓库上工作，每一步都记录在账本里，只有证据才能让目标完成。取消必须收敛，预算先预留再花费。", 40)
	out["Japanese"] = strings.Repeat("エージェントは実際のリポジトリで動作し、すべての手順は台帳に記録されます。", 40)
	out["Korean"] = strings.Repeat("에이전트는 실제 저장소에서 작동하며 모든 단계는 원장에 기록됩니다. ", 40)
	out["Russian"] = strings.Repeat("Агент работает в настоящем репозитории, каждый шаг записывается в журнал. ", 40)
	out["German"] = strings.Repeat("Der Agent arbeitet in einem echten Verzeichnis, und jeder Schritt wird aufgezeichnet. ", 40)
	out["emoji"] = strings.Repeat("🙂🚀🔥👩‍💻✅❌⚠️ ", 60)
	out["a stack trace"] = strings.Repeat("goroutine 18 [running]:\nmain.(*Server).serve(0xc000123456, {0x7f3a2b, 0x1c})\n\t/home/me/src/server.go:1423 +0x1a5\n", 60)
	out["minified JSON"] = strings.Repeat(`{"id":18273,"a":[1,2,3.25,-7e10],"k_x":{"y":null,"z":true},"s":"x\n\t\"q\""},`, 60)
	out["test output"] = strings.Repeat("--- FAIL: TestTitle/empty (0.00s)\n    slug_test.go:31: Title(\"\") = \"x\", want \"\"\nok  \texample.com/slug\t0.012s\n", 60)
	return out
}

func TestTheEstimateIsNeverBelowTheVocabularyByMoreThanItSays(t *testing.T) {
	t.Parallel()
	enc, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range corpora(t) {
		ids, _, err := enc.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		guess, truth := float64(wire.Tokens(text)), float64(len(ids))
		ratio := guess / truth
		t.Logf("%-14s %7.0f tokens, estimate %7.0f (%.2f)", name, truth, guess, ratio)
		if ratio < 1-wire.EstimateError {
			t.Errorf("%s: the estimate %.0f is too far below %.0f", name, guess, truth)
		}
		if ratio > 2.5 {
			t.Errorf("%s: the estimate %.0f is useless for %.0f", name, guess, truth)
		}
	}
}
