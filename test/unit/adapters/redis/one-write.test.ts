// Would catch: a write for each command of one turn, a command that waits past its turn, a cork left on a socket that was replaced.
import { Writable } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import { corkPerTurn, type Corkable } from "../../../../shared/store/redis/one-write.ts";

function setUp() {
  const writes: string[] = [];
  const socket = () =>
    new Writable({
      decodeStrings: false,
      writev: (chunks, done) => {
        writes.push(chunks.map(({ chunk }) => String(chunk)).join(" "));
        done();
      },
    });
  const client = { status: "ready", stream: socket() };
  const before = corkPerTurn(client as unknown as Corkable); // of a socket, what can be written to
  const send = (command: string): void => {
    before();
    client.stream.write(command);
  };
  return { writes, client, socket, send };
}

test("commands of one turn leave in one write, those of the next in another, in their order", async () => {
  const { writes, send } = setUp();
  send("a");
  await Promise.resolve();
  send("b");
  await Promise.resolve().then(() => send("c"));
  await turn();
  expect(writes).toEqual(["a b c"]);
  send("d");
  send("e");
  await turn();
  expect(writes).toEqual(["a b c", "d e"]);
});

test("records that are handled side by side share their writes as long as their answers come together", async () => {
  const { writes, send } = setUp();
  const answers = turn();
  await Promise.all(
    ["x", "y", "z"].map(async (record) => {
      send(`read-${record}`);
      await answers;
      send(`apply-${record}`);
    }),
  );
  await turn();
  expect(writes).toEqual(["read-x read-y read-z", "apply-x apply-y apply-z"]);
});

test("a connection that is replaced within a turn holds nothing back", async () => {
  const { writes, client, socket, send } = setUp();
  send("a");
  const lost = client.stream;
  client.stream = socket();
  send("b");
  await turn();
  expect([lost.writableCorked, client.stream.writableCorked]).toEqual([0, 0]);
  send("c");
  await turn();
  expect(writes.join(" ").split(" ").toSorted()).toEqual(["a", "b", "c"]);
});

test("a connection that is not ready is left alone: its handshake must not wait", async () => {
  const { client, send } = setUp();
  client.status = "connect";
  send("hello");
  expect(client.stream.writableCorked).toBe(0);
  await turn();
});
