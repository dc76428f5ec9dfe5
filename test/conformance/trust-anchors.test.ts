/**
 * Trusted certificates, for the API server's client and the node agent's server over real TLS: as in Go, each certificate of a CA file is a
 * trust anchor, and all other checks of a certificate still apply.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";

import { createClient } from "../../shared/kube/http/client.ts";
import { startFixture } from "../unit/node-agent/server/fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "trust-anchors-"));
afterAll(() => rmSync(folder, { recursive: true }));

interface Issued {
  readonly cert: string;
  readonly key: string;
}

const file = (name: string): string => join(folder, name);
const CA = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n";
const SERVER = "extendedKeyUsage=serverAuth\nsubjectAltName=IP:127.0.0.1\n";
const CLIENT = "extendedKeyUsage=clientAuth\n";

/** A certificate signed by `issuer`, or a self-signed one. */
function issue(name: string, extensions: string, issuer?: string, days = 2): Issued {
  const subject = ["-subj", `/CN=${name}`, "-addext", "subjectKeyIdentifier=hash"];
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", file(`${name}.key`)];
  execFileSync("openssl", ["req", "-new", ...key, ...subject, "-out", file(`${name}.csr`)], { stdio: "ignore" });
  writeFileSync(file(`${name}.ext`), extensions);
  const by = issuer === undefined ? ["-key", file(`${name}.key`)] : ["-CA", file(`${issuer}.crt`), "-CAkey", file(`${issuer}.key`)];
  const made = ["-extfile", file(`${name}.ext`), "-days", String(days), "-out", file(`${name}.crt`)];
  execFileSync("openssl", ["x509", "-req", "-in", file(`${name}.csr`), "-CAcreateserial", ...by, ...made], { stdio: "ignore" });
  return { cert: readFileSync(file(`${name}.crt`), "utf8"), key: readFileSync(file(`${name}.key`), "utf8") };
}

const root = issue("root", CA);
const intermediate = issue("intermediate", CA, "root");
const server = issue("server", SERVER, "intermediate");
const selfSigned = issue("self-signed", SERVER);
const expired = issue("expired", SERVER, "intermediate", -1);
const forClients = issue("for-clients", CLIENT, "intermediate");
const elsewhere = issue("elsewhere", "extendedKeyUsage=serverAuth\nsubjectAltName=IP:127.0.0.2\n", "intermediate");
const unrelated = issue("unrelated", CA);

/** Expected verdicts are those of Go 1.26 crypto/tls with `ca` as RootCAs. */
describe("a client of the API server", () => {
  const cases: readonly {
    readonly title: string;
    readonly shows: Issued;
    readonly chain?: Issued;
    readonly ca: Issued;
    readonly error?: string;
  }[] = [
    { title: "trusts the root when the server sends its chain", shows: server, chain: intermediate, ca: root },
    { title: "trusts an intermediate certificate without its root", shows: server, ca: intermediate },
    { title: "trusts an intermediate certificate that the server also sends", shows: server, chain: intermediate, ca: intermediate },
    { title: "trusts the server's own certificate", shows: server, ca: server },
    { title: "trusts a self-signed certificate", shows: selfSigned, ca: selfSigned },
    { title: "rejects a root whose intermediate is missing in the handshake", shows: server, ca: root, error: "unable to get" },
    { title: "rejects another authority", shows: server, chain: intermediate, ca: unrelated, error: "unable to" },
    { title: "rejects an expired certificate below an anchor", shows: expired, ca: intermediate, error: "expired" },
    { title: "rejects an expired certificate that is itself the anchor", shows: expired, ca: expired, error: "expired" },
    { title: "rejects a server with a client certificate", shows: forClients, ca: intermediate, error: "purpose" },
    { title: "rejects a certificate for another host", shows: elsewhere, ca: intermediate, error: "IP: 127.0.0.1 is not in the cert" },
  ];

  it.each(cases)("a client of the API server $title: calls and watches", async ({ shows, chain, ca, error }) => {
    const answering = createServer({ cert: shows.cert + (chain?.cert ?? ""), key: shows.key }, (_, response) => response.end("{}\n"));
    await new Promise<void>((listening) => answering.listen(0, "127.0.0.1", listening));
    try {
      const { port } = answering.address() as AddressInfo;
      const client = createClient({ server: `https://127.0.0.1:${port}`, ca: ca.cert, component: "test", waitMsMax: 0 });
      const asked = [
        client.json({ method: "GET", path: "/" }),
        client
          .lines({ path: "/", signal: AbortSignal.timeout(5_000) })
          [Symbol.asyncIterator]()
          .next(),
      ];
      const [call, watch] = await Promise.allSettled(asked);
      const refusal = {
        status: "rejected",
        reason: expect.objectContaining({ message: expect.stringContaining(error ?? "") as string }) as Error,
      };
      expect(call).toEqual(error === undefined ? { status: "fulfilled", value: {} } : refusal);
      expect(watch).toEqual(error === undefined ? { status: "fulfilled", value: { done: false, value: ["{}"] } } : refusal);
    } finally {
      answering.close();
      answering.closeAllConnections();
    }
  });
});

describe("the node agent's server", () => {
  const client = issue("client", CLIENT, "intermediate");
  const late = issue("late", CLIENT, "intermediate", -1);
  const forServers = issue("for-servers", SERVER, "intermediate");
  const cases: readonly { readonly title: string; readonly shows: Issued; readonly clientCa: Issued; readonly code: number }[] = [
    { title: "accepts a client certificate below an intermediate of its client CA file", shows: client, clientCa: intermediate, code: 200 },
    { title: "rejects a client certificate of another authority", shows: client, clientCa: unrelated, code: 401 },
    { title: "rejects an expired client certificate", shows: late, clientCa: intermediate, code: 401 },
    { title: "rejects a client with a server certificate", shows: forServers, clientCa: intermediate, code: 401 },
  ];

  it.each(cases)("the node agent's server $title, even after its own certificate was renewed", async ({ shows, clientCa, code }) => {
    const fixture = await startFixture({ clientCa: clientCa.cert });
    try {
      const asking = { token: null, certificate: { certificate: shows.cert, key: shows.key } };
      expect((await fixture.ask("/healthz", asking)).code).toBe(code);
      fixture.show(server);
      expect((await fixture.ask("/healthz", asking)).code).toBe(code);
    } finally {
      await fixture.stop();
    }
  });
});
