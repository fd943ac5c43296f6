package modeltest_test

import (
	"testing"

	"belay/internal/model"
	"belay/internal/model/anthropic"
	"belay/internal/model/modeltest"
	"belay/internal/model/openai"
	"belay/internal/model/script"
)

func played(t *testing.T, yaml string) *script.Model {
	t.Helper()
	s, err := script.Parse([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return script.New(s, "scripted")
}

// behind starts a provider that plays a script with the given flaws.
func behind(t *testing.T, yaml string, flaws modeltest.Answer) *modeltest.Provider {
	t.Helper()
	play := modeltest.Play(played(t, yaml))
	p := modeltest.New(func(r modeltest.Request) modeltest.Answer {
		a := play(r)
		a.Seed, a.Whole, a.Dialect, a.LineEnd = flaws.Seed, flaws.Whole && a.CutShare == 0, flaws.Dialect, flaws.LineEnd
		return a
	})
	p.Key = "sk-test-0123456789"
	t.Cleanup(p.Close)
	return p
}

func overOpenAI(flaws modeltest.Answer) func(*testing.T, string) model.Model {
	return func(t *testing.T, yaml string) model.Model {
		p := behind(t, yaml, flaws)
		m, err := openai.New(openai.Config{Name: "gpt-test", Key: p.Key, BaseURL: p.OpenAIBase()})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func overAnthropic(flaws modeltest.Answer) func(*testing.T, string) model.Model {
	return func(t *testing.T, yaml string) model.Model {
		p := behind(t, yaml, flaws)
		m, err := anthropic.New(anthropic.Config{Name: "claude-test", Key: p.Key, BaseURL: p.AnthropicBase()})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func TestScriptConforms(t *testing.T) {
	t.Parallel()
	modeltest.Run(t, func(t *testing.T, yaml string) model.Model { return played(t, yaml) })
}

func TestOpenAIConforms(t *testing.T) {
	t.Parallel()
	for name, flaws := range map[string]modeltest.Answer{
		"Steady":    {},
		"Shattered": {Seed: 11, LineEnd: "\r\n"},
		"WholeJSON": {Whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modeltest.Run(t, overOpenAI(flaws))
		})
	}
}

func TestAnthropicConforms(t *testing.T) {
	t.Parallel()
	for name, flaws := range map[string]modeltest.Answer{
		"Steady":    {},
		"Shattered": {Seed: 12, LineEnd: "\r"},
		"WholeJSON": {Whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modeltest.Run(t, overAnthropic(flaws))
		})
	}
}
