/** Generates infra/secrets.yml and infra/key.yml: the secrets of functions and watcher, and the KMS key that encrypts them. */
import { functionsOf, pascalCase } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";

const KEY = "!If [UsesKey, !If [MakesKey, !GetAtt Key.Arn, !Ref KeyArn], !Ref AWS::NoValue]";

export function secretsYaml(registry: Registry): string {
  const made = (logical: string, name: string, description: string, condition = "MakesSecrets"): string => `  ${logical}:
    Type: AWS::SecretsManager::Secret
    Condition: ${condition}
    Properties:
      Name: deltaloop/\${sls:stage}/${name}
      Description: ${description}
      KmsKeyId: ${logical === "MacKeySecret" ? `&key ${KEY}` : "*key"}
`;
  const generated = "      GenerateSecretString: { PasswordLength: 64, ExcludePunctuation: true }\n";
  const callers = functionsOf(registry).filter(({ usesKube }) => usesKube);
  return `# Secrets that functions and watcher read at start. CloudFormation generates the two keys. Each function has its own credential for the
# API server; its secret has no value until the operator writes one. In profile lean it is an SSM parameter, which CloudFormation cannot create,
# and so are those of listed clusters.
Resources:
${made("MacKeySecret", "mac-key", "Signs messages and rows")}${generated}${made("DigestKeySecret", "digest-key", "Digests content that must not leave the cluster")}${generated}${[
    ...callers.map(({ name }) => name),
    "watcher",
  ]
    .map((name) => made(`${pascalCase(name)}KubeSecret`, `kube/${name}`, `Credential of ${name} for the API server`, "MakesKubeSecrets"))
    .join("")}`;
}

export function keyYaml(registry: Registry): string {
  const functions = functionsOf(registry);
  const roles = (which: typeof functions): string => which.map(({ logical }) => `!Ref ${logical}Role`).join(", ");
  return `# One KMS key for queues, logs, secrets and store; \`remove\` schedules its deletion in 30 days. Roles may use it only through SQS and
# Secrets Manager. SSM encrypts parameters, such as credentials of listed clusters, with its own key aws/ssm: deltaloop names no other.
Resources:
  Key:
    Type: AWS::KMS::Key
    Condition: MakesKey
    Properties:
      Description: \${self:service}-\${sls:stage}
      EnableKeyRotation: true
      PendingWindowInDays: 30
      KeyPolicy:
        Version: "2012-10-17"
        Statement:
          # AWS' default statement: IAM policies of the account apply. Without it, no one could change the key.
          - Sid: Account
            Effect: Allow
            Principal: { AWS: !Sub "arn:\${AWS::Partition}:iam::\${AWS::AccountId}:root" }
            Action: kms:*
            Resource: "*"
          - Sid: Logs
            Effect: Allow
            Principal: { Service: !Sub "logs.\${AWS::Region}.amazonaws.com" }
            Action: [kms:Encrypt, kms:Decrypt, kms:ReEncryptFrom, kms:ReEncryptTo, kms:GenerateDataKey, kms:DescribeKey]
            Resource: "*"
            Condition:
              ArnLike:
                kms:EncryptionContext:aws:logs:arn:
                  - !Sub "arn:\${AWS::Partition}:logs:\${AWS::Region}:\${AWS::AccountId}:log-group:/aws/lambda/\${self:service}-\${sls:stage}-*"
                  - !Sub "arn:\${AWS::Partition}:logs:\${AWS::Region}:\${AWS::AccountId}:log-group:/deltaloop/\${sls:stage}/*"
  KeyAlias:
    Type: AWS::KMS::Alias
    Condition: MakesKey
    Properties: { AliasName: "alias/\${self:service}-\${sls:stage}", TargetKeyId: !Ref Key }
  # All functions, since each reads a queue or secrets.
  KeyReaderPolicy:
    Type: AWS::IAM::Policy
    Condition: UsesKey
    Properties:
      PolicyName: read-with-key
      Roles: [${roles(functions)}]
      PolicyDocument:
        Version: "2012-10-17"
        Statement:
          - &decrypt
            Sid: Decrypt
            Effect: Allow
            Action: kms:Decrypt
            Resource: &arn !If [MakesKey, !GetAtt Key.Arn, !Ref KeyArn]
            Condition: { StringEquals: { "kms:ViaService": [!Sub "sqs.\${AWS::Region}.amazonaws.com", !Sub "secretsmanager.\${AWS::Region}.amazonaws.com"] } }
  # Senders also need a data key.
  KeySenderPolicy:
    Type: AWS::IAM::Policy
    Condition: UsesKey
    Properties:
      PolicyName: send-with-key
      Roles: [${roles(functions.filter(({ rings }) => rings))}]
      PolicyDocument:
        Version: "2012-10-17"
        Statement:
          - &generate
            Sid: GenerateDataKey
            Effect: Allow
            Action: kms:GenerateDataKey
            Resource: *arn
            Condition: { StringEquals: { "kms:ViaService": !Sub "sqs.\${AWS::Region}.amazonaws.com" } }
  # Attach it to the role of a watcher that runs elsewhere.
  WatcherKeyPolicy:
    Type: AWS::IAM::ManagedPolicy
    Condition: UsesKey
    Properties:
      Description: Use of the KMS key by deltaloop watch
      PolicyDocument: { Version: "2012-10-17", Statement: [*decrypt, *generate] }
  # Attach it in addition to TokenRenewerPolicy. Source: AWS Secrets Manager User Guide, "Secret encryption and decryption".
  TokenRenewerKeyPolicy:
    Type: AWS::IAM::ManagedPolicy
    Condition: UsesKey
    Properties:
      Description: Use of the KMS key by deltaloop rotate tokens
      PolicyDocument:
        Version: "2012-10-17"
        Statement:
          - Sid: EncryptSecrets
            Effect: Allow
            Action: [kms:GenerateDataKey, kms:Decrypt]
            Resource: *arn
            Condition: { StringEquals: { "kms:ViaService": !Sub "secretsmanager.\${AWS::Region}.amazonaws.com" } }
Outputs:
  WatcherKeyPolicyArn: { Condition: UsesKey, Value: !Ref WatcherKeyPolicy }
  TokenRenewerKeyPolicyArn: { Condition: UsesKey, Value: !Ref TokenRenewerKeyPolicy }
`;
}
