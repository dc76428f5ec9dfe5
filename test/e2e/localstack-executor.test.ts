/** LocalStack's Lambda with our executor (infra/local/executor), with functions written for this test. */
import { spawn } from "node:child_process";
import { access, readFile } from "node:fs/promises";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { zip } from "../../infra/build/zip.ts";
import { startLocalStack } from "../../infra/local/localstack.ts";
import type { LocalStack } from "../../infra/local/localstack.ts";
import { localStackVenv } from "../../infra/local/venv.ts";
import { eventually, isRunning, killHard } from "../support/e2e.ts";

/** Long enough for a busy machine, on which a process started and 2 MB passed through LocalStack in more than two seconds. */
const TIMEOUT_SECONDS = 30;
/** Of the function `hurried`, whose handlers do not end. */
const HURRIED_SECONDS = 2;
const HANDLER = `
  let count = 0;
  export const handler = async (event, context) => {
    console.log("asked to " + event.what);
    const about = { pid: process.pid, count: ++count };
    if (event.what === "hang") await new Promise(() => setInterval(() => {}, 1000));
    if (event.what === "block") for (;;);
    if (event.what === "crash") process.exit(7);
    if (event.what === "throw") throw new RangeError("too far");
    if (event.what === "large") return { text: "ü".repeat(1_000_000) };
    if (event.what === "nothing") return;
    return { ...about, flavour: process.env.FLAVOUR, home: process.env.HOME ?? null, node: process.version, flags: process.execArgv,
      name: context.functionName, left: context.getRemainingTimeInMillis(), id: context.awsRequestId };
  };`;

interface Answer {
  readonly failed: boolean;
  readonly body: Readonly<Record<string, unknown>> | null;
}

const venv = await localStackVenv();
if ("missing" in venv) {
  process.stderr.write(`!!!!  LocalStack's executor cannot run: ${venv.missing}\n`);
  it.skip(`LocalStack's executor: ${venv.missing}`);
} else suite();

function suite(): void {
  describe("executor", () => {
    let localStack: LocalStack;
    beforeAll(async () => {
      localStack = await startLocalStack();
      await createFunction(localStack.endpoint, "probe", HANDLER);
      await createFunction(localStack.endpoint, "hurried", HANDLER, HURRIED_SECONDS);
    }, 120_000);
    afterAll(async () => {
      await localStack?.stop();
    });
    const ask = (what: string, name = "probe") => invoke(localStack.endpoint, name, { what });
    const log = () => readFile(localStack.logFile, "utf8");

    it("gives a function its configuration without LocalStack's environment, and keeps it warm", async () => {
      const first = await ask("answer");
      expect(first).toMatchObject({ failed: false, body: { count: 1, flavour: "plum", home: null, name: "probe", node: process.version } });
      const { flags, left, pid } = first.body ?? {};
      // 90 % of 128 MB
      expect(flags).toEqual(["--max-old-space-size=115"]);
      expect(left).toBeGreaterThan(0);
      expect(left).toBeLessThanOrEqual(TIMEOUT_SECONDS * 1000);
      expect(await ask("answer")).toMatchObject({ body: { count: 2, pid } });
    });

    it("passes large and empty responses", async () => {
      expect((await ask("large")).body).toEqual({ text: "ü".repeat(1_000_000) });
      expect((await ask("nothing")).body).toBeNull();
    });

    it("runs concurrent invocations in environments of their own", async () => {
      const answers = await Promise.all(["answer", "answer", "answer"].map((what) => ask(what)));
      expect(new Set(answers.map(({ body }) => body?.["id"])).size).toBe(3);
    });

    it("returns a thrown error, and keeps the environment", async () => {
      const { pid } = (await ask("answer")).body ?? {};
      expect(await ask("throw")).toMatchObject({ failed: true, body: { errorType: "RangeError", errorMessage: "too far" } });
      expect((await ask("answer")).body).toMatchObject({ pid });
    });

    for (const what of ["hang", "block"])
      it(`kills a handler that does ${what} at its timeout, and the next one gets a fresh process`, async () => {
        const { pid } = (await ask("answer", "hurried")).body ?? {};
        const from = performance.now();
        expect(await ask(what, "hurried")).toMatchObject({
          failed: true,
          body: { errorType: "Sandbox.Timedout", errorMessage: expect.stringContaining("Task timed out after 2.00 seconds") },
        });
        expect(performance.now() - from).toBeGreaterThanOrEqual(HURRIED_SECONDS * 1000);
        expect(isRunning(Number(pid))).toBe(false);
        expect(await ask("answer", "hurried")).toMatchObject({ failed: false, body: { count: 1 } });
      });

    it("reports a process that exits, and starts a fresh one for the next invocation", async () => {
      expect(await ask("crash")).toMatchObject({
        failed: true,
        body: { errorType: "Runtime.ExitError", errorMessage: expect.stringContaining("exit status 7") },
      });
      expect(await ask("answer")).toMatchObject({ failed: false, body: { count: 1 } });
    });

    it("reports why a bundle cannot be loaded", async () => {
      await createFunction(localStack.endpoint, "broken", 'throw new TypeError("no such thing");');
      expect(await ask("answer", "broken")).toMatchObject({
        failed: true,
        body: { errorType: "TypeError", errorMessage: "no such thing" },
      });
    });

    it("applies an update of code and configuration, while the old one completes a running invocation", async () => {
      const body = (text: string) => `export const handler = async ({ ms = 0 }) => {
        await new Promise((resolve) => setTimeout(resolve, ms));
        return { text: ${JSON.stringify(text)}, flavour: process.env.FLAVOUR };
      };`;
      await createFunction(localStack.endpoint, "changing", body("one"));
      const running = invoke(localStack.endpoint, "changing", { ms: 1_500 });
      await eventually("it runs", async () => (await log()).includes("changing: START"));
      await update(localStack.endpoint, "changing", "code", { ZipFile: zipped(body("two")) });
      expect(await invoke(localStack.endpoint, "changing", {})).toMatchObject({ body: { text: "two", flavour: "plum" } });
      expect(await running).toMatchObject({ failed: false, body: { text: "one" } });
      // Creates a function with the same code, which must survive the replacement of the first one's version.
      await update(localStack.endpoint, "changing", "configuration", { Environment: { Variables: { FLAVOUR: "fig" } } });
      expect(await invoke(localStack.endpoint, "changing", {})).toMatchObject({ body: { text: "two", flavour: "fig" } });
    });

    it("lets an environment that was starting during its function's update respond, and then ends it", async () => {
      const body = (text: string) => `export const handler = () => Promise.resolve({ text: ${JSON.stringify(text)}, pid: process.pid });`;
      await createFunction(localStack.endpoint, "slow", `await new Promise((resolve) => setTimeout(resolve, 5_000)); ${body("one")}`);
      const starting = invoke(localStack.endpoint, "slow", {});
      await eventually("it starts", async () => (await log()).includes("slow: environment started"));
      await update(localStack.endpoint, "slow", "code", { ZipFile: zipped(body("two")) });
      const { body: first } = await starting;
      expect(first).toMatchObject({ text: "one" });
      await eventually("its process has ended", () => !isRunning(Number(first?.["pid"])), 5_000);
      const { body: second } = await invoke(localStack.endpoint, "slow", {});
      expect(second).toMatchObject({ text: "two" });
      expect(isRunning(Number(second?.["pid"]))).toBe(true);
    });

    it("writes a function's output to LocalStack's log, with the function's name", async () => {
      for (const line of ["probe: asked to crash", "probe: asked to throw", "probe: REPORT RequestId: ", "Task timed out"])
        expect(await log()).toContain(line);
      expect(await log()).not.toContain("\0");
    });
  });

  it("LocalStack and its functions leave nothing behind when their parent is killed with SIGKILL", async () => {
    const script = `
      import { startLocalStack } from ${JSON.stringify(new URL("../../infra/local/localstack.ts", import.meta.url).href)};
      const { pid, logFile, endpoint } = await startLocalStack();
      console.log(JSON.stringify({ pid, logFile, endpoint }));
      setInterval(() => {}, 1000);`;
    const starter = spawn(process.execPath, ["--input-type=module", "--eval", script], { stdio: ["ignore", "pipe", "ignore"] });
    let output = "";
    starter.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    await eventually("it has started", () => output.includes("\n"), 60_000);
    // the output of the function
    const started = JSON.parse(output) as { readonly pid: number; readonly logFile: string; readonly endpoint: string };
    await createFunction(started.endpoint, "probe", HANDLER);
    const pid = Number((await invoke(started.endpoint, "probe", { what: "answer" })).body?.["pid"]);
    expect([isRunning(started.pid), isRunning(pid)]).toEqual([true, true]);
    killHard(starter.pid);
    await eventually("both are gone", () => !isRunning(started.pid) && !isRunning(pid), 5_000);
    const isThere = () =>
      access(started.logFile).then(
        () => true,
        () => false,
      );
    await eventually("its folder is gone", async () => !(await isThere()), 5_000);
  });
}

