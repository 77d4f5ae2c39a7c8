"""A small directory and queries for it, with the agents and skills that match them: labelled by hand, for tests and
figures.

PLAIN queries share words with the skill. DISTANT ones use words that the card does not have. EXACT ones name something
that only text can match. Those in NOBODY have no match. Several agents work in the same trade, and one agent has skills
of different trades, so the search has to find the right skill.
"""

from typing import NamedTuple

from tests.search.relevance import Query


class Skill(NamedTuple):
    name: str
    description: str
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


class Listing(NamedTuple):
    name: str
    description: str
    skills: tuple[Skill, ...]


LISTINGS: dict[str, Listing] = {
    "notary": Listing(
        "Notary helper",
        "Works with contracts and deeds.",
        (
            Skill("Translate contracts", "Translates legal contracts between Portuguese and English.", ("law",)),
            Skill("Compare clauses", "Lists what changed between two versions of a contract.", ("diff", "legal")),
        ),
    ),
    "polyglot": Listing(
        "Polyglot",
        "Speaks many languages.",
        (
            Skill("Translate web pages", "Translates the text of web pages from Japanese, keeping the markup."),
            Skill("Subtitles", "Writes timed subtitles in SRT for films and lectures.", ("srt", "video")),
        ),
    ),
    "ledger": Listing(
        "Ledger",
        "Bookkeeping for small firms.",
        (
            Skill("Read receipts", "Reads photographs of receipts and returns amount, date and tax."),
            Skill("Match payments", "Matches bank statements in CAMT.053 with open invoices.", ("camt053",)),
        ),
    ),
    "weather": Listing(
        "Forecast desk",
        "Weather for places and routes.",
        (
            Skill("Forecast", "Tells rain, wind and temperature for a place and the next ten days."),
            Skill("Storm warning", "Watches radar images and tells when hail is likely.", ("hail", "radar")),
        ),
    ),
    "trips": Listing(
        "Trip planner",
        "Plans journeys.",
        (
            Skill("Train connections", "Finds train connections in Europe with few changes.", ("railway",)),
            Skill("Hotels near venues", "Finds rooms within walking distance of a conference."),
        ),
    ),
    "coder": Listing(
        "Code mender",
        "Repairs programs.",
        (
            Skill("Fix failing tests", "Finds why a Python test fails and proposes a patch.", ("pytest",)),
            Skill("Upgrade dependencies", "Raises versions in a lock file and repairs what breaks.", ("poetry.lock",)),
        ),
    ),
    "reviewer": Listing(
        "Second pair of eyes",
        "Reads code before it is merged.",
        (
            Skill("Review a pull request", "Comments on a diff: faults, missing tests, unclear names."),
            Skill("Find leaked secrets", "Looks for keys and passwords in the history of a repository.", ("gitleaks",)),
        ),
    ),
    "chemist": Listing(
        "Bench chemist",
        "Knows molecules.",
        (
            Skill("Name molecules", "Turns SMILES strings into IUPAC names and drawings.", ("smiles",)),
            Skill("Predict solubility", "Estimates how well a compound dissolves in water."),
        ),
    ),
    "cook": Listing(
        "Kitchen",
        "Meals and shopping.",
        (
            Skill("Recipes from leftovers", "Suggests a meal from what is left in the fridge."),
            Skill("Allergens", "Names allergens in a list of ingredients.", ("gluten", "nuts")),
        ),
    ),
    "audio": Listing(
        "Sound studio",
        "Recordings of speech and music.",
        (
            Skill("Transcribe speech", "Writes down who said what in a recording of a meeting."),
            Skill("Remove noise", "Takes hum and hiss out of old recordings.", ("denoise",)),
        ),
    ),
    "maps": Listing(
        "Cartographer",
        "Maps and positions.",
        (
            Skill("Find coordinates", "Returns latitude and longitude of postal addresses.", ("geocoding",)),
            Skill("Measure land", "Computes the area of fields from satellite images."),
        ),
    ),
    "tutor": Listing(
        "School tutor",
        "Teaches pupils.",
        (
            Skill("Explain mathematics", "Explains steps of a calculation to children of ten to fourteen."),
            Skill("Practice questions", "Makes questions with answers for an examination in history."),
        ),
    ),
}

PLAIN = [
    Query("translate a Portuguese contract", "notary/1"),
    Query("which clauses changed between two versions", "notary/2"),
    Query("subtitles for a film", "polyglot/2"),
    Query("read a photograph of a receipt", "ledger/1"),
    Query("rain and wind for the next days", "weather/1"),
    Query("train connections with few changes", "trips/1"),
    Query("why does this Python test fail", "coder/1"),
    Query("review my pull request", "reviewer/1"),
    Query("how well does a compound dissolve in water", "chemist/2"),
    Query("a meal from what is left in the fridge", "cook/1"),
    Query("write down what was said in a meeting", "audio/1"),
    Query("latitude and longitude of an address", "maps/1"),
]

DISTANT = [
    Query("turn a Brazilian lease into English", "notary/1"),
    Query("captions for a documentary", "polyglot/2"),
    Query("scan the bills of our business dinner for the accountant", "ledger/1"),
    Query("do I need an umbrella in Ghent tomorrow", "weather/1"),
    Query("will ice from the sky damage my car tonight", "weather/2"),
    Query("get from Vienna to Hamburg by rail", "trips/1"),
    Query("a place to sleep close to the congress centre", "trips/2"),
    Query("our unit suite is red since yesterday, repair it", "coder/1"),
    Query("did somebody commit credentials by mistake", "reviewer/2"),
    Query("is this dish safe for somebody with celiac disease", "cook/2"),
    Query("clean up the sound of a scratched tape", "audio/2"),
    Query("how many hectares is this meadow", "maps/2"),
    Query("my daughter does not understand fractions", "tutor/1"),
]

EXACT = [
    Query("CAMT.053", "ledger/2"),
    Query("SMILES", "chemist/1"),
    Query("poetry.lock", "coder/2"),
    Query("SRT", "polyglot/2"),
    Query("gitleaks", "reviewer/2"),
    Query("geocoding", "maps/1"),
]

NOBODY = [
    Query("tune a church organ", ""),
    Query("who won the chess match in Reykjavik", ""),
    Query("grow orchids in a cold greenhouse", ""),
]
