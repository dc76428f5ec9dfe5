/**
 * The watcher as a service on Fargate, beside the stack's own queues, store and functions (`infra/watcher-task.yml`): two tasks, of which
 * one leads, and all that they need but the network, the policy to send and the secrets, which other fragments make.
 *
 * Source: CloudFormation's AWS::ECS::TaskDefinition and AWS::ECS::Service; ECS Developer Guide, "Task definition parameters for Fargate".
 */
import { doorbellsVariable } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";
import { NODE_PATH, USER_ID } from "../image/rootfs.ts";

const HEALTH_PORT = 8080;
/** Of the process: that its Lease was lost or Redis is away is mended by waiting, not by another task (cli/README.md). */
const HEALTH_CHECK = `fetch("http://127.0.0.1:${HEALTH_PORT}/livez").then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))`;
/** A hand-over takes two seconds; what is on its way to a slow queue is given the rest. */
const STOP_SECONDS = 30;

/** Variables that the functions receive as well. */
function sharedVariables({ controllers }: Registry): readonly string[] {
  return [
    ...["DEPLOYMENT", "CLUSTER", "MODE", "GUARD", "MAC_KEY_SECRET", "DIGEST_KEY_SECRET", "SECRETS_SECONDS"],
    ...["REDIS_URL", "REDIS_SECRET", "REDIS_CLUSTER", "REDIS_DURABILITY", "KUBE_SERVER", "KUBE_CA", "KUBE_EKS_CLUSTER", "DELTAS_URL"],
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
  return `# The watcher as a Fargate service, when WatcherImage names its image and there is a VPC to run it in. Two tasks, of which one leads
# (informer §14); a shadow takes no Lease, so it is one, which ends before the next one begins.
Parameters:
  WatcherMode: { Type: String, Default: "\${param:mode}", AllowedValues: [act, shadow], Description: "As the functions' mode" }
Conditions:
  RunsWatcherHere: !And [!Condition RunsWatcher, !Condition InVpc]
  WatcherTakesLease: !Equals [!Ref WatcherMode, act]
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

  # What ECS does for a task before it runs: its image, its log.
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
              # The image is any of this account's: WatcherImage is a name, from which its repository's ARN cannot be made.
              - Sid: PullImage
                Effect: Allow
                Action: [ecr:BatchGetImage, ecr:GetDownloadUrlForLayer]
                Resource: !Sub "arn:\${AWS::Partition}:ecr:\${AWS::Region}:\${AWS::AccountId}:repository/*"
              # Knows no resource.
              - Sid: LogInToRegistry
                Effect: Allow
                Action: ecr:GetAuthorizationToken
                Resource: "*"

  # What the watcher itself does, wherever it runs: WatcherPolicy (roles.yml).
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
      # 150,000 pods: 192 MB (README, Figures).
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
          # There is no shell in the image.
          HealthCheck:
            Command: [CMD, ${NODE_PATH}, -e, '${HEALTH_CHECK}']
            Interval: 30
            Timeout: 5
            Retries: 3
            StartPeriod: 60
          # Names of secrets, and no secret: the watcher reads them itself, again when they change.
          Environment:
${variables.join("")}            - { Name: DELTALOOP_KUBE_SECRET, Value: "deltaloop/\${sls:stage}/kube/watcher" }
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
      DesiredCount: !If [WatcherTakesLease, 2, 1]
      DeploymentConfiguration:
        # New tasks start beside the old ones, which then stop and release the Lease.
        MinimumHealthyPercent: !If [WatcherTakesLease, 100, 0]
        MaximumPercent: !If [WatcherTakesLease, 200, 100]
        DeploymentCircuitBreaker: { Enable: true, Rollback: true }
      NetworkConfiguration:
        AwsvpcConfiguration:
          AssignPublicIp: DISABLED
          Subnets: !If [OwnVpc, [!Ref SubnetA, !Ref SubnetB], !Ref SubnetIds]
          SecurityGroups: [!Ref WatcherSecurityGroup]
Outputs:
  WatcherServiceName: { Condition: RunsWatcherHere, Value: !GetAtt WatcherService.Name }
`;
}
