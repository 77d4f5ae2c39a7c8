"""Push notification configs as clients send them and as they are shown (A2A v1.0 §4.3).

Token and credentials are a secret between the receiver and whoever made the config. They are sent to the receiver and
shown to nobody else: the owner of the inbox knows the id of the task, too, and so may read its configs.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from node.a2a.model import Wire
from node.callbacks.target import MAX_URL
from node.callbacks.target_check import TargetCheck
from node.common.refusal import Invalid
from node.inbox.model import END, PushTarget
from node.web.json import decode

IN_MESSAGE = ("body", "configuration", "taskPushNotificationConfig")
"""Where a request to send a message has a config."""

VISIBLE = f"^([!-~]([ -~]*[!-~])?)?{END}"
"""What a header may say: ASCII without control characters, and spaces only inside."""

ConfigId = Annotated[str, Meta(pattern="^[A-Za-z0-9._~-]{0,64}" + END, examples=["c1"])]


class SentAuthentication(msgspec.Struct):
    """What the receiver wants in `Authorization`."""

    scheme: Annotated[str, Meta(pattern="^[A-Za-z0-9._~-]{1,64}" + END, examples=["Bearer"])]
    credentials: Annotated[str, Meta(pattern=VISIBLE, max_length=4096)] | None = None


class SentPushConfig(msgspec.Struct):
    """A config as a client sends it; absent, its id is that of the task."""

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL, examples=["https://agent.example/a2a-push"])]
    id: ConfigId | None = None
    token: (
        Annotated[str, Meta(pattern=VISIBLE, max_length=512, description="Sent as X-A2A-Notification-Token")] | None
    ) = None
    authentication: SentAuthentication | None = None


class Authentication(Wire):
    """How the receiver is shown who sends, without what it is shown."""

    scheme: str


class PushConfig(Wire):
    """A config as it is shown. `token` and `credentials` are not."""

    id: str
    task_id: str
    url: str
    authentication: Authentication | None = None


class PushConfigs(msgspec.Struct, rename="camel"):
    """All configs of a task."""

    configs: list[PushConfig]
    next_page_token: str = ""


class DeletedPush(msgspec.Struct):
    """The answer to a deletion, which is empty."""


def shown(task_id: str, target: PushTarget) -> PushConfig:
    """What anybody who knows the task may see of a config."""
    authentication = Authentication(target.scheme) if target.scheme else None
    return PushConfig(target.id, task_id, target.url, authentication)


async def target_of(sent: SentPushConfig, targets: TargetCheck, client: str) -> PushTarget:
    """What is kept of a config, once its URL is accepted; its id is empty if it has none. Raises Invalid."""
    try:
        kept = await targets.accept(sent.url, client)
    except Invalid as invalid:
        raise invalid.moved(lambda _: ("body", "url")) from None
    authentication = sent.authentication
    return PushTarget(
        id=sent.id or "",
        url=kept["callback_url"],
        publisher=kept["callback_by"],
        token=sent.token or "",
        scheme=authentication.scheme if authentication else "",
        credentials=(authentication.credentials or "") if authentication else "",
    )


async def target_in_message(config: msgspec.Raw, targets: TargetCheck, client: str) -> PushTarget:
    """`target_of` the config in a request to send a message. Raises Invalid."""
    try:
        return await target_of(decode(bytes(config), SentPushConfig), targets, client)
    except Invalid as invalid:
        raise invalid.moved(lambda loc: (*IN_MESSAGE, *loc[1:])) from None
