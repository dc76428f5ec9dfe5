// A whole life of upstream's controllers: their own Run, with work queue, rate limiter, expectations, informers and Events, in one
// bubble of testing/synctest. Whoever asks leads: each line of stdin is a step, "these watch events are here; go on until then", which
// ends when it is then, or sooner, when a write was answered and nobody has anything left to do at that time: so that the events that
// it makes can come at once. Between steps, and while a request waits for its answer, time stands still: who waits for a pipe is
// not durably blocked.
package judge

import (
	"context"
	"encoding/json"
	"io"
	"math/rand"
	"net/http"
	"path"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/utils/clock"
)

// beginning says which controllers live, each with one worker, and from when on.
type beginning struct {
	Controllers []string `json:"controllers"`
	NowMs       int64    `json:"nowMs"`
	ResyncMs    int64    `json:"resyncMs"`
	// Patience of workers: with 0 they look when events come, with 1 at Deployments when ReplicaSets have nothing left to do at that
	// time; any other number is the seed of a coin that is tossed for each key.
	Patience int64 `json:"patience"`
}

type step struct {
	Events  []watchEvent `json:"events"`
	UntilMs int64        `json:"untilMs"`
	End     bool         `json:"end"`
}

// watchEvent is a line of a watch of that resource.
type watchEvent struct {
	Resource string          `json:"resource"`
	Line     json.RawMessage `json:"line"`
}

// watch is told and not answered: events from that version on are awaited.
type watch struct {
	Resource        string `json:"resource"`
	ResourceVersion string `json:"resourceVersion"`
}

type quiet struct {
	NowMs int64 `json:"nowMs"`
}

