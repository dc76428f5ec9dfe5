/**
 * Would catch: a password sent to another registry, a password that is not found for its own registry, a response that is used for too many
 * images or too long, and a misread configuration.
 */
import { describe, expect, it, test } from "vitest";
import {
  credentialsFor,
  durationMs,
  parseDockerConfig,
  parseProviders,
  providerAnswer,
  providerRequest,
  repositoryOf,
  urlsMatch,
} from "../../../../shared/node-agent/kubelet/images/credential-provider.ts";

const ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";
const PROVIDER = {
  name: "ecr-credential-provider",
  apiVersion: "credentialprovider.kubelet.k8s.io/v1",
  matchImages: ["*.dkr.ecr.*.amazonaws.com"],
  defaultCacheMs: 60_000,
  args: [],
  env: {},
};

test.each([
  { image: "web:1", want: "docker.io/library/web" },
  { image: "team/web", want: "docker.io/team/web" },
  { image: "localhost/web", want: "localhost/web" },
  { image: "registry.test:5000/team/web@sha256:0123", want: "registry.test:5000/team/web" },
  { image: "registry.test:5000/team/web:v1@sha256:0123", want: "registry.test:5000/team/web" },
])("[node-agent 444] the repository of $image is $want", ({ image, want }) => expect(repositoryOf(image)).toBe(want));

describe("matching of image patterns [node-agent 444]", () => {
  // Cases of upstream's test of URLsMatch, and others.
  test.each([
    { glob: "*.kubernetes.io", target: "prefix.kubernetes.io", want: true },
    { glob: "prefix.*.io", target: "prefix.kubernetes.io", want: true },
    { glob: "prefix.kubernetes.*", target: "prefix.kubernetes.io", want: true },
    { glob: "*-good.kubernetes.io", target: "prefix-good.kubernetes.io", want: true },
    { glob: "*.*.kubernetes.io", target: "kubernetes.io", want: false },
    { glob: "*.kubernetes.io", target: "kubernetes.io", want: false },
    { glob: "*kubernetes.io", target: "a.kubernetes.io", want: false },
    { glob: "kubernetes.io", target: "kubernetes.com", want: false },
    { glob: "kubernetes.io", target: "kubernetes.io/some/path", want: true },
    { glob: "kubernetes.io/foo", target: "kubernetes.io/bar", want: false },
    { glob: "kubernetes.io/bar", target: "kubernetes.io/bar/baz", want: true },
    { glob: "kubernetes.io:80", target: "kubernetes.io", want: false },
    { glob: "kubernetes.io:80/a", target: "kubernetes.io:80/a/b", want: true },
    { glob: "*.kubernetes.io:8080", target: "prefix.kubernetes.io:80", want: false },
    { glob: "*.dkr.ecr.*.amazonaws.com", target: `${ECR}/team/web`, want: true },
    { glob: "*.dkr.ecr.*.amazonaws.com", target: `${ECR}.evil.test/team/web`, want: false },
    { glob: "*", target: "docker.io/library/web", want: false },
    { glob: "k.io", target: "kxio", want: false },
    { glob: "k?s.io", target: "k8s.io", want: true },
    { glob: "k?.io", target: "k8s.io", want: false },
    { glob: "*?x*y?.io", target: "axbyc.io", want: true },
    { glob: "*?x*y?.io", target: "xbyc.io", want: false },
    { glob: "*a?*a.io", target: "aba.io", want: true },
    { glob: "*a?*a.io", target: "aa.io", want: false },
  ])("pattern $glob matches $target: $want", ({ glob, target, want }) => expect(urlsMatch(glob, target)).toBe(want));
});

test("[node-agent 483] matches a pattern with many asterisks in linear time", () => {
  const begun = performance.now();
  expect(urlsMatch(`${"*a".repeat(7)}*b.test`, `${"a".repeat(60)}.test/x`)).toBe(false);
  expect(performance.now() - begun).toBeLessThan(5_000); // with backtracking, half a minute
});

