/**
 * The server of the timeline page. Would catch: a page that is served to another user of the machine, for a wrong host name, or to a page
 * of another site.
 */
import { request } from "node:http";
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { TimelineInput } from "../../../shared/timeline/input.ts";
import { servePage } from "../../../shared/timeline/server.ts";
import type { PageServer } from "../../../shared/timeline/server.ts";

const INPUT: TimelineInput = {
  ...{ version: 1, source: "shop\u202e", startMs: 0, endMs: 5, redacted: true },
  ...{ objects: [], marks: [], verdicts: [], findings: [], gaps: [] },
};
let server: PageServer;
let cookie = "";
let path = "";
beforeAll(async () => {
  server = await servePage({ html: "<p>the page</p>", whole: () => INPUT });
  const { headers } = await get(new URL(server.url).pathname);
  [cookie = ""] = headers["set-cookie"] ?? [];
  path = headers.location ?? "";
});
afterAll(() => server.close());

interface Got {
  readonly status: number | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** @param until ends a response that does not end by itself */
function get(target: string, headers: OutgoingHttpHeaders = {}, { method = "GET", until = "" } = {}): Promise<Got> {
  return new Promise((resolve, reject) => {
    const sent = request(new URL(target, server.url), { method, headers }, (response) => {
      let body = "";
      const end = (): void => resolve({ status: response.statusCode, headers: response.headers, body });
      response.setEncoding("utf8").on("data", (text: string) => {
        body += text;
        if (until === "" || !body.includes(until)) return;
        end();
        response.destroy();
      });
      response.on("end", end);
    });
    sent.on("error", reject).end();
  });
}

it("exchanges the token for a cookie that only this page gets", async () => {
  expect(cookie).toMatch(/^deltaloop=[\w-]{32}; HttpOnly; SameSite=Lax; Path=\/[\w-]{32}\/$/);
  expect(cookie).toContain(`Path=${path}`);
  expect(path).not.toContain(new URL(server.url).pathname);
  const { status, headers, body } = await get(path, { cookie });
  expect([status, body]).toEqual([200, "<p>the page</p>"]);
  expect(headers).toMatchObject({ "cache-control": "no-store", "cross-origin-resource-policy": "same-origin" });
});

it.each([
  { name: "no cookie", headers: {} },
  { name: "another cookie", headers: { cookie: `deltaloop=${"x".repeat(32)}` } },
])("returns 401 to another user of the machine, who has $name", async ({ headers }) => {
  for (const target of ["/", path, `${path}events`, `/${"x".repeat(32)}`]) expect((await get(target, headers)).status, target).toBe(401);
});

it("returns 403 for another host name that resolves to this machine, with the cookie and with the token", async () => {
  for (const host of ["attacker.example", "attacker.example:80", "127.0.0.1.attacker.example"])
    for (const target of [path, `${path}events`, new URL(server.url).pathname])
      expect(await get(target, { host, cookie }), host).toMatchObject({ status: 403, body: expect.not.stringContaining("page</p>") });
  expect((await get(path, { host: "localhost:1234", cookie })).status).toBe(200); // through a forwarded port
});

it("returns 403 for requests from a page of another origin, and 200 for its own page", async () => {
  const { origin, host } = new URL(server.url);
  for (const other of ["http://attacker.example", "null", `http://127.0.0.1:1`, origin.replace("http:", "https:")])
    expect((await get(`${path}events`, { origin: other, cookie })).status, other).toBe(403);
  expect((await get(path, { origin, host, cookie })).status).toBe(200);
});

it.each(["POST", "PUT", "DELETE", "OPTIONS", "HEAD"])("returns 405 for %s", async (method) => {
  expect((await get(path, { cookie }, { method })).status).toBe(405);
});

it("sends each client the complete data and then updates, as escaped text", async () => {
  for (let time = 0; time < 2; time++) {
    const got = get(`${path}events`, { cookie }, { until: '"endMs":9' });
    await new Promise((resolve) => void setTimeout(resolve, 50));
    server.send({ endMs: 9, objects: [], marks: [], gaps: [] });
    const { body, headers } = await got;
    expect(headers["content-type"]).toBe("text/event-stream");
    expect(body.split("\n").filter((line) => /^(?:event|retry)/.test(line))).toEqual(["retry: 1000", "event: whole", "event: update"]);
    expect(body).toContain(String.raw`shop\\u202e`);
  }
});
