/**
 * Controllers of other frameworks, rewritten for deltaloop: they must reach the same final states as the originals.
 *
 * The originals: kubernetes/sample-controller controller.go; operator-framework/java-operator-sdk sample-operators/webpage; metacontroller
 * examples/secretpropagation.
 */
import { hash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { customResource, defineController, only, s, watch } from "../../../shared/sdk/index.ts";
import { ConfigMap, Deployment, Ingress, Namespace, Pod, Secret, Service } from "../../../shared/sdk/kinds.ts";
import { world } from "../../../shared/test-kit/index.ts";
import type { World } from "../../../shared/test-kit/index.ts";

const NS = "default";

describe("Kubernetes' sample-controller", () => {
  const Foo = customResource({
    ...{ group: "samplecontroller.example.com", version: "v1alpha1", kind: "Foo" },
    spec: s.object({ deploymentName: s.string(), replicas: s.integer({ minimum: 1 }).optional() }),
    status: s.object({ availableReplicas: s.integer().optional() }),
  });
  const sample = defineController({
    name: "sample",
    for: Foo,
    owns: [Deployment],
    sync({ object, owned }) {
      const { deploymentName: name, replicas } = object.spec;
      if (name === "") return undefined;
      const labels = { app: "nginx", controller: object.metadata.name };
      const template = { metadata: { labels }, spec: { containers: [{ name: "nginx", image: "nginx:latest" }] } };
      return {
        apply: [Deployment({ metadata: { name }, spec: { replicas, selector: { matchLabels: labels }, template } })],
        // Keeps a Deployment with a former name, as the original does.
        keep: owned(Deployment).map(({ metadata }) => ({ kind: "Deployment", name: metadata.name })),
        status: { availableReplicas: owned(Deployment, name)?.status?.availableReplicas ?? 0 },
        events: [{ type: "Normal", reason: "Synced", message: "Foo synced successfully" }],
      };
    },
  });
  const foo = (deploymentName: string, replicas?: number) =>
    Foo({ metadata: { name: "foo", namespace: NS }, spec: { deploymentName, ...(replicas !== undefined && { replicas }) } });
  const start = async (...[name, replicas]: Parameters<typeof foo>): Promise<World> => {
    const w = await world({ controllers: [sample] });
    await w.apply(foo(name, replicas));
    await w.settle();
    return w;
  };
  const replicasOf = (w: World, name = "d") => w.get(Deployment, NS, name)?.spec?.replicas;

  it("creates the Deployment, and reports its available replicas", async () => {
    const w = await start("d", 2);
    expect(replicasOf(w)).toBe(2);
    expect(w.get(Foo, NS, "foo")?.status).toEqual({ availableReplicas: 2 });
  });

  it("reverts a change of replicas, and follows a change of the Foo", async () => {
    const w = await start("d", 1);
    await w.edit(Deployment, NS, "d", { spec: { replicas: 5 } });
    await w.settle();
    expect(replicasOf(w)).toBe(1);
    await w.apply(foo("d", 3));
    await w.settle();
    expect([replicasOf(w), w.get(Foo, NS, "foo")?.status?.availableReplicas]).toEqual([3, 3]);
  });

  it("does not set replicas if the Foo does not set them", async () => {
    const w = await start("d");
    await w.edit(Deployment, NS, "d", { spec: { replicas: 2 } });
    await w.settle();
    expect(replicasOf(w)).toBe(2);
  });

  it("recreates a deleted Deployment, and is deleted with the Foo", async () => {
    const w = await start("d", 1);
    const uid = w.get(Deployment, NS, "d")?.metadata.uid;
    await w.delete(Deployment, NS, "d");
    await w.settle();
    expect(w.get(Deployment, NS, "d")?.metadata.uid).not.toBe(uid);
    await w.delete(Foo, NS, "foo");
    await w.settle();
    expect(await w.list(Deployment)).toEqual([]);
  });

  it("does nothing without a deployment name, and keeps the Deployment of a former name", async () => {
    const w = await start("", 1);
    expect([await w.list(Deployment), w.writes()]).toEqual([[], []]);
    await w.apply(foo("d", 1));
    await w.settle();
    await w.apply(foo("e", 1));
    await w.settle();
    expect([replicasOf(w, "d"), replicasOf(w, "e")]).toEqual([1, 1]);
  });

  it("does not touch a Deployment that it does not control", async () => {
    const w = await world({ controllers: [sample] });
    const labels = { app: "other" };
    const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
    await w.apply(
      Deployment({ metadata: { name: "d", namespace: NS }, spec: { replicas: 4, selector: { matchLabels: labels }, template } }),
    );
    await w.settle();
    const before = w.get(Deployment, NS, "d");
    await w.apply(foo("d", 1));
    await w.settle();
    expect(w.get(Deployment, NS, "d")).toEqual(before);
  });

  it("reaches the same state after a crash at any call", async () => {
    const w = await world({ controllers: [sample], builtIn: false });
    await expect(w.everyCrash(async (each) => void (await each.apply(foo("d", 1))))).resolves.toBeUndefined();
  });
});

describe("the Java Operator SDK's WebPage", () => {
  const WebPage = customResource({
    ...{ group: "sample.javaoperatorsdk", version: "v1", kind: "WebPage" },
    spec: s.object({ html: s.string(), exposed: s.boolean({ default: false }) }),
    status: s.object({ htmlConfigMap: s.string().optional(), areWeGood: s.boolean().optional(), errorMessage: s.string().optional() }),
  });
  const webPage = defineController({
    name: "web-page",
    for: WebPage,
    owns: [ConfigMap, Deployment, Service, Ingress],
    sync({ object: { metadata, spec } }) {
      const { name } = metadata;
      const [htmlConfigMap, labels, lower] = [`${name}-html`, { app: name }, spec.html.toLowerCase()];
      // Keeps the objects of the last valid page.
      if (spec.html.includes("error")) return { status: { errorMessage: "Error: Simulating error" } };
      if (!lower.includes("<html>") || !lower.includes("</html>")) return { status: { errorMessage: "Invalid html." } };
      const volume = { name: "html", configMap: { name: htmlConfigMap } };
      const container = { name: "nginx", image: "nginx", volumeMounts: [{ name: "html", mountPath: "/usr/share/nginx/html" }] };
      // The original deletes the pods after a change of the page.
      const page = {
        metadata: { labels, annotations: { page: hash("sha256", spec.html) } },
        spec: { containers: [container], volumes: [volume] },
      };
      const backend = { service: { name, port: { number: 80 } } };
      const rule = { http: { paths: [{ path: "/", pathType: "Prefix", backend }] } };
      return {
        apply: [
          ConfigMap({ metadata: { name: htmlConfigMap }, data: { "index.html": spec.html } }),
          Deployment({ metadata: { name }, spec: { replicas: 1, selector: { matchLabels: labels }, template: page } }),
          Service({ metadata: { name }, spec: { selector: labels, ports: [{ port: 80 }] } }),
          ...(spec.exposed ? [Ingress({ metadata: { name }, spec: { rules: [rule] } })] : []),
        ],
        status: { htmlConfigMap, areWeGood: true },
      };
    },
  });
  const page = (text: string, exposed = false) =>
    WebPage({ metadata: { name: "p", namespace: NS }, spec: { html: `<html>${text}</html>`, exposed } });
  const html = (w: World) => w.get(ConfigMap, NS, "p-html")?.data?.["index.html"];
  const start = async (text: string): Promise<World> => {
    const w = await world({ controllers: [webPage] });
    await w.apply(page(text));
    await w.settle();
    return w;
  };

  it("serves the page, and reports it in the status", async () => {
    const w = await start("one");
    expect([html(w), w.get(Service, NS, "p")?.spec?.selector]).toEqual(["<html>one</html>", { app: "p" }]);
    expect(w.get(WebPage, NS, "p")?.status).toEqual({ htmlConfigMap: "p-html", areWeGood: true });
    expect(await w.list(Ingress)).toEqual([]);
  });

  it("changes the ConfigMap and restarts the pods when the page changes", async () => {
    const w = await start("one");
    const [before] = await w.list(Pod);
    await w.apply(page("two"));
    await w.settle();
    const pods = await w.list(Pod);
    expect([html(w), pods.length]).toEqual(["<html>two</html>", 1]);
    expect(pods[0]?.metadata.uid).not.toBe(before?.metadata.uid);
  });

  it("has an Ingress only while it is exposed", async () => {
    const w = await start("one");
    await w.apply(page("one", true));
    await w.settle();
    expect(w.get(Ingress, NS, "p")?.spec?.rules?.[0]?.http?.paths?.[0]?.backend?.service?.name).toBe("p");
    await w.apply(page("one"));
    await w.settle();
    expect(w.get(Ingress, NS, "p")).toBeUndefined();
  });

  it("reports an error, keeps the last page, and recovers", async () => {
    const w = await start("one");
    await w.apply(page("error"));
    await w.settle();
    expect([w.get(WebPage, NS, "p")?.status?.errorMessage, html(w)]).toEqual(["Error: Simulating error", "<html>one</html>"]);
    await w.edit(WebPage, NS, "p", { spec: { html: "plain" } });
    await w.settle();
    expect(w.get(WebPage, NS, "p")?.status?.errorMessage).toBe("Invalid html.");
    await w.apply(page("three"));
    await w.settle();
    expect([w.get(WebPage, NS, "p")?.status, html(w)]).toEqual([{ htmlConfigMap: "p-html", areWeGood: true }, "<html>three</html>"]);
  });

  it("reaches the same state after a crash at any call", async () => {
    const w = await world({ controllers: [webPage], builtIn: false });
    await expect(w.everyCrash(async (each) => void (await each.apply(page("one", true))))).resolves.toBeUndefined();
  });
});

describe("metacontroller's Secret propagation", () => {
  const selector = s.object({ matchLabels: s.map(s.string()) });
  const SecretPropagation = customResource({
    ...{ group: "examples.metacontroller.io", version: "v1alpha1", kind: "SecretPropagation", scope: "Cluster" },
    spec: s.object({ sourceName: s.string(), sourceNamespace: s.string(), targetNamespaceLabelSelector: selector }),
    status: s.object({ working: s.string().optional() }),
  });
  // The permissions cover one source namespace; the original reads the Secrets of all namespaces.
  const source = only(Secret, { namespace: "omega" });
  const propagation = defineController({
    name: "secret-propagation",
    for: SecretPropagation,
    owns: [Secret],
    reads: [source],
    watches: [watch(source, { by: { all: "cluster" } }), watch(Namespace, { by: { all: "cluster" } })],
    async sync({ object: { spec }, watched, live }) {
      const original = await live(Secret, spec.sourceName, spec.sourceNamespace);
      if (original === undefined) return { apply: [], status: { working: "fine" } };
      const wanted = Object.entries(spec.targetNamespaceLabelSelector.matchLabels);
      const targets = watched(Namespace).filter(
        ({ metadata: { name, labels } }) => name !== spec.sourceNamespace && wanted.every(([key, value]) => labels[key] === value),
      );
      const { data } = original;
      const copies = targets.map(({ metadata }) => Secret({ metadata: { name: spec.sourceName, namespace: metadata.name }, data }));
      return { apply: copies, status: { working: "fine" } };
    },
  });
  const namespace = (name: string, group: string) => Namespace({ metadata: { name, labels: { group } } });
  const original = (data: Readonly<Record<string, string>>) => Secret({ metadata: { name: "shareable", namespace: "omega" }, data });
  const set = async (w: World): Promise<void> => {
    for (const [name, group] of [
      ["alpha", "x"],
      ["beta", "x"],
      ["gamma", "y"],
      ["omega", "x"],
    ] as const)
      await w.apply(namespace(name, group));
    await w.apply(original({ a: "eA==" }));
    const spec = { sourceName: "shareable", sourceNamespace: "omega", targetNamespaceLabelSelector: { matchLabels: { group: "x" } } };
    await w.apply(SecretPropagation({ metadata: { name: "p" }, spec }));
    await w.settle();
  };
  const copies = async (w: World) =>
    Object.fromEntries(
      (await w.list(Secret)).flatMap(({ metadata, data }) => (metadata.namespace === "omega" ? [] : [[metadata.namespace, data]])),
    );
  const start = async (): Promise<World> => {
    const w = await world({ controllers: [propagation] });
    await set(w);
    return w;
  };

  it("copies the Secret to matching namespaces, but not to its own", async () => {
    const w = await start();
    expect(await copies(w)).toEqual({ alpha: { a: "eA==" }, beta: { a: "eA==" } });
    expect(w.get(SecretPropagation, "", "p")?.status).toEqual({ working: "fine" });
  });

  it("follows changes and the deletion of the Secret, and labels of namespaces", async () => {
    const w = await start();
    await w.apply(original({ b: "eQ==" }));
    await w.settle();
    expect(await copies(w)).toEqual({ alpha: { b: "eQ==" }, beta: { b: "eQ==" } });
    await w.apply(namespace("beta", "y"));
    await w.apply(namespace("gamma", "x"));
    await w.settle();
    expect(await copies(w)).toEqual({ alpha: { b: "eQ==" }, gamma: { b: "eQ==" } });
    await w.delete(Secret, "omega", "shareable");
    await w.settle();
    expect(await copies(w)).toEqual({});
  });

  it("recreates a deleted copy, and is deleted with its parent", async () => {
    const w = await start();
    await w.delete(Secret, "alpha", "shareable");
    await w.settle();
    expect(Object.keys(await copies(w))).toEqual(["alpha", "beta"]);
    await w.delete(SecretPropagation, "", "p");
    await w.settle();
    expect(await copies(w)).toEqual({});
  });

  it("reaches the same state after a crash at any call", async () => {
    const w = await world({ controllers: [propagation], builtIn: false });
    await expect(w.everyCrash(set)).resolves.toBeUndefined();
  });
});
