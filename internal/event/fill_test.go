package event_test

import (
	"encoding/json"
	"fmt"
	"reflect"

	"belay/internal/event"
	"belay/internal/moment"
)

// filler fills a payload by reflection, every field of it with something that
// is not zero, so that a field which the codec loses shows. pick chooses among
// n values; a nil pick always takes the first, for golden files.
type filler struct{ pick func(n int) int }

func (f filler) choose(n int) int {
	if f.pick == nil {
		return 0
	}
	return f.pick(n)
}

var (
	rawType    = reflect.TypeFor[json.RawMessage]()
	momentType = reflect.TypeFor[moment.Time]()
)

func (f filler) fill(v reflect.Value, name string) {
	switch v.Type() {
	case rawType:
		raws := []string{`{"` + name + `":[1,"é",null]}`, `[]`, `"text"`, `0`, `{"deep":{"er":{"a":1.5e3}}}`}
		v.SetBytes([]byte(raws[f.choose(len(raws))]))
		return
	case momentType:
		v.SetInt(1_796_000_000_000_000 + int64(f.choose(1000)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		words := []string{name, name + ` "quoted" \ and` + "\nanother line", "ü 漢字 🧗 <&>", name + "\x00\u2028\x7f"}
		v.SetString(words[f.choose(len(words))])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{7, 1 << 53, 1<<62 - 1, -3}[f.choose(4)])
	case reflect.Uint32, reflect.Uint64:
		v.SetUint([]uint64{9, 1<<32 - 1}[f.choose(2)])
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), name)
	case reflect.Slice:
		n := 1 + f.choose(3)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i), fmt.Sprint(name, i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range 1 + f.choose(3) {
			e := reflect.New(v.Type().Elem()).Elem()
			f.fill(e, fmt.Sprint(name, " value ", i))
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint(name, i)).Convert(v.Type().Key()), e)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), v.Type().Field(i).Name)
		}
	default:
		panic(fmt.Sprintf("fill: %s has the kind %s; say here what to put in", name, v.Kind()))
	}
}

// payload is a payload of a registered type, filled.
func (f filler) payload(t event.Type) event.Payload {
	p := event.Decode(event.Record{Type: t, Version: event.CurrentVersion(t), Payload: []byte("{}")}, "", nil).Payload
	v := reflect.New(reflect.TypeOf(p)).Elem()
	f.fill(v, string(t))
	return v.Interface().(event.Payload)
}

// event wraps a payload in an envelope with every field set.
func (f filler) event(p event.Payload) event.Event {
	e := event.Event{Payload: p}
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		if n := v.Type().Field(i).Name; n != "Payload" {
			f.fill(v.Field(i), n)
		}
	}
	e.Type, e.Version = p.EventType(), event.CurrentVersion(p.EventType())
	return e
}
