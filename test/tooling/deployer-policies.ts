/**
 * The IAM actions that a deployment needs for each resource type, from which infra/deployer-policies/ is generated. Not verified in an AWS
 * account. Includes the actions of CloudFormation's handlers that the template's properties and parameters need.
 *
 * Source: AWS Service Authorization Reference; the permissions of the handlers in CloudFormation's resource schemas.
 */

interface Actions {
  /** ARN patterns, after `arn:aws:`; absent if AWS chooses the name or the actions take no resource. */
  readonly arn?: readonly string[];
  readonly actions: readonly string[];
  /** Further actions, which take no resource. */
  readonly unnamed?: readonly string[];
}

const tags = (service: string): readonly string[] => [
  `${service}:TagResource`,
  `${service}:UntagResource`,
  `${service}:ListTagsForResource`,
];
const each = (service: string, verbs: readonly string[], noun: string): readonly string[] =>
  verbs.map((verb) => `${service}:${verb}${noun}`);
const CREATE_DELETE_DESCRIBE = ["Create", "Delete", "Describe"] as const;

const LAMBDA: Actions = {
  arn: ["lambda:*:*:function:deltaloop-*"],
  actions: [
    ...each("lambda", ["Create", "Delete", "Get"], "Function"),
    ...each("lambda", ["GetFunction", "UpdateFunction"], "Configuration"),
    ...each("lambda", ["Get", "Put"], "FunctionRecursionConfig"),
    ...["lambda:UpdateFunctionCode", "lambda:ListVersionsByFunction", "lambda:GetFunctionCodeSigningConfig", "lambda:AddPermission"],
    ...["lambda:RemovePermission", "lambda:GetPolicy", "lambda:TagResource", "lambda:UntagResource", "lambda:ListTags"],
  ],
};
const ROLE: Actions = {
  arn: ["iam::*:role/deltaloop-*", "iam::*:policy/deltaloop-*"],
  actions: [
    ...each("iam", ["Create", "Delete", "Get", "Pass", "Tag", "Untag", "Update"], "Role"),
    ...each("iam", ["Put", "Delete", "Get", "Attach", "Detach"], "RolePolicy"),
    ...each("iam", ["ListRole", "ListAttachedRole"], "Policies"),
    ...["iam:UpdateAssumeRolePolicy", "iam:CreatePolicy", "iam:DeletePolicy", "iam:GetPolicy", "iam:TagPolicy", "iam:UntagPolicy"],
    ...[
      "iam:CreatePolicyVersion",
      "iam:DeletePolicyVersion",
      "iam:GetPolicyVersion",
      "iam:ListPolicyVersions",
      "iam:ListEntitiesForPolicy",
    ],
  ],
};
const BUCKET: Actions = {
  arn: ["s3:::deltaloop-*"],
  actions: [
    ...[
      "s3:CreateBucket",
      "s3:DeleteBucket",
      "s3:ListBucket",
      "s3:ListBucketVersions",
      "s3:GetBucketLocation",
      "s3:GetObject",
      "s3:PutObject",
    ],
    ...["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"],
    ...["s3:GetEncryptionConfiguration", "s3:PutEncryptionConfiguration", "s3:PutBucketPublicAccessBlock", "s3:PutBucketTagging"],
  ],
};
const QUEUE: Actions = {
  arn: ["sqs:*:*:deltaloop-*"],
  actions: [
    "sqs:CreateQueue",
    "sqs:DeleteQueue",
    "sqs:GetQueueUrl",
    "sqs:GetQueueAttributes",
    "sqs:SetQueueAttributes",
    "sqs:TagQueue",
    "sqs:UntagQueue",
    "sqs:ListQueueTags",
  ],
};
const KMS: Actions = {
  actions: [
    ...["kms:CreateKey", "kms:DescribeKey", "kms:PutKeyPolicy", "kms:GetKeyPolicy", "kms:EnableKeyRotation", "kms:GetKeyRotationStatus"],
    ...["kms:ScheduleKeyDeletion", "kms:CreateAlias", "kms:DeleteAlias", "kms:UpdateAlias", "kms:ListAliases", "kms:TagResource"],
    // Logs, secrets and store are encrypted when they are created.
    ...["kms:UntagResource", "kms:ListResourceTags", "kms:CreateGrant", "kms:GenerateDataKey", "kms:Decrypt"],
  ],
};
const rules = (way: string): Actions => ({
  actions: [`ec2:AuthorizeSecurityGroup${way}`, `ec2:RevokeSecurityGroup${way}`, "ec2:DescribeSecurityGroupRules"],
});
const ec2 = (noun: string, ...others: readonly string[]): Actions => ({
  actions: [
    `ec2:Create${noun}`,
    `ec2:Delete${noun}`,
    `ec2:Describe${noun}s`,
    "ec2:CreateTags",
    "ec2:DeleteTags",
    ...others.map((verb) => `ec2:${verb}`),
  ],
});
const store = (service: string, noun: string, ...others: readonly string[]): Actions => ({
  actions: [
    ...each(service, [...CREATE_DELETE_DESCRIBE.slice(0, 2)], noun),
    `${service}:Describe${noun}s`,
    ...others.map((verb) => `${service}:${verb}`),
    "iam:CreateServiceLinkedRole",
  ],
});

