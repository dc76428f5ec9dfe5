// Would catch: a pod that starts without a requested feature, and a pod that is rejected without a reason.
import { describe, expect, it } from "vitest";
import type { ContainerSpec, PodSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { unsupportedFeature } from "../../../../shared/node-agent/kubelet/config/unsupported-features.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

describe("unsupportedFeature", () => {
  const ofPod: [want: string | undefined, spec: Partial<PodSpec>][] = [
    [undefined, {}],
    ["spec.hostUsers", { hostUsers: false }],
    [undefined, { hostUsers: true }],
    ["spec.resourceClaims", { resourceClaims: [{ name: "gpu", resourceClaimName: "x" }] }],
    ["spec.resources", { resources: { limits: { cpu: "1" } } }],
    [undefined, { resources: {}, resourceClaims: [] }],
    ["spec.securityContext.appArmorProfile", { securityContext: { appArmorProfile: { type: "Unconfined" } } }],
    [
      undefined,
      {
        securityContext: {
          appArmorProfile: { type: "RuntimeDefault" },
          seLinuxOptions: { level: "s0" },
          supplementalGroupsPolicy: "Merge",
        },
      },
    ],
    ["spec.securityContext.supplementalGroupsPolicy", { securityContext: { supplementalGroupsPolicy: "Strict" } }],
    [
      "spec.volumes[1].image",
      {
        volumes: [
          { name: "a", emptyDir: {} },
          { name: "b", image: { reference: "x" } },
        ],
      },
    ],
    [undefined, { volumes: [{ name: "a", secret: { defaultMode: 1, items: [{ key: "user", path: "user", mode: 1 }] } }] }],
    ...(
      [
        ["emptyDir.mode", { emptyDir: { mode: 0o1777 } }],
        ["secret.defaultUser", { secret: { defaultUser: 0 } }],
        [
          "configMap.items[1].user",
          {
            configMap: {
              items: [
                { key: "a", path: "a" },
                { key: "b", path: "b", user: 1 },
              ],
            },
          },
        ],
        ["downwardAPI.items[0].user", { downwardAPI: { items: [{ path: "a", user: 1 }] } }],
        ["projected.sources[0].serviceAccountToken.user", { projected: { sources: [{ serviceAccountToken: { path: "t", user: 1 } }] } }],
      ] as const
    ).map(([field, source]): [string, Partial<PodSpec>] => [
      `spec.volumes[0].${field}`,
      { volumes: [{ name: "a", ...source }] } as Partial<PodSpec>, // alpha fields, which client-node's types lack
    ]),
    [
      undefined,
      { setHostnameAsFQDN: true, shareProcessNamespace: true, hostAliases: [], enableServiceLinks: false, overhead: { cpu: "1" } },
    ],
  ];
  for (const [want, spec] of ofPod)
    it(`unsupportedFeature is ${want} for ${JSON.stringify(spec)}`, () => expect(unsupportedFeature(nodePod({ spec }))).toBe(want));

  const ofContainer: [want: string | undefined, fields: Partial<ContainerSpec>][] = [
    [
      undefined,
      { resizePolicy: [{ resourceName: "cpu", restartPolicy: "NotRequired" }], resources: { requests: { cpu: "1" }, claims: [] } },
    ],
    [undefined, { restartPolicy: "Never", restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "In", values: [1] } }] }],
    [undefined, { restartPolicy: "Never", restartPolicyRules: [], volumeDevices: [], lifecycle: { preStop: { sleep: { seconds: 1 } } } }],
    [
      "restartPolicyRules",
      { restartPolicy: "Never", restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [1] } }] },
    ],
    ["resources.claims", { resources: { claims: [{ name: "gpu" }] } }],
    ["lifecycle.stopSignal", { lifecycle: { stopSignal: "SIGUSR1" } }],
    ["securityContext.appArmorProfile", { securityContext: { appArmorProfile: { type: "Localhost", localhostProfile: "x" } } }],
    ["volumeDevices", { volumeDevices: [{ name: "v", devicePath: "/dev/x" }] }],
    [
      "env[1].valueFrom.fileKeyRef",
      {
        env: [
          { name: "A", value: "1" },
          { name: "B", valueFrom: { fileKeyRef: { key: "k", path: "p", volumeName: "v" } } },
        ],
      },
    ],
    ["volumeMounts[0].recursiveReadOnly", { volumeMounts: [{ name: "v", mountPath: "/v", readOnly: true, recursiveReadOnly: "Enabled" }] }],
    [undefined, { volumeMounts: [{ name: "v", mountPath: "/v", readOnly: true, recursiveReadOnly: "IfPossible" }] }],
    ...(
      [
        ["volumeMounts[0].bindMountOptions", { volumeMounts: [{ name: "v", mountPath: "/v", bindMountOptions: ["noexec"] }] }],
        ["livenessProbe.httpGet.protocol", { livenessProbe: { httpGet: { port: 1, protocol: "HTTP2" } } }],
        [undefined, { livenessProbe: { httpGet: { port: 1, protocol: "HTTP1" } } }],
        ["readinessProbe.grpc.mode", { readinessProbe: { grpc: { port: 1, mode: "TLS" } } }],
        [undefined, { startupProbe: { grpc: { port: 1, mode: "Plaintext" } } }],
      ] as const
    )
      // the same
      .map(([want, fields]): [string | undefined, Partial<ContainerSpec>] => [want, fields as unknown as Partial<ContainerSpec>]),
  ];
  for (const list of ["initContainers", "containers", "ephemeralContainers"] as const)
    for (const [field, fields] of ofContainer) {
      const want = field === undefined ? undefined : `spec.${list}[1].${field}`;
      it(`unsupportedFeature is ${want} for ${JSON.stringify(fields)} in ${list}`, () =>
        expect(unsupportedFeature(nodePod({ [list]: ["first", containerSpec("second", fields)] }))).toBe(want));
    }

  it("honors the legacy AppArmor annotation of a static pod, which no API server converts to the field", () => {
    const annotation = "container.apparmor.security.beta.kubernetes.io/foo1";
    expect(unsupportedFeature(nodePod({ annotations: { [annotation]: "localhost/x" } }))).toBe(`metadata.annotations['${annotation}']`);
    expect(unsupportedFeature(nodePod({ annotations: { [annotation]: "runtime/default" } }))).toBeUndefined();
  });

  it("reports the first of several unsupported fields", () =>
    expect(
      unsupportedFeature(
        nodePod({
          containers: [containerSpec("foo1", { volumeDevices: [{ name: "v", devicePath: "/dev/x" }] })],
          spec: { hostUsers: false },
        }),
      ),
    ).toBe("spec.hostUsers"));
});
