package args_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"belay/internal/fault"
	"belay/internal/tool/args"
)

var sample = args.Object{Ignored: []string{"note"}, Fields: []args.Field{
	{Name: "path", Required: true, Aliases: []string{"file"}},
	{Name: "text", Keep: true},
	{Name: "count", Type: args.Integer, Min: 1, Max: 9, Default: int64(3)},
	{Name: "all", Type: args.Boolean, Default: false},
	{Name: "mode", Enum: []string{"fast", "slow"}, Synonyms: map[string]string{"quick": "fast"}},
	{Name: "globs", Type: args.Strings},
	{Name: "steps", Type: args.Objects, Bare: "what", Of: &args.Object{Fields: []args.Field{{Name: "what", Required: true}, {Name: "n", Type: args.Integer}}}},
}}

func TestParseBringsEverySpellingIntoOneForm(t *testing.T) {
	t.Parallel()
	const want = `{"all":true,"count":4,"globs":["a<b"],"mode":"fast","path":"p","steps":[{"what":"x"},{"n":2,"what":"y"}],"text":""}`
	for _, raw := range []string{
		want,
		`{"file":"p","text":"","count":"4","all":"true","mode":" Quick ","globs":"a<b","steps":["x",{"what":"y","n":2.0}]}`,
		`{"path":"p","note":{"any":1},"text":"","count":4e0,"all":true,"mode":"fast","globs":"[\"a<b\"]","steps":"[\"x\",{\"what\":\"y\",\"n\":\"2\"}]"}`,
		`"{\"path\":\"p\",\"text\":\"\",\"count\":4,\"all\":true,\"mode\":\"fast\",\"globs\":[\"a<b\",\"\"],\"steps\":[\"x\",\"{\\\"what\\\":\\\"y\\\",\\\"n\\\":2}\"]}"`,
	} {
		v, err := sample.Parse("t", json.RawMessage(raw))
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if n, err := v.JSON(); err != nil || string(n) != want {
			t.Errorf("%s becomes %s, %v", raw, n, err)
		}
	}
	v, err := sample.Parse("t", json.RawMessage(`{"path":"p","count":3,"all":false,"mode":"","globs":[],"steps":null}`))
	if n, _ := v.JSON(); err != nil || string(n) != `{"path":"p"}` {
		t.Errorf("defaults are kept: %s, %v", n, err)
	}
}

func TestParseNamesEveryFieldThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for raw, says := range map[string][]string{
		`{}`:                       {`t: argument "path": missing; expected a string that is not empty`, "path, text?, count?"},
		`{"path":"p","count":0}`:   {`"count": expected an integer from 1 to 9, got 0`},
		`{"path":"p","count":1.5}`: {`got the number 1.5`},
		`{"path":"p","count":9007199254740993.5}`:  {`"count"`},
		`{"path":"p","all":"yes"}`:                 {`"all": expected true or false, got the string "yes"`},
		`{"path":3,"mode":"x","oops":1}`:           {`"path"`, `"mode": expected one of fast, slow, got "x"`, `"oops": there is no such argument`},
		`{"path":"p","counts":1}`:                  {`did you mean "count"?`},
		`{"path":"p","steps":[{"what":"x"},{}]}`:   {`"steps[1].what": missing`},
		`{"path":"p","steps":[3]}`:                 {`"steps[0]": expected an object {what, n?}, got the number 3`},
		`{"path":"p","globs":["a",3]}`:             {`"globs[1]"`},
		`{"path":"p","file":"q"}`:                  {`given twice`},
		`{"path":"a\u0000"}`:                       {`NUL character at byte 1`},
		`{"path":"p",}`:                            {`not JSON at byte 13`},
		`{"path":"p"`:                              {`breaks off at byte 11`},
		`{"path":"p"} {"path":"q"}`:                {`not JSON at byte 13`, `follows the end`},
		`[1]`:                                      {`are an array, not an object`},
		`"{\"path\""`:                              {`in the string`},
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"path":1}`: {`and 1 more`},
	} {
		_, err := sample.Parse("t", json.RawMessage(raw))
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.InvalidArguments {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		for _, s := range says {
			if !strings.Contains(f.Error(), s) {
				t.Errorf("%s: %v does not say %q", raw, f, s)
			}
		}
	}
}

func TestSchemaIsCompactAndInOrder(t *testing.T) {
	t.Parallel()
	const want = `{"type":"object","properties":{"path":{"type":"string"},"text":{"type":"string"},"count":{"type":"integer"},` +
		`"all":{"type":"boolean"},"mode":{"type":"string","enum":["fast","slow"]},"globs":{"type":"array","items":{"type":"string"}},` +
		`"steps":{"type":"array","items":{"anyOf":[{"type":"string"},{"type":"object","properties":{"what":{"type":"string"},"n":{"type":"integer"}},"required":["what"]}]}}},` +
		`"required":["path"]}`
	if got := string(sample.Schema()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
