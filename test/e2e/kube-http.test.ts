/** kube-http against a real API server, with TLS and a client certificate from a kubeconfig: the suite of test/conformance/kube.ts. */
import { it } from "vitest";

import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { kubeConformance } from "../conformance/kube.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { startControlPlane } from "../envtest/control-plane.ts";

const binaries = await controlPlaneBinaries();
if ("missing" in binaries) {
  it.skip(`kube port on a real API server: ${binaries.missing}`);
} else {
  kubeConformance("a real API server", async () => {
    // Runs without workload controllers, so that no other client changes the suite's objects.
    const controlPlane = await startControlPlane({ controllers: "without-workloads" });
    const kube = createKubeHttp(await kubeHttpConfigFrom(controlPlane.adminKubeconfig, { component: "conformance" }));
    await kube.create({
      resource: "namespaces",
      namespace: "",
      body: { apiVersion: "v1", kind: "Namespace", metadata: { name: "suite" } },
    });
    return { kube, namespace: "suite", protobuf: true, close: () => controlPlane.stop() };
  });
}
