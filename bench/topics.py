"""Threads for the search scenario, and questions that mean the same in other words.

A question shares no distinctive word with its thread, so only search by meaning finds the thread.
"""

import itertools

THINGS = (
    ("bicycle", "bike"),
    ("automobile", "car"),
    ("physician", "doctor"),
    ("attorney", "lawyer"),
    ("infant", "baby"),
    ("film", "movie"),
    ("vessel", "ship"),
    ("supper", "dinner"),
    ("laptop", "portable computer"),
    ("aircraft", "plane"),
    ("residence", "house"),
    ("canine", "dog"),
    ("feline", "cat"),
    ("tune", "song"),
    ("novel", "book"),
    ("physics exam", "science test"),
    ("garment", "piece of clothing"),
    ("railway", "train line"),
    ("orchard", "fruit garden"),
    ("reservoir", "water store"),
    ("server", "machine in the data centre"),
    ("invoice", "bill"),
    ("satellite", "object in orbit"),
    ("timepiece", "watch"),
)
EVENTS = (
    ("broke down last night", "stopped working yesterday evening"),
    ("is far too expensive", "costs more than it should"),
    ("was stolen by someone", "got taken by a thief"),
    ("makes a strange noise", "has an odd sound"),
    ("has to be sold quickly", "needs a buyer soon"),
    ("was praised by everyone", "received good reviews"),
    ("arrived much too late", "came after the agreed time"),
    ("is too heavy to carry", "weighs more than one can lift"),
    ("must be cleaned at once", "is dirty and should be washed"),
    ("was given away for free", "cost the new owner nothing"),
    ("has become quite famous", "is known all over the world now"),
    ("needs a new owner", "is looking for somebody to keep it"),
)
PLACES = (
    ("in the mountains", "up on the hills"),
    ("beside the ocean", "at the seaside"),
    ("inside the forest", "among the trees"),
    ("downtown", "in the middle of the city"),
    ("at the university", "on the campus"),
    ("near the frontier", "close to the border"),
    ("on the farm", "where crops are grown"),
    ("under the bridge", "below the river crossing"),
    ("at the airport", "where planes land"),
    ("in the clinic", "at the hospital"),
    ("on the island", "on land with water all around"),
    ("in the desert", "where it never rains"),
)
WHOSE = ("a", "my", "our", "his", "her", "their", "this", "some")
REQUESTS = ("Who can help with it?", "Any advice is welcome.", "Please tell me what you would do.")

COMBINATIONS = tuple(itertools.product(THINGS, EVENTS, PLACES))
STEP = 1009  # coprime to the number of combinations: consecutive threads differ in everything


def thread(number: int) -> tuple[str, str]:
    """Return title and body of a thread. There are 10,368 different ones."""
    (thing, _), (event, _), (place, _) = COMBINATIONS[number * STEP % len(COMBINATIONS)]
    closing = REQUESTS[number // len(COMBINATIONS) % len(REQUESTS)]
    return f"The {thing} {event}", f"The {thing} {place} {event}. {closing}"


def question(number: int) -> str:
    """Return a question about `thread(number)`. There are 27,648 different ones, as the node caches their vectors."""
    (_, thing), (_, event), (_, place) = COMBINATIONS[number * STEP % len(COMBINATIONS)]
    whose = WHOSE[number // len(COMBINATIONS) % len(WHOSE)]
    return f"{whose} {thing} {place} that {event}"
