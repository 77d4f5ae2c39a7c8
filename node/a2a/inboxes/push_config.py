"""Push notification configs as clients send them and as the node shows them (A2A v1.0 §4.3).

Token and credentials are a secret between the receiver and the creator of the config, so the node sends them to the
receiver and shows them to nobody. The inbox's owner also knows the task's id, and may therefore read its configs.
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
"""Location of the config in a request to send a message."""

VISIBLE = f"^([!-~]([ -~]*[!-~])?)?{END}"
"""Pattern of a header value: printable ASCII, without spaces at either end."""

ConfigId = Annotated[str, Meta(pattern="^[A-Za-z0-9._~-]{0,64}" + END, examples=["c1"])]


class SentAuthentication(msgspec.Struct):
    """The `Authorization` header that the receiver expects."""

    scheme: Annotated[str, Meta(pattern="^[A-Za-z0-9._~-]{1,64}" + END, examples=["Bearer"])]
    credentials: Annotated[str, Meta(pattern=VISIBLE, max_length=4096)] | None = None


class SentPushConfig(msgspec.Struct):
    """A push notification config as a client sends it. `id` defaults to the task's id."""

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL, examples=["https://agent.example/a2a-push"])]
    id: ConfigId | None = None
    token: (
        Annotated[
            str,
            Meta(
                pattern=VISIBLE,
                max_length=512,
                description="Sent to the receiver in the header X-A2A-Notification-Token",
            ),
        ]
        | None
    ) = None
    authentication: SentAuthentication | None = None


class Authentication(Wire):
    """The scheme of the `Authorization` header that the receiver is sent, without the credentials."""

    scheme: str


class PushConfig(Wire):
    """A push notification config as the node shows it, without token and credentials."""

    id: str
    task_id: str
    url: str
    authentication: Authentication | None = None


class PushConfigs(msgspec.Struct, rename="camel"):
    """All push notification configs of a task."""

    configs: list[PushConfig]
    next_page_token: str = ""


class DeletedPush(msgspec.Struct):
    """The answer to a deletion: an empty object."""


def shown(task_id: str, target: PushTarget) -> PushConfig:
    """Return a config as everybody who knows the task's id may see it."""
    authentication = Authentication(target.scheme) if target.scheme else None
    return PushConfig(target.id, task_id, target.url, authentication)


async def target_of(sent: SentPushConfig, targets: TargetCheck, client: str) -> PushTarget:
    """Check the URL of a config and return the config as it is stored. Its id may be empty. Raises Invalid."""
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
    """Decode the config in a request to send a message, and return its `target_of`. Raises Invalid."""
    try:
        return await target_of(decode(bytes(config), SentPushConfig), targets, client)
    except Invalid as invalid:
        raise invalid.moved(lambda loc: (*IN_MESSAGE, *loc[1:])) from None
