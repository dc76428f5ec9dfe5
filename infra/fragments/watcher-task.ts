/**
 * Generates infra/watcher-task.yml: the watcher as a Fargate service. Other fragments create its network, policies and secrets.
 *
 * Source: CloudFormation's AWS::ECS::TaskDefinition and AWS::ECS::Service; ECS Developer Guide, "Task definition parameters for Fargate".
 */
import { doorbellsVariable } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";
import { NODE_PATH, USER_ID } from "../image/rootfs.ts";

const HEALTH_PORT = 8080;
/** Checks the process only: a new task would not help after the loss of the Lease or while Redis is unreachable (cli/README.md). */
const HEALTH_CHECK = `fetch("http://127.0.0.1:${HEALTH_PORT}/livez").then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))`;
/** A hand-over takes two seconds; the remaining time is for messages in flight to a slow queue. */
const STOP_SECONDS = 30;

/** Variables that the watcher has in common with the functions. */
function sharedVariables({ controllers }: Registry): readonly string[] {
  return [
    ...["DEPLOYMENT", "CLUSTER", "CLUSTERS", "CLUSTERS_ALLOW", "MODE", "GUARD", "MAC_KEY_SECRET", "DIGEST_KEY_SECRET", "SECRETS_SECONDS"],
    ...["REDIS_URL", "REDIS_SECRET", "REDIS_CLUSTER", "REDIS_DURABILITY", "KUBE_SERVER", "KUBE_CA", "KUBE_EKS_CLUSTER"],
    ...["SECRETS_ENDPOINT", "SQS_ENDPOINT", "DELTAS_URL"],
  ]
    .map((name) => `DELTALOOP_${name}`)
    .concat(
      controllers.map(({ name }) => doorbellsVariable(name)),
      "DELTALOOP_LOG_LEVEL",
    );
}

