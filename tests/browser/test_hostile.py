"""Whatever agents write, a browser runs none of it, loads nothing because of it, and leaves the page unchanged."""

import httpx2
import pytest
from playwright.sync_api import Browser, Page

from tests.artifacts.calls import ARTIFACTS, content_digest, named
from tests.browser.chromium import Tab, tab
from tests.browser.conftest import made
from tests.site.hostile import MARKUP, body, title
from tests.support.servers import until


def unhurt(opened: Tab, path: str) -> Page:
    """Open the page, trigger events on every element, and check that no script ran."""
    page = opened.open(path)
    page.evaluate(
        """() => {
          for (const element of document.querySelectorAll("*"))
            for (const name of ["mouseover", "focus", "load", "error"])
              element.dispatchEvent(new Event(name, { bubbles: true }));
        }"""
    )
    assert page.evaluate("window.hurt") is None
    assert page.url == opened.url + path
    return page


def test_posts_stay_text(browser: Browser, url: str, api: httpx2.Client) -> None:
    with tab(browser, url) as opened:
        for markup in MARKUP:
            name = markup[:200]
            post = {"title": title(markup), "body": body(markup), "author": name}
            thread = made(api.post("/api/v1/board", json=post))
            page = unhurt(opened, f"/board/{thread}")
            assert markup in page.inner_text(".post .text")
            assert markup in page.inner_text("h1")
            assert name in page.inner_text(".post .who")
        for path in ("/", "/board"):
            unhurt(opened, path)


def test_replies_that_arrive_while_one_looks_stay_text(browser: Browser, url: str, api: httpx2.Client) -> None:
    thread = made(api.post("/api/v1/board", json={"title": "What does this text mean?", "body": "Please explain it."}))
    with tab(browser, url) as opened:
        page = opened.open(f"/board/{thread}")
        for markup in MARKUP:
            made(api.post(f"/api/v1/board/{thread}/replies", json={"body": body(markup), "author": markup[:200]}))
        page.wait_for_selector(f"#r{len(MARKUP)}")
        assert page.evaluate("window.hurt") is None
        assert [item.inner_text() for item in page.locator(".reply .text").all()] == [body(markup) for markup in MARKUP]


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_queries_stay_text(browser: Browser, url: str, scripts: bool) -> None:
    with tab(browser, url, scripts=scripts) as opened:
        for markup in MARKUP:
            page = opened.open(f"/board?{httpx2.QueryParams({'q': markup})}")
            assert page.get_by_role("searchbox").input_value() == markup.strip()
            if scripts:
                assert page.evaluate("window.hurt") is None
            page.get_by_role("button", name="Search").click()


DIRECTIVES = {"script": "script-src-elem", "link": "style-src-elem", "img": "img-src"}
UPLOADS = {
    # media type: bytes, and the element and attribute with which a page would use them
    "text/javascript": (b"window.hurt = true", "script", "src"),
    "text/css": (b"body { display: none }", "link", "href"),
    "image/svg+xml": (b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>', "img", "src"),
}
"""Files that a page could load from its own origin and that anybody may upload."""

USE = """([tag, attribute, url]) => new Promise((done) => {
  document.addEventListener("securitypolicyviolation", (event) => done(`refused: ${event.effectiveDirective}`));
  const element = document.createElement(tag);
  element.onload = () => done("loaded");
  element.rel = "stylesheet";
  element[attribute] = url;
  document.head.append(element);
})"""
"""Uses a URL in a page as injected markup would."""


def uploaded(api: httpx2.Client, media_type: str, data: bytes) -> str:
    """Upload an artifact, and return the URL of its bytes."""
    manifest = named(data, media_type=media_type, filename=None)
    artifact = api.post(ARTIFACTS, json=manifest, headers={"content-digest": content_digest(data)}).json()
    assert api.put(artifact["upload_url"], content=data, headers=artifact["upload_headers"]).status_code == 200
    path = f"{ARTIFACTS}/{artifact['id']}"
    api.post(f"{path}/complete")
    until(lambda: api.get(path).json()["status"] == "available", "it is verified")
    return api.get(f"{path}/content").headers["location"]


@pytest.mark.parametrize("media_type", UPLOADS)
def test_what_clients_upload_is_no_part_of_a_page(
    browser: Browser, url: str, api: httpx2.Client, media_type: str
) -> None:
    data, tag, attribute = UPLOADS[media_type]
    blob = uploaded(api, media_type, data)
    assert blob.startswith(f"{url}/blobs/")
    with tab(browser, url) as opened:
        page = opened.open("/")
        assert page.evaluate(USE, [tag, attribute, blob]) == f"refused: {DIRECTIVES[tag]}"
        assert page.evaluate("window.hurt") is None
        assert [line for line in opened.trouble if "Content Security Policy" not in line] == []
        opened.trouble.clear()


def test_a_page_gets_all_of_its_own_files(browser: Browser, url: str) -> None:
    with tab(browser, url) as opened:
        loaded: list[tuple[int, str]] = []
        opened.page.on("response", lambda answer: loaded.append((answer.status, answer.url.removeprefix(url))))
        page = opened.open("/board")
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.fonts.check('1em Archivo')")
        assert page.evaluate("getComputedStyle(document.body).fontFamily").startswith("Archivo")
        assert page.evaluate("document.styleSheets.length") == 1
        assert {status for status, _ in loaded} == {200}
        kinds = {path.rpartition(".")[2] for _, path in loaded if path.startswith("/static/")}
        assert kinds == {"css", "js", "woff2"}
