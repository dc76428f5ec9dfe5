/** Catches a function in Lambda that signs without credentials, with credentials of another role, or without the session token. */
import { afterEach, expect, it, vi } from "vitest";

import { defaultProvider } from "../../infra/build/lambda-credentials.ts";

afterEach(() => vi.unstubAllEnvs());

function sandbox(variables: Readonly<Record<string, string | undefined>>): void {
  for (const name of ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"]) vi.stubEnv(name, variables[name]);
}

it("credentials are those of the sandbox, read at each use", async () => {
  const provider = defaultProvider();
  sandbox({ AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "key", AWS_SESSION_TOKEN: "session" });
  expect(await provider()).toEqual({ accessKeyId: "id", secretAccessKey: "key", sessionToken: "session" });
  sandbox({ AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "key" });
  expect(await provider()).toEqual({ accessKeyId: "id", secretAccessKey: "key" });
});

it.each([{}, { AWS_ACCESS_KEY_ID: "id" }, { AWS_SECRET_ACCESS_KEY: "key" }])(
  "the client fails with a report when the sandbox has no credentials: %o",
  async (variables) => {
    sandbox(variables);
    await expect(defaultProvider()()).rejects.toThrow(/are not set/);
  },
);
