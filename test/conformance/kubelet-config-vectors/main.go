// Writes vectors.jsonl: KubeletConfigurations and what the kubelet's codec makes of them. Run it in the module of the control plane:
//
//	cd test/envtest/control-plane && go run -mod=readonly ../../conformance/kubelet-config-vectors/main.go FILE
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/util/codec"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

var fields = []string{
	"enableServer", "maxPods", "podPidsLimit", "tlsMinVersion", "resolvConf", "syncFrequency", "cpuCFSQuotaPeriod", "clusterDNS",
	"tlsCurvePreferences", "evictionHard", "featureGates", "staticPodURLHeader", "registerWithTaints", "authentication", "memorySwap",
	"logging", "memoryThrottlingFactor", "reservedMemory", "tracing", "shutdownGracePeriodByPodPriority", "rotateCertificates",
}

var values = []string{
	"null", `""`, "x", "0", "7", "-1", "1.5", "7.0", "3000000000", "9223372036854775807", "1e3", "1e300", "true", "yes", `"true"`, "1m", "1m30s",
	"-1s", "1 m", ".5s", "[]", "[x]", "[1]", "[null]", "[{}]", "[{key: a, effect: b}]", "[{key: 1}]", "[[x]]", "{}", "{a: b}", "{a: 1}",
	"{a: null}", "{a: true}", "{a: [b]}", "{a: [1]}", "{a: {b: c}}", "{enabled: true}",
}

var others = []string{
	"maxPod: 30\n", "maxPod: [1]\n", "MaxPods: 30\n", "maxpods: x\n", "toString: 1\n", "__proto__: {a: 1}\n", "a: 1\nb: {c: 2}\n",
	"authentication: {x509: {clientCA: /a}}\n", "authentication: {x509: {clientCAFile: 1}}\n", "authentication: {x509: [/a]}\n",
	"authentication: {webhook: {cacheTTL: 2m, enabled: true}}\n", "authentication: {webhook: {cacheTTL: 2}}\n",
	"authentication: {anonymous: {enabled: \"false\"}}\n", "authorization: {webhook: {cacheAuthorizedTTL: 5 m}}\n", "authorization: {mode: 1}\n",
	"logging: {format: text, flushFrequency: 5s, verbosity: 2}\n", "logging: {flushFrequency: 5000000000}\n", "logging: {flushFrequency: 5.5}\n",
	"logging: {flushFrequency: 5 s}\n", "logging: {flushFrequency: true}\n", "logging: {verbosity: -1}\n", "logging: {verbosity: \"2\"}\n",
	"logging: {options: {json: {infoBufferSize: \"0\"}}}\n", "logging: {options: {json: {infoBufferSize: 0}}}\n",
	"logging: {options: {text: {infoBufferSize: 1 Mi}}}\n", "logging: {options: {text: {infoBufferSize: true}}}\n",
	"logging: {options: {text: {splitStream: 1}}}\n", "logging: {vmodule: [{filePattern: a, verbosity: 1}]}\n", "logging: {vmodule: a=1}\n",
	"reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n", "reservedMemory: [{numaNode: 0, limits: {memory: 1 Gi}}]\n",
	"reservedMemory: [{numaNode: \"0\", limits: {memory: 1Gi}}]\n", "reservedMemory: [{limits: {memory: 128}}]\n", "reservedMemory: [{limit: {}}]\n",
	"registerWithTaints: [{key: a, value: b, effect: NoSchedule}]\n", "registerWithTaints: [{key: a, timeAdded: 2026-01-02T03:04:05Z}]\n",
	"registerWithTaints: [{key: a, timeAdded: yesterday}]\n", "registerWithTaints: [{key: a, timeAdded: 1}]\n", "registerWithTaints: [{keys: a}]\n",
	"shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 60}]\n",
	"shutdownGracePeriodByPodPriority: [{priority: high}]\n", "shutdownGracePeriodByPodPriority: [{priority: 3000000000}]\n",
	"shutdownGracePeriodByPodPriority: [{shutdownGracePeriodSeconds: 1m}]\n", "crashLoopBackOff: {maxContainerRestartPeriod: 10s}\n",
	"crashLoopBackOff: {maxContainerRestartPeriod: 10}\n", "userNamespaces: {idsPerPod: x}\n", "userNamespaces: {idsPerPod: 65536}\n",
	"tracing: {endpoint: a, samplingRatePerMillion: 1}\n", "tracing: {samplingRatePerMillion: 1.5}\n", "kubeReserved: {cpu: 200m, pid: 1000}\n",
	"kubeReserved: {cpu: 200m, pid: \"1000\"}\n", "kubeReserved: {cpu: 0.5}\n", "systemReserved: {memory: null}\n",
	"evictionHard: {memory.available: 5%, nodefs.available: 1Gi}\n", "evictionHard: {memory.available: 100}\n", "evictionMinimumReclaim: [a]\n",
	"maxPods: 1\nmaxPods: 2\n", "maxPods: 1\nmaxPods: x\n", "maxPods: x\nmaxPods: 1\n", "evictionHard: {a: b, a: c}\n",
	"authentication:\n  webhook: {enabled: true}\n  webhook: {enabled: false}\n", "maxPods: 1\nmaxPods: 2\nfoo: 1\n",
	"registerWithTaints:\n- {key: a, key: b}\n", "foo: 1\nmaxPods: x\n", "maxPods: x\nenableServer: 1\n", "clusterDNS: 10.96.0.10\n",
	"evictionHard: &a {memory.available: 5%}\nsystemReserved: &b {cpu: 1m}\nkubeReserved: {<<: *a, <<: *b}\n",
	"systemReserved: &a {cpu: 1m}\nkubeReserved: {<<: *a, cpu: 2m}\n",
	"---\nfoo: 1\n", "", "# only\n",
}

