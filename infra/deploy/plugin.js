/**
 * What osls does not let serverless.yml say: the template's section `Rules`, by which CloudFormation refuses a deployment before it makes
 * anything. They stand in infra/rules.yml. Plain JavaScript, since whichever Node runs osls loads it.
 *
 * Source: osls lib/config-schema.js has no `Rules` below `resources`.
 */
// oxlint-disable-next-line import/no-default-export -- osls takes a module's default
export default class Rules {
  /** @param {{ service: { custom: { rules: object }, provider: { compiledCloudFormationTemplate: Record<string, unknown> } } }} serverless */
  constructor({ service }) {
    this.hooks = {
      "after:aws:package:finalize:mergeCustomProviderResources": () => {
        service.provider.compiledCloudFormationTemplate["Rules"] = service.custom.rules;
      },
    };
  }
}
