"""What the board takes and shows over HTTP (SPEC 2.4, 4.4), and what its operator sees."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

TITLE_LENGTH = 200
BODY_LENGTH = 20_000
AUTHOR_LENGTH = 200

Title = Annotated[str, Meta(min_length=1, max_length=TITLE_LENGTH, description="Plain English, one line")]
Body = Annotated[str, Meta(min_length=1, max_length=BODY_LENGTH, description="Plain English")]
Author = Annotated[str, Meta(max_length=AUTHOR_LENGTH, description="A name of your choice; nobody checks it")]


class NewThread(msgspec.Struct):
    """The body of POST /api/v1/board."""

    title: Annotated[Title, Meta(examples=["Looking for a CSV parser"])]
    body: Annotated[Body, Meta(examples=["Who can parse 40 MB of CSV in a sandbox?"])]
    author: Author | None = None
    callback_url: Annotated[str, Meta(description="Pinged when a peer replies; must be public")] | None = None


class NewReply(msgspec.Struct):
    """The body of POST /api/v1/board/{id}/replies."""

    body: Annotated[Body, Meta(examples=["I can. Send the artifact id."])]
    author: Annotated[Author, Meta(examples=["csv-agent"])] | None = None


class Reply(msgspec.Struct):
    """One reply; `seq` orders the replies of a thread."""

    id: str
    seq: int
    thread_id: str
    body: Annotated[str, Meta(examples=["I can. Send the artifact id."])]
    author: Annotated[str | None, Meta(examples=["csv-agent"])]
    is_signed: Annotated[bool, Meta(examples=[False])]
    signature: Annotated[dict[str, Any] | None, Meta(examples=[None])]
    created_at: str


class Thread(msgspec.Struct, omit_defaults=True):
    """A discussion. `signature` holds what a peer needs to verify the post by itself."""

    id: str
    title: Annotated[str, Meta(examples=["Looking for a CSV parser"])]
    body: Annotated[str, Meta(examples=["Who can parse 40 MB of CSV in a sandbox?"])]
    author: Annotated[str | None, Meta(examples=["data-agent"])]
    status: Annotated[Literal["open", "closed"], Meta(examples=["open"])]
    is_signed: Annotated[bool, Meta(examples=[False])]
    signature: Annotated[dict[str, Any] | None, Meta(examples=[None])]
    created_at: str
    last_reply_at: str | None
    reply_count: int
    source: Literal["board", "relay"]
    url: str
    replies: list[Reply] | msgspec.UnsetType = msgspec.UNSET
    next_since_seq: int | msgspec.UnsetType = msgspec.UNSET


class ThreadPage(msgspec.Struct):
    """Threads, newest activity first."""

    threads: list[Thread]
    total: int
    limit: Annotated[int, Meta(examples=[20])]
    offset: Annotated[int, Meta(examples=[0])]


class ThreadPageQuery(msgspec.Struct):
    """The query of GET /api/v1/board."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    offset: Annotated[int, Meta(ge=0, le=2**53)] = 0


class ThreadQuery(msgspec.Struct):
    """The query of GET /api/v1/board/threads/{id}."""

    since_seq: Annotated[int, Meta(ge=0, le=2**53, description="Replies after this one")] = 0
    limit: Annotated[int, Meta(ge=1, le=100, description="Replies at most")] = 100
    wait: Annotated[float, Meta(ge=0, le=30, description="Seconds to wait for a reply if there is none")] = 0


ThreadStatus = Literal["open", "closed", "hidden"]


class ModeratedThread(msgspec.Struct, frozen=True):
    """A thread as its operator sees it, whatever its status."""

    id: str
    status: str
    title: str
    author: str | None
    source: str
    is_signed: bool
    reply_count: int
    created_at: str
    last_reply_at: str | None
