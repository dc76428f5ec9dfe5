/**
 * The AWS adapters against LocalStack, a second, independent implementation of SQS, Secrets Manager and Parameter
 * Store.
 */
import { afterAll, beforeAll, expect, it } from "vitest";

import { startLocalStack, type LocalStack } from "../../infra/local/localstack.ts";
import { localStackVenv } from "../../infra/local/venv.ts";
import { sqsCalls, type SqsCalls } from "../../shared/store/sqs/calls.ts";
import { sqsClient } from "../../shared/store/sqs/client.ts";
import { awsJson } from "../../shared/store/aws/aws-json.ts";
import { createParameters } from "../../shared/store/secrets/parameters.ts";
import { createSecrets } from "../../shared/store/secrets/secrets.ts";
import { secretsConformance } from "./secrets.ts";
import { sqsPortsConformance } from "./sqs-ports.ts";

const venv = await localStackVenv();
if ("missing" in venv) {
  process.stderr.write(`!!!!  SQS on LocalStack cannot run: ${venv.missing}\n`);
  it.skip(`SQS on LocalStack: ${venv.missing}`);
} else suite();

function suite(): void {
  let localStack: LocalStack;
  let client: ReturnType<typeof sqsClient>;
  let calls: SqsCalls;
  beforeAll(async () => {
    localStack = await startLocalStack();
    client = sqsClient({ endpoint: localStack.endpoint });
    calls = sqsCalls({ endpoint: localStack.endpoint });
  }, 120_000);
  afterAll(async () => {
    client?.destroy();
    calls?.close();
    await localStack?.stop();
  });

  it("follows SecureString parameters below a path, beyond one page, and replaces and deletes them", async () => {
    const parameters = createParameters({ endpoint: localStack.endpoint, timeoutMs: 50_000 });
    try {
      const names = Array.from({ length: 12 }, (_, i) => `/clusters/deltaloop-watcher/${i}`);
      for (const name of names) await parameters.put(name, `value of ${name} ${"x".repeat(3_000)}`);
      await parameters.put("/clusters/deltaloop-sync-deployment/0", "another role's");
      const before = await parameters.versions("/clusters/deltaloop-watcher");
      expect([...before.keys()].toSorted()).toEqual(names.toSorted());
      await parameters.put(names[3] ?? "", "renewed");
      const after = await parameters.versions("/clusters/deltaloop-watcher");
      expect([...after].filter(([name, version]) => before.get(name) !== version).map(([name]) => name)).toEqual([names[3]]);
      const values = await parameters.values([...names, "/clusters/none"]);
      expect(values.size).toBe(12);
      expect(values.get(names[3] ?? "")).toEqual({ version: after.get(names[3] ?? ""), text: "renewed" });
      expect(values.get(names[0] ?? "")).toMatchObject({ text: expect.stringMatching(/^value of \/clusters/) as string });
      expect(await parameters.versionsOf([names[3] ?? "", "/clusters/none"])).toEqual(new Map([[names[3], after.get(names[3] ?? "")]]));
      await parameters.remove([...names, "/clusters/none"]);
      await parameters.put(names[0] ?? "", "added again");
      const again = await parameters.versionsOf([names[0] ?? ""]);
      expect(again.get(names[0] ?? ""), "both are the first version").not.toBe(after.get(names[0] ?? ""));
      await parameters.remove([names[0] ?? ""]);
      expect((await parameters.versions("/clusters/deltaloop-watcher")).size).toBe(0);
      expect((await parameters.versions("/clusters/deltaloop-sync-deployment")).size).toBe(1);
    } finally {
      parameters.close();
    }
  }, 120_000); // the first SecureString starts LocalStack's KMS

  let made = 0;
  /** Secrets of one test; LocalStack is shared by all tests. */
  async function withSecrets(
    service: { readonly name: string; readonly target: string },
    create: (name: string, value: string) => { readonly action: string; readonly input: object },
    values: Readonly<Record<string, string>>,
    reference: (name: string) => string,
  ) {
    const { endpoint } = localStack;
    const { call, close } = awsJson({ ...service, version: "1.1" }, { endpoint });
    const prefix = `/conformance/${++made}/`;
    for (const [name, value] of Object.entries(values)) {
      const { action, input } = create(prefix + name, value);
      await call(action, endpoint, input);
    }
    close();
    const secrets = createSecrets({ endpoint, timeoutMs: 10_000 });
    return { secrets, reference: (name: string) => reference(prefix + name) };
  }
  secretsConformance("Secrets Manager on LocalStack", (values) =>
    withSecrets(
      { name: "secretsmanager", target: "secretsmanager" },
      (name, value) => ({ action: "CreateSecret", input: { Name: name, SecretString: value, ClientRequestToken: crypto.randomUUID() } }),
      values,
      (name) => name,
    ),
  );
  secretsConformance("Parameter Store on LocalStack", (values) =>
    withSecrets(
      { name: "ssm", target: "AmazonSSM" },
      (name, value) => ({ action: "PutParameter", input: { Name: name, Value: value, Type: "SecureString" } }),
      values,
      (name) => `ssm:${name}`,
    ),
  );

  sqsPortsConformance(
    "LocalStack",
    () => client,
    () => calls,
  );
}
