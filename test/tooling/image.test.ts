/**
 * The watcher's image, built from small packages. Catches: an image that is not reproducible, an index with wrong digests, unneeded files
 * from Debian, a missing licence, an invalid pin. test/e2e/watcher-image.test.ts builds the image from the real packages and runs it.
 */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import type { Metafile } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { licensesOf } from "../../infra/build/licenses.ts";
import { debianPackages, readPins } from "../../infra/image/debian.ts";
import { dockerfile } from "../../infra/image/dockerfile.ts";
import { buildLabels, imageConfig, IMAGE_NAME } from "../../infra/image/image.ts";
import { gzippedLayer, ociImage, plainLayer, platformsArchive } from "../../infra/image/oci-archive.ts";
import { debianLayer } from "../../infra/image/rootfs.ts";
import { tar } from "../../infra/image/tar.ts";
import type { TarEntry } from "../../infra/image/tar.ts";
import { untar } from "../../infra/image/untar.ts";

const file = (name: string, content = name): TarEntry => ({ kind: "file", name, content: Buffer.from(content) });
const textOf = (entries: readonly TarEntry[], name: string): string => {
  const found = entries.find((entry) => entry.name === name);
  return found?.kind === "file" ? Buffer.from(found.content).toString() : `no file ${name}`;
};

describe("tar", () => {
  it("round-trips entries", () => {
    const entries: readonly TarEntry[] = [
      { kind: "folder", name: "bin", mode: 0o755 },
      { kind: "file", name: "bin/true", content: Buffer.from("x".repeat(513)), mode: 0o755 },
      { kind: "link", name: "bin/yes", target: "true" },
    ];
    expect(untar(tar(entries))).toEqual(entries);
  });

  it("reads names longer than a header holds, in the formats of GNU tar and pax", () => {
    const long = `usr/share/${"n".repeat(120)}`;
    const pax = `${String(long.length + 10)} path=${long}\n`;
    for (const [type, name, content] of [
      ["L", "././@LongLink", `${long}\0`],
      ["x", "PaxHeaders/n", pax],
    ] as const) {
      const archive = tar([file(name, content), file("short", "of it")]);
      archive.write(type, 156, "latin1");
      expect(untar(archive).map((entry) => entry.name)).toEqual([long]);
    }
  });

  it("rejects a truncated archive, and an entry that is neither a file, link nor folder", () => {
    expect(() => untar(tar([file("a")]).subarray(0, 1024))).toThrow("truncated tar archive");
    const device = tar([file("null", "")]);
    device.write("3", 156, "latin1");
    expect(() => untar(device)).toThrow("null has the unsupported type 3");
  });
});

describe("an archive for two architectures", () => {
  const labels = { "org.opencontainers.image.version": "1" };
  const make = async () => {
    const shared = await gzippedLayer([file("shared")]);
    const images = (["amd64", "arm64"] as const).map((architecture) =>
      ociImage({ architecture, entrypoint: ["/x"], labels, user: "65532:65532" }, [plainLayer([file(architecture)]), shared]),
    );
    return platformsArchive("localhost/x:1", images, labels);
  };

  it("the archive is the same in every run", async () => {
    const [one, two] = await Promise.all([make(), make()]);
    expect(one.archive.equals(two.archive)).toBe(true);
    expect(one.digest).toBe(two.digest);
  });

  it("references every blob from its index by a correct digest", async () => {
    const { archive, digest } = await make();
    const entries = untar(archive);
    const blob = (of: string): Buffer => {
      const content = entries.find(({ name }) => name === `blobs/${of.replace(":", "/")}`);
      if (content?.kind !== "file") throw new Error(`no blob ${of}`);
      expect(`sha256:${createHash("sha256").update(content.content).digest("hex")}`).toBe(of);
      return Buffer.from(content.content);
    };
    interface Descriptor {
      readonly digest: string;
      readonly size: number;
      readonly mediaType: string;
      readonly platform?: object;
      readonly annotations?: object;
    }
    const read = (of: string) =>
      JSON.parse(blob(of).toString()) as {
        readonly manifests: readonly Descriptor[];
        readonly config: Descriptor;
        readonly layers: readonly Descriptor[];
        readonly rootfs: { readonly diff_ids: readonly string[] };
      };
    const top = JSON.parse(textOf(entries, "index.json")) as { readonly manifests: readonly Descriptor[] };
    expect(top.manifests).toMatchObject([
      { digest, annotations: { "io.containerd.image.name": "localhost/x:1", "org.opencontainers.image.ref.name": "1" } },
    ]);
    const { manifests } = read(digest);
    expect(manifests.map(({ platform }) => platform)).toEqual([
      { architecture: "amd64", os: "linux" },
      { architecture: "arm64", os: "linux" },
    ]);
    for (const { digest: of } of manifests) {
      const { config, layers } = read(of);
      const contents = layers.map((layer) => {
        expect(blob(layer.digest)).toHaveLength(layer.size);
        return layer.mediaType.endsWith("+gzip") ? gunzipSync(blob(layer.digest)) : blob(layer.digest);
      });
      expect(read(config.digest).rootfs.diff_ids).toEqual(
        contents.map((content) => `sha256:${createHash("sha256").update(content).digest("hex")}`),
      );
    }
    // A blob that several images share occurs only once.
    expect(entries.filter(({ name }) => /^blobs\/sha256\/./.test(name))).toHaveLength(1 + 2 * 3 + 1);
  });
});

