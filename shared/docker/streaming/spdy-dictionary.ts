/** The zlib dictionary of SPDY/3. Source: SPDY draft 3.1, 2.6.10.1 Compression: length-prefixed words, then plain text. */
const WORDS = [
  ..."options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow".split(" "),
  ..."authorization cache-control connection content-base content-encoding content-language content-length".split(" "),
  ..."content-location content-md5 content-range content-type date etag expect expires from host if-match".split(" "),
  ..."if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma".split(" "),
  ..."proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade".split(" "),
  ..."user-agent vary via warning www-authenticate method get status".split(" "),
  "200 OK",
  ..."version HTTP/1.1 url public set-cookie keep-alive origin".split(" "),
];
const TEXT = [
  "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
  "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found",
  "500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec",
  " 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,",
  "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
].join("");

export const DICTIONARY: Buffer = Buffer.concat([
  ...WORDS.map((word) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(word.length);
    return Buffer.concat([length, Buffer.from(word, "latin1")]);
  }),
  Buffer.from(TEXT, "latin1"),
]);