export function watcherTaskYaml(registry: Registry): string {
  const variables = sharedVariables(registry).map(
    (name) => `            - { Name: ${name}, Value: "\${self:provider.environment.${name}}" }\n`,
  );
  return `# The watcher as a Fargate service, created if WatcherImage is set and the stack uses a VPC. In mode act, one of two tasks leads
# (informer §14); profile lean has one task, in the public subnet, which no NAT gateway serves. In mode shadow the watcher takes no Lease, so there is one task, and an update stops it before it starts the next.
Parameters:
  WatcherMode: { Type: String, Default: "\${param:mode}", AllowedValues: [act, shadow], Description: "Mode of the watcher, equal to the functions' mode" }
Conditions:
  RunsWatcherHere: !And [!Condition RunsWatcher, !Condition InVpc]
  WatcherTakesLease: !Equals [!Ref WatcherMode, act]
  HasStandby: !And [!Condition WatcherTakesLease, !Condition IsStandard]
Resources:
  WatcherLogGroup:
    Type: AWS::Logs::LogGroup
    Condition: RunsWatcherHere
    Properties:
      LogGroupName: /deltaloop/\${sls:stage}/watcher
      RetentionInDays: 30
      KmsKeyId: !If [UsesKey, !If [MakesKey, !GetAtt Key.Arn, !Ref KeyArn], !Ref AWS::NoValue]

  WatcherCluster:
    Type: AWS::ECS::Cluster
    Condition: RunsWatcherHere
    Properties:
      ClusterName: \${self:service}-\${sls:stage}

  # Used by ECS to pull the image and write the log.
  WatcherExecutionRole:
    Type: AWS::IAM::Role
    Condition: RunsWatcherHere
    Properties:
      AssumeRolePolicyDocument: &tasks
        Version: "2012-10-17"
        Statement:
          - Effect: Allow
            Principal: { Service: ecs-tasks.amazonaws.com }
            Action: sts:AssumeRole
            Condition: { StringEquals: { "aws:SourceAccount": !Ref AWS::AccountId } }
      Policies:
        - PolicyName: start-watcher
          PolicyDocument:
            Version: "2012-10-17"
            Statement:
              - Sid: Log
                Effect: Allow
                Action: [logs:CreateLogStream, logs:PutLogEvents]
                Resource: !Sub "arn:\${AWS::Partition}:logs:\${AWS::Region}:\${AWS::AccountId}:log-group:/deltaloop/\${sls:stage}/watcher:*"
              # Any repository of this account, since CloudFormation cannot derive a repository's ARN from an image name.
              - Sid: PullImage
                Effect: Allow
                Action: [ecr:BatchGetImage, ecr:GetDownloadUrlForLayer]
                Resource: !Sub "arn:\${AWS::Partition}:ecr:\${AWS::Region}:\${AWS::AccountId}:repository/*"
              # This action takes no resource.
              - Sid: LogInToRegistry
                Effect: Allow
                Action: ecr:GetAuthorizationToken
                Resource: "*"

  # Permissions of the watcher itself; roles.yml has WatcherPolicy.
  WatcherTaskRole:
    Type: AWS::IAM::Role
    Condition: RunsWatcherHere
    Properties:
      AssumeRolePolicyDocument: *tasks
      ManagedPolicyArns: [!Ref WatcherPolicy, !If [UsesKey, !Ref WatcherKeyPolicy, !Ref AWS::NoValue]]

  WatcherTask:
    Type: AWS::ECS::TaskDefinition
    Condition: RunsWatcherHere
    Properties:
      Family: \${self:service}-\${sls:stage}-watcher
      RequiresCompatibilities: [FARGATE]
      NetworkMode: awsvpc
      RuntimePlatform: { CpuArchitecture: ARM64, OperatingSystemFamily: LINUX }
      # 150,000 pods: 192 MB.
      Cpu: "256"
      Memory: "512"
      ExecutionRoleArn: !GetAtt WatcherExecutionRole.Arn
      TaskRoleArn: !GetAtt WatcherTaskRole.Arn
      ContainerDefinitions:
        - Name: watcher
          Image: !Ref WatcherImage
          Essential: true
          Command: [watch, --logging-format=json, "--metrics=127.0.0.1:${HEALTH_PORT}"]
          User: "${USER_ID}:${USER_ID}"
          ReadonlyRootFilesystem: true
          LinuxParameters: { Capabilities: { Drop: [ALL] } }
          StopTimeout: ${STOP_SECONDS}
          # The image has no shell.
          HealthCheck:
            Command: [CMD, ${NODE_PATH}, -e, '${HEALTH_CHECK}']
            Interval: 30
            Timeout: 5
            Retries: 3
            StartPeriod: 60
          # Names of secrets only: the watcher reads the values itself, and again when they change.
          Environment:
${variables.join("")}            - { Name: DELTALOOP_KUBE_SECRET, Value: !If [IsLean, "ssm:/deltaloop/\${sls:stage}/kube/watcher", "deltaloop/\${sls:stage}/kube/watcher"] }
            - { Name: AWS_REGION, Value: !Ref AWS::Region }
          LogConfiguration:
            LogDriver: awslogs
            Options:
              awslogs-group: !Ref WatcherLogGroup
              awslogs-region: !Ref AWS::Region
              awslogs-stream-prefix: watcher

  WatcherService:
    Type: AWS::ECS::Service
    Condition: RunsWatcherHere
    Properties:
      ServiceName: watcher
      Cluster: !Ref WatcherCluster
      TaskDefinition: !Ref WatcherTask
      LaunchType: FARGATE
      DesiredCount: !If [HasStandby, 2, 1]
      DeploymentConfiguration:
        # New tasks start beside the old ones, which then stop and release the Lease.
        MinimumHealthyPercent: !If [WatcherTakesLease, 100, 0]
        MaximumPercent: !If [WatcherTakesLease, 200, 100]
        DeploymentCircuitBreaker: { Enable: true, Rollback: true }
      NetworkConfiguration:
        AwsvpcConfiguration:
          # The public subnet is read from a text that also names its IPv6 block, so that no task starts before the block.
          AssignPublicIp: !If [WatcherInPublic, ENABLED, DISABLED]
          Subnets: !If [WatcherInPublic, [!Select [0, !Split ["|", !Sub "\${PublicSubnet}|\${PublicSubnetIpv6}"]]], !If [OwnVpc, [!Ref SubnetA, !Ref SubnetB], !Ref SubnetIds]]
          SecurityGroups: [!Ref WatcherSecurityGroup]
Outputs:
  WatcherServiceName: { Condition: RunsWatcherHere, Value: !GetAtt WatcherService.Name }
`;
}