async function createFunction(endpoint: string, name: string, code: string, timeoutSeconds = TIMEOUT_SECONDS): Promise<void> {
  await lambda(endpoint, "POST", "", {
    FunctionName: name,
    Runtime: "nodejs22.x",
    Handler: "handler.handler",
    Role: "arn:aws:iam::000000000000:role/nobody",
    Timeout: timeoutSeconds,
    MemorySize: 128,
    Environment: { Variables: { FLAVOUR: "plum" } },
    Code: { ZipFile: zipped(code) },
  });
  await eventually(`${name} is active`, async () => (await configuration(endpoint, name)).State === "Active");
}

function zipped(code: string): string {
  return zip([{ name: "handler.mjs", content: Buffer.from(code) }]).toString("base64");
}

async function update(endpoint: string, name: string, what: "code" | "configuration", change: object): Promise<void> {
  await lambda(endpoint, "PUT", `${name}/${what}`, change);
  await eventually(`${name} is updated`, async () => (await configuration(endpoint, name)).LastUpdateStatus === "Successful");
}

async function configuration(endpoint: string, name: string) {
  const answer = await lambda(endpoint, "GET", name);
  // the response of GetFunction
  return (answer as { readonly Configuration: { readonly State: string; readonly LastUpdateStatus: string } }).Configuration;
}

async function invoke(endpoint: string, name: string, event: object): Promise<Answer> {
  const answer = await call(endpoint, "POST", `${name}/invocations`, event);
  return { failed: answer.headers.has("x-amz-function-error"), body: (await answer.json()) as Answer["body"] }; // the result of the handler
}

async function lambda(endpoint: string, method: string, path: string, body?: object): Promise<unknown> {
  const answer = await call(endpoint, method, path, body);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}

/** LocalStack reads the service from the credential and verifies nothing. */
function call(endpoint: string, method: string, path: string, body?: object): Promise<Response> {
  const authorization = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/lambda/aws4_request, SignedHeaders=host, Signature=none";
  return fetch(`${endpoint}/2015-03-31/functions/${path}`, {
    method,
    headers: { authorization },
    ...(body && { body: JSON.stringify(body) }),
  });
}
