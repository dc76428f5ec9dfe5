// The in-memory API server over HTTP.
import { expect, test } from "vitest";
import { createSeededRandom } from "../../../../shared/base/memory/random.ts";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createApiServer } from "../../../../shared/api-server/api-server.ts";
import { serveHttp } from "../../../../shared/api-server/http.ts";
import { createClient } from "../../../../shared/kube/http/client.ts";
import { rawClientOf } from "../../../support/raw-client.ts";
import type { RawClient } from "../../../support/raw-client.ts";
import { CONFIGMAPS, MERGE, START_MS } from "./fixture.ts";
import { lineOf } from "../../../../shared/kube/client/kube.ts";

async function setUpHttp() {
  const server = createApiServer({ clock: createVirtualClock(START_MS), random: createSeededRandom(1) });
  const http = await serveHttp(server);
  return { server, http, client: rawClientOf(createClient({ server: http.url, component: "test" })) };
}

/** Watches ConfigMaps until the signal aborts or the server ends the watch. */
async function follow(client: RawClient, onLine: (line: string) => void, signal: AbortSignal): Promise<void> {
  for await (const lines of client.watch("configmaps", { allowWatchBookmarks: false, timeoutSeconds: 60 }, signal))
    lines.map(lineOf).forEach(onLine);
}

/** Returns the outcome, so that no rejection is unhandled while the test checks something else. */
function outcome(call: Promise<void>): Promise<unknown> {
  return call.catch((error: unknown) => error);
}

test("serves objects, pages and error responses over HTTP", async () => {
  const { http, client } = await setUpHttp();
  for (let i = 0; i < 3; i += 1) await client.request("POST", CONFIGMAPS, { metadata: { name: `c${i}` }, data: { text: "ü" } });
  const { items } = await client.list(CONFIGMAPS);
  expect(items).toHaveLength(3);
  expect(items[0]).toMatchObject({ metadata: { name: "c0" }, data: { text: "ü" } });
  expect(items[0]).not.toHaveProperty("kind");
  await expect(client.request("POST", CONFIGMAPS, { metadata: { name: "c0" } })).rejects.toMatchObject({
    code: 409,
    reason: "AlreadyExists",
  });
  await expect(client.request("GET", "/nope")).rejects.toMatchObject({ code: 404 });
  await http.close();
});

test("sends watch events immediately, and ends the watch when the server stops", async () => {
  const { http, client } = await setUpHttp();
  const seen: string[] = [];
  let arrived = (): void => undefined;
  const two = new Promise<void>((resolve) => {
    arrived = () => (seen.length === 2 ? resolve() : undefined);
  });
  const count = (line: string): void => {
    seen.push((JSON.parse(line) as { readonly type: string }).type); // a watch event
    arrived();
  };
  const watching = outcome(follow(client, count, new AbortController().signal));
  await client.request("POST", CONFIGMAPS, { metadata: { name: "c" } });
  await client.request("PATCH", `${CONFIGMAPS}/c`, { data: { a: "b" } }, MERGE);
  await two;
  expect(seen).toEqual(["ADDED", "MODIFIED"]);
  await http.close();
  await watching;
});

test("a watch that the client aborts is closed on the server", async () => {
  const { server, http, client } = await setUpHttp();
  const ends = new AbortController();
  const watching = outcome(follow(client, () => ends.abort(new Error("enough")), ends.signal));
  // Creates objects until the watch is open and has received one.
  for (let i = 0; !ends.signal.aborted; i += 1) await client.request("POST", CONFIGMAPS, { metadata: { name: `c${i}` } });
  expect(await watching).toBeInstanceOf(Error);
  server.close();
  await http.close();
});
