// Would catch: labels that readers cannot parse, a resource in the wrong unit, and a limit of 0 instead of the node's limit.
import { describe, expect, it } from "vitest";
import { podFieldText, resourceFieldText } from "../../../../shared/node-agent/kubelet/volume/downward-api.ts";
import { VolumeError } from "../../../../shared/node-agent/kubelet/types/volume-error.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

describe("podFieldText", () => {
  const pod = nodePod({
    name: "web",
    namespace: "shop",
    uid: "u-1",
    labels: { zone: "eu", app: "web", "example.com/tier": "front" },
    annotations: { note: 'say "hi"\\\n\tto\u0007 \u007f ü 猫 \u200b \u{1f600} \u{e0001}', builder: "me" },
  });
  const table: { name: string; fieldPath: string; want: string }[] = [
    { name: "the name", fieldPath: "metadata.name", want: "web" },
    { name: "the namespace", fieldPath: "metadata.namespace", want: "shop" },
    { name: "the uid", fieldPath: "metadata.uid", want: "u-1" },
    { name: "[node-agent 109] labels, sorted", fieldPath: "metadata.labels", want: 'app="web"\nexample.com/tier="front"\nzone="eu"' },
    {
      name: "annotations, escaped as Go does",
      fieldPath: "metadata.annotations",
      want: 'builder="me"\nnote="say \\"hi\\"\\\\\\n\\tto\\a \\x7f ü 猫 \\u200b \u{1f600} \\U000e0001"',
    },
    { name: "one label", fieldPath: "metadata.labels['example.com/tier']", want: "front" },
    { name: "one annotation, unescaped", fieldPath: "metadata.annotations['builder']", want: "me" },
    { name: "a label that does not exist", fieldPath: "metadata.labels['x']", want: "" },
    { name: "a missing label with the name of an Object.prototype property", fieldPath: "metadata.labels['constructor']", want: "" },
    { name: "a missing annotation with the name of an Object.prototype property", fieldPath: "metadata.annotations['toString']", want: "" },
  ];
  it.each(table)("a pod field: $name", ({ fieldPath, want }) => {
    expect(podFieldText(pod, fieldPath)).toBe(want);
  });

  it("rejects fields that a volume cannot contain", () => {
    expect(() => podFieldText(pod, "status.podIP")).toThrow(new VolumeError("unsupported fieldPath: status.podIP"));
  });

  it("labels are empty for a pod without labels", () => {
    expect(podFieldText(nodePod(), "metadata.labels")).toBe("");
  });
});

describe("resourceFieldText", () => {
  const allocatable = { cpuMilli: 3_900, memoryBytes: 2 ** 30, ephemeralStorageBytes: 2 ** 31, pods: 110 };
  const resources = {
    limits: { cpu: "1250m", memory: "64Mi", "hugepages-2Mi": "4Mi" },
    requests: { cpu: "250m", memory: "32Mi", "ephemeral-storage": "1G" },
  };
  const pod = nodePod({
    containers: [containerSpec("sized", { resources }), "bare"],
    initContainers: [containerSpec("first", { resources })],
  });
  const table: { name: string; container?: string; resource: string; divisor?: string; want: string }[] = [
    { name: "whole CPUs, rounded up", resource: "limits.cpu", want: "2" },
    { name: "thousandths of a CPU", resource: "limits.cpu", divisor: "1m", want: "1250" },
    { name: "requested CPUs, rounded up", resource: "requests.cpu", divisor: "0", want: "1" },
    { name: "bytes", resource: "limits.memory", want: "67108864" },
    { name: "memory in units of the divisor", resource: "limits.memory", divisor: "1Ki", want: "65536" },
    { name: "memory in units of a decimal divisor, rounded up", resource: "requests.memory", divisor: "1M", want: "34" },
    { name: "requested storage", resource: "requests.ephemeral-storage", divisor: "1k", want: "1000000" },
    { name: "huge pages", resource: "limits.hugepages-2Mi", divisor: "1Mi", want: "4" },
    { name: "a resource of an init container", container: "first", resource: "limits.cpu", want: "2" },
    { name: "[node-agent 109] a CPU limit that is not set: the node's allocatable", container: "bare", resource: "limits.cpu", want: "4" },
    { name: "a memory limit that is not set", container: "bare", resource: "limits.memory", want: "1073741824" },
    { name: "a storage limit that is not set", resource: "limits.ephemeral-storage", divisor: "1Gi", want: "2" },
    { name: "a huge pages limit that is not set", container: "bare", resource: "limits.hugepages-1Gi", want: "0" },
    { name: "a request that is not set", container: "bare", resource: "requests.memory", want: "0" },
  ];
  it.each(table)("a resource field: $name", ({ container = "sized", resource, divisor, want }) => {
    expect(resourceFieldText(pod, { containerName: container, resource, ...(divisor !== undefined && { divisor }) }, allocatable)).toBe(
      want,
    );
  });

  it("rejects unknown resources", () => {
    const text = (containerName: string, resource: string) => () => resourceFieldText(pod, { containerName, resource }, allocatable);
    expect(text("nobody", "limits.cpu")).toThrow(new VolumeError("container nobody not found"));
    expect(text("sized", "limits.gpu")).toThrow(new VolumeError("unsupported container resource : limits.gpu"));
    expect(text("sized", "cpu")).toThrow(new VolumeError("unsupported container resource : cpu"));
  });
});
