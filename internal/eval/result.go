package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"belay/internal/core"
	"belay/internal/core/lifecycle"
	"belay/internal/event"
)

// Format names the schema of results.json.
const Format = "belay-eval/1"

// ResultsFile is its name in the folder of --out.
const ResultsFile = "results.json"

// Header says how a suite was run.
type Header struct {
	Format string    `json:"format"`
	Begun  time.Time `json:"begun"`
	WallMS int64     `json:"wall_ms"`
	// Model is that of --model; "" when each case plays its own.
	Model    string `json:"model,omitempty"`
	Repeat   int    `json:"repeat"`
	Parallel int    `json:"parallel"`
	Version  string `json:"belay"`
	System   string `json:"system"`
	CPUs     int    `json:"cpus"`
}

// Results are a suite's.
type Results struct {
	Header
	Runs []Result `json:"runs"`
}

// Result is one run of one case.
type Result struct {
	Case    string   `json:"case"`
	Title   string   `json:"title,omitempty"`
	Shows   string   `json:"shows,omitempty"`
	Field   []string `json:"field,omitempty"`
	Repeat  int      `json:"repeat"`
	Outcome Outcome  `json:"outcome"`
	// Class is how the goal went wrong, none if it did not; it is told for runs
	// that pass as well, because a case may expect a goal to go wrong.
	Class    Class  `json:"class"`
	ClassWhy string `json:"class_why,omitempty"`
	// Why says what is not as expected, or what made the run infra.
	Why []string `json:"why,omitempty"`

	Goal   string             `json:"goal,omitempty"`
	Model  string             `json:"model,omitempty"`
	Status lifecycle.Status   `json:"status,omitempty"`
	How    event.CompletedHow `json:"completed_how,omitempty"`
	Wait   event.WaitReason   `json:"wait_reason,omitempty"`
	Pause  event.PauseReason  `json:"pause_reason,omitempty"`
	Exit   int                `json:"exit_code"`
	// Rest is the reason of the rest in words, Missing what stands against
	// completion, Criteria how each stands.
	Rest     string                  `json:"rest,omitempty"`
	Missing  []string                `json:"missing,omitempty"`
	Criteria []event.CriterionResult `json:"criteria,omitempty"`
	// Tail is the end of the timeline.
	Tail []string `json:"tail,omitempty"`

	Steps      int64 `json:"steps"`
	Tokens     int64 `json:"tokens"`
	CostMicros int64 `json:"cost_micros"`
	ToolMS     int64 `json:"tool_ms"`
	Operations int   `json:"operations"`
	Events     int   `json:"events"`
	WallMS     int64 `json:"wall_ms"`
	// Tries is more than 1 when the first was infra.
	Tries int `json:"tries"`
	// Files are kept beside results.json: report, timeline, events, diff, log.
	Files   map[string]string `json:"files,omitempty"`
	Scratch string            `json:"scratch,omitempty"`
}

// tail is how many timeline entries a result shows.
const tail = 12

// read takes over where the goal stands.
func (r *Result) read(p *player) {
	r.Class, r.ClassWhy = Classify(p.events, nil)
	r.Goal, r.Exit, r.Events, r.Operations = p.goal, p.exit, len(p.events), count(p.events, event.TypeOperationProposed)
	if len(p.events) == 0 {
		return
	}
	s := p.snapshot()
	r.Model, r.Status, r.How, r.Wait, r.Pause = modelName(s.Model), s.Status, s.How, s.WaitReason, s.PauseReason
	r.Rest, r.Missing = clip(reason(s)), Missing(s)
	for _, c := range s.Criteria {
		r.Criteria = append(r.Criteria, event.CriterionResult{ID: c.ID, Result: c.Result, Reason: c.Reason, Evidence: c.Evidence})
	}
	u := s.Budget.Used
	r.Steps, r.Tokens, r.CostMicros, r.ToolMS = u.Steps, u.Tokens, u.CostMicros, u.ToolMS
	line := core.Timeline(p.events)
	for _, t := range line[max(0, len(line)-tail):] {
		text := fmt.Sprintf("%d %s", t.Seq, t.Name)
		if t.Op != "" {
			text += " " + t.Op
		}
		if t.Detail != "" {
			text += "  " + t.Detail
		}
		r.Tail = append(r.Tail, text)
	}
}

// modelName leaves out the folder of a script, which is another in each run.
func modelName(spec string) string {
	if filepath.IsAbs(spec) || len(spec) > 7 && spec[:7] == "script:" {
		return "script"
	}
	return spec
}

func (r *Result) settle(o Outcome, c Class, why ...string) {
	r.Outcome, r.Class, r.Why = o, c, append(r.Why, why...)
}

// jsonLine is a value as one line of JSON.
func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// JSON is results.json: one document with one run a line.
func (r Results) JSON() ([]byte, error) {
	head, err := jsonLine(r.Header)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Write(bytes.TrimSuffix(bytes.TrimSpace(head), []byte("}")))
	b.WriteString(",\"runs\":[\n")
	for i, run := range r.Runs {
		line, err := jsonLine(run)
		if err != nil {
			return nil, err
		}
		b.Write(bytes.TrimSpace(line))
		if i < len(r.Runs)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]}\n")
	return b.Bytes(), nil
}

// ReadResults reads the results.json at path, or in the folder at path.
func ReadResults(path string) (Results, error) {
	var r Results
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, ResultsFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read results (belay eval run --out writes them): %w", err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s holds no results: %w", path, err)
	}
	if r.Format != Format {
		return r, fmt.Errorf("%s has the format %q, not %s", path, r.Format, Format)
	}
	return r, nil
}

// Count counts the runs of one outcome.
func (r Results) Count(o Outcome) int {
	n := 0
	for _, run := range r.Runs {
		if run.Outcome == o {
			n++
		}
	}
	return n
}
