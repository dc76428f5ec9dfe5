/** Generates infra/queues.yml: the delta queue and a doorbell queue for each controller, each with its dead-letter queue. */
import { DEAD_DELTA_QUEUE, DELTA_QUEUE, DOORBELL_DEAD_QUEUE, DOORBELL_QUEUE } from "@deltaloop/local";
import type { Registry } from "@deltaloop/controllers/registry";
import { doorbells } from "./doorbells.ts";

interface Queue {
  /** Logical id in CloudFormation, without the suffix `Queue`. */
  readonly logical: string;
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  /** Dead-letter queue, and the number of receives after which a message moves there. */
  readonly dead?: { readonly logical: string; readonly maxReceiveCount: string };
  /** Name of the source queue, if this is a dead-letter queue. */
  readonly deadOf?: string;
}

export function queuesYaml(registry: Registry): string {
  const pair = (
    logical: string,
    name: string,
    attributes: Queue["attributes"],
    dead: Queue["attributes"],
    tries: string,
  ): readonly Queue[] => [
    { logical, name, attributes, dead: { logical: `${logical}Dead`, maxReceiveCount: tries } },
    { logical: `${logical}Dead`, name: name.replace(/(\.fifo)?$/, "-dead$1"), attributes: dead, deadOf: name },
  ];
  const queues = [
    ...pair("Deltas", "deltas.fifo", DELTA_QUEUE.attributes, DEAD_DELTA_QUEUE, '"${param:deltasMaxReceiveCount}"'),
    ...doorbells(registry).flatMap(({ name, logical }) =>
      pair(logical, name, DOORBELL_QUEUE.attributes, DOORBELL_DEAD_QUEUE, String(DOORBELL_QUEUE.maxReceiveCount)),
    ),
  ];
  return `# The delta queue, and one doorbell queue per controller, each with its dead-letter queue (informer §10.2, §12.3).
# Dead-letter queues have a longer retention period, since a dead letter of a standard queue keeps its original send time. Queue policies deny
# requests without TLS.
Resources:
${queues.map(queueYaml).join("\n")}`;
}

function queueYaml({ logical, name, attributes, dead, deadOf }: Queue, index: number): string {
  const given = Object.entries(attributes).map(([attribute, value]) => `      ${attribute}: ${value}\n`);
  return `  ${logical}Queue:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: ${queueName(name)}
${given.join("")}${ENCRYPTION}${dead === undefined ? "" : `      RedrivePolicy: { deadLetterTargetArn: !GetAtt ${dead.logical}Queue.Arn, maxReceiveCount: ${dead.maxReceiveCount} }\n`}${
    deadOf === undefined
      ? ""
      : // The ARN is built from the name, since references in both directions would be a circular dependency.
        `      RedriveAllowPolicy:
        redrivePermission: byQueue
        sourceQueueArns: [!Sub "arn:\${AWS::Partition}:sqs:\${AWS::Region}:\${AWS::AccountId}:${queueName(deadOf)}"]
`
  }  ${logical}QueuePolicy:
    Type: AWS::SQS::QueuePolicy
    Properties:
      Queues: [!Ref ${logical}Queue]
      PolicyDocument:
        Version: "2012-10-17"
        Statement:
          - Sid: TlsOnly
            Effect: Deny
            Principal: "*"
            Action: sqs:*
            Resource: !GetAtt ${logical}Queue.Arn
            Condition: ${index === 0 ? '&plain { Bool: { "aws:SecureTransport": "false" } }' : "*plain"}
`;
}

function queueName(name: string): string {
  return `\${self:service}-\${sls:stage}-${name}`;
}

/** With a KMS key, SQS calls KMS once an hour for each role and queue. */
const ENCRYPTION = `      KmsMasterKeyId: !If [UsesKey, !If [MakesKey, !GetAtt Key.Arn, !Ref KeyArn], !Ref AWS::NoValue]
      KmsDataKeyReusePeriodSeconds: !If [UsesKey, 3600, !Ref AWS::NoValue]
      SqsManagedSseEnabled: !If [UsesKey, !Ref AWS::NoValue, true]
`;