// Without the head.
var whole = []string{
	"", "\n", "a: [", "x", "[]", "null", "{}", "apiVersion: v1\nkind: Pod\n", "kind: KubeletConfiguration\n", "maxPods: 1\n",
	"apiVersion: kubelet.config.k8s.io/v1beta1\n", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: Kubelet\n",
	"apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n", "apiVersion: kubelet.config.k8s.io/v1alpha1\nkind: KubeletConfiguration\n",
	"apiVersion: 1\nkind: KubeletConfiguration\n", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: [KubeletConfiguration]\n",
	"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nkind: KubeletConfiguration\n",
	"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmetadata: {name: a}\n",
	`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":30}`,
	`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":30.0}`,
	`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":"30"}`,
	`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":30,"maxPods":31}`,
	`{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPod":30}`,
	`{apiVersion: kubelet.config.k8s.io/v1beta1, kind: KubeletConfiguration, maxPods: 30}`,
	"\ufeffapiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
	head + "maxPods: 30\n---\nmaxPods: x\n", head + "---\n" + head,
}

func main() {
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	defer file.Close()
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	_, codecs, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		panic(err)
	}
	put := func(text string) {
		// Defaulting panics on unknown feature gates, after the decoder took them.
		defer func() {
			if recover() != nil {
				encoder.Encode([]string{text, "taken", ""})
			}
		}()
		var warning string
		logger := funcr.NewJSON(func(line string) {
			var entry struct{ Err string }
			if err := json.Unmarshal([]byte(line), &entry); err != nil {
				panic(err)
			}
			warning = entry.Err
		}, funcr.Options{})
		_, err := codec.DecodeKubeletConfiguration(klog.NewContext(context.Background(), logger), codecs, []byte(text))
		switch {
		case err != nil:
			encoder.Encode([]string{text, "refused", err.Error()})
		case warning != "":
			encoder.Encode([]string{text, "warned", warning})
		default:
			encoder.Encode([]string{text, "taken", ""})
		}
	}
	for _, field := range fields {
		for _, value := range values {
			put(head + field + ": " + value + "\n")
		}
	}
	for _, text := range others {
		put(head + text)
	}
	for _, text := range whole {
		put(text)
	}
}
