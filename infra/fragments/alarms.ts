/**
 * Generates infra/alarms.yml. Each alarm's description ends with the section of docs/guides/troubleshoot.md that says what to do,
 * and where silence is the fault, missing data breaches.
 *
 * Dimensions of our own metrics are those that shared/base/emf writes: `function`, which for a sync is the name of the
 * controller whose function it is, and the labels.
 */
import type { MetricName } from "@deltaloop/base/metrics";
import { functionsOf, pascalCase } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";
import { doorbells } from "./doorbells.ts";

interface Alarm {
  /** In CloudFormation, without `Alarm`. */
  readonly logical: string;
  readonly says: string;
  /** Of the runbook, as GitHub names a heading. */
  readonly section: string;
  readonly namespace: string;
  readonly metric: string;
  /** Value as YAML has it. */
  readonly dimensions: Readonly<Record<string, string>>;
  readonly statistic: "Sum" | "Maximum" | "Minimum";
  /** Minutes that are looked at; all of them must breach, or `of` of them. */
  readonly minutes: number;
  readonly of?: number;
  readonly beyond: { readonly above: number } | { readonly below: number };
  /** Nothing to be seen is the fault. */
  readonly silenceBreaches?: true;
  readonly condition?: string;
  /** CloudWatch's arithmetic on the metric, `m`, instead of the metric. */
  readonly expression?: string;
}

export function alarmsYaml(registry: Registry): string {
  const alarms = [...ofWatcher(), ...ofControllers(registry), ...ofFunctions(registry), ...ofQueues(registry), ...ofStore()];
  return `# Alarms for the operator; docs/guides/troubleshoot.md has the procedures. The sweeper repairs lost doorbells, the watcher repairs gaps.
Resources:
${alarms.map(alarmYaml).join("")}`;
}

function ofWatcher(): readonly Alarm[] {
  const lambda = { namespace: "AWS/Lambda", metric: "Invocations", dimensions: { FunctionName: "!Ref SweepLambdaFunction" } };
  return [
    {
      logical: "WatcherSilent",
      // Every lane has a heartbeat each 15 s, however quiet the cluster is.
      says: "No watcher has sent anything for three minutes",
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
      says: "The sweeper has not run for five minutes, so lost doorbells stay lost and open gates are not reported",
      section: "sweep-silent",
      ...lambda,
      statistic: "Sum",
      minutes: 5,
      beyond: { below: 1 },
      silenceBreaches: true,
    },
  ];
}

