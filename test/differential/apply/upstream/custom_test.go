package upstream

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// custom is a CustomResourceDefinition's schema and an object.
type custom struct {
	Schema *apiextensionsv1.JSONSchemaProps `json:"schema"`
	Object json.RawMessage                  `json:"object"`
}

type admitted struct {
	// Object is pruned and defaulted.
	Object map[string]interface{} `json:"object,omitempty"`
	// Fields are those that server-side apply sees.
	Fields json.RawMessage `json:"fields,omitempty"`
	Error  string          `json:"error,omitempty"`
}

func admit(line custom) admitted {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(line.Schema, internal, nil); err != nil {
		return admitted{Error: err.Error()}
	}
	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return admitted{Error: err.Error()}
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(line.Object); err != nil {
		return admitted{Error: err.Error()}
	}
	pruning.Prune(object.Object, structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, structural)
	defaulting.Default(object.Object, structural)
	types, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{"root": structural.ToKubeOpenAPI()}, false)
	if err != nil {
		return admitted{Error: err.Error()}
	}
	parser := typed.Parser{}
	types.CopyInto(&parser.Schema)
	value, err := parser.Type("root").FromUnstructured(object.Object, typed.AllowDuplicates)
	if err != nil {
		return admitted{Object: object.Object, Error: "type"}
	}
	set, err := value.ToFieldSet()
	if err != nil {
		return admitted{Object: object.Object, Error: err.Error()}
	}
	fields, err := set.ToJSON()
	if err != nil {
		return admitted{Object: object.Object, Error: err.Error()}
	}
	return admitted{Object: object.Object, Fields: fields}
}

func TestCustom(t *testing.T) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := bufio.NewWriter(os.Stdout)
	for lines.Scan() {
		var line custom
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		answer, err := json.Marshal(admit(line))
		if err != nil {
			t.Fatal(err)
		}
		out.Write(answer)
		out.WriteByte('\n')
		out.Flush()
	}
}
