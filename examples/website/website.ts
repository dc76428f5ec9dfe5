import { customResource, defineController, s } from "deltaloop";
import { Deployment, Service } from "deltaloop/kinds";

const spec = s.object({ image: s.string(), replicas: s.integer({ minimum: 0, default: 1 }) });
const status = s.object({ ready: s.integer().optional(), conditions: s.conditions() });
const columns = { Ready: ".status.ready" };
export const Website = customResource({ group: "demo.example.com", version: "v1", kind: "Website", columns, spec, status });
export const website = defineController({
  name: "website",
  for: Website,
  owns: [Deployment, Service],
  sync({ object, owned, condition }) {
    const { name } = object.metadata;
    const { image, replicas } = object.spec;
    const ready = owned(Deployment, name)?.status?.readyReplicas ?? 0;
    const labels = { app: name };
    const template = { metadata: { labels }, spec: { containers: [{ name: "web", image }] } };
    const deployment = Deployment({ metadata: { name }, spec: { replicas, selector: { matchLabels: labels }, template } });
    const service = Service({ metadata: { name }, spec: { selector: labels, ports: [{ port: 80, targetPort: 8080 }] } });
    const conditions = [condition("Ready", ready >= replicas, "Replicas", `${ready}/${replicas}`)];
    return { apply: [deployment, service], status: { ready, conditions } };
  },
});
