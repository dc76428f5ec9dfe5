/** Implements network probes from the node (node-agent §6.10, §11). */
import type { Prober } from "../ports/prober.ts";
import { grpcHealth } from "./grpc-health.ts";
import { httpGet } from "./http-get.ts";
import { tcpSocket } from "./tcp-socket.ts";

export function createProber(): Prober {
  return { httpGet, tcpSocket, grpcHealth };
}
