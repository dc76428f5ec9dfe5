import { defineController, only, watch } from "deltaloop";
import { Namespace, Secret } from "deltaloop/kinds";

const source = only(Secret, { namespace: "registry", name: "pull" });
/** Copies a Secret into every labelled namespace. */
export const pullSecret = defineController({
  name: "pull-secret",
  for: Namespace,
  where: { labels: { "example.com/pulls": "*" } },
  owns: [Secret],
  reads: [source],
  watches: [watch(source, { by: { all: "cluster" } })],
  async sync({ object, live }) {
    const found = await live(Secret, "pull", "registry");
    if (found === undefined) return { again: "5m" }; // no `apply`: existing copies stay
    const { type, data } = found;
    return { apply: [Secret({ metadata: { name: "pull", namespace: object.metadata.name }, type, data })] };
  },
});
