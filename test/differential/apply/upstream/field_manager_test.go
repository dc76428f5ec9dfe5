// Upstream's field manager over pipes: each line of stdin is a sequence of writes of one object, each line of stdout what it made of
// each write. test/differential/apply/upstream.ts has the shapes.
//
// A test binary, because testing/synctest needs a *testing.T: within its bubble the time passes as a sequence says.
package upstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

type sequence struct {
	Kind string `json:"kind"`
	// Versions that are served; without types those of the built-in kinds.
	Versions []string `json:"versions"`
	// Types is a schema, or empty for a built-in kind, or "deduced".
	Types string            `json:"types"`
	Roots map[string]string `json:"roots"`
	Steps []step            `json:"steps"`
}

type step struct {
	Operation    string                 `json:"operation"`
	Manager      string                 `json:"manager"`
	APIVersion   string                 `json:"apiVersion"`
	Subresource  string                 `json:"subresource"`
	Force        bool                   `json:"force"`
	AfterSeconds int                    `json:"afterSeconds"`
	Object       map[string]interface{} `json:"object"`
}

type result struct {
	Object map[string]interface{} `json:"object,omitempty"`
	Error  string                 `json:"error,omitempty"`
	Causes []string               `json:"causes,omitempty"`
}

type versions struct {
	served []string
}

func (v versions) Convert(in, out, context interface{}) error { return fmt.Errorf("not used") }

func (v versions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	kind := in.GetObjectKind().GroupVersionKind()
	to, ok := target.(schema.GroupVersion)
	if !ok {
		return nil, fmt.Errorf("not a version: %v", target)
	}
	for _, served := range v.served {
		if served == to.String() {
			out := in.DeepCopyObject()
			out.GetObjectKind().SetGroupVersionKind(to.WithKind(kind.Kind))
			return out, nil
		}
	}
	return nil, runtime.NewNotRegisteredErrForTarget("served", nil, target)
}

func (v versions) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return "", "", fmt.Errorf("not used")
}

type nothing struct{}

func (nothing) Default(runtime.Object) {}

func (nothing) New(schema.GroupVersionKind) (runtime.Object, error) {
	return &unstructured.Unstructured{Object: map[string]interface{}{}}, nil
}

// parsed is a type converter for one kind of which each version has a type.
type parsed struct {
	parser *typed.Parser
	roots  map[string]string
}

func (p parsed) ObjectToTyped(object runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	gvk := object.GetObjectKind().GroupVersionKind()
	root, ok := p.roots[gvk.GroupVersion().String()]
	if !ok {
		return nil, runtime.NewNotRegisteredErrForKind("served", gvk)
	}
	return p.parser.Type(root).FromUnstructured(object.(*unstructured.Unstructured).Object, options...)
}

func (p parsed) TypedToObject(value *typed.TypedValue) (runtime.Object, error) {
	object, ok := value.AsValue().Unstructured().(map[string]interface{})
	if !ok {
		return nil, fmt.Errorf("not an object")
	}
	return &unstructured.Unstructured{Object: object}, nil
}

func converter(seq sequence) (managedfields.TypeConverter, error) {
	switch seq.Types {
	case "":
		return applyconfigurations.NewTypeConverter(scheme.Scheme), nil
	case "deduced":
		return managedfields.NewDeducedTypeConverter(), nil
	}
	parser, err := typed.NewParser(typed.YAMLObject(seq.Types))
	if err != nil {
		return nil, err
	}
	return parsed{parser, seq.Roots}, nil
}

func play(seq sequence) []result {
	types, err := converter(seq)
	if err != nil {
		return []result{{Error: "schema: " + err.Error()}}
	}
	managers := map[string]*managedfields.FieldManager{}
	var live *unstructured.Unstructured
	results := make([]result, 0, len(seq.Steps))
	for number, step := range seq.Steps {
		time.Sleep(time.Duration(step.AfterSeconds) * time.Second)
		key := step.APIVersion + " " + step.Subresource
		manager := managers[key]
		if manager == nil {
			manager, err = fieldManager(seq, types, step)
			if err != nil {
				return []result{{Error: err.Error()}}
			}
			managers[key] = manager
		}
		object, failed := write(manager, live, step, seq.Kind)
		if failed != nil {
			results = append(results, *failed)
			continue
		}
		object.SetUID("uid")
		object.SetResourceVersion(fmt.Sprint(number + 1))
		live = object
		results = append(results, result{Object: object.DeepCopy().Object})
	}
	return results
}

func fieldManager(seq sequence, types managedfields.TypeConverter, step step) (*managedfields.FieldManager, error) {
	gv, err := schema.ParseGroupVersion(step.APIVersion)
	if err != nil {
		return nil, err
	}
	other := "status"
	if step.Subresource == "status" {
		other = "spec"
	}
	reset := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range seq.Versions {
		reset[fieldpath.APIVersion(version)] = fieldpath.NewSet(fieldpath.MakePathOrDie(other))
	}
	served := versions{seq.Versions}
	return managedfields.NewDefaultCRDFieldManager(
		types, served, nothing{}, nothing{}, gv.WithKind(seq.Kind), gv, step.Subresource, fieldpath.NewExcludeFilterSetMap(reset))
}

func write(manager *managedfields.FieldManager, live *unstructured.Unstructured, step step, kind string) (*unstructured.Unstructured, *result) {
	before := live
	if before == nil {
		before = &unstructured.Unstructured{Object: map[string]interface{}{"apiVersion": step.APIVersion, "kind": kind}}
	}
	next := &unstructured.Unstructured{Object: step.Object}
	if step.Operation == "update" {
		return manager.UpdateNoErrors(before.DeepCopy(), next, step.Manager).(*unstructured.Unstructured), nil
	}
	object, err := manager.Apply(before.DeepCopy(), next, step.Manager, step.Force)
	if err != nil {
		failed := &result{Error: err.Error()}
		if status, ok := err.(*apierrors.StatusError); ok && status.ErrStatus.Details != nil {
			for _, cause := range status.ErrStatus.Details.Causes {
				failed.Causes = append(failed.Causes, cause.Message+"|"+cause.Field)
			}
		}
		return nil, failed
	}
	return object.(*unstructured.Unstructured), nil
}

func TestFieldManager(t *testing.T) {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	for {
		line, err := in.ReadString('\n')
		if strings.TrimSpace(line) != "" {
			var seq sequence
			if failed := json.Unmarshal([]byte(line), &seq); failed != nil {
				t.Fatal(failed)
			}
			for i := range seq.Steps {
				// As an API server decodes: integers are integers.
				raw, _ := json.Marshal(seq.Steps[i].Object)
				object := &unstructured.Unstructured{}
				if failed := object.UnmarshalJSON(raw); failed != nil {
					t.Fatal(failed)
				}
				seq.Steps[i].Object = object.Object
			}
			var results []result
			synctest.Test(t, func(*testing.T) { results = play(seq) })
			answer, failed := json.Marshal(results)
			if failed != nil {
				t.Fatal(failed)
			}
			out.Write(answer)
			out.WriteByte('\n')
			out.Flush()
		}
		if err != nil {
			return
		}
	}
}
