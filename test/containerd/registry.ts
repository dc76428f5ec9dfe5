/**
 * A registry on loopback, which containerd reaches over plain HTTP. It has a configurable delay and records each request with its time.
 *
 * Source: distribution-spec, pulling manifests and blobs.
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import { ociImage, plainLayer } from "../../infra/image/oci-archive.ts";
import type { OciImage } from "../../infra/image/oci-archive.ts";

/** One image pull, from the first request for its manifest to the end of its layer; a failed pull ends at once. */
export interface Pull {
  readonly repository: string;
  readonly startMs: number;
  /** Whether the transfer of the layer has begun. Only such a pull has an end if it is aborted. */
  isComing?: true;
  endMs?: number;
}

export interface TestRegistry {
  /** Returns the reference of an image: `127.0.0.1:PORT/name:1`. */
  image(repository: string): string;
  /** Adds an image whose program is busybox; sending its layer takes `layerMs`. */
  add(repository: string, layerMs: number): Promise<void>;
  /** Answers each later request for the repository with this status: 404 after its tags are removed, 429 when pulls are limited. */
  refuse(repository: string, status: 404 | 429): void;
  /** Returns the recorded pulls in order of their start. */
  pulls(...repositories: readonly string[]): readonly Pull[];
  stop(): Promise<void>;
}

/**
 * Requests further apart belong to different pulls: a failing pull retries sooner than this. A pull whose layer was sent or aborted has
 * ended.
 */
const SAME_PULL_MS = 2_000;
const PATH = /^\/v2\/(?<repository>[^/]+)\/(?<kind>manifests|blobs)\/(?<reference>[^/]+)$/u;

/** @param known the only accepted credentials; by default all requests are accepted */
export async function startRegistry(known?: { readonly user: string; readonly password: string }): Promise<TestRegistry> {
  const authorization = known && `Basic ${Buffer.from(`${known.user}:${known.password}`).toString("base64")}`;
  const busybox = await readFile("/bin/busybox");
  const images = new Map<string, OciImage & { readonly layerMs: number }>();
  const refused = new Map<string, 404 | 429>();
  const pulls: Pull[] = [];
  const last = (repository: string): Pull | undefined => pulls.findLast((pull) => pull.repository === repository);
  const asked = (repository: string): void => {
    const pull = last(repository);
    const isSame = pull !== undefined && (pull.endMs === undefined || (!pull.isComing && performance.now() - pull.endMs < SAME_PULL_MS));
    if (!isSame) pulls.push({ repository, startMs: performance.now() });
  };
  const ended = (repository: string): void => {
    const pull = last(repository);
    if (pull !== undefined) pull.endMs = performance.now();
  };

  const answer = (response: ServerResponse, method: string, repository: string, reference: string): void => {
    const image = images.get(repository);
    const digest = reference.startsWith("sha256:") ? reference : image?.manifest.digest;
    const content = digest === undefined ? undefined : image?.blobs.get(digest);
    if (image === undefined || digest === undefined || content === undefined) {
      ended(repository);
      response.writeHead(404, { "content-type": "application/json" }).end('{"errors":[{"code":"MANIFEST_UNKNOWN"}]}');
      return;
    }
    const type = digest === image.manifest.digest ? image.manifest.mediaType : "application/octet-stream";
    response.writeHead(200, { "content-type": type, "content-length": content.length, "docker-content-digest": digest });
    if (method === "HEAD") return void response.end();
    if (image.layers.every((layer) => layer.digest !== digest)) return void response.end(content);
    const pull = last(repository);
    if (pull !== undefined) pull.isComing = true;
    const slow = setTimeout(() => response.end(content), image.layerMs);
    response.flushHeaders();
    response.once("close", () => {
      clearTimeout(slow);
      ended(repository);
    });
  };

  const server = createServer(({ url = "", method = "GET", headers }, response) => {
    if (authorization !== undefined && headers.authorization !== authorization)
      return void response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
    const { repository, kind, reference } = PATH.exec(url)?.groups ?? {};
    if (repository === undefined || reference === undefined) return void response.writeHead(url === "/v2/" ? 200 : 404).end();
    if (kind === "manifests") asked(repository);
    const status = refused.get(repository);
    if (status !== undefined) {
      ended(repository);
      const code = status === 404 ? "MANIFEST_UNKNOWN" : "TOOMANYREQUESTS";
      return void response.writeHead(status, { "content-type": "application/json" }).end(`{"errors":[{"code":"${code}"}]}`);
    }
    answer(response, method, repository, reference);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo

  return {
    image: (repository) => `127.0.0.1:${port}/${repository}:1`,
    async add(repository, layerMs) {
      const layer = plainLayer([
        { kind: "folder", name: "bin" },
        { kind: "file", name: "bin/busybox", content: busybox, mode: 0o755 },
        { kind: "link", name: "bin/sh", target: "busybox" },
        { kind: "link", name: "bin/sleep", target: "busybox" },
        // A unique file, so that no other image shares the layer.
        { kind: "file", name: "name", content: Buffer.from(repository) },
      ]);
      const image = ociImage({ entrypoint: ["/bin/sleep", "3600"] }, [layer]);
      images.set(repository, { ...image, layerMs });
    },
    refuse: (repository, status) => void refused.set(repository, status),
    pulls: (...repositories) => pulls.filter(({ repository }) => repositories.includes(repository)),
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