const BY_TYPE: Readonly<Record<string, Actions>> = {
  "AWS::S3::Bucket": BUCKET,
  "AWS::S3::BucketPolicy": BUCKET,
  "AWS::Lambda::Function": LAMBDA,
  "AWS::Lambda::Permission": LAMBDA,
  "AWS::Lambda::EventSourceMapping": {
    actions: [...each("lambda", ["Create", "Delete", "Get", "Update"], "EventSourceMapping"), "lambda:ListTags", "lambda:TagResource"],
  },
  "AWS::Logs::LogGroup": {
    arn: ["logs:*:*:log-group:/aws/lambda/deltaloop-*", "logs:*:*:log-group:/deltaloop/*"],
    actions: [
      ...each("logs", ["Create", "Delete"], "LogGroup"),
      ...each("logs", ["Put", "Delete"], "RetentionPolicy"),
      ...each("logs", ["Associate", "Disassociate"], "KmsKey"),
      ...["logs:DescribeLogGroups", ...tags("logs")],
    ],
  },
  "AWS::IAM::Role": ROLE,
  "AWS::IAM::Policy": ROLE,
  "AWS::IAM::ManagedPolicy": ROLE,
  "AWS::Events::Rule": {
    arn: ["events:*:*:rule/deltaloop-*"],
    actions: [
      ...each("events", ["Put", "Delete", "Describe"], "Rule"),
      "events:PutTargets",
      "events:RemoveTargets",
      "events:ListTargetsByRule",
      ...tags("events"),
    ],
  },
  "AWS::SQS::Queue": QUEUE,
  "AWS::SQS::QueuePolicy": QUEUE,
  "AWS::SecretsManager::Secret": {
    arn: ["secretsmanager:*:*:secret:deltaloop/*"],
    actions: [
      ...each("secretsmanager", ["Create", "Delete", "Describe", "Update"], "Secret"),
      ...["secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue", "secretsmanager:TagResource", "secretsmanager:UntagResource"],
      "secretsmanager:GetResourcePolicy",
    ],
    // For GenerateSecretString CloudFormation calls this action before the secret exists.
    unnamed: ["secretsmanager:GetRandomPassword"],
  },
  "AWS::KMS::Key": KMS,
  "AWS::KMS::Alias": KMS,
  "AWS::CloudWatch::Alarm": {
    arn: ["cloudwatch:*:*:alarm:deltaloop-*"],
    actions: ["cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms", "cloudwatch:DescribeAlarms", ...tags("cloudwatch")],
  },
  "AWS::EC2::VPC": ec2("Vpc", "ModifyVpcAttribute", "DescribeVpcAttribute"),
  "AWS::EC2::Subnet": ec2("Subnet", "DescribeAvailabilityZones"),
  "AWS::EC2::RouteTable": ec2("RouteTable"),
  "AWS::EC2::SubnetRouteTableAssociation": {
    actions: ["ec2:AssociateRouteTable", "ec2:DisassociateRouteTable", "ec2:ReplaceRouteTableAssociation"],
  },
  "AWS::EC2::InternetGateway": ec2("InternetGateway"),
  "AWS::EC2::EgressOnlyInternetGateway": ec2("EgressOnlyInternetGateway"),
  "AWS::EC2::VPCCidrBlock": { actions: ["ec2:AssociateVpcCidrBlock", "ec2:DisassociateVpcCidrBlock", "ec2:DescribeVpcs"] },
  "AWS::EC2::SubnetCidrBlock": { actions: ["ec2:AssociateSubnetCidrBlock", "ec2:DisassociateSubnetCidrBlock", "ec2:DescribeSubnets"] },
  "AWS::EC2::VPCGatewayAttachment": { actions: ["ec2:AttachInternetGateway", "ec2:DetachInternetGateway"] },
  "AWS::EC2::Route": { actions: ["ec2:CreateRoute", "ec2:DeleteRoute", "ec2:ReplaceRoute"] },
  "AWS::EC2::EIP": { actions: ["ec2:AllocateAddress", "ec2:ReleaseAddress", "ec2:DescribeAddresses"] },
  "AWS::EC2::NatGateway": ec2("NatGateway"),
  "AWS::EC2::SecurityGroup": ec2("SecurityGroup", "DescribeNetworkInterfaces"),
  "AWS::EC2::SecurityGroupEgress": rules("Egress"),
  "AWS::EC2::SecurityGroupIngress": rules("Ingress"),
  "AWS::EC2::VPCEndpoint": {
    actions: [
      "ec2:CreateVpcEndpoint",
      "ec2:DeleteVpcEndpoints",
      "ec2:ModifyVpcEndpoint",
      "ec2:DescribeVpcEndpoints",
      "ec2:DescribePrefixLists",
    ],
  },
  "AWS::ElastiCache::SubnetGroup": store("elasticache", "CacheSubnetGroup", "ModifyCacheSubnetGroup"),
  "AWS::ElastiCache::ParameterGroup": store("elasticache", "CacheParameterGroup", "ModifyCacheParameterGroup", "DescribeCacheParameters"),
  "AWS::ElastiCache::User": store("elasticache", "User", "ModifyUser"),
  "AWS::ElastiCache::UserGroup": store("elasticache", "UserGroup", "ModifyUserGroup"),
  "AWS::ElastiCache::ReplicationGroup": store(
    "elasticache",
    "ReplicationGroup",
    "ModifyReplicationGroup",
    // These actions change the number of nodes (parameter StoreNodes).
    "IncreaseReplicaCount",
    "DecreaseReplicaCount",
    "DescribeCacheClusters",
    "AddTagsToResource",
    "RemoveTagsFromResource",
    "ListTagsForResource",
  ),
  "AWS::ElastiCache::ServerlessCache": store("elasticache", "ServerlessCache", "ModifyServerlessCache"),
  "AWS::MemoryDB::SubnetGroup": store("memorydb", "SubnetGroup", "UpdateSubnetGroup"),
  "AWS::MemoryDB::ParameterGroup": store("memorydb", "ParameterGroup", "UpdateParameterGroup", "DescribeParameters"),
  "AWS::MemoryDB::User": store("memorydb", "User", "UpdateUser"),
  "AWS::MemoryDB::ACL": store("memorydb", "ACL", "UpdateACL"),
  "AWS::MemoryDB::Cluster": store("memorydb", "Cluster", "UpdateCluster", "TagResource", "UntagResource", "ListTags"),
  "AWS::ECS::Cluster": {
    actions: [
      "ecs:CreateCluster",
      "ecs:DeleteCluster",
      "ecs:UpdateCluster",
      "ecs:DescribeClusters",
      ...tags("ecs"),
      "iam:CreateServiceLinkedRole",
    ],
  },
  "AWS::ECS::TaskDefinition": { actions: ["ecs:RegisterTaskDefinition", "ecs:DeregisterTaskDefinition", "ecs:DescribeTaskDefinition"] },
  "AWS::ECS::Service": {
    actions: [
      "ecs:CreateService",
      "ecs:DeleteService",
      "ecs:UpdateService",
      "ecs:DescribeServices",
      "ecs:ListServiceDeployments",
      "ecs:DescribeServiceDeployments",
    ],
  },
};
const STACK: Actions = {
  arn: ["cloudformation:*:*:stack/deltaloop-*"],
  actions: [
    ...["CreateStack", "UpdateStack", "DeleteStack", "CreateChangeSet", "ExecuteChangeSet", "DeleteChangeSet", "DescribeChangeSet"],
    ...["DescribeStacks", "DescribeStackEvents", "DescribeStackResource", "DescribeStackResources", "ListStackResources", "GetTemplate"],
  ].map((verb) => `cloudformation:${verb}`),
};
const TEMPLATE: Actions = { actions: ["cloudformation:ValidateTemplate"] };

