package catalog

// row is one model of the table; usd is input, cached input, cache write and
// output in US dollars per million tokens, nil when not all four are known.
type row struct {
	name           string
	window, output int64
	usd            []float64
	source         string
	note           string
}

// The sources, all read on 2026-11-30 as stored pages, not live.
const (
	anthropicDocs = "platform.claude.com/docs, models and pricing pages, read 2026-11-30"
	openaiDocs    = "developers.openai.com/api/docs, models and pricing pages, read 2026-11-30"
	reported      = "the provider's price list as reported by third parties, read 2026-11-30; check before relying on it"
)

// shortWindow is where OpenAI's long-context rates begin: past it the whole
// request costs up to twice as much. The table names it as the window, so that
// no request costs more than its price says; models.yaml can raise both.
const shortWindow = 272_000

const shortNote = "the provider's window is 1,050,000; above 272,000 input tokens it charges up to double"

var table = []row{
	{"anthropic:claude-opus-5-5", 1_000_000, 128_000, []float64{4, 0.2, 5, 20}, reported, ""},
	{"anthropic:claude-sonnet-5-5", 1_000_000, 128_000, []float64{2, 0.1, 2.5, 10}, reported, ""},
	{"anthropic:claude-haiku-5-5", 1_000_000, 128_000, []float64{0.5, 0.05, 0.625, 2.5}, anthropicDocs,
		"the rate for prompts over 100,000 tokens; shorter ones cost a fifth"},
	{"anthropic:claude-fable-5-1", 1_000_000, 128_000, []float64{10, 0.25, 12.5, 50}, reported, ""},
	{"anthropic:claude-opus-5", 1_000_000, 128_000, []float64{5, 0.5, 6.25, 25}, anthropicDocs, ""},
	{"anthropic:claude-sonnet-5", 1_000_000, 128_000, []float64{2, 0.2, 2.5, 10}, reported, ""},
	{"anthropic:claude-opus-4-8", 1_000_000, 128_000, []float64{5, 0.5, 6.25, 25}, reported, ""},
	{"anthropic:claude-opus-4-7", 1_000_000, 128_000, []float64{5, 0.5, 6.25, 25}, reported, ""},
	{"anthropic:claude-opus-4-6", 200_000, 128_000, []float64{5, 0.5, 6.25, 25}, anthropicDocs, "sources differ on the window; the smaller one stands here"},
	{"anthropic:claude-sonnet-4-6", 200_000, 64_000, []float64{3, 0.3, 3.75, 15}, anthropicDocs, "sources differ on both limits; the smaller ones stand here"},
	{"anthropic:claude-opus-4-5", 200_000, 64_000, []float64{5, 0.5, 6.25, 25}, anthropicDocs, ""},
	{"anthropic:claude-sonnet-4-5", 200_000, 64_000, []float64{3, 0.3, 3.75, 15}, anthropicDocs, ""},
	{"anthropic:claude-haiku-4-5", 200_000, 64_000, []float64{1, 0.1, 1.25, 5}, anthropicDocs, ""},

	{"openai:gpt-6.2-astra", shortWindow, 128_000, nil, "", shortNote + "; 8 in and 40 out, the price of cached tokens is not known here"},
	{"openai:gpt-6.2-sol", shortWindow, 128_000, []float64{2, 0.1, 2.5, 10}, openaiDocs, shortNote},
	{"openai:gpt-6.1-sol", shortWindow, 128_000, []float64{2, 0.1, 2.5, 10}, reported, shortNote},
	{"openai:gpt-6.1-terra", shortWindow, 128_000, nil, "", shortNote + "; 1 in and 5 out, the price of cached tokens is not known here"},
	{"openai:gpt-6-astra", shortWindow, 128_000, []float64{10, 1, 12.5, 50}, reported, shortNote},
	{"openai:gpt-6-sol", shortWindow, 128_000, []float64{2, 0.2, 2.5, 10}, reported, shortNote},
	{"openai:gpt-6-luna", shortWindow, 128_000, []float64{0.1, 0.01, 0.125, 0.5}, reported, shortNote},
	// The models before GPT-5.6 charge nothing extra for cache writes.
	{"openai:gpt-5.4-mini", 400_000, 128_000, []float64{0.75, 0.075, 0.75, 4.5}, reported, ""},
	{"openai:gpt-5.2", 400_000, 128_000, []float64{1.75, 0.175, 1.75, 14}, reported, ""},
	{"openai:gpt-5.1", 400_000, 128_000, []float64{1.25, 0.125, 1.25, 10}, reported, ""},
	{"openai:gpt-5", 400_000, 128_000, []float64{1.25, 0.125, 1.25, 10}, reported, ""},
	{"openai:gpt-5-mini", 400_000, 128_000, []float64{0.25, 0.025, 0.25, 2}, reported, ""},
	{"openai:gpt-5-nano", 400_000, 128_000, []float64{0.05, 0.005, 0.05, 0.4}, reported, ""},
	{"openai:gpt-4.1", 1_047_576, 32_768, []float64{2, 0.5, 2, 8}, reported, ""},
	{"openai:gpt-4.1-mini", 1_047_576, 32_768, []float64{0.4, 0.1, 0.4, 1.6}, reported, ""},
	{"openai:gpt-4o", 128_000, 16_384, []float64{2.5, 1.25, 2.5, 10}, reported, ""},
	{"openai:gpt-4o-mini", 128_000, 16_384, []float64{0.15, 0.075, 0.15, 0.6}, reported, ""},
}
