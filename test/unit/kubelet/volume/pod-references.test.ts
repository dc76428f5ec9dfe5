// Would catch: an object that is not fetched before a container or volume needs it, and an object that the agent has no reason to read.
import { expect, it } from "vitest";
import { podReferences } from "../../../../shared/node-agent/kubelet/volume/prepare-volumes.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

it("[node-agent 108] lists the references of environment, volumes and image pulls once each, whether or not they are optional", () => {
  const env = (suffix: string) => ({
    env: [
      { name: "A", valueFrom: { configMapKeyRef: { name: `cm-env-${suffix}`, key: "k" } } },
      { name: "B", valueFrom: { secretKeyRef: { name: `s-env-${suffix}`, key: "k", optional: true } } },
      { name: "C", value: "1" },
    ],
    envFrom: [
      { configMapRef: { name: `cm-from-${suffix}`, optional: true } },
      { secretRef: { name: `s-from-${suffix}` } },
      { configMapRef: { name: "shared" } },
    ],
  });
  const pod = nodePod({
    containers: [containerSpec("foo1", env("regular")), "foo2"],
    initContainers: [containerSpec("init1", env("init"))],
    ephemeralContainers: [containerSpec("debug", env("ephemeral"))],
    spec: {
      imagePullSecrets: [{ name: "pull" }, { name: "" }, {}],
      volumes: [
        { name: "v1", configMap: { name: "cm-volume" } },
        { name: "v2", secret: { secretName: "s-volume" } },
        {
          name: "v3",
          projected: {
            sources: [
              { configMap: { name: "cm-projected" } },
              { secret: { name: "s-projected" } },
              { serviceAccountToken: { path: "token" } },
            ],
          },
        },
        { name: "v4", configMap: { name: "shared", optional: true } },
        { name: "v5", emptyDir: {} },
      ],
    },
  });
  expect(podReferences(pod)).toEqual({
    configMaps: [
      "cm-env-ephemeral",
      "cm-env-init",
      "cm-env-regular",
      "cm-from-ephemeral",
      "cm-from-init",
      "cm-from-regular",
      "cm-projected",
      "cm-volume",
      "shared",
    ],
    secrets: [
      "pull",
      "s-env-ephemeral",
      "s-env-init",
      "s-env-regular",
      "s-from-ephemeral",
      "s-from-init",
      "s-from-regular",
      "s-projected",
      "s-volume",
    ],
  });
});

it("the list of references is empty for a pod without references", () =>
  expect(podReferences(nodePod())).toEqual({ configMaps: [], secrets: [] }));
