// One socket write for the commands of one tick.
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
  const before = corkPerTurn(client as unknown as Corkable); // only the writable half of a socket is used
  const send = (command: string): void => {
    before();
    client.stream.write(command);
  };
  return { writes, client, socket, send };
}

test("sends all commands of one event loop tick in one socket write, in order", async () => {
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

test("concurrent SQS records share socket writes while their responses arrive together", async () => {
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

test("does not delay commands if the connection is replaced within an event loop tick", async () => {
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

test("does not delay the handshake of a connection that is not ready", async () => {
  const { client, send } = setUp();
  client.status = "connect";
  send("hello");
  expect(client.stream.writableCorked).toBe(0);
  await turn();
});
