/** HTTP probes, httpGet hooks and the manifest URL, compared with upstream's clients on the same servers (http-answers/record.ts). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createProber } from "../../shared/node-agent/prober/prober.ts";
import { manifestText } from "../../shared/node-agent/sources/url-source.ts";
import type { HttpProbe } from "../../shared/node-agent/ports/prober.ts";
import { ANSWERS, type Answering, PATHS, startAnswering } from "./http-answers/answers.ts";
import { startTlsServers, TLS_CASES, type TlsServer } from "./http-answers/tls-servers.ts";
import { recordedVerdicts, type Verdict } from "./http-answers/verdicts.ts";
import { shareOf } from "../support/share.ts";

const TIMEOUT_MS = 20_000;
const AT_ONCE = 20;
const recorded = recordedVerdicts();
const { httpGet } = createProber();

/** The verdict of our three clients. Failures without a status code have no output in common with upstream's. */
async function ourVerdict(scheme: HttpProbe["scheme"], port: number, path: string): Promise<Verdict> {
  const request = { scheme, host: "127.0.0.1", port, path, headers: [], timeoutMs: TIMEOUT_MS } as const;
  const { result, output, warning } = await httpGet(request);
  const hook = await httpGet({ ...request, anyStatus: true });
  const isCompared = result === "Success" || output.startsWith("HTTP probe failed with statuscode");
  const probe = warning ? "warning" : result === "error" ? "invalid" : result === "Success" ? "success" : "failure";
  return [probe, isCompared ? output : "", hook.result === "Success", scheme === "HTTP" && (await isManifest(port, path))];
}

function isManifest(port: number, path: string): Promise<boolean> {
  const url = `http://127.0.0.1:${port}${path}`;
  return manifestText({ url, headers: [] }, AbortSignal.timeout(TIMEOUT_MS)).then(
    () => true,
    () => false,
  );
}

/** The expected verdict. For a truncated body ours differs from upstream: our probe fails, while upstream reports an unknown result. */
function expected([probe, ...rest]: Verdict): Verdict {
  return [probe === "broken body" ? "failure" : probe, ...rest];
}

describe("[node-agent 97] the node agent's HTTP client parses responses as the kubelet does", () => {
  it("the vectors contain every kind of result", () => {
    const kinds = Object.groupBy(recorded.answers, ([probe]) => probe);
    expect(ANSWERS.length).toBeGreaterThan(2_060);
    expect(kinds.success?.length).toBeGreaterThan(300);
    expect(kinds.failure?.length).toBeGreaterThan(300);
    expect(kinds["broken body"]?.length).toBeGreaterThan(30);
  });

  it("parses handwritten and mutated responses as the kubelet does", { timeout: 120_000 }, async () => {
    const servers = await Promise.all(Array.from({ length: AT_ONCE }, startAnswering));
    const differing: unknown[] = [];
    const cases = shareOf([...ANSWERS.keys()], 500).values();
    const work = async (server: Answering): Promise<void> => {
      for (const n of cases) {
        server.answer = ANSWERS[n];
        const [ours, theirs] = [await ourVerdict("HTTP", server.port, "/"), expected(recorded.answers[n] as Verdict)];
        if (JSON.stringify(ours) !== JSON.stringify(theirs)) differing.push({ n, answer: ANSWERS[n], ours, theirs });
      }
    };
    await Promise.all(servers.map(work)).finally(() => servers.forEach((server) => server.close()));
    expect(differing).toEqual([]);
  });

  it("sends paths as upstream encodes them", async () => {
    const server = await startAnswering();
    const ours = [];
    for (const path of PATHS) ours.push([path, ...(await ourVerdict("HTTP", server.port, path))]);
    server.close();
    expect(ours).toEqual(PATHS.map((path, n) => [path, ...(recorded.paths[n] as Verdict)]));
  });
});

describe("[node-agent 97] an HTTPS probe accepts and rejects the same TLS servers as the kubelet", () => {
  let servers: readonly TlsServer[] = [];
  beforeAll(async () => {
    servers = await startTlsServers();
  }, 60_000);
  afterAll(() => servers.forEach((server) => server.close()));

  it.each(TLS_CASES.map(({ name }, n) => ({ name, n, want: recorded.tls[n] })))("TLS server with $name: $want.0", async ({ n, want }) => {
    expect(await ourVerdict("HTTPS", servers[n]?.port ?? 0, "/")).toEqual(want && expected(want));
  });
});
