package event

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"belay/internal/moment"
)

// Type names a kind of fact. The names are those of DESIGN section 4 and are
// stored, so they never change.
type Type string

// Actor says who brought a fact about: "user", "model", "runtime", or
// "worker:<id>".
type Actor string

// The fixed actors. A worker's id is made with Worker.
const (
	ActorUser    Actor = "user"
	ActorModel   Actor = "model"
	ActorRuntime Actor = "runtime"
	ActorPolicy  Actor = "policy"
)

// Worker is the actor of one worker process.
func Worker(id string) Actor { return Actor("worker:" + id) }

// Event is an immutable fact in a goal's stream. The core makes everything but
// Seq, Time, Prev and Hash, which the ledger sets when it appends.
type Event struct {
	Goal string `json:"goal"`
	// Seq counts from 1 without gaps within the goal.
	Seq uint64 `json:"seq"`
	// ID is a UUIDv7.
	ID      string `json:"id"`
	Type    Type   `json:"type"`
	Version int    `json:"version"`
	// Time comes from the store's clock and never runs backwards within a
	// goal; order is by Seq alone.
	Time  moment.Time `json:"time"`
	Turn  string      `json:"turn_id,omitempty"`
	Op    string      `json:"op_id,omitempty"`
	Cause string      `json:"cause,omitempty"`
	Actor Actor       `json:"actor"`
	// Fence is the goal's fence after this event.
	Fence   uint64  `json:"fence"`
	Payload Payload `json:"payload"`
	// Hash is hex SHA-256 over the previous event's hash and this event's
	// canonical bytes.
	Hash string `json:"hash"`
}

// Payload is the typed content of one event type.
type Payload interface {
	// EventType is constant for the Go type.
	EventType() Type
}

// Record is an event as a store keeps it: the payload is opaque bytes, so a
// store needs to know no event type, and a binary that does not know a type
// loses nothing of it.
type Record struct {
	Goal    string      `json:"goal"`
	Seq     uint64      `json:"seq"`
	ID      string      `json:"id"`
	Type    Type        `json:"type"`
	Version int         `json:"version"`
	Time    moment.Time `json:"time"`
	Turn    string      `json:"turn_id,omitempty"`
	Op      string      `json:"op_id,omitempty"`
	Cause   string      `json:"cause,omitempty"`
	Actor   Actor       `json:"actor"`
	Fence   uint64      `json:"fence"`
	// Spilled says that Payload is a Spill and the payload itself is the
	// artifact it names.
	Spilled bool            `json:"spilled,omitempty"`
	Payload json.RawMessage `json:"payload"`
}

// SpillThreshold is the payload size in bytes above which the payload becomes
// an artifact and the record keeps a head and the reference.
const SpillThreshold = 8 << 10

// spillHead is how much of a spilled payload the record keeps for people who
// read the raw table.
const spillHead = 512

// Spill stands in a record for a payload that was too large for it.
type Spill struct {
	Artifact Ref    `json:"artifact"`
	Head     string `json:"head"`
}

// Ref names content-addressed bytes kept beside the events.
type Ref struct {
	// SHA256 is lower-case hex over the whole uncompressed content.
	SHA256 string `json:"sha256"`
	// Size is in bytes, uncompressed.
	Size int64 `json:"size"`
	// Media is a MIME type, for faces.
	Media string `json:"media,omitempty"`
}

// IsZero reports whether the reference names nothing.
func (r Ref) IsZero() bool { return r.SHA256 == "" }

// RefOf addresses content.
func RefOf(content []byte, media string) Ref {
	sum := sha256.Sum256(content)
	return Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content)), Media: media}
}

// Artifact is content together with its address.
type Artifact struct {
	Ref
	Content []byte
}

// NewArtifact addresses content and keeps it.
func NewArtifact(content []byte, media string) Artifact {
	return Artifact{Ref: RefOf(content, media), Content: content}
}

