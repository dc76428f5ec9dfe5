/**
 * What osls does not let serverless.yml say. The template's section `Rules`, by which CloudFormation refuses a deployment before it makes
 * anything: they stand in infra/rules.yml. In stage local alone, a template without what its conditions leave out (conditions.js). And the
 * functions' zips beside the template, where osls looks for what has changed: a deployment without a change then changes nothing, where it
 * would else give every function the same code anew. Plain JavaScript, since whichever Node runs osls loads it.
 *
 * Source: osls lib/config-schema.js has no `Rules` below `resources`; lib/plugins/aws/deploy/lib/check-for-changes.js compares what was
 * uploaded with the zips in .serverless, and with no artifact of a function that stands elsewhere.
 */
import { copyFileSync, mkdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";

import { withoutWhatIsLeftOut } from "./conditions.js";

// oxlint-disable-next-line import/no-default-export -- osls takes a module's default
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
        Object.assign(template, withoutWhatIsLeftOut(template, parameters));
      },
    };
  }
}
