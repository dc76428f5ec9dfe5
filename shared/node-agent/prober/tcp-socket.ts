/** A TCP probe: connects, and closes the connection. */
import { connect } from "node:net";
import type { ProbeOutcome, TcpProbe } from "../ports/prober.ts";
import { within } from "./deadline.ts";
import { lookupUntil } from "../http/lookup.ts";
import { authorityOf } from "./target.ts";

/** Source: pkg/probe/tcp/tcp.go DoTCPProbe. */
export function tcpSocket({ host, port, timeoutMs }: TcpProbe, signal?: AbortSignal): Promise<ProbeOutcome> {
  return within({ timeoutMs, signal }, async (end) => {
    const address = `dial tcp ${authorityOf(host, port)}`;
    const socket = connect({ host, port, lookup: lookupUntil(end) });
    const outcome = new Promise<ProbeOutcome>((resolve) => {
      socket.once("connect", () => resolve({ result: "Success", output: "" }));
      socket.on("error", (error) => resolve({ result: "Failure", output: `${address}: ${error.message}` }));
      end.addEventListener("abort", () => resolve({ result: "Failure", output: `${address}: i/o timeout` }));
    });
    return await outcome.finally(() => socket.destroy());
  });
}
