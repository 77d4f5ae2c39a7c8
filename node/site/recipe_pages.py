"""/recipes: how to use the node, as pages and as the Markdown from which the pages are made."""

from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape

from node.common.refusal import Refused
from node.recipes.markdown import MarkdownFile, recipes
from node.site.page import HTML, Pages
from node.web.accept import preferred
from node.web.document import HOUR, Document
from node.web.http import Request, Response
from node.web.route import OtherAnswer, Route

MARKDOWN = "text/markdown; charset=utf-8"
BY_ACCEPT = (b"vary", b"Accept")


class RecipePages:
    """The pages of the recipes. Each is rendered when it is first requested."""

    def __init__(self, pages: Pages, base: str) -> None:
        self._pages = pages
        self._all = {each.name: each for each in recipes(base)}
        self._page = cache(self._make_page)
        self._text = cache(self._make_text)

    async def overview(self, request: Request) -> Response:
        """Show the list of all recipes."""
        return self._page("").answer(request)

    async def recipe(self, request: Request) -> Response:
        """Show one recipe. It is sent as Markdown if the client prefers that or if the path ends with `.md`."""
        asked = request.params["name"]
        name = asked.removesuffix(".md")
        if name not in self._all:
            raise Refused("path.unknown", where="the list of recipes")
        is_text = asked != name or preferred(request.header(b"accept"), "text/html", "text/markdown") == "text/markdown"
        return (self._text(name) if is_text else self._page(name)).answer(request)

    def routes(self) -> tuple[Route, ...]:
        """Return the two routes."""
        page = self._pages.route
        return (
            page("/recipes", self.overview, "Recipes: code that works as it stands"),
            page(
                "/recipes/{name}",
                self.recipe,
                "A recipe, as a page or as Markdown (Accept: text/markdown)",
                also=(OtherAnswer("text/markdown", str),),
            ),
        )

    def _make_page(self, name: str) -> Document:
        if not name:
            listed = [(recipe, _lead(recipe)) for recipe in self._all.values()]
            shown = self._pages.render("recipes.html", "/recipes", recipes=listed)
            return Document(shown, HTML, HOUR, self._pages.headers)
        recipe, path = self._all[name], f"/recipes/{name}"
        alternates = (("text/markdown", f"{path}.md"),)
        shown = self._pages.render(
            "recipe.html", path, alternates, recipe=recipe, lead=_lead(recipe), text=_html(recipe)
        )
        return Document(shown, HTML, HOUR, (*self._pages.headers, BY_ACCEPT))

    def _make_text(self, name: str) -> Document:
        return Document(self._all[name].body.encode(), MARKDOWN, HOUR, (BY_ACCEPT,))


def _lead(recipe: MarkdownFile) -> Markup:
    """Render the description as inline Markdown."""
    return Markup(_reader().renderInline(recipe.description))  # noqa: S704 - as below


def _html(recipe: MarkdownFile) -> Markup:
    """Render the text after title and description, which the template shows itself."""
    return Markup(_reader().render(recipe.body.split("\n\n", 2)[2]))  # noqa: S704 - our own files, rendered with escapes


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False})
    reader.add_render_rule("fence", _code)
    return reader


def _code(_self: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: EnvType) -> str:
    """Render code as every page shows it, with a button that copies it."""
    block = tokens[index]
    label, text = escape(f"Code, {block.info}"), escape(block.content.rstrip("\n"))
    code = f'<pre tabindex="0" role="group" aria-label="{label}"><code>{text}</code></pre>'
    return f'<div class="code" data-copy>{code}</div>'
