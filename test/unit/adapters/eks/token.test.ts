/**
 * Tokens for EKS. Golden values: botocore 1.44.8, with the time and the credentials below, created as in `aws eks get-token`:
 *
 *     signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", Credentials(id, secret, session_token), HierarchicalEmitter())
 *     params = {"method": "GET", "url": f"https://{host}/?Action=GetCallerIdentity&Version=2011-06-15", "body": {},
 *               "headers": {"x-k8s-aws-id": cluster}, "context": {}}
 *     url = signer.generate_presigned_url(params, region_name=region, expires_in=60, operation_name="")
 *     "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
 *
 * Catches: a token that the cluster's authenticator rejects, a new signature for every call, an expired token, and unlimited signing after
 * rejections.
 */
import { describe, expect, it } from "vitest";

import { eksTokens } from "../../../../shared/controllers/lambda/eks/token.ts";

const AT_MS = Date.parse("2026-01-02T03:04:05Z");
const credentials = { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" };

describe("a token for EKS", () => {
  it.each([
    {
      name: "as a user",
      options: { cluster: "prod", region: "eu-central-1", credentials },
      want: "k8s-aws-v1.aHR0cHM6Ly9zdHMuZXUtY2VudHJhbC0xLmFtYXpvbmF3cy5jb20vP0FjdGlvbj1HZXRDYWxsZXJJZGVudGl0eSZWZXJzaW9uPTIwMTEtMDYtMTUmWC1BbXotQWxnb3JpdGhtPUFXUzQtSE1BQy1TSEEyNTYmWC1BbXotQ3JlZGVudGlhbD1BS0lERVhBTVBMRSUyRjIwMjYwMTAyJTJGZXUtY2VudHJhbC0xJTJGc3RzJTJGYXdzNF9yZXF1ZXN0JlgtQW16LURhdGU9MjAyNjAxMDJUMDMwNDA1WiZYLUFtei1FeHBpcmVzPTYwJlgtQW16LVNpZ25lZEhlYWRlcnM9aG9zdCUzQngtazhzLWF3cy1pZCZYLUFtei1TaWduYXR1cmU9OGZiMjEyZjYzMDcxNzdiMjFmNWI5OGU4NDk1NWJhZmE4Y2QzMzdmMzZlNmViMjdlZDRiYjU1MmY0OGZmNDQ5NA",
    },
    {
      name: "as a role, with a session token",
      options: { cluster: "prod", region: "eu-central-1", credentials: { ...credentials, sessionToken: "a session/token+with=signs" } },
      want: "k8s-aws-v1.aHR0cHM6Ly9zdHMuZXUtY2VudHJhbC0xLmFtYXpvbmF3cy5jb20vP0FjdGlvbj1HZXRDYWxsZXJJZGVudGl0eSZWZXJzaW9uPTIwMTEtMDYtMTUmWC1BbXotQWxnb3JpdGhtPUFXUzQtSE1BQy1TSEEyNTYmWC1BbXotQ3JlZGVudGlhbD1BS0lERVhBTVBMRSUyRjIwMjYwMTAyJTJGZXUtY2VudHJhbC0xJTJGc3RzJTJGYXdzNF9yZXF1ZXN0JlgtQW16LURhdGU9MjAyNjAxMDJUMDMwNDA1WiZYLUFtei1FeHBpcmVzPTYwJlgtQW16LVNpZ25lZEhlYWRlcnM9aG9zdCUzQngtazhzLWF3cy1pZCZYLUFtei1TZWN1cml0eS1Ub2tlbj1hJTIwc2Vzc2lvbiUyRnRva2VuJTJCd2l0aCUzRHNpZ25zJlgtQW16LVNpZ25hdHVyZT0wODg4MDJjZjNmY2RiY2VhMzRkMDJmODczNWZiN2M0YTExNjIxOTNhYjEwYWUwOTdmMDQwOWZiZTY5MjA5YTg1",
    },
    {
      name: "in a region of China, which has another domain",
      options: { cluster: "shop", region: "cn-north-1", credentials },
      want: "k8s-aws-v1.aHR0cHM6Ly9zdHMuY24tbm9ydGgtMS5hbWF6b25hd3MuY29tLmNuLz9BY3Rpb249R2V0Q2FsbGVySWRlbnRpdHkmVmVyc2lvbj0yMDExLTA2LTE1JlgtQW16LUFsZ29yaXRobT1BV1M0LUhNQUMtU0hBMjU2JlgtQW16LUNyZWRlbnRpYWw9QUtJREVYQU1QTEUlMkYyMDI2MDEwMiUyRmNuLW5vcnRoLTElMkZzdHMlMkZhd3M0X3JlcXVlc3QmWC1BbXotRGF0ZT0yMDI2MDEwMlQwMzA0MDVaJlgtQW16LUV4cGlyZXM9NjAmWC1BbXotU2lnbmVkSGVhZGVycz1ob3N0JTNCeC1rOHMtYXdzLWlkJlgtQW16LVNpZ25hdHVyZT0zN2YzNmMzYzNiNjg3MDFlOTFkYmJmOTg2Njc5MjRkOTM4YjAyZjViODEyODMxNWZkMDhjYTlhNjIyZDMyNjcz",
    },
  ])("equals the token that botocore signs $name", async ({ options, want }) => {
    expect(await eksTokens({ ...options, now: () => AT_MS })()).toBe(want);
  });

  it("a token for EKS is used for 14 minutes, and renewed once after a 401", async () => {
    let nowMs = AT_MS;
    let signed = 0;
    const token = eksTokens({
      cluster: "prod",
      region: "eu-central-1",
      credentials: () => Promise.resolve({ ...credentials, sessionToken: `session ${++signed}` }),
      now: () => nowMs,
    });
    const first = await token();
    nowMs += 14 * 60_000 - 1;
    expect([await token(), await token("another")]).toEqual([first, first]);
    nowMs += 1;
    const second = await token();
    expect(second).not.toBe(first);
    nowMs += 1_000;
    const third = await token(second);
    expect(third).not.toBe(second);
    expect([await token(second), signed]).toEqual([third, 3]);
  });

  it("a token for EKS is requested again after AWS credentials were missing", async () => {
    let there = false;
    const found = () => (there ? Promise.resolve(credentials) : Promise.reject(new Error("no credentials")));
    const token = eksTokens({ cluster: "prod", region: "eu-central-1", credentials: found, now: () => AT_MS });
    await expect(token()).rejects.toThrow("no credentials");
    there = true;
    expect(await token()).toMatch(/^k8s-aws-v1\.[\w-]+$/);
  });
});
