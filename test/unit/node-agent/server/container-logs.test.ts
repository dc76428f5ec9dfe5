/**
 * Would catch: `--follow` that never ends or ends too early, lines that are lost during log rotation, and access to files that are not
 * logs.
 */
import { once } from "node:events";
import { appendFileSync, readdirSync, readlinkSync, renameSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "node:tls";
import type { TLSSocket } from "node:tls";

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { eventually } from "../../../support/e2e.ts";
import { bodyOf, createTestPki, line, startFixture, TOKEN } from "./fixture.ts";
import type { Fixture } from "./fixture.ts";

/** Time in ms to wait for a rotated log's new file; all other waits are shorter. */
const REPLACED_MS = 100;
const LOGS = "/containerLogs/shop/web/main";

let tls: { readonly cert: string; readonly key: string };
let remove: () => void;
let fixture: Fixture;

beforeAll(async () => {
  const { pki, ...rest } = await createTestPki();
  const server = await pki.serverCertificate();
  tls = { cert: server.certificate, key: server.key };
  remove = () => rest.remove();
});
afterAll(() => remove?.());
beforeEach(async () => {
  fixture = await startFixture({ tls });
});
afterEach(() => fixture.stop());

/** The bytes received so far. */
function reading(response: IncomingMessage): { text: string } {
  const so = { text: "" };
  response.setEncoding("utf8").on("data", (chunk: string) => (so.text += chunk));
  return so;
}

async function connected(port: number): Promise<TLSSocket> {
  const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false }).on("error", () => undefined);
  await once(socket, "secureConnect");
  return socket;
}

