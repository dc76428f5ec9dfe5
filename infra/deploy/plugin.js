/**
 * Adds to the packaged template what serverless.yml cannot express. Plain JavaScript, since any Node may run osls.
 *
 * - The section `Rules` (infra/rules.yml), by which CloudFormation rejects a deployment before it creates anything.
 * - Copies of the functions' zips in .serverless. osls looks for changes only there, and would otherwise update unchanged functions.
 * - In stage local, the evaluated conditions (conditions.js).
 *
 * Source: osls lib/config-schema.js has no `Rules` below `resources`; lib/plugins/aws/deploy/lib/check-for-changes.js compares the uploaded
 * zips only with those in .serverless, not with functions' artifacts elsewhere.
 */
import { copyFileSync, mkdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";

import { applyConditions } from "./conditions.js";

// oxlint-disable-next-line import/no-default-export -- osls loads the default export
export default class Stack {
  /**
   * @param {{ serviceDir: string, service: { custom: { rules: object, leaveOut: boolean }, provider: Record<string, any>,
   *   functions: Record<string, { package: { artifact: string } }> } }} serverless
   */
  constructor({ serviceDir, service }) {
    this.hooks = {
      "after:aws:package:finalize:mergeCustomProviderResources": () => {
        const beside = join(serviceDir, ".serverless");
        mkdirSync(beside, { recursive: true });
        for (const {
          package: { artifact },
        } of Object.values(service.functions))
          copyFileSync(resolve(serviceDir, artifact), join(beside, basename(artifact)));

        const { custom, provider } = service;
        const template = provider.compiledCloudFormationTemplate;
        template["Rules"] = custom.rules;
        if (!custom.leaveOut) return;
        const parameters = Object.fromEntries(
          provider.stackParameters.map(({ ParameterKey, ParameterValue }) => [ParameterKey, String(ParameterValue)]),
        );
        Object.assign(template, applyConditions(template, parameters));
      },
    };
  }
}
