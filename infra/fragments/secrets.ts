/** infra/secrets.yml and infra/key.yml: what functions and watcher read at their start, and the key that it is encrypted with. */
import { functionsOf, pascalCase } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";

const KEY = "!If [UsesKey, !If [MakesKey, !GetAtt Key.Arn, !Ref KeyArn], !Ref AWS::NoValue]";

export function secretsYaml(registry: Registry): string {
  const made = (logical: string, name: string, description: string): string => `  ${logical}:
    Type: AWS::SecretsManager::Secret
    Condition: MakesSecrets
    Properties:
      Name: deltaloop/\${sls:stage}/${name}
      Description: ${description}
      KmsKeyId: ${logical === "MacKeySecret" ? `&key ${KEY}` : "*key"}
`;
  const generated = "      GenerateSecretString: { PasswordLength: 64, ExcludePunctuation: true }\n";
  const callers = functionsOf(registry).filter(({ usesKube }) => usesKube);
  return `# Secrets that functions and watcher read at start. The keys are generated here. Credentials for the API server start without
# a value, belong to one function each, and are written by the operator.
Resources:
${made("MacKeySecret", "mac-key", "Signs messages and rows")}${generated}${made("DigestKeySecret", "digest-key", "Digests what must not travel")}${generated}${[
    ...callers.map(({ name }) => name),
    "watcher",
  ]
    .map((name) => made(`${pascalCase(name)}KubeSecret`, `kube/${name}`, `What ${name} shows the API server`))
    .join("")}`;
}

export function keyYaml(registry: Registry): string {
  const functions = functionsOf(registry);
  const roles = (which: typeof functions): string => which.map(({ logical }) => `!Ref ${logical}Role`).join(", ");
  return `# One key for queues, logs, secrets and store; \`remove\` schedules its deletion in thirty days. Roles use it only through SQS and
# Secrets Manager, never by calling KMS directly.
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
          # The AWS default: IAM policies of the account decide. Without it the key could never be changed again.
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
  # Every function reads a queue or secrets.
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
  # Whoever sends needs a data key, too.
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
  # For the role of the watcher, wherever it runs.
  WatcherKeyPolicy:
    Type: AWS::IAM::ManagedPolicy
    Condition: UsesKey
    Properties:
      Description: What deltaloop watch does with the key
      PolicyDocument: { Version: "2012-10-17", Statement: [*decrypt, *generate] }
Outputs:
  WatcherKeyPolicyArn: { Condition: UsesKey, Value: !Ref WatcherKeyPolicy }
`;
}
