/**
 * Threat: a tenant's pod is mistaken for the result of an unanswered create of another namespace's ReplicaSet, so that the create is
 * repeated. Who: anyone who may create and delete pods in one namespace and learns the name of the pod being created. Worst effect before
 * owners were bound to their namespace: the tenant's pod settled the intent, the sync considered the create executed, and the ReplicaSet
 * got one pod more than it desires.
 */
import { afterEach, expect, it } from "vitest";
import { UnansweredError } from "../../shared/kube/client/errors.ts";
import type { CreateRequest } from "../../shared/kube/client/kube.ts";
import { MALLORY, pod, referenceTo, startSmallCluster, VICTIM, workload } from "./cluster.ts";
import type { SmallCluster } from "./cluster.ts";

/**
 * The timeout of a request, and the time at which the delayed request is executed, in ms. The product assumes that no request is executed
 * after 15 s.
 */
const [TIMEOUT_MS, LANDS_AFTER_MS] = [5_000, 9_000];

let cluster: SmallCluster;
afterEach(() => cluster.stop());

it("a pod of the same name in another namespace does not count as the result of an unanswered create", async () => {
  let slow = false;
  let name: string | undefined;
  cluster = await startSmallCluster({
    // One create of the ReplicaSet is executed long after its sender has given up.
    over: (writer, after) => ({
      async create(request: CreateRequest) {
        if (!slow || request.resource !== "pods") return await writer.create(request);
        slow = false;
        ({ name } = (request.body as { readonly metadata: { readonly name: string } }).metadata); // a pod built by perform()
        after(LANDS_AFTER_MS)
          .then(() => writer.create(request))
          .catch(() => undefined); // the sync may have retried it by then, under the same name
        await after(TIMEOUT_MS);
        throw new UnansweredError("no response in time");
      },
    }),
  });
  const rs = await cluster.post(VICTIM, "replicasets", workload("web", 3));
  await cluster.rest();
  const creates = (): number => cluster.writes(VICTIM).filter((write) => write.includes("create pods")).length;
  expect(creates()).toBe(3);

  slow = true;
  const [lost] = await cluster.pods(VICTIM);
  await cluster.remove(VICTIM, "pods", lost?.metadata.name ?? "");
  await cluster.advance(1_000);
  expect(name).toBeDefined();
  await cluster.post(MALLORY, "pods", pod(name ?? "", referenceTo("ReplicaSet", rs)));
  await cluster.advance(500);
  await cluster.remove(MALLORY, "pods", name ?? "");

  let most = 0;
  for (let ms = 0; ms < 60_000; ms += 250) {
    await cluster.advance(250);
    most = Math.max(most, (await cluster.pods(VICTIM)).length);
  }
  expect(most).toBe(3);
  expect(creates()).toBe(4);
  expect(await cluster.pods(VICTIM)).toHaveLength(3);
});