/** Returns this process's open files with that name. */
function openFiles(path: string): number {
  const target = (descriptor: string): string => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`);
    } catch {
      return ""; // the descriptor of this listing, which is closed
    }
  };
  return readdirSync("/proc/self/fd").filter((descriptor) => target(descriptor).startsWith(path)).length;
}

describe("a container's log", () => {
  it("a container's log is read to its end, even if its last line is incomplete [node-agent 103]", async () => {
    writeFileSync(fixture.logPath, `${line("one")}${line("two")}${line("half").trimEnd()}`);
    expect(await fixture.ask(LOGS)).toEqual({ code: 200, body: "one\ntwo\nhalf" });
  });

  it("a container's log is filtered by lines, bytes and time together [node-agent 114]", async () => {
    writeFileSync(fixture.logPath, ["one", "two", "three"].map(line).join(""));
    expect((await fixture.ask(`${LOGS}?tailLines=2`)).body).toBe("two\nthree\n");
    expect((await fixture.ask(`${LOGS}?tailLines=0`)).body).toBe("");
    expect((await fixture.ask(`${LOGS}?tailLines=2&limitBytes=5`)).body).toBe("two\nt");
    expect((await fixture.ask(`${LOGS}?tailLines=1&timestamps=1`)).body).toBe("2026-03-01T10:00:00.000000000Z three\n");
    expect((await fixture.ask(`${LOGS}?sinceTime=2026-03-01T10:00:01Z`)).body).toBe("");
    expect(await fixture.ask(`${LOGS}?tailLines=x`)).toEqual({ code: 400, body: `{"message": "Unable to decode query."}` });
    expect(await fixture.ask(`${LOGS}?tailLines=-1`)).toEqual({ code: 422, body: `{"message": "Invalid request."}` });
  });

  it("a large container's log is sent completely", async () => {
    const text = Array.from({ length: 100_000 }, (_, index) => line(`line ${index}`)).join("");
    writeFileSync(fixture.logPath, text);
    const { body } = await fixture.ask(LOGS);
    expect(body.split("\n").length).toBe(100_001);
    expect(body.endsWith("line 99999\n")).toBe(true);
  });

  it("skips lines that are not in CRI's format, and fails if every line is invalid [node-agent 103]", async () => {
    writeFileSync(fixture.logPath, `${line("one")}garbage\n${line("two")}`);
    expect((await fixture.ask(LOGS)).body).toBe("one\ntwo\n");
    writeFileSync(fixture.logPath, "garbage\n");
    expect(await fixture.ask(LOGS)).toEqual({ code: 200, body: `failed to get parse function: unsupported log format: "garbage\\n"` });
  });

  it("a request for the log of a missing pod, container or instance returns upstream's message [node-agent 103]", async () => {
    expect(await fixture.ask("/containerLogs/shop/api/main")).toEqual({ code: 404, body: `pod "api" does not exist` });
    expect(await fixture.ask("/containerLogs/shop/web/side")).toEqual({ code: 404, body: `container "side" not found in pod "web"` });
    const none = { code: 400, body: `previous terminated container "main" in pod "web" not found` };
    expect(await fixture.ask(`${LOGS}?previous=true`)).toEqual(none);
    fixture.script.containerState = "removed";
    expect(await fixture.ask(LOGS)).toEqual({ code: 200, body: "unable to retrieve container logs for containerd://c1" });
  });

  it("a log request never reads another file of the node, whatever the runtime reports", async () => {
    fixture.script.logPath = "/etc/hostname";
    const { body } = await fixture.ask(LOGS);
    expect(body).toMatch(/^log file "\/etc\/hostname" is not in /u);
  });
});

describe("following a log", () => {
  it("following sends only complete lines as they are written, and ends with the container [node-agent 103]", async () => {
    appendFileSync(fixture.logPath, line("one"));
    const response = await fixture.open(`${LOGS}?follow=true`);
    const so = reading(response);
    const whole = new Promise((resolve) => response.once("end", resolve));
    await eventually("the first line", () => so.text === "one\n");
    appendFileSync(fixture.logPath, line("two").slice(0, 40));
    appendFileSync(fixture.logPath, `${line("two").slice(40)}${line("three")}`);
    await eventually("the next lines", () => so.text === "one\ntwo\nthree\n", 900); // before the next check of the time limit
    appendFileSync(fixture.logPath, line("last"));
    fixture.script.containerState = "CONTAINER_EXITED";
    await whole;
    expect(so.text).toBe("one\ntwo\nthree\nlast\n");
  });

  it("sends the response head before the log has a line", async () => {
    const response = await fixture.open(`${LOGS}?follow=true`);
    expect(response.statusCode).toBe(200);
    response.destroy();
  });

  it("following an exited container's log sends the existing lines and ends, even if the container is removed in the meantime", async () => {
    writeFileSync(fixture.logPath, line("all"));
    fixture.script.containerState = "CONTAINER_EXITED";
    expect((await fixture.ask(`${LOGS}?follow=true`)).body).toBe("all\n");
    fixture.script.containerState = "CONTAINER_RUNNING";
    const response = await fixture.open(`${LOGS}?follow=true`);
    fixture.script.containerState = "removed";
    expect(await bodyOf(response)).toBe("all\n");
  });

  it("following a log starts at its tail and ends at its byte limit [node-agent 114]", async () => {
    writeFileSync(fixture.logPath, ["one", "two"].map(line).join(""));
    const response = await fixture.open(`${LOGS}?follow=true&tailLines=1&limitBytes=6`);
    const so = reading(response);
    const whole = new Promise((resolve) => response.once("end", resolve));
    await eventually("the tail", () => so.text === "two\n");
    appendFileSync(fixture.logPath, line("three"));
    await whole;
    expect(so.text).toBe("two\nth");
  });

  it("queries the runtime's state rarely while the log has many lines", async () => {
    const response = await fixture.open(`${LOGS}?follow=true`);
    for (let index = 0; index < 50; index++) {
      const shown = once(response, "data");
      appendFileSync(fixture.logPath, line(`line ${index}`));
      await shown;
    }
    response.destroy();
    expect(fixture.statusCalls()).toBeLessThan(20);
  });

  it("continues while the runtime is unavailable", async () => {
    const response = await fixture.open(`${LOGS}?follow=true`);
    const so = reading(response);
    fixture.script.containerState = "unavailable";
    appendFileSync(fixture.logPath, line("one"));
    await eventually("the line", () => so.text === "one\n");
    appendFileSync(fixture.logPath, line("two"));
    await eventually("the next line", () => so.text === "one\ntwo\n");
    response.destroy();
  });

  it("continues across rotations without losing a line, even one written to the old file after the new one existed", async () => {
    appendFileSync(fixture.logPath, line("one"));
    const response = await fixture.open(`${LOGS}?follow=true`);
    const so = reading(response);
    await eventually("the first line", () => so.text === "one\n");
    const late = (ms: number): void => {
      if (ms !== REPLACED_MS) return;
      fixture.script.waiting = () => undefined;
      appendFileSync(`${fixture.logPath}.1`, line("two"));
    };
    fixture.script.waiting = late;
    renameSync(fixture.logPath, `${fixture.logPath}.1`);
    writeFileSync(fixture.logPath, line("three"));
    await eventually("all lines", () => so.text === "one\ntwo\nthree\n");
    renameSync(fixture.logPath, `${fixture.logPath}.2`);
    writeFileSync(fixture.logPath, line("four"));
    fixture.script.containerState = "CONTAINER_EXITED";
    await new Promise((resolve) => response.once("end", resolve));
    expect(so.text).toBe("one\ntwo\nthree\nfour\n");
  });

  it("following a log ends immediately when the client disconnects", async () => {
    const response = await fixture.open(`${LOGS}?follow=true`);
    await eventually("the log is open", () => openFiles(fixture.logPath) === 1);
    response.destroy();
    await eventually("the log is closed", () => openFiles(fixture.logPath) === 0, 500);
    expect(fixture.log.lines.filter(({ level }) => level === "warn" || level === "error")).toEqual([]);
  });

  it.each([
    { asking: "to authenticate it", kind: "TokenReview" },
    { asking: "to authorize it", kind: "SubjectAccessReview" },
  ])(
    "[node-agent 499] following a log does not begin for a client that disconnected while the API server was queried $asking",
    async ({ kind }) => {
      const { review } = fixture.script;
      const answered = Promise.withResolvers<void>();
      const asked = Promise.withResolvers<void>();
      fixture.script.review = async (one) => {
        if (one.kind === kind) asked.resolve();
        if (one.kind === kind) await answered.promise;
        return review(one);
      };
      const client = await connected(fixture.port);
      client.write(`GET ${LOGS}?follow=true HTTP/1.1\r\nHost: n1\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`);
      await asked.promise;
      client.destroy();
      await sleep(100);
      answered.resolve();
      await sleep(200);
      expect([openFiles(fixture.logPath), fixture.statusCalls()]).toEqual([0, 0]);
      expect(fixture.log.lines.filter(({ level }) => level === "warn" || level === "error")).toEqual([]);
    },
  );

  it("[node-agent 499] following a log ends when its client disconnects, even if the client requested an upgrade, which logs do not support", async () => {
    const client = await connected(fixture.port);
    const upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n";
    client.write(`GET ${LOGS}?follow=true HTTP/1.1\r\nHost: n1\r\n${upgrade}Authorization: Bearer ${TOKEN}\r\n\r\n`);
    await eventually("the log is open", () => openFiles(fixture.logPath) === 1);
    client.destroy();
    await eventually("the log is closed", () => openFiles(fixture.logPath) === 0, 2_000);
  });
});
