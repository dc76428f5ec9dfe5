/**
 * A template without what its conditions leave out, as AWS would see it: resources and outputs whose condition does not hold are gone, and
 * each `Fn::If` is the branch that is taken. For LocalStack, which looks into properties of resources that it is not to make, and knows neither
 * all functions nor all attributes that stand there. Plain JavaScript, like the plugin that calls it.
 *
 * @param {{ Resources: object, Outputs?: object, Conditions?: object }} template
 * @param {Record<string, string>} parameters
 * @returns {object} a template of its own
 */
export function withoutWhatIsLeftOut(template, parameters) {
  const { Conditions: conditions = {} } = template;

  function holds(name) {
    if (conditions[name] === undefined) throw new Error(`there is no condition ${name}`);
    return valueOf(conditions[name]);
  }

  /** Of an expression in a condition. */
  function valueOf(expression) {
    if (typeof expression !== "object") return String(expression);
    const [[name, argument]] = Object.entries(expression);
    switch (name) {
      case "Ref":
        if (parameters[argument] === undefined) throw new Error(`a condition names ${argument}, which is no parameter`);
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
      // A list stands in its parameter as one text.
      case "Fn::Join":
        return valueOf(argument[1]);
      default:
        throw new Error(`conditions here know no ${name}`);
    }
  }

  function taken(value) {
    if (Array.isArray(value)) return value.map(taken);
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value["Fn::If"])) {
      const [condition, then, otherwise] = value["Fn::If"];
      return taken(holds(condition) ? then : otherwise);
    }
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, taken(each)]));
  }

  const kept = (section = {}) =>
    Object.fromEntries(
      Object.entries(section).flatMap(([name, each]) =>
        each.Condition === undefined || holds(each.Condition) ? [[name, taken(each)]] : [],
      ),
    );
  return { ...template, Resources: kept(template.Resources), Outputs: kept(template.Outputs) };
}
