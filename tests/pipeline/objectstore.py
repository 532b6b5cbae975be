"""An object store on loopback that speaks as much of S3 as pyarrow's client asks of it.

In memory, one bucket per first part of the path, any credentials. What matters is what it is not: a
file system. There are no folders, nothing is renamed, and a file is there when it is complete.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

Query = dict[str, list[str]]
Headers = dict[str, str]


@dataclass
class Objects:
    """By path, with the bucket."""

    whole: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: ClassVar[Objects]

    def log_message(self, *_: object) -> None:
        """Silent."""

    def do_GET(self) -> None:
        path, query = self._asked()
        if "list-type" in query:
            self._answer(200, _listed(self.objects, path, query).encode())
            return
        data = self.objects.whole.get(path)
        if data is None:
            self._missing()
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if found:
            low, high = int(found[1]), min(int(found[2]), len(data) - 1)
            about = {"Content-Range": f"bytes {low}-{high}/{len(data)}"}
            self._answer(206, data[low : high + 1], about)
        else:
            self._answer(200, data)

    def do_HEAD(self) -> None:
        path, _ = self._asked()
        data = self.objects.whole.get(path)
        if data is None and "/" in path:  # any bucket is there
            self._answer(404, b"")
        else:
            self._answer(200, b"", length=len(data or b""))

    def do_PUT(self) -> None:
        path, query = self._asked()
        body = self._body()
        source = self.headers.get("x-amz-copy-source")
        about = {"ETag": '"etag"'}
        with self.objects.lock:
            if "partNumber" in query:
                self.objects.parts[query["uploadId"][0]][int(query["partNumber"][0])] = body
            elif source is not None:
                self.objects.whole[path] = self.objects.whole[unquote(source).lstrip("/")]
                body = b"<CopyObjectResult><ETag>etag</ETag></CopyObjectResult>"
                self._answer(200, body, about)
                return
            elif "/" in path:
                self.objects.whole[path] = body
        self._answer(200, b"", about)

    def do_POST(self) -> None:
        path, query = self._asked()
        body = self._body()
        with self.objects.lock:
            if "uploads" in query:
                upload = f"upload-{len(self.objects.parts)}"
                self.objects.parts[upload] = {}
                text = f"<UploadId>{upload}</UploadId>"
                answer = f"<InitiateMultipartUploadResult>{text}</InitiateMultipartUploadResult>"
            elif "uploadId" in query:
                parts = self.objects.parts[query["uploadId"][0]]
                self.objects.whole[path] = b"".join(parts[number] for number in sorted(parts))
                answer = "<CompleteMultipartUploadResult><ETag>etag</ETag>"
                answer += "</CompleteMultipartUploadResult>"
            else:  # many at once
                for key in re.findall(r"<Key>(.*?)</Key>", body.decode()):
                    self.objects.whole.pop(f"{path}/{key}", None)
                answer = "<DeleteResult></DeleteResult>"
        self._answer(200, answer.encode())

    def do_DELETE(self) -> None:
        path, _ = self._asked()
        with self.objects.lock:
            self.objects.whole.pop(path, None)
        self._answer(204, b"")

    def _asked(self) -> tuple[str, Query]:
        url = urlsplit(self.path)
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        path = f"{bucket}/{key}" if key else bucket
        return path, parse_qs(url.query, keep_blank_values=True)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            data = b"".join(self._chunks())
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            return _unwrapped(data)
        return data

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _missing(self) -> None:
        self._answer(404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>")

    def _answer(
        self, status: int, body: bytes, about: Headers | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/xml", **(about or {})}.items():
            self.send_header(name, value)
        self.send_header("Last-Modified", "Fri, 01 Nov 2024 00:00:00 GMT")
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)


def _unwrapped(data: bytes) -> bytes:
    """Out of chunks, each with its size in front; what follows the last one are checksums."""
    found, at = list[bytes](), 0
    while True:
        line = data.index(b"\r\n", at)
        size = int(data[at:line].split(b";")[0], 16)
        if size == 0:
            return b"".join(found)
        found.append(data[line + 2 : line + 2 + size])
        at = line + 2 + size + 2


def _listed(objects: Objects, bucket: str, query: Query) -> str:
    prefix, delimiter = (query.get(name, [""])[0] for name in ("prefix", "delimiter"))
    keys = [one.partition("/")[2] for one in sorted(objects.whole) if one.startswith(bucket + "/")]
    rows, folders = [], list[str]()
    for key in keys:
        if not key.startswith(prefix):
            continue
        rest = key[len(prefix) :]
        if delimiter and delimiter in rest:
            folders.append(prefix + rest.partition(delimiter)[0] + delimiter)
        else:
            size = len(objects.whole[f"{bucket}/{key}"])
            when = "2024-11-01T00:00:00.000Z"
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size>"
                f"<LastModified>{when}</LastModified></Contents>"
            )
    below = [
        f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>"
        for one in dict.fromkeys(folders)
    ]
    count = len(rows) + len(below)
    return (
        f"<ListBucketResult><KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>"
        f"{''.join(rows)}{''.join(below)}</ListBucketResult>"
    )


@contextmanager
def object_store() -> Iterator[tuple[str, Objects]]:
    """The URI of a folder in it, and what it holds."""
    objects = Objects()
    handler = type("Handler", (_Handler,), {"objects": objects})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        there = f"scheme=http&endpoint_override=127.0.0.1:{server.server_port}&region=us-east-1"
        yield f"s3://me:secret@bucket/store?{there}", objects
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
