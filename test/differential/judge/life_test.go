// A whole history of upstream's controllers: their own Run, with work queue, rate limiter, expectations, informers and Events, in one
// bubble of testing/synctest. The caller controls the time: each line of stdin is a step, "deliver these watch events and run until that
// time". A step ends at that time, or earlier if there was a write and no goroutine has any work left at the current time, so that the
// events of the write can be delivered immediately. Between steps, and while a request waits for its response, time stands still, because a
// goroutine that reads from a pipe is not durably blocked.
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

// beginning says which controllers run, each with one worker, and the start time.
type beginning struct {
	Controllers []string `json:"controllers"`
	NowMs       int64    `json:"nowMs"`
	ResyncMs    int64    `json:"resyncMs"`
	// Patience controls the order of syncs. 0: when events arrive. 1: Deployments only after all due syncs of ReplicaSets. Any other number is
	// the seed of a random decision for each key.
	Patience int64 `json:"patience"`
}

type step struct {
	Events  []watchEvent `json:"events"`
	UntilMs int64        `json:"untilMs"`
	End     bool         `json:"end"`
}

// watchEvent is a line of a watch of the resource.
type watchEvent struct {
	Resource string          `json:"resource"`
	Line     json.RawMessage `json:"line"`
}

// watch reports that a controller watches the resource from this version on; there is no response.
type watch struct {
	Resource        string `json:"resource"`
	ResourceVersion string `json:"resourceVersion"`
}

type quiet struct {
	NowMs int64 `json:"nowMs"`
}

// server is a wire with watches that steps feed.
type server struct {
	*wire
	watching sync.Mutex
	watches  map[string]*io.PipeWriter
	// wrote contains a value if there was a write since the last check.
	wrote chan struct{}
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("sendInitialEvents") != "" {
		// Responds like an API server without streaming lists, so that the reflector lists.
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
		return // no watch of this resource is open
	}
	writer.Write(append(e.Line, '\n'))
}

// bursts is a work queue that delays keys until all simultaneous events are delivered. Without it, the number of events that a worker knows
// when the first one wakes it would be random.
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

// release adds the keys for which `which` returns true.
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

// counting is a clock that never returns the same time twice, because Event names contain the time.
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
