"""CloudEvents in Kafka's binary mode: attributes in headers, the data alone as the value.

They become what structured mode writes by itself, one JSON object with `data` within, so that a
schema reaches both alike: `id`, `source`, `type`, `data.price`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

import msgspec

MARK = "ce_specversion"  # the header that makes a record a CloudEvent in binary mode
_PREFIX = "ce_"
_CONTENT_TYPE = "content-type"
_DATA = ("data", "data_base64")


class Unusable(Exception):
    """A record that cannot be made a line; the reason is for its reject."""


def one_line(value: bytes) -> bytes:
    """JSON over several lines, in one. Newlines between its words mean nothing; within a text they
    are not allowed, and are not made allowed here."""
    if b"\n" not in value:
        return value
    check_json(value)
    return value.replace(b"\n", b" ")


def check_json(value: bytes) -> None:
    try:
        msgspec.json.decode(value)
    except UnicodeDecodeError as error:
        raise Unusable("not valid UTF-8") from error
    except RecursionError as error:
        raise Unusable("JSON nested too deeply") from error
    except msgspec.DecodeError as error:
        raise Unusable(f"not valid JSON: {error}") from error


def structured(headers: Iterable[Mapping[str, object]], value: bytes | None) -> bytes:
    """The JSON object of a binary-mode event; `headers` are Spark's rows of key and value."""
    attributes: dict[str, str] = {}
    content_type = ""
    for header in headers:
        name, text = str(header["key"]), _text(header["value"])
        if name.lower() == _CONTENT_TYPE:
            content_type = text
        elif name.startswith(_PREFIX) and name.removeprefix(_PREFIX) not in _DATA:
            attributes[name.removeprefix(_PREFIX)] = text
    if content_type:
        attributes["datacontenttype"] = content_type
    body = msgspec.json.encode(attributes)
    if value is None:
        return body
    # The data as it is written, not decoded and encoded again: 0.10 stays 0.10.
    return body[:-1] + b"," + _member(content_type, value) + b"}"


def _member(content_type: str, value: bytes) -> bytes:
    if _is_json(content_type):
        # Checked first: data that ends the object early could bring attributes of its own.
        check_json(value)
        return b'"data":' + value.replace(b"\n", b" ")
    try:
        return b'"data":' + msgspec.json.encode(value.decode())
    except UnicodeDecodeError:
        return b'"data_base64":"' + base64.b64encode(value) + b'"'


def _is_json(content_type: str) -> bool:
    """JSON is what CloudEvents assume where nothing is said."""
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or kind.endswith(("/json", "+json"))


def _text(value: object) -> str:
    try:
        return value.decode() if isinstance(value, bytes) else ""
    except UnicodeDecodeError as error:
        raise Unusable("a header is not valid UTF-8") from error
