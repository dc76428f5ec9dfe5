// The judge: upstream's own Deployment, ReplicaSet and ReplicationController controllers, asked over pipes. Each line of stdin is
// a question, each line of stdout an answer or, while a sync runs, a request that the controller makes of its API server: that
// one is answered by the next line of stdin. Nothing here decides anything; shared by test/differential/judge.ts, which says
// the shapes.
//
// A test binary, because testing/synctest needs a *testing.T: within its bubble time.Now is the question's `nowMs`.
package judge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/informers"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	appsdefaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/deployment"
	deploymentutil "k8s.io/kubernetes/pkg/controller/deployment/util"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/replication"
)

// question is a line of stdin: a sync, two templates, or how a life begins.
type question struct {
	Controller string `json:"controller"`
	Key        string `json:"key"`
	NowMs      int64  `json:"nowMs"`

	Deployments            []*appsv1.Deployment        `json:"deployments"`
	ReplicaSets            []*appsv1.ReplicaSet        `json:"replicasets"`
	ReplicationControllers []*v1.ReplicationController `json:"replicationcontrollers"`
	Pods                   []*v1.Pod                   `json:"pods"`

	// Changed names the objects that are not new by now: of these the informers tell the controller, and it has no sync.
	Changed *change `json:"changed"`

	Templates      []v1.PodTemplateSpec `json:"templates"`
	CollisionCount *int32               `json:"collisionCount"`

	// Life: see life_test.go.
	Life *beginning `json:"life"`
}

// change is one object as it was and as it is; null: it was not, or is no more.
type change struct {
	Resource string          `json:"resource"`
	Old      json.RawMessage `json:"old"`
	New      json.RawMessage `json:"new"`
}

// request is what a controller asks of its API server.
type request struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Query   map[string]string `json:"query"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	NowMs   int64             `json:"nowMs"`
}

type response struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body"`
}

// answer ends a sync.
type answer struct {
	Error string `json:"error,omitempty"`
	// Forgotten: the work item is, in spite of the error.
	Forgotten bool     `json:"forgotten,omitempty"`
	Events    []string `json:"events"`
	// AfterMs has an entry for each time the key was queued for later.
	AfterMs []float64 `json:"afterMs"`
	// Keys that were queued for now.
	Keys []string `json:"keys"`
}

type templates struct {
	// Templates are as an API server would have stored them.
	Templates []v1.PodTemplateSpec `json:"templates"`
	Hashes    []string             `json:"hashes"`
	Equal     bool                 `json:"equal"`
}

// wire is stdin and stdout. One request at a time: a lock that is waited for does not let a bubble's time go on.
type wire struct {
	sync.Mutex
	in  *bufio.Reader
	out *bufio.Writer
}

func (w *wire) say(kind string, value any) {
	line, err := json.Marshal(map[string]any{kind: value})
	if err != nil {
		panic(err)
	}
	w.out.Write(append(line, '\n'))
	w.out.Flush()
}

// RoundTrip makes the wire the transport of upstream's own client.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
	}
	query := map[string]string{}
	for name := range r.URL.Query() {
		query[name] = r.URL.Query().Get(name)
	}
	headers := map[string]string{"content-type": r.Header.Get("Content-Type"), "user-agent": r.Header.Get("User-Agent")}
	w.Lock()
	w.say("request", request{r.Method, r.URL.Path, query, headers, string(body), time.Now().UnixMilli()})
	line, err := w.in.ReadBytes('\n')
	w.Unlock()
	if err != nil {
		return nil, err
	}
	var got response
	if err := json.Unmarshal(line, &got); err != nil {
		return nil, err
	}
	if got.Status == 0 {
		return nil, fmt.Errorf("no answer")
	}
	return &http.Response{
		StatusCode: got.Status,
		Status:     http.StatusText(got.Status),
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:  http.Header{"Content-Type": {"application/json"}},
		Body:    io.NopCloser(bytes.NewReader(got.Body)),
		Request: r,
	}, nil
}

