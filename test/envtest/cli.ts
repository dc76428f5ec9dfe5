/** `node test/envtest/cli.ts [--upstream]`: starts a control plane for manual tests, until Ctrl-C or SIGTERM. */
import { once } from "node:events";
import { controlPlaneBinaries } from "./binaries.ts";
import { startControlPlane } from "./control-plane.ts";
import { messageOf } from "../../shared/kube/objects/errors.ts";

const USAGE = `usage: node test/envtest/cli.ts [--upstream]
  --upstream  leave Deployments, ReplicaSets and ReplicationControllers to upstream's controllers (else: to you)
`;

process.exitCode = await main(process.argv.slice(2));

/** Returns the exit code: 0 after a signal, 1 if the control plane cannot start, 2 for a usage error. */
async function main(args: readonly string[]): Promise<number> {
  if (args.some((arg) => arg !== "--upstream")) {
    process.stderr.write(USAGE);
    return 2;
  }
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) {
    process.stderr.write(`${binaries.missing}\n`);
    return 1;
  }
  // Registers signal handlers before the start, so that a signal during the start also calls stop().
  const asked = Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
  const upstream = args.includes("--upstream");
  const startedAt = performance.now();
  try {
    const controlPlane = await startControlPlane({ controllers: upstream ? "all" : "without-workloads" });
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    const processes = Object.entries(controlPlane.pids()).map(([name, pid]) => `${name} ${pid}`);
    process.stdout.write(`ready in ${seconds} s at ${controlPlane.url}, ${upstream ? "all controllers on" : "workload controllers off"}
processes:  ${processes.join(", ")}
kubectl:    ${binaries.kubectl}
kubeconfig: ${controlPlane.adminKubeconfig}

export KUBECONFIG=${controlPlane.adminKubeconfig}

Ctrl-C ends it and removes its data.
`);
    await asked;
    await controlPlane.stop();
    return 0;
  } catch (error) {
    process.stderr.write(`${messageOf(error)}\n`);
    return 1;
  }
}
