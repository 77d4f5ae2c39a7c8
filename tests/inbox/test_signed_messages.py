"""What a signature proves about a message to an inbox, and who may send with one (NETWORK 1)."""

from node.sign.keys import PublicKey
from tests.board.signed_posts import OTHER_KEY
from tests.inbox.calls import ADDRESS, INBOXES, OTHER_ADDRESS, bearer, opened, path_of, read, send_signed, sent, signed
from tests.support.answers import refused
from tests.support.node_under_test import NodeUnderTest


async def test_who_signs_proves_the_address_for_answers(node: NodeUnderTest) -> None:
    inbox = await opened(node)
    path = path_of(inbox, "/messages")
    await send_signed(node, signed("POST", path, {"body": "Mine", "reply_to": ADDRESS}))
    await send_signed(node, signed("POST", path, {"body": "Forged", "reply_to": ADDRESS}, OTHER_KEY))
    await sent(node, inbox, body="Unsigned", reply_to=ADDRESS)
    found = [(each["body"], each["signer"], each["reply_to_proven"]) for each in (await read(node, inbox))["messages"]]
    assert found == [("Mine", ADDRESS, True), ("Forged", OTHER_ADDRESS, False), ("Unsigned", None, False)]


async def test_a_policy_is_judged_by_the_key_that_signed(node: NodeUnderTest) -> None:
    by_key = await opened(node, policy="signed")
    by_contact = await opened(node, policy="contacts", contacts=[OTHER_ADDRESS, ADDRESS])
    by_nobody = await opened(node, policy="contacts")
    for inbox, unsigned, mine, others in (
        (by_key, 403, 201, 201),
        (by_contact, 403, 201, 201),
        (by_nobody, 403, 403, 403),
    ):
        path = path_of(inbox, "/messages")
        plain = await node.client.post(path, json={"body": "Hello", "reply_to": ADDRESS})
        assert plain.status_code == unsigned
        assert plain.headers["x-error-code"] == "inbox.policy"
        assert (await send_signed(node, signed("POST", path, {"body": "Hello"}))).status_code == mine
        assert (await send_signed(node, signed("POST", path, {"body": "Hello"}, OTHER_KEY))).status_code == others
    await node.client.post(INBOXES, json={"contacts": [ADDRESS]}, headers=bearer(by_contact["inbox_token"]))
    other = await send_signed(node, signed("POST", path_of(by_contact, "/messages"), {"body": "Hi"}, OTHER_KEY))
    assert refused(other) == (403, "inbox.policy")


async def test_a_signature_sends_once_and_not_elsewhere(node: NodeUnderTest) -> None:
    inbox, other = await opened(node), await opened(node)
    request = signed("POST", path_of(inbox, "/messages"), {"body": "Once"})
    assert (await send_signed(node, request)).status_code == 201
    assert refused(await send_signed(node, request)) == (409, "signature.replayed")
    request.path = path_of(other, "/messages")
    assert refused(await send_signed(node, request)) == (400, "signature.invalid")


async def test_the_method_that_was_signed_is_the_one_that_was_sent(node: NodeUnderTest) -> None:
    """HEAD is answered like GET, but a signature of GET does not cover it (RFC 9421 section 2.2.1)."""
    await send_signed(node, signed("POST", INBOXES))
    path = f"{INBOXES}/{ADDRESS}/messages"
    for sent_as, signed_as, status in (("HEAD", "HEAD", 200), ("HEAD", "GET", 400), ("GET", "HEAD", 400)):
        request = signed(signed_as, path)
        request.method = sent_as
        assert (await send_signed(node, request)).status_code == status


async def test_the_encryption_key_of_an_address_is_not_its_signing_key(node: NodeUnderTest) -> None:
    """The node only passes the encryption key on. It is another key, of another type."""
    key = PublicKey(bytes(OTHER_KEY.verify_key)).x
    inbox = (await send_signed(node, signed("POST", INBOXES, {"encryption_key": key}))).json()
    assert (await node.client.get(path_of(inbox))).json()["encryption_key"] == key
    assert inbox["address"] == ADDRESS
