import { defineController } from "deltaloop";
import { Namespace, NetworkPolicy, ResourceQuota } from "deltaloop/kinds";

/** Gives the namespace of each team a quota, and lets no other namespace send traffic to it. */
export const teamGuard = defineController({
  name: "team-guard",
  for: Namespace,
  where: { labels: { "example.com/team": "*" } },
  owns: [NetworkPolicy, ResourceQuota],
  sync({ object }) {
    const namespace = object.metadata.name;
    const deny = NetworkPolicy({ metadata: { name: "deny", namespace }, spec: { podSelector: {}, policyTypes: ["Ingress"] } });
    const quota = ResourceQuota({ metadata: { name: "team", namespace }, spec: { hard: { pods: "50" } } });
    return { apply: [deny, quota] };
  },
});
