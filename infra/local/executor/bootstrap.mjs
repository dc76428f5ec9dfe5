/**
 * The Node side of an execution environment: loads the handler that `_HANDLER` names, then handles one invocation at a time. process.py
 * describes the pipes. It supports async handlers only, and does not freeze background work between invocations as Lambda does.
 */
import { writeSync } from "node:fs";
import { access } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const ANSWERS = Number(process.argv[2]);
const EXTENSIONS = [".mjs", ".js", ".cjs"];

const handler = await loadHandler(process.env["_HANDLER"] ?? "").catch((error) => {
  answer({ error: described(error) });
  process.exit(1);
});
answer({ ready: true });

const questions = createInterface({ input: process.stdin });
// The pipe closes when LocalStack ends; the process then exits, even during an invocation.
questions.once("close", () => process.exit(0));
for await (const line of questions) await invoke(JSON.parse(line));

/** Loads `file.export`, the handler in the function's configuration. */
async function loadHandler(name) {
  const dot = name.lastIndexOf(".");
  const base = join(process.cwd(), name.slice(0, dot));
  for (const extension of EXTENSIONS) {
    const file = base + extension;
    const isThere = await access(file).then(
      () => true,
      () => false,
    );
    if (!isThere) continue;
    const found = (await import(pathToFileURL(file).href))[name.slice(dot + 1)];
    if (typeof found !== "function") throw new TypeError(`${file} exports no function ${name.slice(dot + 1)}`);
    return found;
  }
  throw new Error(`handler file not found: ${base}{${EXTENSIONS.join(",")}}`);
}

async function invoke({ id, arn, trace, deadlineMs, payload }) {
  process.env["_X_AMZN_TRACE_ID"] = trace;
  const context = {
    awsRequestId: id,
    invokedFunctionArn: arn,
    functionName: process.env["AWS_LAMBDA_FUNCTION_NAME"],
    functionVersion: process.env["AWS_LAMBDA_FUNCTION_VERSION"],
    memoryLimitInMB: process.env["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"],
    logGroupName: process.env["AWS_LAMBDA_LOG_GROUP_NAME"],
    logStreamName: process.env["AWS_LAMBDA_LOG_STREAM_NAME"],
    callbackWaitsForEmptyEventLoop: false,
    getRemainingTimeInMillis: () => Math.max(0, deadlineMs - Date.now()),
  };
  let outcome;
  try {
    outcome = { result: JSON.stringify((await handler(JSON.parse(payload), context)) ?? null) };
  } catch (error) {
    outcome = { error: described(error) };
  }
  await new Promise((resolve) => process.stdout.write(`\0${id}\n`, resolve));
  answer(outcome);
}

/** Writes synchronously, so that no response is truncated. */
function answer(outcome) {
  writeSync(ANSWERS, `${JSON.stringify(outcome)}\n`);
}

function described(error) {
  if (!(error instanceof Error)) return { errorType: typeof error, errorMessage: String(error), trace: [] };
  return { errorType: error.name, errorMessage: error.message, trace: (error.stack ?? "").split("\n") };
}
