/** Generates infra/redis-users.yml: the store's users. Each function has its own user and password. */
import { functionsOf, redisAccessOf } from "@deltaloop/controllers/registry";
import type { Registry } from "@deltaloop/controllers/registry";

const STAGE = "${sls:stage}";
const PASSWORD = "GenerateStringKey: password, PasswordLength: 64, ExcludePunctuation: true";

interface User {
  /** Prefix of its logical ids. */
  readonly logical: string;
  readonly id: string;
  readonly secret: string;
  readonly about: string;
  readonly rules: string;
}

export function redisUsersYaml(registry: Registry): string {
  const access = redisAccessOf(registry);
  const users: readonly User[] = [
    {
      logical: "",
      id: `deltaloop-${STAGE}`,
      secret: "redis",
      about: "the watcher and operators",
      rules: `on ~dl:${STAGE}:* resetchannels -@all +@read +@write +@scripting +@connection -@dangerous +info +time +wait +cluster|slots +cluster|shards +cluster|nodes`,
    },
    ...functionsOf(registry).map(({ name, logical, controller }) => ({
      logical,
      id: `dl-${STAGE}-${controller ?? name}`,
      secret: `redis/${name}`,
      about: name,
      rules: access.find((each) => each.name === name)?.rules(STAGE) ?? "",
    })),
  ];
  const refs = (kind: string): string =>
    users
      .map(({ logical }) => (logical === "" ? `!Ref ${kind}` : `!If [MakesFunctionUsers, !Ref ${logical}${kind}, !Ref AWS::NoValue]`))
      .join(", ");
  return `# The store's users: each function has its own commands and keys (shared/controllers/registry/redis-access.ts), the watcher and operators
# all of this deployment's. In profile lean, functions share that user. Secrets exist even with secrets=given: the passwords belong to the store that this stack creates.
Resources:
${users.map(userYaml).join("")}  RedisUsers:
    Type: AWS::ElastiCache::UserGroup
    Condition: MakesElastiCache
    Properties: { UserGroupId: "deltaloop-${STAGE}", Engine: valkey, UserIds: [${refs("RedisUser")}] }
  MemoryDbAcl:
    Type: AWS::MemoryDB::ACL
    Condition: MakesMemoryDb
    Properties: { ACLName: "deltaloop-${STAGE}", UserNames: [${refs("MemoryDbUser")}] }
`;
}

function userYaml({ logical, id, secret, about, rules }: User, index: number): string {
  const key = index === 0 ? "&key !If [UsesKey, !If [MakesKey, !GetAtt Key.Arn, !Ref KeyArn], !Ref AWS::NoValue]" : "*key";
  const password = `AuthenticationMode: { Type: password, Passwords: [!Sub "{{resolve:secretsmanager:\${${logical}RedisSecret}:SecretString:password}}"] }`;
  return `  ${logical}RedisSecret:
    Type: AWS::SecretsManager::Secret
    Condition: ${logical === "" ? "MakesStore" : "MakesFunctionUsers"}
    Properties:
      Name: deltaloop/${STAGE}/${secret}
      Description: User and password of the store for ${about}
      KmsKeyId: ${key}
      GenerateSecretString: { SecretStringTemplate: '{"username":"${id}"}', ${PASSWORD} }
  ${logical}RedisUser:
    Type: AWS::ElastiCache::User
    Condition: ${logical === "" ? "MakesElastiCache" : "MakesElastiCacheUsers"}
    Properties:
      UserId: ${id}
      UserName: ${id}
      Engine: valkey
      AccessString: "${rules}"
      ${password}
  ${logical}MemoryDbUser:
    Type: AWS::MemoryDB::User
    Condition: ${logical === "" ? "MakesMemoryDb" : "MakesMemoryDbUsers"}
    Properties:
      UserName: ${id}
      AccessString: "${rules}"
      ${password}
`;
}
