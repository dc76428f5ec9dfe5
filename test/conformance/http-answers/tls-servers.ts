/** HTTPS servers with weak or unusual TLS. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { constants, createSecureServer } from "node:http2";
import type { Http2SecureServer, ServerHttp2Stream } from "node:http2";
import { createServer } from "node:https";
import type { ServerOptions } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const RSA = ["rsa:2048"];
const P256 = ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
const only = (version: "TLSv1" | "TLSv1.1" | "TLSv1.2" | "TLSv1.3"): ServerOptions => ({ minVersion: version, maxVersion: version });
const cipher = (ciphers: string, more: ServerOptions = {}): ServerOptions => ({
  ...only("TLSv1.2"),
  ...more,
  ciphers: `${ciphers}:@SECLEVEL=0`,
});

interface TlsCase {
  readonly name: string;
  /** Parameters of `openssl req -newkey`. */
  readonly key?: readonly string[];
  /** Parameters of `openssl x509`, which re-signs the certificate. */
  readonly signed?: readonly string[];
  readonly options?: ServerOptions;
  /** Set for a server that supports HTTP/2, alone or in addition to HTTP/1.1. */
  readonly http2?: Http2;
}

type Http2 = "beside HTTP/1.1" | ((stream: ServerHttp2Stream, path: string) => void);

const http2 = (name: string, answer: (stream: ServerHttp2Stream, path: string) => void): TlsCase => ({
  name: `HTTP/2: ${name}`,
  http2: answer,
});
const answers =
  (headers: Readonly<Record<string, string | number>>, body = "ok"): ((stream: ServerHttp2Stream) => void) =>
  (stream) => {
    stream.respond(headers);
    stream.end(body);
  };

export const TLS_CASES: readonly TlsCase[] = [
  { name: "the defaults" },
  { name: "TLS 1.0", options: { ...only("TLSv1"), ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "TLS 1.1", options: { ...only("TLSv1.1"), ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "TLS 1.2", options: only("TLSv1.2") },
  { name: "TLS 1.3", options: only("TLSv1.3") },
  { name: "RSA key exchange", options: cipher("AES128-SHA") },
  { name: "DHE key exchange", options: cipher("DHE-RSA-AES128-GCM-SHA256", { dhparam: "auto" }) },
  { name: "CBC with SHA-1", options: cipher("ECDHE-RSA-AES128-SHA") },
  { name: "CBC with SHA-256", options: cipher("ECDHE-RSA-AES128-SHA256") },
  { name: "CBC with SHA-384", options: cipher("ECDHE-RSA-AES256-SHA384") },
  { name: "CBC with an ECDSA key", key: P256, options: cipher("ECDHE-ECDSA-AES256-SHA") },
  { name: "signatures with SHA-1", options: cipher("ECDHE-RSA-AES128-GCM-SHA256", { sigalgs: "RSA+SHA1" }) },
  { name: "a key of 1024 bits", key: ["rsa:1024"], options: { ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "a key of 768 bits", key: ["rsa:768"], options: { ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "a certificate signed with SHA-1", signed: ["-sha1"], options: { ciphers: "DEFAULT:@SECLEVEL=0" } },
  { name: "a certificate that has expired", signed: ["-days", "-1"] },
  { name: "a certificate with an Ed25519 key", key: ["ed25519"] },
  { name: "a certificate with a P-521 key", key: ["ec", "-pkeyopt", "ec_paramgen_curve:secp521r1"] },
  { name: "HTTP/2 in addition to HTTP/1.1", http2: "beside HTTP/1.1" },
  http2("alone", answers({ ":status": 200 })),
  http2("a status of 503", answers({ ":status": 503 })),
  http2("a status of 204", answers({ ":status": 204 }, "")),
  http2("a redirect to itself", (stream, path) =>
    answers(path === "/" ? { ":status": 302, location: "/there" } : { ":status": 200 })(stream),
  ),
  http2("a redirect elsewhere", answers({ ":status": 302, location: "https://elsewhere.test/" })),
  http2("a redirect without a location", answers({ ":status": 302 })),
  http2("early hints", (stream) => {
    stream.additionalHeaders({ ":status": 103 });
    answers({ ":status": 200 })(stream);
  }),
  http2("a body of 40 KiB", answers({ ":status": 200 }, "x".repeat(40 * 1024))),
  http2("a body that is shorter than its length", answers({ ":status": 200, "content-length": 3 })),
  http2("a stream that is reset without an error", (stream) => stream.close(constants.NGHTTP2_NO_ERROR)),
  http2("a stream that is cancelled", (stream) => stream.close(constants.NGHTTP2_CANCEL)),
  http2("a stream that is cancelled in its body", (stream) => {
    stream.respond({ ":status": 200 });
    stream.write("o", () => stream.close(constants.NGHTTP2_CANCEL));
  }),
  http2("a connection that is closed", (stream) => stream.session?.destroy()),
  http2("a connection that goes away", (stream) => stream.session?.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM)),
];

export interface TlsServer {
  readonly name: string;
  readonly port: number;
  close(): void;
}

/** One server for each of `TLS_CASES`. */
export async function startTlsServers(): Promise<readonly TlsServer[]> {
  const folder = mkdtempSync(join(tmpdir(), "tls-servers-"));
  const servers = TLS_CASES.map(async ({ name, http2, key = http2 === undefined ? RSA : P256, signed, options }) => {
    const [keyFile, file] = [join(folder, "key.pem"), join(folder, "certificate.pem")];
    const made = ["-nodes", "-newkey", ...key, "-keyout", keyFile, "-out", file, "-subj", "/CN=probed"];
    execFileSync("openssl", ["req", "-x509", ...made], { stdio: "ignore" });
    const again = ["x509", "-in", file, "-signkey", keyFile, "-out", file, ...(signed ?? [])];
    if (signed !== undefined) execFileSync("openssl", again, { stdio: "ignore" });
    const tls = { key: readFileSync(keyFile), cert: readFileSync(file), ...options };
    const server = http2 === undefined ? createServer(tls, (_, response) => response.end("ok")) : http2Server(tls, http2);
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    return { name, port: (server.address() as AddressInfo).port, close: () => void server.close() };
  });
  return await Promise.all(servers).finally(() => rmSync(folder, { recursive: true }));
}

function http2Server(tls: ServerOptions, http2: Http2): Http2SecureServer {
  if (http2 === "beside HTTP/1.1")
    return createSecureServer({ ...tls, allowHTTP1: true }, ({ httpVersion }, response) => void response.end(httpVersion));
  const server = createSecureServer(tls);
  server.on("stream", (stream, { ":path": path = "" }) => {
    stream.on("error", () => undefined);
    http2(stream, path);
  });
  return server.on("sessionError", () => undefined);
}
