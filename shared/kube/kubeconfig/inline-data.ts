/** Rejects text that is not base64, which Node would accept; line breaks are allowed. Source: Go encoding/json, of []byte. */
export function decoded(field: string, data: string): Buffer {
  const packed = data.replaceAll(/[\r\n]/g, "");
  if (packed.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(packed)) throw new Error(`${field}-data is not base64`);
  return Buffer.from(packed, "base64");
}
