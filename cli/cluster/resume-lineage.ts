/** `deltaloop resume --lineage`: the user confirms that this cluster may continue (informer §11.11). */
import { isForeign, LEASE_APPROVED, LEASE_TERMS, parseTerms } from "@deltaloop/controllers/cache";
import { isConflict } from "@deltaloop/kube/client";
import type { KubeReader, KubeWriter } from "@deltaloop/kube/client";
import type { Lease } from "@deltaloop/kube/objects";
import type { Store } from "@deltaloop/store/ports";

/** The leader renews each 2 s, so a write may conflict. */
const WRITES_MAX = 10;

/** Sets an annotation on the Lease which lets its watcher replace another cluster's epoch at once, and removes the recent epochs. */
export async function resumeLineage(
  kube: Pick<KubeReader, "get"> & Pick<KubeWriter, "replace">,
  store: Pick<Store, "lineage" | "forgetRecentEpochs">,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<{ readonly lines: readonly string[]; readonly isDone: boolean }> {
  const lines: string[] = [];
  const { current, recentEpochs } = await store.lineage();
  for (let writes = 1; ; writes++) {
    const lease = (await kube.get("leases", namespace, name)) as Lease | undefined; // the resource determines the type
    if (lease === undefined)
      return { lines: [`not resumed: there is no Lease ${namespace}/${name}: start this cluster's watcher first`], isDone: false };
    const listed = parseTerms(lease.metadata?.annotations?.[LEASE_TERMS]);
    if (current === undefined || !isForeign(current, { lease: { listed, minted: new Set() } })) {
      lines.push("the epoch is of this cluster: nothing to replace");
      break;
    }
    const { epoch } = current.record;
    const body = { ...lease, metadata: { ...lease.metadata, annotations: { ...lease.metadata?.annotations, [LEASE_APPROVED]: epoch } } };
    try {
      await kube.replace({ resource: "leases", namespace, name, body });
      lines.push(`approved: this cluster's watcher replaces epoch ${epoch} within seconds of leading`);
      break;
    } catch (error) {
      if (!isConflict(error) || writes === WRITES_MAX) throw error;
    }
  }
  if (recentEpochs > 0) await store.forgetRecentEpochs();
  lines.push(`forgotten: ${recentEpochs} new epochs of the last ten minutes`);
  return { lines, isDone: true };
}
