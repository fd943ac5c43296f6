package edit

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"belay/internal/fault"
)

// Replace asks for Old to become New, in the text that a model is shown.
type Replace struct {
	Old, New string
	// All replaces every occurrence; otherwise Old must occur exactly once.
	All bool
}

// Result is a changed content.
type Result struct {
	Content []byte
	// Replaced is how many places were changed, over all edits.
	Replaced int
	// Lines are the 1-based lines where the replacements begin, each in the
	// text as it stood after its own edit.
	Lines []int
	// Notes name the tolerance that was needed, in words for the model.
	Notes []string
}

// Apply makes the edits one after the other, each on the text that the one
// before it left. Either all of them fit or none is made. Faults have the
// kinds not_text, invalid_arguments, no_match and ambiguous_match; with
// several edits the message names the one at fault.
func Apply(content []byte, edits []Replace) (Result, error) {
	raw, enc, err := decodeRaw(content)
	if err != nil {
		return Result{}, err
	}
	if len(edits) == 0 {
		return Result{}, fault.New(fault.InvalidArguments, fault.Model, "there is no edit to make", "give at least one replacement")
	}
	res, start := Result{}, raw
	before, after := len(raw), len(raw)
	for i, e := range edits {
		v := newView(raw, enc.EOL)
		m, err := v.find(e)
		if err != nil {
			return Result{}, numbered(err, i, len(edits))
		}
		next, b, a := v.splice(m.spans)
		for n, place := range m.places {
			res.Lines = append(res.Lines, v.lineAt(place)+n*(strings.Count(e.New, "\n")-strings.Count(e.Old, "\n")))
		}
		res.Replaced += len(m.places)
		if m.note != "" {
			res.Notes = append(res.Notes, m.note)
		}
		raw, before, after = next, min(before, b), min(after, a)
	}
	res.Content, err = encodeRaw(raw, enc)
	if err != nil {
		return Result{}, err
	}
	return res, untouched(content, res.Content, enc, start, before, after)
}

// Rewrite replaces the whole text of an existing content by text, as a model
// wrote it, and keeps charset, byte-order mark and line endings by the rule in
// the package comment.
func Rewrite(content []byte, text string) ([]byte, error) {
	raw, enc, err := decodeRaw(content)
	if err != nil {
		return nil, err
	}
	if err := checkText("the content", text, raw); err != nil {
		return nil, err
	}
	if enc.BOM {
		text = strings.TrimPrefix(text, "\ufeff")
	}
	if enc.EOL == Mixed && !strings.Contains(text, "\r") {
		v := newView(raw, enc.EOL)
		var spans []span
		for _, e := range udiff.Lines(v.shown, text) {
			spans = append(spans, span{e.Start, e.End, e.New})
		}
		text, _, _ = v.splice(spans)
		return encodeRaw(text, enc)
	}
	return Encode(text, enc)
}

// untouched proves after the fact that the bytes outside the replaced spans
// are the ones that stood there. A mistake here must never reach a disk.
func untouched(was, is []byte, enc Encoding, raw string, before, after int) error {
	for _, part := range []struct {
		text string
		has  func(b, part []byte) bool
		mark string
	}{
		{raw[:before], bytes.HasPrefix, enc.mark()},
		{raw[len(raw)-after:], bytes.HasSuffix, ""},
	} {
		b, err := encodeRaw(part.text, Encoding{Charset: enc.Charset})
		if err != nil {
			return err
		}
		b = append([]byte(part.mark), b...)
		if !part.has(was, b) || !part.has(is, b) {
			return fault.New(fault.Internal, fault.Runtime, "an edit would have changed bytes outside its span; nothing was written",
				"report this with the file and the edit")
		}
	}
	return nil
}

func numbered(err error, i, n int) error {
	var f *fault.Fault
	if n == 1 || !errors.As(err, &f) {
		return err
	}
	return fault.New(f.Kind, f.Blame, fmt.Sprintf("edit %d of %d: %s", i+1, n, f.Message), f.SuggestedAction)
}

// checkText refuses what cannot be meant as text. A control character is
// allowed where the file already has it, so that such files can be edited.
func checkText(what, text, raw string) error {
	if !utf8.ValidString(text) {
		return fault.New(fault.InvalidArguments, fault.Model, what+" is not valid UTF-8", "send it again as plain text")
	}
	for i, r := range text {
		if r == 0 || control(r, "\t\n\r\f\v") && !strings.ContainsRune(raw, r) {
			return fault.New(fault.InvalidArguments, fault.Model,
				fmt.Sprintf("%s has the control character %U at byte %d", what, r, i),
				"send it without control characters; write an escape of the language where one is meant")
		}
	}
	return nil
}
