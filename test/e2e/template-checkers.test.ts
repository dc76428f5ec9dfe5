/** Checks the template with cfn-lint and cloudsplaining, which pip installs once. */
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { pythonVenv } from "../../infra/local/python-venv.ts";
import { packaged } from "../support/packaged.ts";
import type { Template } from "../support/packaged.ts";

/** cfn-lint rules that every template of the Serverless Framework violates. */
const NOT_OURS = [
  "W3005", // osls sets the role of a function twice
  "W1030", // an empty default that a condition never uses
];
/** Permissions on `*`, with the reason for each. */
const EXPLAINED: Readonly<Record<string, string>> = {
  "ec2:CreateNetworkInterface": "Lambda makes the interfaces of a VPC with the function's role (infra/fragments.ts)",
  "ec2:DeleteNetworkInterface": "and removes them",
  "ecr:GetAuthorizationToken": "ECS asks for it before it pulls the watcher's image; it knows no resource",
};
const REGIONS = ["us-east-1", "eu-central-1", "ap-southeast-2"];

const venv = await pythonVenv({
  title: "The check of the template",
  name: "template-checkers",
  pins: ["cfn-lint==1.58.0", "cloudsplaining==0.9.1"],
  pythonMinorMin: 10,
  takes: "half a minute",
});
if ("missing" in venv) {
  process.stderr.write(`!!!!  cfn-lint and cloudsplaining cannot run: ${venv.missing}\n`);
  it.skip(`cfn-lint and cloudsplaining: ${venv.missing}`);
} else suite(venv.python);

function suite(python: string): void {
  describe("the packaged template", () => {
    let scratch: string;
    let template: Template;
    let lean: Template;
    beforeAll(async () => {
      scratch = await mkdtemp(join(tmpdir(), "deltaloop-template-"));
      [template, lean] = await Promise.all([packaged("prod"), packaged("prod", { profile: "lean" })]);
    }, 120_000);
    afterAll(async () => {
      await rm(scratch, { recursive: true });
    });

    it("the packaged template has no cfn-lint findings in three regions, while a planted mistake is found", async () => {
      const Redis = template.Resources["Redis"];
      const planted = {
        ...template,
        Resources: { ...template.Resources, Redis: { ...Redis, Properties: { ...Redis?.Properties, NumCacheCluster: 2 } } },
      };
      await Promise.all([
        writeFile(join(scratch, "ours.json"), JSON.stringify(template)),
        writeFile(join(scratch, "lean.json"), JSON.stringify(lean)),
        writeFile(join(scratch, "planted.json"), JSON.stringify(planted)),
      ]);
      const args = [
        "-c",
        "from cfnlint.runner import main; main()",
        "--format",
        "json",
        "--ignore-checks",
        ...NOT_OURS,
        "--regions",
        ...REGIONS,
        "--template",
        "ours.json",
        "lean.json",
        "planted.json",
      ];
      const found = JSON.parse(await run(python, args, scratch)) as readonly {
        readonly Filename: string;
        readonly Message: string;
      }[];
      expect(found.filter(({ Filename }) => !Filename.endsWith("planted.json")).map(({ Message }) => Message)).toEqual([]);
      expect(found.map(({ Message }) => Message).join("\n")).toContain("NumCacheCluster");
    });

    it("grants no unexplained right that cloudsplaining reports, while a planted one is found", async () => {
      const policies = Object.entries(template.Resources).flatMap(([name, { Type, Properties }]) => {
        if (Type === "AWS::IAM::Role")
          return ((Properties["Policies"] ?? []) as readonly { readonly PolicyDocument: unknown }[]).map(({ PolicyDocument }) => [
            name,
            PolicyDocument,
          ]);
        return Type === "AWS::IAM::Policy" || Type === "AWS::IAM::ManagedPolicy" ? [[name, Properties["PolicyDocument"]]] : [];
      });
      expect(policies.length).toBeGreaterThan(8);
      const planted = { Version: "2012-10-17", Statement: [{ Effect: "Allow", Action: "secretsmanager:GetSecretValue", Resource: "*" }] };
      const input = JSON.stringify({ ...Object.fromEntries(policies), planted }, withoutIntrinsics);
      const found = JSON.parse(await run(python, [join(process.cwd(), "test/support/scan-policies.py")], scratch, input)) as Readonly<
        Record<string, Readonly<Record<string, readonly string[]>>>
      >;
      const { planted: seen, ...ours } = found;
      expect(JSON.stringify(seen)).toContain("secretsmanager:GetSecretValue");
      const warned = Object.entries(ours).flatMap(([name, risks]) =>
        Object.values(risks).flatMap((actions: readonly string[]) => actions.map((action) => ({ name, action }))),
      );
      expect(warned.length).toBeGreaterThan(0);
      expect(warned.filter(({ action }) => EXPLAINED[action] === undefined)).toEqual([]);
    });
  });
}

/** Replaces `{ "Fn::GetAtt": … }` by one constant name, and a statement that depends on a condition by the statement. */
function withoutIntrinsics(_: string, value: unknown): unknown {
  const [key, ...others] = typeof value === "object" && value !== null ? Object.keys(value) : [];
  const [, statement] = key === "Fn::If" ? (value as { readonly "Fn::If": readonly unknown[] })["Fn::If"] : []; // CloudFormation's form
  if (typeof statement === "object" && statement !== null && "Effect" in statement) return statement;
  return others.length === 0 && (key === "Ref" || key?.startsWith("Fn::")) ? "arn:aws:service:region:account:one" : value;
}

/** cfn-lint exits with a code other than 0 when it finds something. */
async function run(program: string, parameters: readonly string[], cwd: string, input = ""): Promise<string> {
  const child = spawn(program, parameters, { cwd, stdio: ["pipe", "pipe", "pipe"] });
  let [output, errors] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (errors += text));
  child.stdin.end(input);
  await new Promise((resolve, reject) => child.once("error", reject).once("close", resolve));
  if (output === "") throw new Error(`${program} printed nothing:\n${errors}`);
  return output;
}
