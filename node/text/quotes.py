"""Separates an English sentence from the foreign words that it quotes, and from names of languages in it.

`verdict` decides how many such words a sentence may have.
"""

import re

_LATIN_NAMES = """
    afrikaans asturianu azərbaycanca bahasa bokmål bosanski brezhoneg castellano català čeština corsu crnogorski cymraeg
    dansk deutsch eesti español esperanto euskara filipino français frysk furlan føroyskt gaeilge gàidhlig galego
    guarani hausa hrvatski igbo ikinyarwanda indonesia íslenska isixhosa isizulu italiano jawa kiswahili kreyòl kurdî
    latina latviešu lëtzebuergesch lietuvių lingala magyar malagasy malti māori melayu nāhuatl nederlands norsk nynorsk
    occitan oromoo oʻzbekcha polski português quechua română runasimi sardu schwiizerdütsch sesotho setswana shona shqip
    slovenčina slovenščina soomaali srpski sunda suomi svenska tagalog tatarça tiếng türkçe türkmençe valencià việt
    vlaams yorùbá
"""
_OTHER_NAMES = """
    ελληνικά беларуская български қазақша кыргызча македонски монгол русский српски тоҷикӣ татарча українська հայերեն
    ქართული עברית ייִדיש العربية اردو فارسی پښتو کوردی ئۇيغۇرچە پنجابی سنڌي हिन्दी हिंदी मराठी नेपाली संस्कृतम् कोंकणी
    অসমীয়া বাংলা ਪੰਜਾਬੀ ગુજરાતી ଓଡ଼ିଆ தமிழ் తెలుగు ಕನ್ನಡ മലയാളം සිංහල ไทย ภาษาไทย ລາວ မြန်မာ ខ្មែរ བོད་སྐད་ አማርኛ ትግርኛ
    中文 汉语 漢語 普通话 國語 粵語 简体中文 繁體中文 日本語 한국어 조선말
"""
LANGUAGES = frozenset((_LATIN_NAMES + _OTHER_NAMES).split())
"""Names of languages, each in its own language."""

MAX_OPENINGS = 30
"""Maximum number of quotation marks and apostrophes in a text that is searched for quotations. The time that the search
takes grows with their number."""

_OPENS = re.compile("[\"'“„«»‹‘`「『]")
_QUOTED = re.compile(
    '"[^"]+"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|»[^«]+«|‹[^›]+›|‘[^’]+’|`[^`]+`|「[^」]+」|『[^』]+』'
    r"|(?<!\w)'(?=\w)(?:[^']|(?<=\w)'(?=\w))+'(?!\w)"
)
_QUOTED_LINE = re.compile("^ {0,3}>.*", re.MULTILINE)
_TOKEN = re.compile(r"[^\s,;:/|()\[\]{}<>.!?\"'“”‘’«»、，。]+")


def opens_few(text: str) -> bool:
    """Return whether a text has quotation marks, but so few that it may be searched for quotations at any length."""
    return 0 < len(_OPENS.findall(text)) <= MAX_OPENINGS


def without_quoted_lines(text: str) -> tuple[str, str]:
    """Return a text without the lines that begin with `>` (block quotes in Markdown and e-mail), and those lines."""
    if not 0 < text.count(">") <= MAX_OPENINGS:
        return text, ""
    return _QUOTED_LINE.sub(" ", text), " ".join(_QUOTED_LINE.findall(text))


def set_apart(window: str, words: list[str] | None = None) -> tuple[str, str] | None:
    """Return a window without its quotations and names of languages, and the quotations; None if it has neither.

    `words`: the words of the window in lower case, if known. Names of languages are looked for only if one is among
    `words`, or if `words` is None.
    """
    names_language = words is None or not LANGUAGES.isdisjoint(words)
    if not names_language and not _OPENS.search(window):
        return None
    quoted = " ".join(_QUOTED.findall(window))
    carrier = _QUOTED.sub(" ", window) if quoted else window
    if names_language:
        carrier = _TOKEN.sub(lambda token: " " if token[0].casefold() in LANGUAGES else token[0], carrier)
    return None if carrier == window else (carrier, quoted)
