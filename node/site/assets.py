"""The files of the static folder, under names that contain their digest, so that clients can cache them for ever."""

import hashlib
import re
from pathlib import Path

from node.common.refusal import Refused
from node.web.document import Document
from node.web.http import Request, Response
from node.web.paths import LLMS_TXT
from node.web.route import Operation, Route, routes_of

STATIC = Path(__file__).parent / "static"

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
FOR_EVER = b"public, max-age=31536000, immutable"
NO_CACHE = b"no-cache"
"""A cache may store the answer, but must revalidate it before each use (RFC 9111 §5.2.2.4)."""

_URL = re.compile(rb'url\("([\w.-]+)"\)')


class Assets:
    """The files of a folder, read once."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._names: dict[str, str] = {}
        self._documents: dict[str, Document] = {}
        """Files by name with the digest."""
        self._present: dict[str, Document] = {}
        """Files by name without the digest: the answers to requests with another digest."""
        # Style sheets come last: they name other files, whose digests must be known by then.
        for path in sorted(folder.iterdir(), key=lambda path: (path.suffix == ".css", path.name)):
            if path.suffix in TYPES:
                self._add(path)

    def url(self, name: str, root: str = "") -> str:
        """Return the path of a file, with its digest, for a node at the path `root`. Raises KeyError."""
        return f"{root}/static/{self._names[name]}"

    def document(self, name: str) -> Document | None:
        """Return the file of this name, which contains the digest; None if there is none."""
        return self._documents.get(name)

    @Operation("A file", hidden=True)
    async def send(self, request: Request) -> Response:
        """Send the file. For the digest of another version, send the present file: an older page may ask for that."""
        wanted = request.params["name"]
        stem, _, rest = wanted.partition(".")
        document = self._documents.get(wanted) or self._present.get(f"{stem}.{rest.rpartition('.')[2]}")
        if document is None:
            raise Refused("path.unknown", where=LLMS_TXT)
        return document.answer(request)

    def routes(self) -> tuple[Route, ...]:
        """Return the one route for all files."""
        return routes_of("pages", ("GET", "/static/{name}", self.send))

    def _add(self, path: Path) -> None:
        body = path.read_bytes()
        if path.suffix == ".css":
            body = _URL.sub(lambda match: b'url("%s")' % self._names[match[1].decode()].encode(), body)
        name = f"{path.stem}.{hashlib.sha256(body).hexdigest()[:12]}{path.suffix}"
        self._names[path.name] = name
        self._documents[name] = Document(body, TYPES[path.suffix], FOR_EVER)
        self._present[path.name] = Document(body, TYPES[path.suffix], NO_CACHE)


ASSETS = Assets()
"""The node's own files, which do not change while the node runs."""
