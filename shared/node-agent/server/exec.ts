/**
 * `GET|POST /exec/{ns}/{pod}[/{uid}]/{container}` (node-agent §15): the runtime says where it takes the stream, we carry the bytes.
 *
 * Source: pkg/kubelet/server/server.go getExec; pkg/kubelet/kubelet_pods.go GetExec; remotecommand NewOptions.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { LABELS } from "../../kubelet/labels.ts";
import type { NodePod } from "../../kubelet/pod.ts";
import { CriError } from "../../ports/cri-error.ts";
import type { Cri } from "../../ports/cri.ts";
import { answer } from "./answer.ts";
import type { NodeApiOptions } from "./options.ts";
import type { ContainerPath } from "./routes.ts";
import { proxyUpgrade, streamingAddress } from "./upgrade-proxy.ts";
import type { Upgrade } from "./upgrade-proxy.ts";
import { messageOf } from "../../api/errors.ts";

/** Source: cri-streaming pkg/streaming/errors.go WriteError. */
const CODES: Readonly<Record<string, number>> = { NotFound: 404, ResourceExhausted: 429 };

export async function exec(
  { backend, log }: NodeApiOptions,
  asked: ContainerPath & {
    readonly query: URLSearchParams;
    readonly request: IncomingMessage;
    readonly response: ServerResponse;
    readonly upgrade: Upgrade | undefined;
  },
): Promise<void> {
  const { namespace, pod: podName, uid, container, query, request, response, upgrade } = asked;
  const isOn = (name: string): boolean => query.get(name) === "1";
  const [stdin, stdout, tty] = [isOn("input"), isOn("output"), isOn("tty")];
  const stderr = isOn("error") && !tty; // a terminal has one output
  if (!stdin && !stdout && !stderr) return answer(response, 400, "you must specify at least 1 of stdin, stdout, stderr");
  const found = await backend.pod(namespace, podName, uid);
  if (found === undefined) return answer(response, 404, "pod does not exist");
  if (upgrade === undefined) return answer(response, 500, "Upgrade request required\n");

  try {
    const containerId = await runningContainer(backend.cri, found.pod, container);
    if (containerId === undefined) return answer(response, 500, `container not found ("${container}")\n`);
    const url = await backend.cri.exec({ containerId, cmd: query.getAll("command"), tty, stdin, stdout, stderr });
    await proxyUpgrade({ request, response, upgrade, target: streamingAddress(url) });
  } catch (error) {
    log.warn("exec failed", { namespace, pod: podName, container, error: String(error) });
    if (!response.headersSent) answer(response, codeOf(error), messageOf(error));
  }
}

/** The newest one that runs. */
async function runningContainer(cri: Cri, { metadata }: NodePod, container: string): Promise<string | undefined> {
  const labelSelector = { [LABELS.podUid]: metadata.uid, [LABELS.containerName]: container };
  const running = await cri.listContainers({ state: "CONTAINER_RUNNING", labelSelector });
  return running.toSorted((a, b) => b.createdAtMs - a.createdAtMs)[0]?.id;
}

function codeOf(error: unknown): number {
  return (error instanceof CriError ? CODES[error.code] : undefined) ?? 500;
}
