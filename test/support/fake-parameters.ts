/** Parameter Store over HTTP, in memory: the four actions that the directory of clusters uses. Counts decrypted values. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

interface Asked {
  readonly Path?: string;
  readonly Names?: readonly string[];
  readonly Name?: string;
  readonly Value?: string;
  readonly NextToken?: string;
  readonly WithDecryption?: boolean;
  readonly MaxResults?: number;
}

interface StoredParameter {
  readonly value: string;
  readonly version: number;
  /** Milliseconds after a fixed time. */
  readonly modified?: number;
  /** Values of earlier versions, by number. */
  readonly former?: ReadonlyMap<number, string>;
}

export interface FakeParameters {
  readonly endpoint: string;
  readonly values: Map<string, StoredParameter>;
  /** Names of decrypted values, in order. */
  readonly decrypted: string[];
  /** Actions that are denied. */
  readonly denied: Set<string>;
  /** Parameters whose KMS key is disabled, which fails each call that decrypts one. */
  readonly undecryptable: Set<string>;
  /** Calls `act` with the name of the next written parameter, before it is written. */
  beforeNextPut(act: (name: string) => void): void;
  /** Throttles GetParameters after this number of calls. */
  throttleAfter(calls: number): void;
  stop(): void;
}

export async function startFakeParameters(): Promise<FakeParameters> {
  const values: FakeParameters["values"] = new Map();
  const decrypted: string[] = [];
  const denied = new Set<string>();
  const undecryptable = new Set<string>();
  let puts = 0;
  let unthrottled = Infinity;
  let beforePut: ((name: string) => void) | undefined;
  const answer = (
    action: string,
    { Path, Names = [], Name = "", Value = "", NextToken, WithDecryption, MaxResults = 10 }: Asked,
  ): object => {
    switch (action) {
      case "GetParametersByPath": {
        const all = [...values].filter(([name]) => name.slice(0, name.lastIndexOf("/")) === Path);
        const from = Number(NextToken ?? 0);
        if (WithDecryption === true) decrypted.push(...all.map(([name]) => name));
        const more = all.length > from + MaxResults && { NextToken: String(from + MaxResults) };
        const page = all.slice(from, from + MaxResults);
        return { Parameters: page.map(([name, parameter]) => stated(name, parameter, false)), ...more };
      }
      case "GetParameters": {
        const found = Names.flatMap((name) => {
          const [own = "", version] = name.split(":");
          const parameter = values.get(own);
          if (parameter === undefined) return [];
          const former = version === undefined ? parameter.value : parameter.former?.get(Number(version));
          return former === undefined ? [] : [stated(own, { ...parameter, value: former }, WithDecryption === true)];
        });
        if (WithDecryption === true) decrypted.push(...found.map((each) => each.Name));
        return { Parameters: found };
      }
      case "PutParameter": {
        beforePut?.(Name);
        const { version = 0, value = "", former = [] } = values.get(Name) ?? {};
        values.set(Name, { value: Value, version: version + 1, modified: ++puts, former: new Map([...former, [version, value]]) });
        return { Version: version + 1 };
      }
      default:
        for (const name of Names) values.delete(name);
        return { DeletedParameters: Names };
    }
  };
  function refusal(action: string, { Names = [], WithDecryption }: Asked): string | undefined {
    if (denied.has(action)) return "AccessDeniedException";
    if (action !== "GetParameters") return undefined;
    if (WithDecryption === true && Names.some((name) => undecryptable.has(name))) return "InvalidKeyId";
    return unthrottled-- > 0 ? undefined : "ThrottlingException";
  }
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const action = String(request.headers["x-amz-target"]).replace("AmazonSSM.", "");
      const asked = JSON.parse(body) as Asked;
      const code = refusal(action, asked);
      response.writeHead(code === undefined ? 200 : 400, { "content-type": "application/x-amz-json-1.1" });
      response.end(JSON.stringify(code === undefined ? answer(action, asked) : { __type: code }));
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a TCP server has one
  return {
    ...{ endpoint: `http://127.0.0.1:${port}`, values, decrypted, denied, undecryptable },
    beforeNextPut(act) {
      beforePut = (name) => {
        beforePut = undefined;
        act(name);
      };
    },
    throttleAfter: (calls) => void (unthrottled = calls),
    stop: () => void server.close(),
  };
}

function stated(Name: string, { value, version, modified = 0 }: StoredParameter, isDecrypted: boolean) {
  return { Name, Version: version, LastModifiedDate: 1_700_000_000 + modified / 1000, Value: isDecrypted ? value : "ciphertext" };
}
