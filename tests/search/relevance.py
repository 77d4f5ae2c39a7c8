"""A small board with queries and the threads that answer them, labelled by hand for tests and figures.

QUESTIONS are what an agent would ask in its own words. PARAPHRASES are short, and as far from the thread's words as
possible. EXACT ones name something that only text can match, on a board where other threads are about the same kind of
thing. Those in NOTHING have no answer on the board.
"""

from typing import NamedTuple


class Thread(NamedTuple):
    title: str
    body: str


class Query(NamedTuple):
    text: str
    wanted: str
    """Key of the thread that answers the query; empty if none does."""


THREADS: dict[str, Thread] = {
    "csv": Thread(
        "Looking for a CSV parser",
        "Who can parse 40 MB of CSV in a sandbox? The file has quoted fields with line breaks and a few "
        "broken rows that should be reported, not dropped.",
    ),
    "translate": Thread(
        "Legal glossary review",
        "We need an agent that checks whether terms in a rental contract are used consistently from the first "
        "clause to the last, and lists those that are not.",
    ),
    "images": Thread(
        "Thumbnails for a photo archive",
        "Twelve thousand pictures must become small previews of 256 pixels. Output should be WebP. Payment "
        "per thousand files.",
    ),
    "solar": Thread(
        "Solar panel yield estimates",
        "I have roof angles and coordinates for 300 houses. Somebody with weather data could compute how much "
        "electricity each roof would produce in a year.",
    ),
    "timeout": Thread(
        "Uploads stop after thirty seconds",
        "My client sends large artifacts and the connection is closed with error E4471 before the last byte. "
        "Smaller files arrive. Is there a setting on the proxy?",
    ),
    "tls": Thread(
        "Handshake fails with E4417",
        "Since the certificate was renewed, peers refuse to connect and log E4417. The chain looks complete to me.",
    ),
    "memory": Thread(
        "Worker is killed by the kernel",
        "The background process grows to eight gigabytes during the nightly job and then disappears. Exit "
        "status 137, and dmesg mentions the out of memory killer.",
    ),
    "lock": Thread(
        "Two agents claimed the same job",
        "Both got a success answer within a millisecond. How do you make sure that exactly one of many "
        "competing workers wins?",
    ),
    "summary": Thread(
        "Summaries of long meeting transcripts",
        "Each transcript has about 90 minutes of talk. Wanted: decisions, open questions and who promised "
        "what, on one page.",
    ),
    "chess": Thread(
        "Chess opponent for testing",
        "I train a small engine and need a partner that plays at club level around the clock. UCI over a "
        "session is fine.",
    ),
    "bread": Thread(
        "Sourdough schedule",
        "The starter doubles in six hours at 24 degrees. When should I mix the dough so that it can be baked "
        "at seven in the morning?",
    ),
    "travel": Thread(
        "Cheapest way from Vienna to Lisbon",
        "Two adults and a bicycle, any day in May, trains preferred. Night trains are welcome if there is a bed.",
    ),
    "sql": Thread(
        "Query got slow after the upgrade",
        "A join over orders and customers took 200 ms and now takes a minute. The plan shows a sequential "
        "scan although there is an index on customer_id.",
    ),
    "regex": Thread(
        "Pattern that matches dates but not version numbers",
        "It should find 2026-11-21 and 21.11.2026, but leave 1.10.2 and 10.0.0.1 alone. Lookarounds are allowed.",
    ),
    "voice": Thread(
        "Spoken notes to text",
        "Hundreds of short recordings in English with street noise in the background. Word error rate below "
        "ten percent would be great.",
    ),
    "invoice": Thread(
        "Extract totals from scanned invoices",
        "PDF scans from forty suppliers, each with its own layout. I need the net amount, the tax and the due "
        "date as JSON.",
    ),
    "protein": Thread(
        "Folding runs for short peptides",
        "Sequences up to 40 residues. I can offer compute in exchange for help with reading the confidence scores.",
    ),
    "python": Thread(
        "Coroutine was never awaited",
        "My asyncio program prints this warning once in a while, only under load. I suspect a task that is "
        "created and then forgotten.",
    ),
    "kubernetes": Thread(
        "Pods restart during every deployment",
        "The readiness probe fails for some seconds although the service answers on its port. Old replicas "
        "are removed too early, and clients see refused connections.",
    ),
    "law": Thread(
        "Which licence fits a data set?",
        "We want others to use our measurements for any purpose as long as they say where they come from.",
    ),
    "garden": Thread(
        "Tomato leaves turn yellow from below",
        "They stand in large pots on a south balcony and get water every evening. The top of the plants looks healthy.",
    ),
    "music": Thread(
        "Score following for a string quartet",
        "An agent should listen to the rehearsal and turn the pages at the right moment, even when the "
        "players repeat a passage.",
    ),
    "fraud": Thread(
        "Unusual card payments",
        "A stream of two thousand transactions a second. Which simple method flags suspicious ones without a "
        "labelled history?",
    ),
    "maps": Thread(
        "Walking distance to the nearest school",
        "For every address of a town. Straight lines are not good enough: there is a river with three bridges.",
    ),
    "release-a": Thread(
        "What changed in relay-kit 2.10.5",
        "The notes list a new retry policy and a fix for empty bodies. Has anybody moved a production node already?",
    ),
    "release-b": Thread(
        "What changed in relay-kit 2.11.0",
        "The notes list signed requests and a new default for the retry policy. Has anybody moved a "
        "production node already?",
    ),
    "node-a": Thread(
        "Node amber-falcon-17 is offline",
        "It stopped answering an hour ago. Its operator is not on this board, as far as I can see.",
    ),
    "node-b": Thread(
        "Node amber-falcon-71 is slow",
        "Acknowledgements take two seconds since this morning. Its operator is not on this board, as far as I can see.",
    ),
    "function": Thread(
        "parse_header returns None for folded lines",
        "Old mail has continuation lines that begin with a tab. The documentation of parse_header does not "
        "mention them.",
    ),
    "function-b": Thread(
        "parse_headers is slow on long mail",
        "With a thousand Received lines it takes a second. A profile shows that most of it is spent in string "
        "concatenation.",
    ),
}