describe("Debian's layer", () => {
  const packaged = (name: string, ...entries: readonly TarEntry[]) => ({ name, control: `Package: ${name}\n`, files: tar(entries) });
  const authority = packaged(
    "ca-certificates",
    file("usr/share/ca-certificates/mozilla/A.crt", "A\n"),
    file("usr/share/ca-certificates/mozilla/B.crt", "B\n"),
    file("usr/sbin/update-ca-certificates"),
  );
  const libc = packaged(
    "libc6",
    { kind: "folder", name: "lib" },
    file("lib/x86_64-linux-gnu/libc.so.6"),
    file("usr/lib/x86_64-linux-gnu/gconv/BIG5.so"),
    file("usr/share/doc/libc6/copyright"),
    file("usr/share/doc/libc6/changelog.gz"),
    { kind: "link", name: "lib64/ld-linux-x86-64.so.2", target: "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" },
  );

  it("Debian's layer has only libraries, licences, certificate authorities, accounts and package status, each after its folder", () => {
    const entries = debianLayer([libc, authority]);
    expect(entries.filter(({ kind }) => kind !== "folder").map(({ name }) => name)).toEqual([
      "etc/group",
      "etc/nsswitch.conf",
      "etc/passwd",
      "etc/ssl/certs/ca-certificates.crt",
      "lib/x86_64-linux-gnu/libc.so.6",
      "lib64/ld-linux-x86-64.so.2",
      "usr/share/doc/libc6/copyright",
      "var/lib/dpkg/status.d/ca-certificates",
      "var/lib/dpkg/status.d/libc6",
    ]);
    const seen = new Set(["."]);
    for (const { name } of entries) {
      expect(seen, name).toContain(name.includes("/") ? name.slice(0, name.lastIndexOf("/")) : ".");
      seen.add(name);
    }
    expect(textOf(entries, "etc/ssl/certs/ca-certificates.crt")).toBe("A\nB\n");
    expect(textOf(entries, "etc/passwd")).toContain("nonroot:x:65532:65532:");
  });

  it("rejects a file that two packages contain, and packages without a certificate authority", () => {
    expect(() => debianLayer([libc, authority, { ...libc, name: "libc6-again" }])).toThrow("is also in another package");
    expect(() => debianLayer([libc])).toThrow("contain no certificate authority");
  });
});

describe("the image", () => {
  it("the image is pinned: each Debian package by version and checksums, Node at one version for both architectures", async () => {
    const { packages } = await readPins();
    expect(Object.keys(packages)).toEqual(["base-files", "ca-certificates", "gcc-12-base", "libc6", "libgcc-s1", "libstdc++6"]);
    for (const [name, { version, sha256 }] of Object.entries(packages)) {
      expect(version, name).toMatch(/^\d\S+$/);
      for (const architecture of ["amd64", "arm64"] as const) expect(sha256[architecture], name).toMatch(/^[0-9a-f]{64}$/);
    }
    const lock = JSON.parse(await readFile("package-lock.json", "utf8")) as {
      readonly packages: Readonly<Record<string, { readonly version: string } | undefined>>;
    };
    const [x64, arm64] = ["x64", "arm64"].map((machine) => lock.packages[`node_modules/node-linux-${machine}`]?.version);
    expect(x64).toMatch(/^24\./);
    expect(arm64).toBe(x64);
  });

  it("runs the watcher as an unprivileged user, and is labelled with its commit and SOURCE_DATE_EPOCH", async () => {
    const labels = await buildLabels(process.cwd(), { SOURCE_DATE_EPOCH: "86400" });
    const config = imageConfig("arm64", labels);
    expect(config).toMatchObject({
      architecture: "arm64",
      user: "65532:65532",
      command: ["watch"],
      created: "1970-01-02T00:00:00.000Z",
      labels: { "org.opencontainers.image.title": "deltaloop", "org.opencontainers.image.licenses": "Apache-2.0" },
    });
    // The commit is unknown for files without a Git history.
    const { status, stdout } = spawnSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" });
    const revision = config.labels?.["org.opencontainers.image.revision"];
    expect(revision?.replace(/-dirty$/, "")).toBe(status === 0 ? stdout.trim() : undefined);
    await expect(buildLabels(process.cwd(), { SOURCE_DATE_EPOCH: "today" })).rejects.toThrow("number of seconds");
    expect(imageConfig("amd64")).not.toHaveProperty("created");
  });

  it.each(["watcher.yaml", "token-renewer/cronjob.yaml"])("the image has the name that %s uses", async (file) => {
    expect(await readFile(`infra/manifests/${file}`, "utf8")).toMatch(new RegExp(`^ +image: ${IMAGE_NAME}$`, "m"));
  });

  it("the Dockerfile has the same configuration as the image", () => {
    const config = imageConfig("amd64", { "org.opencontainers.image.revision": "abc" });
    const lines = dockerfile(config).split("\n");
    expect(lines[0]).toBe("FROM scratch");
    for (const line of [
      "USER 65532:65532",
      `ENTRYPOINT ${JSON.stringify(config.entrypoint)}`,
      'CMD ["watch"]',
      ...(config.env ?? []).map((variable) => `ENV ${variable}`),
      ...Object.entries(config.labels ?? {}).map(([name, value]) => `LABEL ${name}=${JSON.stringify(value)}`),
    ])
      expect(lines).toContain(line);
  });
});

