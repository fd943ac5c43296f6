package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"belay/client"
	"belay/internal/event"
	"belay/internal/service"
)

// notAsked are fields of a start that no command line sets: the service finds
// them out by itself, or they have no flag.
var notAsked = map[string]bool{
	"Parent": true, "Settings.Rules": true, "Settings.Protected": true, "Settings.Travel": true, "Settings.MaxOutput": true, "Settings.StepsPerTurn": true,
	"Settings.RetryBaseMS": true, "Settings.RetryCapMS": true, "Settings.RefusedClaims": true, "Settings.SameError": true, "Settings.ParallelReads": true,
}

// fill gives every field a value of its own and returns the values by the
// field's path.
func fill(v reflect.Value, path string, marks map[string]string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name := strings.TrimPrefix(path+"."+f.Name, ".")
			fill(v.Field(i), name, marks)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, marks)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, marks)
	case reflect.String:
		text := fmt.Sprint("/mark", len(marks), "/")
		marks[path] = text
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		n := int64(910_000 + len(marks))
		marks[path] = fmt.Sprint(n)
		if v.Type() == reflect.TypeFor[int64]() || v.Type() == reflect.TypeFor[int]() {
			v.SetInt(n)
			return
		}
		v.SetInt(n * 1_000_000) // an instant goes over as text
		marks[path] = ""
	case reflect.Bool:
		v.SetBool(true)
		marks[path] = "true"
	default:
		panic("what is a " + v.Type().String() + " at " + path)
	}
}

// TestNothingThatIsAskedForIsLostOnTheWay: a field that somebody adds to a start
// goes over the wire too, or stands above.
func TestNothingThatIsAskedForIsLostOnTheWay(t *testing.T) {
	t.Parallel()
	var r service.StartRequest
	marks := map[string]string{}
	fill(reflect.ValueOf(&r).Elem(), "", marks)
	g, err := (&Door{}).wire(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	text, truths := string(b), 0
	for path, mark := range marks {
		top, _, _ := strings.Cut(strings.TrimPrefix(path, "Settings."), ".")
		if strings.HasPrefix(path, "Settings.") {
			top = "Settings." + top
		}
		switch {
		case notAsked[top]:
		case mark == "true":
			truths++
		case !strings.Contains(text, mark):
			t.Errorf("%s does not reach the server: %s", path, text)
		}
	}
	if got := strings.Count(text, "true"); got != truths {
		t.Errorf("%d of %d switches reach the server: %s", got, truths, text)
	}
}

// TestAnEventIsTheSameOnBothSides, one that cannot be read or is not known too.
// TestAQuestionOutlivesARestartOfTheServer: what changes nothing is asked again
// when its connection broke.
func TestAQuestionOutlivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		_, _ = io.WriteString(w, `{"goal":"g1"}`)
	}))
	t.Cleanup(server.Close)
	goal, err := New(&client.Client{URL: server.URL}, true, nil).Resolve(t.Context(), "g")
	if err != nil || goal != "g1" || asked.Load() != 2 {
		t.Errorf("%q after %d: %v", goal, asked.Load(), err)
	}
}

func TestAnEventIsTheSameOnBothSides(t *testing.T) {
	t.Parallel()
	for _, e := range []event.Event{
		{Goal: "g", Seq: 7, ID: "id", Type: event.TypeGoalWaiting, Version: event.CurrentVersion(event.TypeGoalWaiting), Time: 1_700_000_000_000_000, Turn: "t1", Op: "op1", Cause: "c",
			Actor: event.ActorRuntime, Fence: 3, Payload: event.GoalWaiting{Reason: event.WaitApproval, Detail: "x"}, Hash: "h"},
		{Goal: "g", Seq: 8, Type: event.TypeGoalWaiting, Version: 1, Payload: event.Damaged{Type: event.TypeGoalWaiting, Reason: "flipped"}},
		{Goal: "g", Seq: 9, Type: "of_another_time", Version: 4, Payload: event.Unknown{Type: "of_another_time", Version: 4, Raw: json.RawMessage(`{"a":1}`)}},
	} {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var w client.Event
		if err := json.Unmarshal(b, &w); err != nil {
			t.Fatal(err)
		}
		if got := decode(w); !reflect.DeepEqual(got, e) {
			t.Errorf("got  %#v\nwant %#v", got, e)
		}
	}
}