// Encode turns an event into the record to store. When the payload is over
// SpillThreshold the second result is the artifact that must be stored in the
// same transaction; otherwise it is nil. Seq and Time must already be set.
func Encode(e Event) (Record, *Artifact, error) {
	var raw json.RawMessage
	switch p := e.Payload.(type) {
	case nil:
		return Record{}, nil, fmt.Errorf("event: %s has no payload", e.Type)
	case Unknown:
		raw = p.Raw
	default:
		if t := e.Payload.EventType(); t != e.Type {
			return Record{}, nil, fmt.Errorf("event: type %q carries the payload of %q", e.Type, t)
		}
		b, err := json.Marshal(p)
		if err != nil {
			return Record{}, nil, fmt.Errorf("event: encode %s: %w", e.Type, err)
		}
		raw = b
	}
	r := Record{Goal: e.Goal, Seq: e.Seq, ID: e.ID, Type: e.Type, Version: e.Version, Time: e.Time,
		Turn: e.Turn, Op: e.Op, Cause: e.Cause, Actor: e.Actor, Fence: e.Fence, Payload: raw}
	if len(raw) <= SpillThreshold {
		return r, nil, nil
	}
	a := NewArtifact(raw, "application/json")
	b, err := json.Marshal(Spill{Artifact: a.Ref, Head: string(raw[:spillHead])})
	if err != nil {
		return Record{}, nil, fmt.Errorf("event: encode spill: %w", err)
	}
	r.Spilled, r.Payload = true, b
	return r, &a, nil
}

// Canonical is the byte form that the hash chain covers: JSON of the record
// with fields in declaration order and the payload byte for byte as stored.
func (r Record) Canonical() []byte {
	// The payload is framed by its length instead of being embedded in JSON,
	// which would compact or refuse damaged bytes: a flipped byte must change
	// the hash whatever it does to the syntax.
	p := r.Payload
	r.Payload = nil
	head, err := json.Marshal(r)
	if err != nil {
		// Only strings, numbers and a nil payload are left.
		panic("event: canonical form: " + err.Error())
	}
	b := make([]byte, 0, len(head)+len(p)+8)
	b = append(b, head...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
	return append(b, p...)
}

// Genesis is the hash before the first event of a goal.
const Genesis = "0000000000000000000000000000000000000000000000000000000000000000"

// Chain returns the hash of a record that follows the event with hash prev.
func Chain(prev string, r Record) string {
	h := sha256.New()
	h.Write([]byte(prev))
	h.Write(r.Canonical())
	return hex.EncodeToString(h.Sum(nil))
}

// Fetch reads an artifact's content; stores pass theirs to Decode.
type Fetch func(Ref) ([]byte, error)

// Decode turns a stored record back into an event. It never fails as a whole:
// a payload of a type or version that this binary does not know becomes
// Unknown, one that cannot be read becomes Damaged, so that what stands beside
// it stays readable. Callers that advance a goal must refuse both.
func Decode(r Record, hash string, fetch Fetch) Event {
	e := Event{Goal: r.Goal, Seq: r.Seq, ID: r.ID, Type: r.Type, Version: r.Version, Time: r.Time,
		Turn: r.Turn, Op: r.Op, Cause: r.Cause, Actor: r.Actor, Fence: r.Fence, Hash: hash}
	raw := r.Payload
	if r.Spilled {
		var s Spill
		err := json.Unmarshal(raw, &s)
		if err == nil {
			raw, err = fetch(s.Artifact)
		}
		if err == nil && RefOf(raw, "").SHA256 != s.Artifact.SHA256 {
			err = fmt.Errorf("artifact %s has other content than its address says", s.Artifact.SHA256)
		}
		if err != nil {
			e.Payload = Damaged{Type: r.Type, Reason: err.Error()}
			return e
		}
	}
	e.Payload = decodePayload(r.Type, r.Version, raw)
	if _, unknown := e.Payload.(Unknown); !unknown {
		e.Version = CurrentVersion(r.Type)
	}
	return e
}

// NewID makes a UUIDv7 from values alone: the instant, a seed that the shell
// drew at random for this input, and a counter within the input.
func NewID(now moment.Time, seed [16]byte, n int) string {
	var in [24]byte
	copy(in[:], seed[:])
	binary.BigEndian.PutUint64(in[16:], uint64(n))
	sum := sha256.Sum256(in[:])
	var u [16]byte
	ms := uint64(now) / 1000
	u[0], u[1], u[2], u[3], u[4], u[5] = byte(ms>>40), byte(ms>>32), byte(ms>>24), byte(ms>>16), byte(ms>>8), byte(ms)
	copy(u[6:], sum[:10])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