// queue notes what is queued for later and does nothing else.
type queue struct {
	workqueue.TypedRateLimitingInterface[string]
	answer *answer
}

func (q queue) AddAfter(_ string, after time.Duration) {
	q.answer.AfterMs = append(q.answer.AfterMs, float64(after.Microseconds())/1000)
}

// AddRateLimited: of a sync itself, only near a progress deadline.
func (q queue) AddRateLimited(string) { q.answer.AfterMs = append(q.answer.AfterMs, 0) }
func (q queue) Add(key string)        { q.answer.Keys = append(q.answer.Keys, key) }

// tapped is an informer that remembers whom it would tell.
type tapped struct {
	cache.SharedIndexInformer
	handlers *[]cache.ResourceEventHandler
}

func (t tapped) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	*t.handlers = append(*t.handlers, h)
	return t.SharedIndexInformer.AddEventHandler(h)
}

func tap(i cache.SharedIndexInformer) tapped {
	return tapped{i, &[]cache.ResourceEventHandler{}}
}

type (
	deploymentInformer struct {
		appsinformers.DeploymentInformer
		tapped
	}
	replicaSetInformer struct {
		appsinformers.ReplicaSetInformer
		tapped
	}
	replicationControllerInformer struct {
		coreinformers.ReplicationControllerInformer
		tapped
	}
	podInformer struct {
		coreinformers.PodInformer
		tapped
	}
)

func (i deploymentInformer) Informer() cache.SharedIndexInformer            { return i.tapped }
func (i replicaSetInformer) Informer() cache.SharedIndexInformer            { return i.tapped }
func (i replicationControllerInformer) Informer() cache.SharedIndexInformer { return i.tapped }
func (i podInformer) Informer() cache.SharedIndexInformer                   { return i.tapped }

// tell tells the handlers of a change, as an informer does.
func tell[T any](t tapped, c *change) {
	read := func(raw json.RawMessage) *T {
		if string(raw) == "null" {
			return nil
		}
		object := new(T)
		if err := json.Unmarshal(raw, object); err != nil {
			panic(err)
		}
		return object
	}
	was, is := read(c.Old), read(c.New)
	for _, h := range *t.handlers {
		switch {
		case was == nil:
			h.OnAdd(is, false)
		case is == nil:
			h.OnDelete(was)
		default:
			h.OnUpdate(was, is)
		}
	}
}

