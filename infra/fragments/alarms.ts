/**
 * Generates infra/alarms.yml. Each description ends with a link to the alarm's section of docs/guides/troubleshoot.md.
 * Dimensions of deltaloop's own metrics are those that shared/base/emf writes: the labels, and `function`, for a sync the controller's name.
 */
import type { MetricName } from "@deltaloop/base/metrics";
import { functionsOf, pascalCase } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";
import { doorbells } from "./doorbells.ts";

interface AlarmMetric {
  readonly namespace: string;
  readonly metric: string;
  /** Values are YAML. */
  readonly dimensions: Readonly<Record<string, string>>;
  readonly statistic: string;
}

interface Alarm extends AlarmMetric {
  /** Logical id in CloudFormation, without the suffix `Alarm`. */
  readonly logical: string;
  readonly description: string;
  /** Anchor of the section in docs/guides/troubleshoot.md. */
  readonly section: string;
  /** Evaluation periods of one minute each. */
  readonly minutes: number;
  /** Minutes that must breach. Default: all. */
  readonly of?: number;
  readonly beyond: { readonly above: number } | { readonly below: number };
  /** Missing data breaches the threshold, since silence is the fault. */
  readonly silenceBreaches?: true;
  readonly condition?: string;
  /** Metric math on the metric `m` and the others, whose result is compared instead of the metric. */
  readonly expression?: string;
  readonly others?: readonly AlarmMetric[];
}

export function alarmsYaml(registry: Registry): string {
  const alarms = [
    ...[...ofWatcher(), ...ofControllers(registry), ...ofFunctions(registry), ...ofQueues(registry)],
    ...[...ofAll(registry), ...ofStore()],
  ];
  return `# Alarms for the operator; docs/guides/troubleshoot.md has the procedures.
Resources:
${alarms.map(alarmYaml).join("")}`;
}

function ofWatcher(): readonly Alarm[] {
  const lambda = { namespace: "AWS/Lambda", metric: "Invocations", dimensions: { FunctionName: "!Ref SweepLambdaFunction" } };
  return [
    {
      logical: "WatcherSilent",
      // Every lane sends a heartbeat each 15 s, even if the cluster does not change.
      description: "The watcher has sent no message for three minutes, so the cache no longer follows the cluster",
      section: "watcher-silent",
      namespace: "AWS/SQS",
      metric: "NumberOfMessagesSent",
      dimensions: { QueueName: "!GetAtt DeltasQueue.QueueName" },
      statistic: "Sum",
      minutes: 3,
      beyond: { below: 1 },
      silenceBreaches: true,
    },
    {
      logical: "SweepSilent",
      description: "The function sweep has not run for five minutes, so lost doorbells are not sent again and gates are not reported",
      section: "sweep-silent",
      condition: "IsStandard",
      ...lambda,
      statistic: "Sum",
      minutes: 5,
      beyond: { below: 1 },
      silenceBreaches: true,
    },
    {
      logical: "ClustersUnhealthy",
      // One series, however many clusters there are; sweep logs each unhealthy cluster.
      description: "A gate of some cluster has been closed for three minutes, or the function sweep does not run",
      section: "clusters-unhealthy",
      condition: "WritesMetrics",
      namespace: "deltaloop/${sls:stage}",
      metric: "deltaloop_unhealthy_clusters" satisfies MetricName,
      dimensions: { function: "sweep" },
      statistic: "Minimum",
      minutes: 3,
      beyond: { above: 0 },
      silenceBreaches: true,
    },
  ];
}

function ofControllers(registry: Registry): readonly Alarm[] {
  const own = (metric: MetricName, dimensions: Readonly<Record<string, string>>) => ({
    namespace: "deltaloop/${sls:stage}",
    metric,
    dimensions,
    condition: "WatchesEach",
  });
  return doorbells(registry).flatMap(({ name, logical }): readonly Alarm[] => [
    {
      logical: `${logical}GateShut`,
      description: `The gate of the ${logical} controller has been closed, or not reported, for three minutes: the controller gets no keys`,
      section: "gate-closed",
      ...own("deltaloop_gate_open", { function: "sweep", controller: name }),
      statistic: "Minimum",
      minutes: 3,
      beyond: { below: 1 },
      silenceBreaches: true,
    },
    {
      logical: `${logical}GuardStopped`,
      description: `Another controller writes to the ${logical} controller's objects, so deltaloop's controller has stopped`,
      section: "guard-stopped",
      ...own("deltaloop_doorbells_total", { function: name, controller: name, result: "stopped" }),
      statistic: "Sum",
      minutes: 1,
      beyond: { above: 0 },
    },
    {
      logical: `${logical}Unproven`,
      description: `The ${logical} controller syncs no keys, because it cannot verify from the watcher's Lease that this cluster's watcher owns the cache`,
      section: "shared-cache",
      ...own("deltaloop_unproven", { function: name }),
      statistic: "Maximum",
      minutes: 1,
      beyond: { above: 0 },
    },
    // One alarm for each function that syncs the controller's keys, follow-up syncs included.
    ...registry.controllers
      .filter((by) => by.name === name || by.followUps?.includes(name))
      .map((by): Alarm => ({
        logical: `${logical}KeyParked${by.name === name ? "" : `By${pascalCase(by.name)}`}`,
        description: `The ${logical} controller gave up on a key until the next event for it`,
        section: "key-parked",
        ...own("deltaloop_syncs_total", { function: by.name, controller: name, outcome: "drop" }),
        statistic: "Sum",
        minutes: 1,
        beyond: { above: 0 },
      })),
  ]);
}

