/**
 * The Node side of an execution environment: loads the handler that `_HANDLER` names from the working folder, then answers one
 * invocation after the other. process.py beside it is the other end and says what goes over which pipe.
 *
 * Only async handlers: ours are. What a handler leaves running goes on between invocations; Lambda would freeze it.
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
// The pipe ends with LocalStack, and so do we, whatever the handler is doing.
questions.once("close", () => process.exit(0));
for await (const line of questions) await invoke(JSON.parse(line));

/** `file.export`, as the function's configuration has it. */
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
  throw new Error(`there is no ${base}{${EXTENSIONS.join(",")}}`);
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

/** The pipe blocks, so that an answer is written whole. */
function answer(outcome) {
  writeSync(ANSWERS, `${JSON.stringify(outcome)}\n`);
}

function described(error) {
  if (!(error instanceof Error)) return { errorType: typeof error, errorMessage: String(error), trace: [] };
  return { errorType: error.name, errorMessage: error.message, trace: (error.stack ?? "").split("\n") };
}
