/** Maps a rule of our specifications to the Kubernetes documentation of the same behaviour. */

const CONTROLLERS = "https://kubernetes.io/docs/concepts/workloads/controllers";
/** Sections of the documentation page by chapter of the specification; other chapters have no section. */
const SECTIONS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  deployment: {
    6: "creating-a-deployment",
    8: "updating-a-deployment",
    9: "rolling-update-deployment",
    10: "proportional-scaling",
    11: "rolling-update-deployment",
    12: "recreate-deployment",
    13: "deployment-status",
    14: "clean-up-policy",
    15: "rolling-back-a-deployment",
  },
  replicaset: { 6: "non-template-pod-acquisitions", 7: "how-a-replicaset-works", 8: "scaling-a-replicaset" },
};

/** @param rule as in a reason: `deployment §11.3` */
export function rulePage(rule: string): string {
  const [spec = "", section = ""] = rule.split(" §");
  const anchor = SECTIONS[spec]?.[section.split(".")[0] ?? ""];
  return `${CONTROLLERS}/${spec}/${anchor === undefined ? "" : `#${anchor}`}`;
}
