"""Reads pages as a browser would, as far as the tests need it."""

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "circle", "rect", "path", "br", "img", "base"}


class Page(HTMLParser):
    """Elements and text of a page."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._text: list[str] = []
        self._open: list[str] = []
        self.unbalanced: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.unbalanced.append(tag)

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def left_open(self) -> list[str]:
        return self._open

    def all(self, tag: str) -> list[dict[str, str]]:
        """Return the attributes of every element of that name."""
        return [attributes for name, attributes in self.elements if name == tag]

    def links(self) -> list[str]:
        """Return the targets of the page's links."""
        return [attributes["href"] for attributes in self.all("a") if "href" in attributes]

    def landmarks(self) -> list[tuple[str, str]]:
        """Return role and name of the labelled regions and navigations. The name may be the id of the labelling
        element.
        """
        roles = {"section": "region", "nav": "navigation"}
        named = [
            (
                attributes.get("role", roles.get(tag, "")),
                attributes.get("aria-label", attributes.get("aria-labelledby")),
            )
            for tag, attributes in self.elements
        ]
        return [(role, name) for role, name in named if role in roles.values() and name]
