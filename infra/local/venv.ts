/** LocalStack's Python environment. */
import { isInstalled, pythonVenv } from "./python-venv.ts";
import type { PythonVenv, Wanted } from "./python-venv.ts";

/** The last LocalStack that runs on Python 3.11 without a token, with the newest compatible version of each library (design.md). */
const LOCALSTACK: Wanted = {
  title: "LocalStack",
  name: "localstack",
  pins: ["localstack-core[runtime]==4.9.2", "cbor2<5.8", "pyopenssl<26", "psutil<7.1", "service_identity"],
  pythonMinorMin: 10,
  takes: "a minute or two",
};

/** Returns LocalStack's environment, or the reason in one line why it is not available. */
export async function localStackVenv(): Promise<PythonVenv | { readonly missing: string }> {
  return await pythonVenv(LOCALSTACK);
}

/** Returns the expected start-up time of `npm run local`, in words. */
export async function startTakes(): Promise<string> {
  return (await isInstalled(LOCALSTACK)) ? "about a minute" : "about two and a half minutes, since LocalStack is installed first, once";
}
