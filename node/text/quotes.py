"""Separates an English sentence from the foreign words it quotes, and from the names of languages in it.

How many such words a sentence may have is in `verdict`.
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
"""The names of languages in these languages."""

MAX_OPENINGS = 30
"""Most quotation marks and apostrophes of a text that is searched for quotations; the time grows with their number."""

_OPENS = re.compile("[\"'“„«»‹‘`「『]")
_QUOTED = re.compile(
    '"[^"]+"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|»[^«]+«|‹[^›]+›|‘[^’]+’|`[^`]+`|「[^」]+」|『[^』]+』'
    r"|(?<!\w)'(?=\w)(?:[^']|(?<=\w)'(?=\w))+'(?!\w)"
)
_QUOTED_LINE = re.compile("^ {0,3}>.*", re.MULTILINE)
_TOKEN = re.compile(r"[^\s,;:/|()\[\]{}<>.!?\"'“”‘’«»、，。]+")


def opens_few(text: str) -> bool:
    """Whether a text has quotation marks, and few enough to search it for quotations at any length."""
    return 0 < len(_OPENS.findall(text)) <= MAX_OPENINGS


def without_quoted_lines(text: str) -> tuple[str, str]:
    """A text without its lines that begin with `>`, as block quotes of Markdown and e-mail do, and these lines."""
    if not 0 < text.count(">") <= MAX_OPENINGS:
        return text, ""
    return _QUOTED_LINE.sub(" ", text), " ".join(_QUOTED_LINE.findall(text))


def set_apart(window: str, words: list[str] | None = None) -> tuple[str, str] | None:
    """A window without its quotations and names of languages, and the quotations; None if it has neither.

    `words`: the words of the window in lower case, if they are known; they save splitting it again.
    """
    names_language = words is None or not LANGUAGES.isdisjoint(words)
    if not names_language and not _OPENS.search(window):
        return None
    quoted = " ".join(_QUOTED.findall(window))
    carrier = _QUOTED.sub(" ", window) if quoted else window
    if names_language:
        carrier = _TOKEN.sub(lambda token: " " if token[0].casefold() in LANGUAGES else token[0], carrier)
    return None if carrier == window else (carrier, quoted)
