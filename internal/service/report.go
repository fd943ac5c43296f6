package service

import (
	"context"
	"encoding/json"
	"fmt"

	"belay/internal/report"
)

// ReportFormat is the form of a report.
type ReportFormat string

// The forms.
const (
	ReportMarkdown ReportFormat = "markdown"
	ReportHTML     ReportFormat = "html"
	ReportJSON     ReportFormat = "json"
)

// Report says what a goal came to, on what evidence and at what cost.
func (s *Service) Report(ctx context.Context, goal string, f ReportFormat) (string, error) {
	es, err := s.Ledger.Read(ctx, goal, 0, 0)
	if err != nil {
		return "", err
	}
	r := report.Build(es)
	var text string
	switch f {
	case ReportHTML:
		text, err = report.HTML(r)
	case ReportJSON:
		var b []byte
		b, err = json.Marshal(r)
		text = string(b) + "\n"
	default:
		text, err = report.Markdown(r)
	}
	if err != nil {
		return "", fmt.Errorf("report on goal %s: %w", goal, err)
	}
	return text, nil
}
