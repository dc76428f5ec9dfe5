/**
 * Would catch: a view of a user controller that works on the in-memory API server but not on a real one, and ConfigMap values that a
 * real API server sends although only metadata is requested.
 */
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createMemoryStore } from "../../shared/store/memory/store/store.ts";
import { ownViewsConformance } from "../conformance/own-views.ts";
import { startControlPlane } from "../envtest/control-plane.ts";
import { whereRealPartsAre } from "../support/e2e.ts";

await whereRealPartsAre("user controllers on a real API server", () => {
  ownViewsConformance(
    "on a real API server",
    (options) => createMemoryStore({ ...options, clock: createSystemClock() }),
    async () => {
      const plane = await startControlPlane({ controllers: "without-workloads" });
      const config = await kubeHttpConfigFrom(plane.adminKubeconfig, { component: "own-views" });
      return { kube: (component) => createKubeHttp({ ...config, userAgent: component }), stop: () => plane.stop() };
    },
  );
});