describe("the cache of Debian packages", () => {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-cache-"));
  const cached = join(folder, "cache", "deltaloop", "debian");
  const before = { XDG_CACHE_HOME: process.env["XDG_CACHE_HOME"], PATH: process.env["PATH"] };
  afterAll(async () => {
    for (const [name, value] of Object.entries(before))
      if (value === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = value;
    await rm(folder, { recursive: true });
  });

  it("hashes a package on each use, and downloads it again if its content does not match the pinned hash", async () => {
    const tools = join(folder, "bin");
    await mkdir(tools);
    await mkdir(cached, { recursive: true });
    const program = async (name: string, script: string): Promise<void> =>
      await writeFile(join(tools, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    // `apt-get … download` writes the package into the working folder; dpkg-deb prints the contents of the package.
    await program("apt-get", `case "$*" in *download*) printf good > package.deb; echo x >> ${join(folder, "downloads")};; esac`);
    await program("dpkg-deb", 'cat "$2"');
    Object.assign(process.env, { XDG_CACHE_HOME: join(folder, "cache"), PATH: `${tools}:${before.PATH}` });
    const sha256 = createHash("sha256").update("good").digest("hex");
    const pins = { release: "bookworm", packages: { hello: { version: "1.0", sha256: { amd64: sha256, arm64: sha256 } } } };
    const downloads = async (): Promise<number> => (await readFile(join(folder, "downloads"), "utf8")).length / 2;

    expect(await debianPackages("amd64", pins)).toMatchObject([{ name: "hello", control: "good" }]);
    await debianPackages("amd64", pins);
    expect(await downloads()).toBe(1);
    await writeFile(join(cached, `${sha256}.deb`), "evil");
    expect(await debianPackages("amd64", pins)).toMatchObject([{ control: "good" }]);
    expect(await downloads()).toBe(2);
  });
});

describe("licences of a bundle", () => {
  let root: string;
  const packages: Readonly<Record<string, readonly [manifest: object, text?: string]>> = {
    "node_modules/a": [{ name: "a", version: "1.0.0", license: "MIT" }, "Do as you like.\r\n"],
    "node_modules/a/node_modules/@s/b": [{ name: "@s/b", version: "2.0.0", license: "MIT" }, "Do as you like.\n"],
    "node_modules/apache": [{ name: "apache", version: "3.0.0", license: "Apache-2.0" }],
    "node_modules/silent": [{ name: "silent", version: "4.0.0", license: "ISC" }],
  };
  const madeOf = (...paths: readonly string[]): Metafile => ({
    inputs: {},
    outputs: {
      "x.mjs": { bytes: 1, imports: [], exports: [], inputs: Object.fromEntries(paths.map((path) => [path, { bytesInOutput: 1 }])) },
    },
  });
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), "deltaloop-licenses-"));
    await writeFile(join(root, "LICENSE"), "The Apache License");
    for (const [folder, [manifest, text]] of Object.entries(packages)) {
      await mkdir(join(root, folder), { recursive: true });
      await writeFile(join(root, folder, "package.json"), JSON.stringify(manifest));
      if (text !== undefined) await writeFile(join(root, folder, "LICENSE.md"), text);
    }
  });
  afterAll(async () => {
    await rm(root, { recursive: true });
  });

  it("appear once each, below the packages that have them", async () => {
    const metafile = madeOf(
      "shared/x.ts",
      "node_modules/a/index.js",
      "node_modules/a/node_modules/@s/b/index.js",
      "node_modules/apache/lib/x.js",
    );
    const text = await licensesOf(root, metafile);
    expect(text).toMatch(/^a 1\.0\.0 \(MIT\)\n@s\/b 2\.0\.0 \(MIT\)\n-+\nDo as you like\.\n/);
    expect(text).toMatch(/\napache 3\.0\.0 \(Apache-2\.0\)\n-+\nThe Apache License\n$/);
    expect(text.match(/Do as you like/g)).toHaveLength(1);
  });

  it("the build fails when a package has no licence", async () => {
    await expect(licensesOf(root, madeOf("node_modules/silent/index.js"))).rejects.toThrow("no licence or no licence text in silent");
  });
});
