/**
 * Evaluates a template's conditions, as CloudFormation does: removes resources and outputs whose condition is false, and replaces each
 * `Fn::If` by the branch taken. LocalStack needs it: it also evaluates properties of excluded resources, whose functions and attributes it
 * does not all support. Plain JavaScript, like the plugin that calls it.
 *
 * @param {{ Resources: object, Outputs?: object, Conditions?: object }} template
 * @param {Record<string, string>} parameters
 * @returns {object} a copy of the template
 */
export function applyConditions(template, parameters) {
  const { Conditions: conditions = {} } = template;

  function holds(name) {
    if (conditions[name] === undefined) throw new Error(`condition ${name} is not defined`);
    return valueOf(conditions[name]);
  }

  /** Evaluates an expression of a condition. */
  function valueOf(expression) {
    if (typeof expression !== "object") return String(expression);
    const [[name, argument]] = Object.entries(expression);
    switch (name) {
      case "Ref":
        if (parameters[argument] === undefined) throw new Error(`a condition refers to ${argument}, which is not a parameter`);
        return parameters[argument];
      case "Condition":
        return holds(argument);
      case "Fn::Equals":
        return valueOf(argument[0]) === valueOf(argument[1]);
      case "Fn::Not":
        return !valueOf(argument[0]);
      case "Fn::And":
        return argument.every((each) => valueOf(each));
      case "Fn::Or":
        return argument.some((each) => valueOf(each));
      // A list parameter holds its elements as one string.
      case "Fn::Join":
        return valueOf(argument[1]);
      default:
        throw new Error(`unsupported function in a condition: ${name}`);
    }
  }

  function resolved(value) {
    if (Array.isArray(value)) return value.map(resolved);
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value["Fn::If"])) {
      const [condition, then, otherwise] = value["Fn::If"];
      return resolved(holds(condition) ? then : otherwise);
    }
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, resolved(each)]));
  }

  const kept = (section = {}) =>
    Object.fromEntries(
      Object.entries(section).flatMap(([name, each]) =>
        each.Condition === undefined || holds(each.Condition) ? [[name, resolved(each)]] : [],
      ),
    );
  return { ...template, Resources: kept(template.Resources), Outputs: kept(template.Outputs) };
}
