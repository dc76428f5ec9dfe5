import { defineController } from "deltaloop";
import { Deployment } from "deltaloop/kinds";

const PLAN = "example.com/replicas";
const DAY_MS = 86_400_000;
/** Sets replicas by a Deployment's own annotation, in UTC: `07:00=10 20:00=2`. */
export const scheduledScaler = defineController({
  name: "scheduled-scaler",
  for: Deployment,
  where: { annotations: { [PLAN]: "*" } },
  annotations: [PLAN],
  sync({ object, now }) {
    const midnight = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate());
    const plan = [...(object.metadata.annotations[PLAN] ?? "").matchAll(/(\d\d):(\d\d)=(\d+)/g)];
    const times = plan.map(([, h, m, n]) => ({ at: midnight + Number(h) * 3_600_000 + Number(m) * 60_000, replicas: Number(n) }));
    const steps = [-DAY_MS, 0, DAY_MS].flatMap((day) => times.map(({ at, replicas }) => ({ at: at + day, replicas })));
    steps.sort((a, b) => a.at - b.at);
    const current = steps.findLast(({ at }) => at <= now.getTime());
    const next = steps.find(({ at }) => at > now.getTime());
    if (!current || !next) throw new Error(`the annotation ${PLAN} takes times such as 07:00=10 20:00=2`);
    return { self: { spec: { replicas: current.replicas } }, again: new Date(next.at) };
  },
});
