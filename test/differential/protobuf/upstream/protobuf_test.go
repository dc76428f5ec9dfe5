package upstream

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"
)

// question asks for random pods, or for the given ones.
type question struct {
	Seed  int64             `json:"seed"`
	Count int               `json:"count"`
	Pods  []json.RawMessage `json:"pods"`
}

// answer has each object as the API server encodes it.
type answer struct {
	// Lines and Frames are watch events, ListJSON and List one list of the same pods.
	Lines    []string `json:"lines"`
	Frames   [][]byte `json:"frames"`
	ListJSON string   `json:"listJSON"`
	List     []byte   `json:"list"`
}

var scheme = runtime.NewScheme()

func init() {
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
}

// filler fills any pod: of its strings, numbers and lists none has to be valid.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.Time{}
			if c.Intn(4) > 0 {
				// From year 1 to year 9999.
				t.Time = time.Unix(c.Rand.Int63n(315537897599)-62135596799, c.Rand.Int63n(1e9))
			}
		},
		func(q *resource.Quantity, c randfill.Continue) { *q = *resource.NewQuantity(c.Rand.Int63n(1000), resource.DecimalSI) },
		func(f *metav1.FieldsV1, _ randfill.Continue) { *f = metav1.FieldsV1{Raw: []byte(`{"f:status":{}}`)} },
		func(u *types.UID, c randfill.Continue) { *u = types.UID(strconv.FormatInt(c.Rand.Int63(), 36)) },
		func(pod *corev1.Pod, c randfill.Continue) {
			c.FillNoCustom(pod)
			pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			pod.ResourceVersion = strconv.Itoa(c.Intn(1 << 30))
			for i := range pod.Status.Conditions {
				if c.Bool() {
					pod.Status.Conditions[i].Type = corev1.PodReady
				}
			}
			for i := range pod.Spec.InitContainers {
				if c.Bool() {
					always := corev1.ContainerRestartPolicyAlways
					pod.Spec.InitContainers[i].RestartPolicy = &always
				}
				if i < len(pod.Status.InitContainerStatuses) {
					pod.Status.InitContainerStatuses[i].Name = pod.Spec.InitContainers[i].Name
				}
			}
			for i := range pod.ManagedFields {
				pod.ManagedFields[i].Manager = []string{"deltaloop-replicaset", "kubelet"}[c.Intn(2)]
			}
			// The API server sets this time; it has no pointer to a zero time, which JSON prints as null.
			if pod.DeletionTimestamp.IsZero() || c.Intn(3) == 0 {
				pod.DeletionTimestamp = nil
			}
			if c.Bool() {
				if pod.Annotations == nil {
					pod.Annotations = map[string]string{}
				}
				pod.Annotations["controller.kubernetes.io/pod-deletion-cost"] = []string{"", "7", "-1 é"}[c.Intn(3)]
			}
		},
	)
}

func encode(t *testing.T, encoder runtime.Encoder, object runtime.Object) []byte {
	var out bytes.Buffer
	if err := encoder.Encode(object, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func answerTo(t *testing.T, q question) answer {
	text := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme, scheme, jsonserializer.SerializerOptions{})
	binary := protobuf.NewSerializer(scheme, scheme)
	pods := make([]corev1.Pod, 0, q.Count+len(q.Pods))
	random := rand.New(rand.NewSource(q.Seed))
	for range q.Count {
		pod := corev1.Pod{}
		filler(random.Int63()).Fill(&pod)
		pods = append(pods, pod)
	}
	for _, given := range q.Pods {
		pod := corev1.Pod{}
		if err := json.Unmarshal(given, &pod); err != nil {
			t.Fatal(err)
		}
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pods = append(pods, pod)
	}
	made := answer{}
	for i := range pods {
		line, err := json.Marshal(metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: encode(t, text, &pods[i])}})
		if err != nil {
			t.Fatal(err)
		}
		event := metav1.WatchEvent{Type: "MODIFIED", Object: runtime.RawExtension{Raw: encode(t, binary, &pods[i])}}
		frame, err := event.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		made.Lines = append(made.Lines, string(line))
		made.Frames = append(made.Frames, frame)
	}
	list := corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		ListMeta: metav1.ListMeta{ResourceVersion: "812", Continue: "next"},
		Items:    pods,
	}
	made.ListJSON, made.List = string(encode(t, text, &list)), encode(t, binary, &list)
	return made
}

// TestProtobuf answers each line of standard input with a line of standard output.
func TestProtobuf(t *testing.T) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	for lines.Scan() {
		q := question{}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(answerTo(t, q)); err != nil {
			t.Fatal(err)
		}
	}
}
