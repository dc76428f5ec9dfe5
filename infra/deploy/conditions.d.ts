/** Types of conditions.js. */
export function applyConditions(
  template: { readonly Resources: object; readonly Outputs?: object; readonly Conditions?: object },
  parameters: Readonly<Record<string, string>>,
): object;
