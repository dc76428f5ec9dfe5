/**
 * Records upstream's verdicts on the responses, paths and TLS servers: `node infra/nodejs-runtime/run.js
 * test/conformance/http-answers/record.ts`. Needs Go and the modules of test/envtest/control-plane.
 */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { ANSWERS, PATHS, startAnswering } from "./answers.ts";
import { startTlsServers } from "./tls-servers.ts";
import { type Verdict, VERDICTS, writtenVerdicts } from "./verdicts.ts";

const folder = mkdtempSync(join(tmpdir(), "http-answers-"));
const program = join(folder, "verdicts");
const module = join(import.meta.dirname, "../../envtest/control-plane");
execFileSync("go", ["build", "-mod=readonly", "-o", program, join(import.meta.dirname, "main.go")], { cwd: module, stdio: "inherit" });

const upstream = spawn(program, { stdio: ["pipe", "pipe", "inherit"] });
const lines = createInterface(upstream.stdout)[Symbol.asyncIterator]();
async function verdictOn(scheme: string, port: number, path: string): Promise<Verdict> {
  upstream.stdin.write(`${JSON.stringify({ scheme, host: "127.0.0.1", port, path })}\n`);
  const { probe, output, hook, manifest } = JSON.parse((await lines.next()).value as string) as Record<string, string | boolean>;
  return [probe, output, hook, manifest] as Verdict;
}

const answering = await startAnswering();
const answers: Verdict[] = [];
for (answering.answer of ANSWERS) answers.push(await verdictOn("HTTP", answering.port, "/"));
answering.answer = undefined;
const paths: Verdict[] = [];
for (const path of PATHS) paths.push(await verdictOn("HTTP", answering.port, path));
answering.close();
const tls: Verdict[] = [];
const servers = await startTlsServers();
for (const { port } of servers) tls.push(await verdictOn("HTTPS", port, "/"));
for (const server of servers) server.close();
upstream.stdin.end();
writeFileSync(VERDICTS, writtenVerdicts({ answers, paths, tls }));
rmSync(folder, { recursive: true });