function ofFunctions(registry: Registry): readonly Alarm[] {
  return functionsOf(registry).flatMap(({ name, logical }): readonly Alarm[] => {
    const dimensions = { FunctionName: `"\${self:service}-\${sls:stage}-${name}"` };
    const one = {
      ...{ namespace: "AWS/Lambda", dimensions, condition: "IsStandard", statistic: "Sum" },
      ...{ minutes: 5, beyond: { above: 0 } },
    } as const;
    return [
      {
        logical: `${logical}Errors`,
        description: `Invocations of ${name} fail`,
        section: "function-errors",
        metric: "Errors",
        of: 3,
        ...one,
      },
      {
        logical: `${logical}Throttles`,
        description: `Lambda throttles ${name}`,
        section: "function-throttles",
        metric: "Throttles",
        ...one,
      },
    ];
  });
}

function ofQueues(registry: Registry): readonly Alarm[] {
  const queue = (logical: string, metric: string) => ({
    namespace: "AWS/SQS",
    metric,
    dimensions: { QueueName: `!GetAtt ${logical}Queue.QueueName` },
  });
  return [
    {
      logical: "DeltasAge",
      description: "Delta messages wait for over 30 s, so the cache lags behind the cluster; the gates close after a minute",
      section: "deltas-late",
      ...queue("Deltas", "ApproximateAgeOfOldestMessage"),
      statistic: "Maximum",
      minutes: 2,
      beyond: { above: 30 },
    },
    {
      logical: "DeltasDead",
      description: "A delta message went to the dead-letter queue; the watcher lists its resource again",
      section: "delta-given-up",
      // A function consumes the message at once, so the queue depth stays 0.
      ...queue("DeltasDead", "NumberOfMessagesReceived"),
      condition: "IsStandard",
      statistic: "Sum",
      minutes: 1,
      beyond: { above: 0 },
    },
    ...doorbells(registry).flatMap(({ logical }): readonly Alarm[] => [
      {
        logical: `${logical}Age`,
        description: `Doorbells of the ${logical} controller wait for over five minutes`,
        section: "doorbells-late",
        ...queue(logical, "ApproximateAgeOfOldestMessage"),
        condition: "IsStandard",
        statistic: "Maximum",
        minutes: 5,
        beyond: { above: 300 },
      },
      {
        logical: `${logical}Dead`,
        description: `A doorbell of the ${logical} controller went to the dead-letter queue after too many receives`,
        section: "doorbell-given-up",
        ...queue(`${logical}Dead`, "ApproximateNumberOfMessagesVisible"),
        condition: "IsStandard",
        statistic: "Maximum",
        minutes: 1,
        beyond: { above: 0 },
      },
    ]),
  ];
}

/** In profile lean: one alarm on the sum of what standard watches one by one. */
function ofAll(registry: Registry): readonly Alarm[] {
  const functions = functionsOf(registry).map(({ name }) => ({
    namespace: "AWS/Lambda",
    metric: "Errors",
    dimensions: { FunctionName: `"\${self:service}-\${sls:stage}-${name}"` },
    statistic: "Sum",
  }));
  const dead = (logical: string, metric: string, statistic: string) => ({
    namespace: "AWS/SQS",
    metric,
    dimensions: { QueueName: `!GetAtt ${logical}DeadQueue.QueueName` },
    statistic,
  });
  const queues = [
    dead("Deltas", "NumberOfMessagesReceived", "Sum"),
    ...doorbells(registry).map(({ logical }) => dead(logical, "ApproximateNumberOfMessagesVisible", "Maximum")),
  ];
  const sum = (logical: string, description: string, section: string, all: readonly AlarmMetric[]): readonly Alarm[] => {
    const [first, ...others] = all;
    if (first === undefined) return [];
    return [
      {
        ...{ logical, description, section, condition: "IsLean", ...first },
        ...{ others, expression: "SUM(METRICS())", beyond: { above: 0 } },
        ...(section === "function-errors" ? { minutes: 5, of: 3 } : { minutes: 1 }),
      },
    ];
  };
  return [
    ...sum("FunctionErrors", "Invocations of a function fail", "function-errors", functions),
    ...sum("MessagesDead", "A message went to a dead-letter queue after too many receives", "doorbell-given-up", queues),
  ];
}