// field is an unexported field of a controller.
func field[T any](of any, name string) *T {
	f := reflect.ValueOf(of).Elem().FieldByName(name)
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// original is what the manager holds a copy of: its handler is a method of that, a closure of code and receiver.
func original(m *replication.ReplicationManager) *replicaset.ReplicaSetController {
	return (*(**struct {
		code uintptr
		of   *replicaset.ReplicaSetController
	})(unsafe.Pointer(field[func(context.Context, string) error](m, "syncHandler")))).of
}

func (w *wire) sync(t *testing.T, q question) (a answer) {
	a = answer{Events: []string{}, AfterMs: []float64{}, Keys: []string{}}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.UnixMilli(q.NowMs)))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://judge", Transport: w, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		factory := informers.NewSharedInformerFactory(client, 0)
		apps, core := factory.Apps().V1(), factory.Core().V1()
		deployments := deploymentInformer{apps.Deployments(), tap(apps.Deployments().Informer())}
		replicaSets := replicaSetInformer{apps.ReplicaSets(), tap(apps.ReplicaSets().Informer())}
		replicationControllers := replicationControllerInformer{core.ReplicationControllers(), tap(core.ReplicationControllers().Informer())}
		pods := podInformer{core.Pods(), tap(core.Pods().Informer())}

		var handler *func(context.Context, string) error
		var broadcaster *record.EventBroadcaster
		var items *workqueue.TypedRateLimitingInterface[string]
		switch q.Controller {
		case "deployment":
			c, err := deployment.NewDeploymentController(ctx, deployments, replicaSets, pods, client)
			if err != nil {
				panic(err)
			}
			handler = field[func(context.Context, string) error](c, "syncHandler")
			broadcaster = field[record.EventBroadcaster](c, "eventBroadcaster")
			items = field[workqueue.TypedRateLimitingInterface[string]](c, "queue")
		case "replicaset", "replicationcontroller":
			var c *replicaset.ReplicaSetController
			if q.Controller == "replicaset" {
				c = replicaset.NewReplicaSetController(ctx, replicaSets, pods, client, replicaset.BurstReplicas)
			} else {
				m := replication.NewReplicationManager(ctx, pods, replicationControllers, client, replication.BurstReplicas)
				c = original(m)
			}
			handler = field[func(context.Context, string) error](c, "syncHandler")
			broadcaster = field[record.EventBroadcaster](c, "eventBroadcaster")
			items = field[workqueue.TypedRateLimitingInterface[string]](c, "queue")
		default:
			panic("no controller " + q.Controller)
		}
		real := *items
		*items = queue{real, &a}
		var told sync.Mutex
		(*broadcaster).StartEventWatcher(func(e *v1.Event) {
			told.Lock()
			defer told.Unlock()
			a.Events = append(a.Events, fmt.Sprintf("%s %s/%s %s %s %s", e.Source.Component, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Type, e.Reason, e.Message))
		})

		for _, o := range q.Deployments {
			deployments.Informer().GetIndexer().Add(o)
		}
		for _, o := range q.ReplicaSets {
			replicaSets.Informer().GetIndexer().Add(o)
		}
		for _, o := range q.ReplicationControllers {
			replicationControllers.Informer().GetIndexer().Add(o)
		}
		for _, o := range q.Pods {
			pods.Informer().GetIndexer().Add(o)
		}

		if q.Changed != nil {
			switch q.Changed.Resource {
			case "deployments":
				tell[appsv1.Deployment](deployments.tapped, q.Changed)
			case "replicasets":
				tell[appsv1.ReplicaSet](replicaSets.tapped, q.Changed)
			case "replicationcontrollers":
				tell[v1.ReplicationController](replicationControllers.tapped, q.Changed)
			case "pods":
				tell[v1.Pod](pods.tapped, q.Changed)
			}
		} else if err := (*handler)(ctx, q.Key); err != nil {
			a.Error = err.Error()
			a.Forgotten = q.Controller == "deployment" && apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause)
		}
		synctest.Wait()
		(*broadcaster).Shutdown()
		real.ShutDown()
		cancel()
		synctest.Wait()
	})
	return a
}

// compare takes templates the way they take to a controller: defaulted, and through protobuf.
func compare(q question) templates {
	got := templates{}
	for _, template := range q.Templates {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template}}
		appsdefaults.SetObjectDefaults_Deployment(d)
		bytes, err := d.Marshal()
		if err != nil {
			panic(err)
		}
		var back appsv1.Deployment
		if err := back.Unmarshal(bytes); err != nil {
			panic(err)
		}
		got.Templates = append(got.Templates, back.Spec.Template)
		got.Hashes = append(got.Hashes, controller.ComputeHash(&back.Spec.Template, q.CollisionCount))
	}
	got.Equal = deploymentutil.EqualIgnoreHash(&got.Templates[0], &got.Templates[1])
	return got
}

func TestJudge(t *testing.T) {
	klog.SetLogger(klog.Logger{})
	utilruntime.ErrorHandlers = nil
	w := &wire{in: bufio.NewReaderSize(os.Stdin, 1<<20), out: bufio.NewWriter(os.Stdout)}
	for {
		line, err := w.in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		if q.Life != nil {
			w.life(t, *q.Life)
			w.say("over", struct{}{})
		} else if q.Templates != nil {
			w.say("templates", compare(q))
		} else {
			w.say("answer", w.sync(t, q))
		}
	}
}
