"""A registry of one image, as podman pulls from it: files that lie in a folder.

python3 registry.py FOLDER ADDRESS PORT

FOLDER is what `podman save --format docker-dir` makes.  Any name and tag that is asked for is
that image (OCI Distribution Specification, "Pull").
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import List

_BLOB = re.compile(r"/v2/.+/blobs/sha256:([0-9a-f]{64})")
_MANIFEST = re.compile(r"/v2/.+/manifests/.+")


class Registry(BaseHTTPRequestHandler):
    """Answers to one connection."""

    folder = Path()
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """The head of what GET answers."""
        self._answer(with_body=False)

    def do_GET(self) -> None:
        """A manifest or a blob."""
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        blob = _BLOB.fullmatch(self.path)
        if self.path == "/v2/":
            self._send("application/json", None, with_body)
        elif blob:
            self._send("application/octet-stream", self.folder / blob[1], with_body)
        elif _MANIFEST.fullmatch(self.path):
            manifest = self.folder / "manifest.json"
            kind = json.loads(manifest.read_text(encoding="utf-8"))["mediaType"]
            self._send(kind, manifest, with_body)
        else:
            self.send_error(404)

    def _send(self, kind: str, path: Path | None, with_body: bool) -> None:
        if path is not None and not path.is_file():
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(path.stat().st_size if path else 2))
        if path is not None and path.name == "manifest.json":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            self.send_header("Docker-Content-Digest", f"sha256:{digest}")
        self.end_headers()
        if with_body and path is None:
            self.wfile.write(b"{}")
        elif with_body and path is not None:
            with path.open("rb") as file:
                shutil.copyfileobj(file, self.wfile)


def main(words: List[str]) -> None:
    """Serve until it is ended."""
    Registry.folder = Path(words[0])
    ThreadingHTTPServer((words[1], int(words[2])), Registry).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