describe("credentials selected for an image [node-agent 444]", () => {
  const names = (image: string, ...places: readonly string[]): readonly (string | undefined)[] =>
    credentialsFor(repositoryOf(image), [Object.fromEntries(places.map((place) => [place, { username: place, password: "x" }]))]).map(
      ({ username }) => username,
    );

  test.each([
    { image: "r.test/team/web:1", places: ["r.test", "r.test/team", "other.test"], want: ["r.test/team", "r.test"] },
    {
      image: "r.test/team/web:1",
      places: ["https://r.test/v1/team/", "http://r.test/v2/"],
      want: ["https://r.test/v1/team/", "http://r.test/v2/"],
    },
    { image: "r.test/team/web:1", places: ["*.test"], want: ["*.test"] },
    { image: "web", places: ["https://index.docker.io/v1/", "r.test"], want: ["https://index.docker.io/v1/"] },
    { image: "web", places: ["docker.io", "https://index.docker.io/v1/"], want: ["docker.io"] },
    { image: "r.test/web", places: ["https://index.docker.io/v1/"], want: [] },
  ])("selects the credentials for $image from $places", ({ image, places, want }) => expect(names(image, ...places)).toEqual(want));
});

describe("a docker configuration [node-agent 445]", () => {
  const auth = Buffer.from("me:pass:word").toString("base64");
  test.each([
    { form: "config.json", text: `{"auths": {"r.test": {"auth": "${auth}", "username": "no"}}}` },
    { form: ".dockercfg", text: `{"r.test": {"username": "me", "password": "pass:word", "email": "x"}}` },
  ] as const)("parses a docker configuration in the format of $form", ({ form, text }) => {
    expect(parseDockerConfig(text, form)).toEqual({ "r.test": { username: "me", password: "pass:word" } });
  });

  test.each(["{}", "null", `{"auths": null}`, `{"credsStore": "secretservice", "credHelpers": {"r.test": "ecr-login"}}`])(
    "a docker configuration without auths is valid and contains no credentials: %s",
    (text) => expect(parseDockerConfig(text, "config.json")).toEqual({}),
  );

  test.each([
    { name: "text that is not JSON", text: "x" },
    { name: "a value that is not an object", text: "[]" },
    { name: "auths that are not an object", text: `{"auths": []}` },
    { name: "auth without a colon", text: `{"auths": {"r.test": {"auth": "${Buffer.from("me").toString("base64")}"}}}` },
  ])("a docker configuration is rejected: $name", ({ text }) => expect(() => parseDockerConfig(text, "config.json")).toThrow(SyntaxError));
});

describe("the response of a provider [node-agent 446]", () => {
  const repository = `${ECR}/team/web`;
  const answer = (more: object): string =>
    JSON.stringify({
      kind: "CredentialProviderResponse",
      apiVersion: PROVIDER.apiVersion,
      cacheKeyType: "Registry",
      cacheDuration: "12h",
      auth: { "*.dkr.ecr.*.amazonaws.com": { username: "AWS", password: "5ecret" } },
      ...more,
    });

  it("a provider's response is requested in JSON", () => {
    expect(JSON.parse(providerRequest(PROVIDER, repository))).toEqual({
      ...{ kind: "CredentialProviderRequest", apiVersion: PROVIDER.apiVersion, image: repository },
    });
  });

  test.each([
    { name: "a response for a registry", more: {}, want: { cacheKey: ECR, cacheMs: 12 * 3_600_000 } },
    { name: "a response for an image", more: { cacheKeyType: "Image", cacheDuration: "0s" }, want: { cacheKey: repository, cacheMs: 0 } },
    {
      name: "a response for all images, with the configured cache duration",
      more: { cacheKeyType: "Global", cacheDuration: null },
      want: { cacheKey: "<global>", cacheMs: 60_000 },
    },
    { name: "a response without credentials", more: { auth: null }, want: { auth: {} } },
  ])("accepts $name", ({ more, want }) => expect(providerAnswer(answer(more), PROVIDER, repository)).toMatchObject(want));

  test.each([
    { name: "text that is not JSON", text: "5ecret", wrong: "error decoding credential provider plugin response from stdout" },
    {
      name: "another apiVersion",
      text: answer({ apiVersion: "x/v2" }),
      wrong: `expected apiVersion:${PROVIDER.apiVersion}, actual apiVersion:x/v2`,
    },
    { name: "another kind", text: answer({ kind: "Secret" }), wrong: "error decoding" },
    { name: "an invalid cacheKeyType", text: answer({ cacheKeyType: "Pod" }), wrong: "did not return a valid cacheKeyType: Pod" },
    { name: "an invalid cacheDuration", text: answer({ cacheDuration: "soon" }), wrong: "error decoding" },
  ])("a provider's response is rejected without being printed: $name", ({ text, wrong }) => {
    expect(() => providerAnswer(text, PROVIDER, repository)).toThrow(wrong);
    expect(() => providerAnswer(text, PROVIDER, repository)).not.toThrow("5ecret");
  });

  test.each([
    { text: "1h30m", want: 5_400_000 },
    { text: "1.5s", want: 1_500 },
    { text: "5m10ms", want: 300_010 },
    { text: "0", want: 0 },
    { text: "5", want: undefined },
    { text: "-1s", want: undefined },
  ])("a provider's response is cached for $text", ({ text, want }) => expect(durationMs(text)).toBe(want));
});