/** Maximum number of characters of a managed policy, without white space. Source: AWS IAM User Guide, IAM and AWS STS quotas. */
export const POLICY_CHARACTERS_MAX = 6_144;

/**
 * Returns the policies for a template with these resource types, as JSON: `named` is restricted to names of deltaloop, `unnamed` covers
 * actions without a known name. A single policy would exceed IAM's size limit.
 *
 * @throws {Error} naming the resource types that the table does not contain
 */
export function deployerPolicies(types: readonly string[]): { readonly named: string; readonly unnamed: string } {
  const unknown = [...new Set(types)].filter((type) => BY_TYPE[type] === undefined);
  if (unknown.length > 0) throw new Error(`test/tooling/deployer-policies.ts lists no IAM actions for ${unknown.join(", ")}`);
  const needed = [...new Set([STACK, TEMPLATE, ...types.flatMap((type) => BY_TYPE[type] ?? [])])];
  const byArn = Map.groupBy(
    needed.filter(({ arn }) => arn !== undefined),
    ({ arn = [] }) => arn.join(),
  );
  const named = [...byArn].map(([arns, all]) =>
    statement(
      all.flatMap(({ actions }) => actions),
      arns.split(",").map((arn) => `arn:aws:${arn}`),
    ),
  );
  const free = needed.flatMap(({ arn, actions, unnamed = [] }) => (arn === undefined ? actions : unnamed));
  return { named: policy(named), unnamed: policy([statement(free, "*")]) };
}

function statement(actions: readonly string[], resource: string | readonly string[]): object {
  return { Effect: "Allow", Action: [...new Set(actions)].toSorted(), Resource: resource };
}

function policy(statements: readonly object[]): string {
  return `${JSON.stringify({ Version: "2012-10-17", Statement: statements }, undefined, 2)}\n`;
}
