"""Characters that are invisible, or visible only as part of others, as contents of character classes of `re`.

Unicode tables that the standard library lacks (emoji, Arabic joining, default ignorables) are written out. The other
classes are computed from `unicodedata`. `readable` and `windows` remove such characters from texts.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import groupby

INVISIBLE = (
    # Characters that a display may leave out (Default_Ignorable_Code_Point), except JOINING and BIDI: soft hyphen,
    # fillers, zero-width spaces, variation selectors. Also blank Braille, annotation marks, and private use.
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u2800\u3164\ue000-\uf8ff"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffc"
)
RARELY_INVISIBLE = "\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
"""Invisible characters beyond U+FFFF: format characters of shorthand and music, tags, private use."""

BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Direction marks, embeddings, overrides, isolates."""

JOINING = "\u200c\u200d\ufe0e\ufe0f"
"""Invisible characters with an effect on words and emoji: ZWNJ, ZWJ, and the selectors of text and emoji form."""

TEXT_PICTURES = (
    # Emoji whose default form is the text form (Emoji, but not Emoji_Presentation).
    "©®‼⁉™ℹ↔-↙↩↪⌨⏏⏭-⏯⏱⏲⏸-⏺Ⓜ▪▫▶◀◻◼☀-☄☎☑☘☝☠☢☣☦☪☮☯☸-☺♀♂♟♠♣♥♦♨♻♾⚒⚔-⚗⚙⚛⚜⚠⚧⚰⚱⛈⛏⛑⛓⛩⛰⛱⛴⛷-⛹✂✈✉✌✍✏✒✔✖✝✡✳✴❄❇❣❤"
    "➡⤴⤵⬅-⬇〰〽㊗㊙🅰🅱🅾🅿🈂🈷🌡🌤-🌬🌶🍽🎖🎗🎙-🎛🎞🎟🏋-🏎🏔-🏟🏳🏵🏷🐿👁📽🕉🕊🕯🕰🕳-🕹🖇🖊-🖍🖐🖥🖨🖱🖲🖼🗂-🗄🗑-🗓🗜-🗞🗡🗣🗨🗯🗳🗺🛋🛍-🛏🛠-🛥🛩🛰🛳"
)
OLD_PICTURES = "⌚⌛⏩-⏬⏰⏳◽◾☔☕♈-♓♿⚓⚡⚪⚫⚽⚾⛄⛅⛎⛔⛪⛲⛳⛵⛺⛽✅✊✋✨❌❎❓-❕❗➕-➗➰➿⬛⬜⭐⭕"
"""Emoji with a text form that is not their default form."""
NEW_PICTURES = "\U0001f000-\U0001faff"
"""The blocks of all other emoji, including code points that are not assigned yet."""
_BEYOND_BMP = "[\U00010000-\U0010ffff]"
PICTURES = re.sub(rf"{_BEYOND_BMP}(?:-{_BEYOND_BMP})?", "", TEXT_PICTURES + OLD_PICTURES) + NEW_PICTURES
"""All emoji, each code point once, because `re` compares a character with members beyond U+FFFF one after the other."""
JOINED_PICTURES = "♀♂⚕⚖⚧✈❄❤☠➡↔↕⬛🌈🌫🌾🍳🍼🎄🎓🎤🎨🏫🏭👦-👩👧💋💥💨💫💻💼🔥🔧🔬🗨🚀🚒🟩🟫🤝🦯🦰-🦳🦺🦼🦽🧑🧒🩰🩹🫲🫯🐰"
"""Emoji that a ZWJ can join to the emoji before it (emoji-zwj-sequences.txt)."""

ARABIC = "\u0620-\u063f\u0641-\u064a\u066e\u066f\u0671-\u06d3\u06d5\u06ee\u06ef\u06fa-\u06fc\u06ff\u0750-\u077f"
ARABIC_JOINED = (
    # Letters that join the next letter (Joining_Type D), so that a ZWNJ between the two is visible (RFC 5892 A.1).
    "\u0620\u0626\u0628\u062a-\u062e\u0633-\u063f\u0641-\u0647\u0649\u064a\u066e\u066f\u0678-\u0687\u069a-\u06bf\u06c1"
    "\u06c2\u06cc\u06ce\u06d0\u06d1\u06fa-\u06fc\u06ff\u0750-\u0758\u075c-\u076a\u076d-\u0770\u0772\u0775-\u0777\u077a-\u077f"
)
INDIC = "\u0900-\u0dff"

_SIGNS = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
"""Visible format characters (Prepended_Concatenation_Mark)."""


def _points(*kinds: str) -> Iterator[int]:
    """Yield the code points of these categories up to U+FFFF, in order. All living scripts are in this range."""
    for kind, first, last in _RUNS:
        if kind in kinds:
            yield from range(first, last)


def _ranges(points: Iterable[int]) -> str:
    """Return the contents of a character class of these code points, which must be in order."""
    spans: list[list[int]] = []
    for point in points:
        if spans and spans[-1][1] == point - 1:
            spans[-1][1] = point
        else:
            spans.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in spans)


def _runs() -> Iterator[tuple[str, int, int]]:
    """Yield runs of characters of one category: the category, the first code point, the code point after the last."""
    first = 0
    for kind, run in groupby(map(unicodedata.category, map(chr, range(0x10000)))):
        last = first + len([*run])
        yield kind, first, last
        first = last


_RUNS = [*_runs()]
_IN_ROWS = ((0x1000, 0x109F), (0x1780, 0x17FF), (0x1A20, 0x1AAF))
"""Scripts whose syllables may have four and more marks side by side: Burmese, Khmer, Tai Tham."""
_KEPT = frozenset(map(ord, "\t\n\r" + JOINING + _SIGNS))

HIDDEN = INVISIBLE + _ranges(point for point in _points("Cc", "Cf", "Cn", "Cs") if point not in _KEPT)
"""Invisible characters up to U+FFFF except JOINING and white space: controls, formats, surrogates, unassigned."""

MARKS = _ranges(_points("Mn", "Me"))
"""Marks above, below or through the preceding character."""

PILING = _ranges(point for point in _points("Mn", "Me") if not any(first <= point <= last for first, last in _IN_ROWS))
"""Marks that pile up on the preceding character."""

VIRAMAS = "".join(chr(point) for point in _points("Mn") if unicodedata.combining(chr(point)) == 9)
"""Signs of Indic scripts that remove the vowel of a consonant and join the consonant to the next one."""

SPACES = "".join(map(chr, _points("Zs")))[1:]
"""All spaces but U+0020."""
