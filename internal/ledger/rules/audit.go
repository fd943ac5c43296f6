package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"belay/internal/event"
	"belay/internal/ledger"
)

// OpenArtifact opens an artifact by its SHA-256; its reader fails when the
// content does not match, see NewVerifier.
type OpenArtifact func(sha256 string) (io.ReadCloser, error)

// Auditor re-computes one goal's hash chain from raw records.
type Auditor struct {
	open    OpenArtifact
	tail    Tail
	checked map[string]error
	out     ledger.Audit
}

// NewAuditor starts an audit of a goal.
func NewAuditor(goal string, open OpenArtifact) *Auditor {
	return &Auditor{open: open, checked: map[string]error{}, out: ledger.Audit{Goal: goal, Head: event.Genesis}}
}

// Add checks the next record as it is stored, with the hash stored beside it.
// It returns false once the chain is broken.
func (a *Auditor) Add(r event.Record, hash string) bool {
	if a.out.Broken != nil {
		return false
	}
	switch {
	case r.Seq != a.tail.Seq+1:
		return a.brk(r, fmt.Sprintf("the chain goes from seq %d to seq %d", a.tail.Seq, r.Seq))
	case event.Chain(a.tail.prev(), r) != hash:
		return a.brk(r, "the record does not have the hash that is stored with it")
	case r.Time < a.tail.Time:
		return a.brk(r, "its time lies before that of the event before it")
	}
	for _, ref := range a.refs(r) {
		if err := a.artifact(ref); err != nil {
			return a.brk(r, fmt.Sprintf("artifact %s: %v", ref.SHA256, err))
		}
	}
	a.tail = Tail{Seq: r.Seq, Hash: hash, Time: r.Time}
	a.out.Events, a.out.Head = r.Seq, hash
	return true
}

// Unreadable records that the record at seq could not be read at all.
func (a *Auditor) Unreadable(seq uint64, err error) {
	if a.out.Broken == nil {
		a.brk(event.Record{Seq: seq}, "the record cannot be read: "+err.Error())
	}
}

// Done ends the audit. rowHead is the head that the goal's row remembers, 0
// without a row: a tail that was cut off leaves a chain that holds, and only
// the row still knows of it.
func (a *Auditor) Done(rowHead uint64) ledger.Audit {
	if a.out.Broken == nil && rowHead > a.tail.Seq {
		a.brk(event.Record{Seq: a.tail.Seq + 1}, fmt.Sprintf("the events from seq %d to %d are missing", a.tail.Seq+1, rowHead))
	}
	return a.out
}

func (a *Auditor) brk(r event.Record, reason string) bool {
	a.out.Broken = &ledger.Broken{Seq: r.Seq, ID: r.ID, Type: r.Type, Reason: reason}
	return false
}

func (a *Auditor) artifact(ref event.Ref) error {
	if err, done := a.checked[ref.SHA256]; done {
		return err
	}
	err := func() error {
		rc, err := a.open(ref.SHA256)
		if err != nil {
			return err
		}
		defer rc.Close()
		_, err = io.Copy(io.Discard, rc)
		return err
	}()
	a.checked[ref.SHA256] = err
	return err
}

// refs lists the artifacts that a record refers to. They are found by Go type
// in the decoded payload, not by the look of the JSON: a tool argument that
// happens to look like a reference is none. A type that this binary does not
// know keeps its references to itself.
func (a *Auditor) refs(r event.Record) []event.Ref {
	var refs []event.Ref
	if r.Spilled {
		var s event.Spill
		if json.Unmarshal(r.Payload, &s) != nil {
			return nil
		}
		refs = append(refs, s.Artifact)
	}
	e := event.Decode(r, "", func(ref event.Ref) ([]byte, error) {
		rc, err := a.open(ref.SHA256)
		if err != nil {
			return nil, err
		}
		defer rc.Close()
		return io.ReadAll(rc)
	})
	collectRefs(reflect.ValueOf(e.Payload), &refs)
	return refs
}

var refType = reflect.TypeFor[event.Ref]()

func collectRefs(v reflect.Value, out *[]event.Ref) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			collectRefs(v.Elem(), out)
		}
	case reflect.Struct:
		if v.Type() == refType {
			if ref := v.Interface().(event.Ref); !ref.IsZero() {
				*out = append(*out, ref)
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				collectRefs(v.Field(i), out)
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			collectRefs(v.Index(i), out)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			collectRefs(it.Value(), out)
		}
	}
}

// ErrAltered says that an artifact's bytes are not those of its address.
var ErrAltered = errors.New("ledger: the artifact's content does not match its address")
