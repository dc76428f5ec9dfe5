// D-Bus messages: encoding, decoding and limits.
import { expect, it } from "vitest";
import { decodeMessage, encodeMessage } from "../../../../shared/node-agent/systemd/dbus-message.ts";
import type { DBusMessage } from "../../../../shared/node-agent/systemd/dbus-message.ts";

const CALL: DBusMessage = {
  kind: "call",
  serial: 2,
  path: "/org/freedesktop/systemd1",
  interface: "org.freedesktop.systemd1.Manager",
  member: "StopUnit",
  destination: "org.freedesktop.systemd1",
  signature: "ss",
  body: ["a.slice", "replace"],
};

/** A message that systemd 252 accepted. */
const STOP = `
  6c01000118000000 02000000a0000000 01016f0019000000 2f6f72672f667265 656465736b746f70 2f73797374656d64
  3100000000000000 0201730020000000 6f72672e66726565 6465736b746f702e 73797374656d6431 2e4d616e61676572
  0000000000000000 0301730008000000 53746f70556e6974 0000000000000000 0601730018000000 6f72672e66726565
  6465736b746f702e 73797374656d6431 0000000000000000 0801670002737300 07000000612e736c 6963650007000000
  7265706c61636500`.replaceAll(/\s/gu, "");

it("[node-agent 283] encodes a call as D-Bus specifies", () => {
  const bytes = encodeMessage(CALL).toString("hex");
  expect(bytes).toBe(STOP);
  expect(decodeMessage(Buffer.from(STOP, "hex"))?.message).toEqual(CALL);
});

it("[node-agent 283] decodes one encoded message with values of every type, even if another message follows", () => {
  const properties = [
    ["Description", ["s", "slice ä"]],
    ["Wants", ["as", ["-.slice"]]],
    ["CPUAccounting", ["b", true]],
    ["MemoryMax", ["t", 2n ** 64n - 1n]],
    ["AllowedCPUs", ["ay", [7, 1]]],
  ];
  const message: DBusMessage = { ...CALL, signature: "sa(sv)a(sa(sv))u", body: ["a.slice", properties, [], 7] };
  const bytes = encodeMessage(message);
  expect(decodeMessage(bytes)).toEqual({ message, size: bytes.length });
  expect(decodeMessage(Buffer.concat([bytes, encodeMessage(CALL)]))?.size).toBe(bytes.length);
  for (const length of [0, 15, 16, 100, bytes.length - 1]) expect(decodeMessage(bytes.subarray(0, length)), `${length}`).toBeUndefined();
});

it("[node-agent 283] decodes big-endian messages, which the agent never sends, and types that only systemd sends", () => {
  const body = Buffer.alloc(38);
  body.writeUInt32BE(24, 0); // the length of the dictionary, which begins at byte 8
  body.writeUInt32BE(1, 8);
  body.write("k\0\u0001x\0", 12, "latin1");
  body.writeBigInt64BE(-5n, 24);
  body.writeInt32BE(-7, 32);
  body.writeUInt16BE(9, 36);
  const header = Buffer.from("4204000100000026000000090000000d08016700 07617b73767d697100000000".replaceAll(" ", ""), "hex");
  expect(decodeMessage(Buffer.concat([header, body]))?.message).toEqual({
    kind: "signal",
    serial: 9,
    signature: "a{sv}iq",
    body: [[["k", ["x", -5n]]], -7, 9],
  });
});

it("[node-agent 283] rejects an invalid message", () => {
  expect(() => decodeMessage(Buffer.alloc(32, 0x78))).toThrow("invalid D-Bus message");
});