// server is the wire, with watches that are fed by steps.
type server struct {
	*wire
	watching sync.Mutex
	watches  map[string]*io.PipeWriter
	// wrote holds one when a write was answered since it was last looked at.
	wrote chan struct{}
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		// As an API server that does not know them: the reflector lists.
		body := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"Invalid","code":422}`
		return s.answer(r, http.StatusUnprocessableEntity, io.NopCloser(strings.NewReader(body))), nil
	}
	if r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" {
		reader, writer := io.Pipe()
		s.Lock()
		s.say("watch", watch{path.Base(r.URL.Path), r.URL.Query().Get("resourceVersion")})
		s.Unlock()
		s.watching.Lock()
		s.watches[path.Base(r.URL.Path)] = writer
		s.watching.Unlock()
		return s.answer(r, http.StatusOK, reader), nil
	}
	response, err := s.wire.RoundTrip(r)
	if r.Method != http.MethodGet && path.Base(r.URL.Path) != "events" {
		select {
		case s.wrote <- struct{}{}:
		default:
		}
	}
	return response, err
}

func (s *server) answer(r *http.Request, status int, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": {"application/json"}},
		Body:    body,
		Request: r,
	}
}

func (s *server) tell(e watchEvent) {
	s.watching.Lock()
	writer := s.watches[e.Resource]
	s.watching.Unlock()
	if writer == nil {
		return // nobody watches it
	}
	writer.Write(append(e.Line, '\n'))
}

// bursts is a work queue that hears of all the events that come at once before a worker does: which of them a worker knows that is woken by
// the first is chance.
type bursts struct {
	workqueue.TypedRateLimitingInterface[string]
	*burst
}

type burst struct {
	sync.Mutex
	now  bool
	keys []func()
}

func (b bursts) Add(key string) {
	b.Lock()
	defer b.Unlock()
	add := func() { b.TypedRateLimitingInterface.Add(key) }
	if b.now {
		b.keys = append(b.keys, add)
	} else {
		add()
	}
}

func (b *burst) begin() {
	b.Lock()
	b.now = true
	b.Unlock()
}

// release lets go of some of them.
func (b *burst) release(which func() bool) {
	b.Lock()
	keys := b.keys
	b.keys = nil
	b.Unlock()
	for _, add := range keys {
		if which() {
			add()
			continue
		}
		b.Lock()
		b.keys = append(b.keys, add)
		b.Unlock()
	}
}

func (b *burst) end() {
	b.Lock()
	b.now = false
	b.Unlock()
	b.release(func() bool { return true })
}

// counting is a clock that never says the same time twice: Events have their names from it.
type counting struct {
	clock.PassiveClock
	nanoseconds *atomic.Int64
}

func (c counting) Now() time.Time {
	return c.PassiveClock.Now().Add(time.Duration(c.nanoseconds.Add(1)))
}

func count(recorder record.EventRecorder) {
	real := field[clock.PassiveClock](recorder, "clock")
	*real = counting{*real, &atomic.Int64{}}
}

func podEvents(c *replicaset.ReplicaSetController) record.EventRecorder {
	control := reflect.ValueOf(*field[controller.PodControlInterface](c, "podControl"))
	if adapted := control.FieldByName("PodControlInterface"); adapted.IsValid() {
		control = adapted.Elem()
	}
	return control.Interface().(controller.RealPodControl).Recorder
}

func (w *wire) life(t *testing.T, b beginning) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.UnixMilli(b.NowMs)))
		ctx, cancel := context.WithCancel(t.Context())
		s := &server{wire: w, watches: map[string]*io.PipeWriter{}, wrote: make(chan struct{}, 1)}
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://judge", Transport: s, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		factory := informers.NewSharedInformerFactory(client, time.Duration(b.ResyncMs)*time.Millisecond)
		apps, core := factory.Apps().V1(), factory.Core().V1()
		var runs []func(context.Context, int)
		news, late := &burst{}, &burst{}
		listen := func(news *burst, controllers ...any) {
			for _, c := range controllers {
				items := field[workqueue.TypedRateLimitingInterface[string]](c, "queue")
				*items = bursts{*items, news}
			}
		}
		deployments := news
		if b.Patience != 0 {
			deployments = late
		}
		coin := rand.New(rand.NewSource(b.Patience))
		for _, name := range b.Controllers {
			switch name {
			case "deployment":
				c, err := deployment.NewDeploymentController(ctx, apps.Deployments(), apps.ReplicaSets(), core.Pods(), client)
				if err != nil {
					panic(err)
				}
				listen(deployments, c)
				count(*field[record.EventRecorder](c, "eventRecorder"))
				runs = append(runs, c.Run)
			case "replicaset":
				c := replicaset.NewReplicaSetController(ctx, apps.ReplicaSets(), core.Pods(), client, replicaset.BurstReplicas)
				listen(news, c)
				count(podEvents(c))
				runs = append(runs, c.Run)
			case "replicationcontroller":
				m := replication.NewReplicationManager(ctx, core.Pods(), core.ReplicationControllers(), client, replication.BurstReplicas)
				listen(news, m, original(m))
				count(podEvents(original(m)))
				runs = append(runs, m.Run)
			default:
				panic("no controller " + name)
			}
		}
		factory.Start(ctx.Done())
		synctest.Wait()
		for _, run := range runs {
			go run(ctx, 1)
		}
		for {
			synctest.Wait()
			w.say("quiet", quiet{time.Now().UnixMilli()})
			line, err := w.in.ReadBytes('\n')
			if err != nil {
				panic(err)
			}
			var next step
			if err := json.Unmarshal(line, &next); err != nil {
				panic(err)
			}
			if next.End {
				break
			}
			news.begin()
			late.begin()
			for _, e := range next.Events {
				s.tell(e)
			}
			synctest.Wait()
			if b.Patience > 1 {
				head := func() bool { return coin.Intn(2) == 0 }
				news.release(head)
				late.release(head)
			} else {
				news.end()
			}
			synctest.Wait()
			select {
			case <-s.wrote:
				continue
			default:
			}
			news.end()
			late.end()
			synctest.Wait()
			select {
			case <-s.wrote:
				continue
			default:
			}
			if left := time.Until(time.UnixMilli(next.UntilMs)); left > 0 {
				over := time.NewTimer(left)
				select {
				case <-over.C:
				case <-s.wrote:
				}
				over.Stop()
			}
		}
		cancel()
		for _, watch := range s.watches {
			watch.Close()
		}
		factory.Shutdown()
	})
}
