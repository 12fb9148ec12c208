"""A request of a browser, from its bytes: what a WSGI application wants to know of it.

Strict, and no more than the page needs: no chunks, no second request on a connection.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from io import BytesIO
from typing import Any, Dict, Optional
from urllib.parse import unquote_to_bytes

HEAD_BYTES_MAX, BODY_BYTES_MAX, HEADERS_MAX = 16384, 4096, 100
END = b"\r\n\r\n"
VERSIONS = (b"HTTP/1.0", b"HTTP/1.1")
# RFC 9110, 5.6.2 and 5.5; a name with "_" could pass for another one's, so it is left out.
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
_ADDRESS = re.compile(rb"/[\x21-\x7e\x80-\xff]*")


class BadRequestError(Exception):
    """A request that is not answered by a page; its text is the one line of the answer."""

    def __init__(self, code: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.code = code


def request_of(received: bytes, address: str) -> Optional[Dict[str, Any]]:
    """The environment (PEP 3333) of what came so far; None while it is not whole.

    Raises BadRequestError.
    """
    end = received.find(END, 0, HEAD_BYTES_MAX)
    if end < 0:
        if len(received) >= HEAD_BYTES_MAX:
            raise BadRequestError(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"
            )
        return None
    environ = _head(received[:end])
    length, body = _length(environ), received[end + len(END):]
    if len(body) < length:
        return None
    environ.update({"REMOTE_ADDR": address, "wsgi.input": BytesIO(body[:length])})
    return environ


def _head(head: bytes) -> Dict[str, Any]:
    first, *lines = head.split(b"\r\n", HEADERS_MAX + 1)
    if len(lines) > HEADERS_MAX:
        raise BadRequestError(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "there are too many headers"
        )
    words = first.split(b" ")
    if len(words) != 3 or words[2] not in VERSIONS or not (
        _NAME.fullmatch(words[0]) and _ADDRESS.fullmatch(words[1])
    ):
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "this is no request of HTTP/1.1")
    path, _, query = words[1].partition(b"?")
    environ: Dict[str, Any] = {
        "REQUEST_METHOD": words[0].decode("ascii"), "QUERY_STRING": query.decode("latin-1"),
        "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
    }
    for line in lines:
        name, colon, value = line.partition(b":")
        if not (colon and _NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise BadRequestError(HTTPStatus.BAD_REQUEST, "a header is malformed")
        if b"_" in name:
            continue
        key = f"HTTP_{name.decode('ascii').upper().replace('-', '_')}"
        text = value.strip(b" \t").decode("latin-1")
        between = "; " if key == "HTTP_COOKIE" else ", "
        environ[key] = f"{environ[key]}{between}{text}" if key in environ else text
    return environ


def _length(environ: Dict[str, Any]) -> int:
    """The bytes of the body.  Raises BadRequestError."""
    if "HTTP_TRANSFER_ENCODING" in environ:
        raise BadRequestError(
            HTTPStatus.LENGTH_REQUIRED, "say with Content-Length how long it is: no chunks here"
        )
    said = environ.pop("HTTP_CONTENT_LENGTH", "0")
    if not said.isdecimal():  # also where it is said twice
        raise BadRequestError(HTTPStatus.BAD_REQUEST, "the Content-Length is malformed")
    if len(said) > 9 or int(said) > BODY_BYTES_MAX:
        raise BadRequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too long")
    environ["CONTENT_LENGTH"] = said
    return int(said)
