/**
 * What osls does not let serverless.yml say. The template's section `Rules`, by which CloudFormation refuses a deployment before it makes
 * anything: they stand in infra/rules.yml. And, in stage local alone, a template without what its conditions leave out (conditions.js).
 * Plain JavaScript, since whichever Node runs osls loads it.
 *
 * Source: osls lib/config-schema.js has no `Rules` below `resources`.
 */
import { withoutWhatIsLeftOut } from "./conditions.js";

// oxlint-disable-next-line import/no-default-export -- osls takes a module's default
export default class Stack {
  /** @param {{ service: { custom: { rules: object, leaveOut: boolean }, provider: Record<string, any> } }} serverless */
  constructor({ service }) {
    this.hooks = {
      "after:aws:package:finalize:mergeCustomProviderResources": () => {
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