function ofControllers(registry: Registry): readonly Alarm[] {
  const own = (metric: MetricName, dimensions: Readonly<Record<string, string>>) => ({
    namespace: "deltaloop/${sls:stage}",
    metric,
    dimensions,
    condition: "WritesMetrics",
  });
  return doorbells(registry).flatMap(({ name, logical }): readonly Alarm[] => [
    {
      logical: `${logical}GateShut`,
      says: `The ${words(logical)} controller has been handed no key for three minutes`,
      section: "gate-shut",
      ...own("deltaloop_gate_open", { function: "sweep", controller: name }),
      statistic: "Minimum",
      minutes: 3,
      beyond: { below: 1 },
      silenceBreaches: true,
    },
    {
      logical: `${logical}GuardStopped`,
      says: `Another controller writes where the ${words(logical)} controller acts, and ours has stopped`,
      section: "guard-stopped",
      ...own("deltaloop_doorbells_total", { function: name, controller: name, result: "stopped" }),
      statistic: "Sum",
      minutes: 1,
      beyond: { above: 0 },
    },
    {
      logical: `${logical}Unproven`,
      says: `Nothing proves that this cluster fills the cache of the ${words(logical)} controller, which reads and writes nothing`,
      section: "shared-cache",
      ...own("deltaloop_unproven", { function: name }),
      statistic: "Maximum",
      minutes: 1,
      beyond: { above: 0 },
    },
    // Whichever function went on to it.
    ...registry.controllers
      .filter((by) => by.name === name || by.followUps?.includes(name))
      .map((by): Alarm => ({
        logical: `${logical}KeyParked${by.name === name ? "" : `By${pascalCase(by.name)}`}`,
        says: `The ${words(logical)} controller has given a key up until its next event`,
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
    const one = { namespace: "AWS/Lambda", dimensions, statistic: "Sum", minutes: 5, beyond: { above: 0 } } as const;
    return [
      { logical: `${logical}Errors`, says: `${name} fails`, section: "function-errors", metric: "Errors", of: 3, ...one },
      { logical: `${logical}Throttles`, says: `${name} is not let run`, section: "function-throttles", metric: "Throttles", ...one },
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
      says: "The index lags behind the cluster, and after a minute the gate shuts",
      section: "deltas-late",
      ...queue("Deltas", "ApproximateAgeOfOldestMessage"),
      statistic: "Maximum",
      minutes: 2,
      beyond: { above: 30 },
    },
    {
      logical: "DeltasDead",
      says: "A delta message was given up, and its resource is listed anew",
      section: "delta-given-up",
      // A function consumes the message at once, so a queue depth would never be visible.
      ...queue("DeltasDead", "NumberOfMessagesReceived"),
      statistic: "Sum",
      minutes: 1,
      beyond: { above: 0 },
    },
    ...doorbells(registry).flatMap(({ logical }): readonly Alarm[] => [
      {
        logical: `${logical}Age`,
        says: `${words(logical)} keys wait for a function`,
        section: "doorbells-late",
        ...queue(logical, "ApproximateAgeOfOldestMessage"),
        statistic: "Maximum",
        minutes: 5,
        beyond: { above: 300 },
      },
      {
        logical: `${logical}Dead`,
        says: `A ${words(logical)} doorbell message was received too often and left its queue`,
        section: "doorbell-given-up",
        ...queue(`${logical}Dead`, "ApproximateNumberOfMessagesVisible"),
        statistic: "Maximum",
        minutes: 1,
        beyond: { above: 0 },
      },
    ]),
  ];
}

/** Percent of its memory; deltaloop doctor warns there, too. */
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
      condition: "MakesValkey",
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
      says: `The store has less than ${100 - MEMORY_PERCENT_MAX} % of its memory left, and refuses writes when it has none`,
      section: "store-memory",
      ...node,
      metric: "DatabaseMemoryUsagePercentage",
      statistic: "Maximum",
      minutes: 3,
      beyond: { above: MEMORY_PERCENT_MAX },
    },
    {
      logical: `${logical}Evictions`,
      says: "The store evicts keys, which it must never do",
      section: "store-evictions",
      ...node,
      metric: "Evictions",
      statistic: "Sum",
      minutes: 1,
      beyond: { above: 0 },
    },
    // Of the first node alone: whenever another takes over it changes, and when it comes back as the primary it changes again.
    ...(logical === "RedisFirst" || logical === "MemoryDb"
      ? [
          {
            logical: "StoreFailover".concat(logical === "MemoryDb" ? "MemoryDb" : ""),
            says: "Another node of the store has become its primary",
            section: "store-failover",
            ...node,
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
  const { logical, says, section, minutes, of = minutes, beyond, silenceBreaches, condition } = alarm;
  const [operator, threshold] = "above" in beyond ? ["GreaterThan", beyond.above] : ["LessThan", beyond.below];
  return `  ${logical}Alarm:
    Type: AWS::CloudWatch::Alarm
${condition === undefined ? "" : `    Condition: ${condition}\n`}    Properties:
      AlarmDescription: "${says}. What to do: docs/guides/troubleshoot.md#${section}"
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

function mathYaml({ namespace, metric, dimensions, statistic }: Alarm, expression: string): string {
  return `      Metrics:
        - { Id: changed, Expression: "${expression}", ReturnData: true }
        - Id: m
          ReturnData: false
          MetricStat:
            Metric: { Namespace: ${namespace}, MetricName: ${metric}, Dimensions: ${dimensionsYaml(dimensions)} }
            Stat: ${statistic}
            Period: 60
`;
}

function dimensionsYaml(dimensions: Alarm["dimensions"]): string {
  return `[${Object.entries(dimensions)
    .map(([name, value]) => `{ Name: ${name}, Value: ${value} }`)
    .join(", ")}]`;
}

/** `replica set` for ReplicaSet. */
function words(logical: string): string {
  return logical.replace(/\B[A-Z]/g, " $&").toLowerCase();
}