/** Percent of the node's memory; `deltaloop doctor` warns at the same value. */
const MEMORY_PERCENT_MAX = 80;

function ofStore(): readonly Alarm[] {
  const nodes = [
    {
      logical: "RedisFirst",
      namespace: "AWS/ElastiCache",
      dimensions: { CacheClusterId: '!Sub "${Redis}-001"' },
      condition: "MakesValkey",
    },
    {
      logical: "RedisSecond",
      namespace: "AWS/ElastiCache",
      dimensions: { CacheClusterId: '!Sub "${Redis}-002"' },
      condition: "HasSecondNode",
    },
    {
      logical: "RedisThird",
      namespace: "AWS/ElastiCache",
      dimensions: { CacheClusterId: '!Sub "${Redis}-003"' },
      condition: "HasThirdNode",
    },
    { logical: "MemoryDb", namespace: "AWS/MemoryDB", dimensions: { ClusterName: "!Ref MemoryDb" }, condition: "MakesMemoryDb" },
  ] as const;
  return nodes.flatMap(({ logical, ...node }): readonly Alarm[] => [
    {
      logical: `${logical}Memory`,
      description: `The store has less than ${100 - MEMORY_PERCENT_MAX} % of its memory left; it rejects writes when it has none`,
      section: "store-memory",
      ...node,
      metric: "DatabaseMemoryUsagePercentage",
      statistic: "Maximum",
      minutes: 3,
      beyond: { above: MEMORY_PERCENT_MAX },
    },
    {
      logical: `${logical}Evictions`,
      description: "The store evicts keys, although maxmemory-policy must be noeviction",
      section: "store-evictions",
      ...node,
      metric: "Evictions",
      statistic: "Sum",
      minutes: 1,
      beyond: { above: 0 },
    },
    // The role of the first node alone shows every failover: it changes when the node loses the role and when it regains it.
    ...(logical === "RedisFirst" || logical === "MemoryDb"
      ? [
          {
            logical: "StoreFailover".concat(logical === "MemoryDb" ? "MemoryDb" : ""),
            description: "The store has failed over to another node",
            section: "store-failover",
            ...node,
            ...(logical === "RedisFirst" && { condition: "HasSecondNode" }),
            ...(logical === "MemoryDb" && { dimensions: { ClusterName: "!Ref MemoryDb", NodeName: '!Sub "${MemoryDb}-0001-001"' } }),
            metric: "IsMaster",
            expression: "ABS(DIFF(m))",
            statistic: "Maximum" as const,
            minutes: 5,
            of: 1,
            beyond: { above: 0 },
          },
        ]
      : []),
  ]);
}

function alarmYaml(alarm: Alarm): string {
  const { logical, description, section, minutes, of = minutes, beyond, silenceBreaches, condition } = alarm;
  const [operator, threshold] = "above" in beyond ? ["GreaterThan", beyond.above] : ["LessThan", beyond.below];
  return `  ${logical}Alarm:
    Type: AWS::CloudWatch::Alarm
${condition === undefined ? "" : `    Condition: ${condition}\n`}    Properties:
      AlarmDescription: "${description}. What to do: docs/guides/troubleshoot.md#${section}"
${alarm.expression === undefined ? metricYaml(alarm) : mathYaml(alarm, alarm.expression)}      EvaluationPeriods: ${minutes}
      DatapointsToAlarm: ${of}
      Threshold: ${threshold}
      ComparisonOperator: ${operator}Threshold
      TreatMissingData: ${silenceBreaches ? "breaching" : "notBreaching"}
      AlarmActions: ${logical === "WatcherSilent" ? "&actions !If [HasAlarmTopics, !Ref AlarmTopics, !Ref AWS::NoValue]" : "*actions"}
      OKActions: *actions
`;
}

function metricYaml({ namespace, metric, dimensions, statistic }: Alarm): string {
  return `      Namespace: ${namespace}
      MetricName: ${metric}
      Dimensions: ${dimensionsYaml(dimensions)}
      Statistic: ${statistic}
      Period: 60
`;
}

function mathYaml({ others = [], ...first }: Alarm, expression: string): string {
  const metrics = [first, ...others].map(
    ({ namespace, metric, dimensions, statistic }, index) => `        - Id: m${index === 0 ? "" : index}
          ReturnData: false
          MetricStat:
            Metric: { Namespace: ${namespace}, MetricName: ${metric}, Dimensions: ${dimensionsYaml(dimensions)} }
            Stat: ${statistic}
            Period: 60
`,
  );
  return `      Metrics:
        - { Id: changed, Expression: "${expression}", ReturnData: true }
${metrics.join("")}`;
}

function dimensionsYaml(dimensions: Alarm["dimensions"]): string {
  return `[${Object.entries(dimensions)
    .map(([name, value]) => `{ Name: ${name}, Value: ${value} }`)
    .join(", ")}]`;
}
