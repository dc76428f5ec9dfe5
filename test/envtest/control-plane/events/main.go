// Asks client-go's own EventCorrelator what it makes of random lives, and prints calls and answers for
// test/conformance/event-correlator.test.ts, which needs no Go:
//
//	cd test/envtest/control-plane && go run ./events | gzip -9n > ../../captures/event-correlator.jsonl.gz
//
// The first line holds names: [object, nanoseconds in hex, name, or "" where it is a UUID]. Each further line is a life:
// [[ms, object, field, type, reason, message, count (0: held back), combined 0 or 1, nanoseconds in hex], …]; the hex is of the
// Event's name, whose last six digits in decimal are the number of the call that named it (of a combined Event: 000000).
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	testclock "k8s.io/utils/clock/testing"
)

const startMs = 1_772_359_200_000 // 2026-03-01T10:00:00Z

// Edges of the ten minutes, of a token's five, and of nothing at all.
var waitsMs = []int64{0, 0, 0, 0, 1, 999, 60_000, 299_999, 300_000, 300_001, 599_999, 600_000, 600_001, 3_600_000, 8_000_000}

func main() {
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	print := func(line any) {
		if err := out.Encode(line); err != nil {
			log.Fatal(err)
		}
	}
	print(names())
	for seed := int64(1); seed <= 24; seed++ {
		print(life(rand.New(rand.NewSource(seed)), 500, []int{3, 12, 40, 100}[seed%4], seed > 12))
	}
	print(crowd())
}

func names() [][3]string {
	nano := int64(startMs)*1_000_000 + 7
	rows := [][3]string{}
	for _, object := range []string{"web", "a.b-c", "system:web", "Web", "-web", strings.Repeat("a", 235), strings.Repeat("a", 236), strings.Repeat("a", 237), strings.Repeat("a", 253)} {
		name := util.GenerateEventName(object, nano)
		if !strings.HasPrefix(name, object+".") {
			name = ""
		}
		rows = append(rows, [3]string{object, fmt.Sprintf("%x", nano), name})
	}
	return rows
}

// asker tells one correlator after another happening, at the time of a clock of its own.
type asker struct {
	clock      *testclock.FakePassiveClock
	correlator *record.EventCorrelator
	atMs       int64
	calls      int
}

func newAsker() *asker {
	clock := testclock.NewFakePassiveClock(time.UnixMilli(startMs))
	return &asker{clock: clock, correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{Clock: clock}), atMs: startMs}
}

func (a *asker) tell(object string, field int, eventType, reason, message string, update bool) []any {
	a.clock.SetTime(time.UnixMilli(a.atMs))
	now := metav1.NewTime(a.clock.Now())
	nano := a.atMs*1_000_000 + int64(a.calls)
	a.calls++
	ref := v1.ObjectReference{Kind: "ReplicaSet", APIVersion: "apps/v1", Namespace: "shop", Name: object, UID: types.UID("uid-" + object)}
	if field > 0 {
		ref.FieldPath = fmt.Sprintf("spec.containers{%d}", field)
	}
	source := v1.EventSource{Component: "replicaset-controller"}
	event := &v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: util.GenerateEventName(object, nano), Namespace: "shop"},
		InvolvedObject: ref, Reason: reason, Message: message, Type: eventType, Count: 1,
		FirstTimestamp: now, LastTimestamp: now, Source: source, ReportingController: source.Component,
	}
	call := []any{a.atMs, object, field, eventType, reason, message}
	result, err := a.correlator.EventCorrelate(event)
	if err != nil {
		log.Fatal(err)
	}
	if result.Skip {
		return append(call, 0, 0, "")
	}
	told := result.Event
	combined := 0
	if told.Message != message {
		combined = 1
		if told.Message != "(combined from similar events): "+message {
			log.Fatalf("message %q of %q", told.Message, message)
		}
	}
	mustBePatch(result.Patch, told)
	if update {
		a.correlator.UpdateState(told)
	}
	hex := strings.TrimPrefix(told.Name, object+".")
	if first := time.Unix(0, mustParse(hex)).UnixMilli(); first != told.FirstTimestamp.UnixMilli() {
		log.Fatalf("named at %d, first told at %d", first, told.FirstTimestamp.UnixMilli())
	}
	return append(call, told.Count, combined, hex)
}

// What we rest on: of a repeated Event nothing is sent but these three fields.
func mustBePatch(patch []byte, event *v1.Event) {
	if event.Count == 1 {
		if patch != nil {
			log.Fatalf("a patch of a first Event: %s", patch)
		}
		return
	}
	want, _ := json.Marshal(map[string]any{"count": event.Count, "lastTimestamp": event.LastTimestamp, "message": event.Message})
	if string(patch) != string(want) {
		log.Fatalf("patch %s, not %s", patch, want)
	}
}

func mustParse(hex string) int64 {
	var nano int64
	if _, err := fmt.Sscanf(hex, "%x", &nano); err != nil {
		log.Fatal(err)
	}
	return nano
}

// A few objects that are told about again and again. client-go forgets any one of ten messages (PopAny), so once a group has had
// ten, only fresh ones have one answer. `callsAtOnce`: on average, then the clock goes on. Controllers' Events have no fields.
func life(random *rand.Rand, calls, callsAtOnce int, hasFields bool) [][]any {
	a := newAsker()
	type group struct {
		messages map[string]bool
		lastMs   int64
		full     bool
	}
	groups := map[string]*group{}
	rows := [][]any{}
	fresh := 100
	for range calls {
		if random.Intn(callsAtOnce) == 0 {
			a.atMs += waitsMs[random.Intn(len(waitsMs))]
		}
		object := fmt.Sprintf("web-%d", random.Intn(3))
		field := 0
		if hasFields {
			field = random.Intn(8) / 6
		}
		eventType := []string{"Normal", "Warning"}[random.Intn(2)]
		reason := []string{"SuccessfulCreate", "FailedCreate"}[random.Intn(2)]
		id := object + eventType + reason
		known := groups[id]
		if known == nil || a.atMs-known.lastMs > 600_000 {
			known = &group{messages: map[string]bool{}}
			groups[id] = known
		}
		number := random.Intn(12)
		if known.full || random.Intn(5) == 0 {
			fresh++
			number = fresh
		}
		message := fmt.Sprintf("message %d", number)
		known.messages[message] = true
		known.full = known.full || len(known.messages) >= 10
		known.lastMs = a.atMs
		rows = append(rows, a.tell(object, field, eventType, reason, message, random.Intn(2) == 0))
	}
	return rows
}

// More objects than any of the three memories holds; some of the old ones come back.
func crowd() [][]any {
	a := newAsker()
	random := rand.New(rand.NewSource(99))
	rows := [][]any{}
	for i := range 6_000 {
		a.atMs++
		object := fmt.Sprintf("crowd-%d", i)
		if i > 0 && i%4 == 0 {
			object = fmt.Sprintf("crowd-%d", random.Intn(i))
		}
		rows = append(rows, a.tell(object, 0, "Normal", "SuccessfulCreate", "message 1", false))
	}
	return rows
}