describe("a CredentialProviderConfig [node-agent 447]", () => {
  const given = { name: "p", apiVersion: "credentialprovider.kubelet.k8s.io/v1", matchImages: ["r.test"], defaultCacheDuration: "1h" };
  const config = (...providers: readonly object[]): object => ({
    apiVersion: "kubelet.config.k8s.io/v1",
    kind: "CredentialProviderConfig",
    providers,
  });

  it("lists programs with their arguments and environment", () => {
    expect(parseProviders(config({ ...given, args: ["get"], env: [{ name: "AWS_PROFILE", value: "x" }] }))).toEqual([
      {
        ...{ name: "p", apiVersion: given.apiVersion, matchImages: ["r.test"], defaultCacheMs: 3_600_000 },
        args: ["get"],
        env: { AWS_PROFILE: "x" },
      },
    ]);
  });

  it("reads null as absence", () => {
    const nulls = { ...given, args: null, env: [null, { name: "A", value: null }], tokenAttributes: null };
    expect(parseProviders(config(nulls))).toEqual([expect.objectContaining({ args: [], env: { "": "", A: "" } })]);
  });

  test.each([
    {
      name: "numbers instead of strings",
      content: config({ ...given, args: [8080], matchImages: [1] }),
      wrong: "providers[0].args[0] is a number, not a string",
    },
    { name: "another kind", content: { ...config(given), kind: "Pod" }, wrong: 'failed to decode "Pod" (wrong Kind)' },
    { name: "another group", content: { ...config(given), apiVersion: "v1" }, wrong: "unexpected Group: v1" },
    { name: "no providers", content: config(), wrong: "at least 1 item in plugins is required" },
    { name: "a path instead of a name", content: config({ ...given, name: "../p" }), wrong: "provider name cannot contain '/'" },
    { name: "a name of two dots", content: config({ ...given, name: ".." }), wrong: "provider name cannot be '..'" },
    {
      name: "an unknown version",
      content: config({ ...given, apiVersion: "x/v1" }),
      wrong: 'providers.apiVersion: Unsupported value: "x/v1"',
    },
    { name: "no matchImages", content: config({ ...given, matchImages: [] }), wrong: "at least 1 item in matchImages is required" },
    {
      name: "no defaultCacheDuration",
      content: config({ ...given, defaultCacheDuration: null }),
      wrong: "providers.defaultCacheDuration: Required value",
    },
    {
      name: "a negative defaultCacheDuration",
      content: config({ ...given, defaultCacheDuration: "-1s" }),
      wrong: "must be greater than or equal to 0",
    },
    {
      name: "tokenAttributes, which are not supported",
      content: config({ ...given, tokenAttributes: {} }),
      wrong: "providers.tokenAttributes: Forbidden",
    },
    { name: "a misspelt field", content: config({ ...given, matchImage: [] }), wrong: 'unknown field "providers[0].matchImage"' },
  ])("a CredentialProviderConfig is rejected: $name", ({ content, wrong }) => expect(() => parseProviders(content)).toThrow(wrong));
});