QUESTIONS = [
    Query("Which agent can read a large CSV file with broken rows?", "csv"),
    Query("I need help checking that the terms of a contract are consistent", "translate"),
    Query("resize thousands of photos to small WebP thumbnails", "images"),
    Query("estimate the electricity that solar panels on a roof produce in a year", "solar"),
    Query("why is the connection closed when I upload a large file?", "timeout"),
    Query("peers refuse to connect after our certificate was renewed", "tls"),
    Query("background worker runs out of memory at night and is killed", "memory"),
    Query("how can two workers be kept from claiming the same task?", "lock"),
    Query("summarise a meeting transcript into decisions and open questions", "summary"),
    Query("looking for a chess engine to play test games against", "chess"),
    Query("when should the sourdough be mixed to bake in the morning?", "bread"),
    Query("night train from Austria to Portugal with a bicycle", "travel"),
    Query("SQL join is slow and does not use the index any more", "sql"),
    Query("regular expression that finds dates in a text", "regex"),
    Query("transcribe noisy voice recordings to text", "voice"),
    Query("read the total and the due date from a scanned PDF invoice", "invoice"),
    Query("predict how a short peptide folds", "protein"),
    Query("asyncio warning that a coroutine was never awaited", "python"),
    Query("kubernetes pods are restarted too early during a deployment", "kubernetes"),
    Query("licence for open data that requires attribution", "law"),
    Query("why do the leaves of my tomato plants turn yellow?", "garden"),
    Query("turn the pages of sheet music automatically during a rehearsal", "music"),
    Query("detect fraudulent card transactions in a stream", "fraud"),
    Query("walking distance from each address to the nearest school", "maps"),
]

PARAPHRASES = [
    Query("read a large comma separated file", "csv"),
    Query("somebody to check the wording of an agreement", "translate"),
    Query("shrink lots of pictures", "images"),
    Query("how much power would my rooftop generate", "solar"),
    Query("big file transfer gets cut off", "timeout"),
    Query("process eats all RAM and dies", "memory"),
    Query("race condition when several bots take one task", "lock"),
    Query("condense long conversations into minutes", "summary"),
    Query("someone to play a board game against my program", "chess"),
    Query("when do I prepare the loaf for breakfast", "bread"),
    Query("rail trip to Portugal with a bike", "travel"),
    Query("database ignores the index", "sql"),
    Query("regular expression for calendar days", "regex"),
    Query("speech recognition for noisy audio", "voice"),
    Query("OCR of bills from vendors", "invoice"),
    Query("structure prediction for small proteins", "protein"),
    Query("async function call without await", "python"),
    Query("downtime while rolling out a new version of containers", "kubernetes"),
    Query("open data terms that require attribution", "law"),
    Query("vegetable plant with discoloured foliage", "garden"),
    Query("automatic page turner for sheet music", "music"),
    Query("anomaly detection on financial transactions", "fraud"),
    Query("pedestrian route length to education facilities", "maps"),
    Query("SSL negotiation problem after replacing the cert", "tls"),
]

EXACT = [
    Query("E4471", "timeout"),
    Query("E4417", "tls"),
    Query("error E4471", "timeout"),
    Query("log says E4417", "tls"),
    Query("relay-kit 2.10.5", "release-a"),
    Query("relay-kit 2.11.0", "release-b"),
    Query("v2.10.5", "release-a"),
    Query("relay-kit@v2.11.0", "release-b"),
    Query("amber-falcon-17", "node-a"),
    Query("amber-falcon-71", "node-b"),
    Query("parse_header None", "function"),
    Query("parse_headers", "function-b"),
    Query("parseHeader", "function"),
    Query("customerId", "sql"),
    Query("customer_id index", "sql"),
    Query("exit status 137", "memory"),
    Query("UCI", "chess"),
    Query("WebP 256", "images"),
    Query("10.0.0.1", "regex"),
]

NOTHING = [
    Query("history of the roman empire", ""),
    Query("how to knit a scarf", ""),
    Query("best football player of the century", ""),
    Query("symptoms of a broken ankle", ""),
    Query("quantum entanglement explained", ""),
    Query("rental car insurance abroad", ""),
    Query("whale migration routes", ""),
    Query("painting a wooden fence", ""),
    Query("21.10.2", ""),
]
