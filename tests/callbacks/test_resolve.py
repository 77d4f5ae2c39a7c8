"""Name look-ups: their time limit, and the answers about names when a URL is given."""

from ipaddress import ip_address
from pathlib import Path

import pytest

from node.callbacks.resolve import NotResolved, SystemResolver, check_name
from node.callbacks.target import TargetPolicy, TargetRefused, parse
from node.callbacks.target_check import TargetCheck
from node.common.refusal import Invalid
from node.config import Settings
from node.store.limits import LimitStore
from tests.callbacks.dns_server import DnsServer
from tests.callbacks.network import FakeResolver, never
from tests.support.fake_store import FakeStore

POLICY = TargetPolicy.of("https://node.example")
AGENT = parse("https://agent.example/", POLICY)


@pytest.mark.parametrize("answer", ["93.184.216.34", "93.184.216.34|2606:2800:220:1::1"])
async def test_a_name_with_public_addresses_is_accepted(answer: str):
    await check_name(AGENT, POLICY, FakeResolver(agent_example=answer))


@pytest.mark.parametrize("answer", ["127.0.0.1", "93.184.216.34|10.0.0.1", "::ffff:93.184.216.34", "2606:2800::1|::1"])
async def test_a_name_with_one_address_that_is_not_public_is_refused(answer: str):
    with pytest.raises(TargetRefused) as refusal:
        await check_name(AGENT, POLICY, FakeResolver(agent_example=answer))
    assert refusal.value.reason == "private"


async def test_a_name_that_does_not_resolve_or_not_in_time_is_accepted(monkeypatch: pytest.MonkeyPatch):
    await check_name(AGENT, POLICY, FakeResolver())
    monkeypatch.setattr("node.callbacks.resolve.ACCEPT_TIMEOUT", 0.01)
    await check_name(AGENT, POLICY, never)


async def test_who_gives_a_url_whose_name_is_not_public_is_told_the_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with DnsServer({"agent.example": ["60 A 10.0.0.1"], "other.example": ["60 A 93.184.216.34"]}) as server:
        monkeypatch.setattr(
            "node.callbacks.target_check.SystemResolver", lambda: SystemResolver(server.lookup(tmp_path))
        )
        policy = TargetCheck(Settings(base_url="https://node.example"), LimitStore(FakeStore()).is_known)
        with pytest.raises(Invalid) as refusal:
            await policy.accept("https://agent.example/hook", "203.0.113.7")
        (issue,) = refusal.value.issues
        assert (issue.loc, issue.type) == (("body", "callback_url"), "callback_private")
        kept = await policy.accept("https://other.example/hook", "203.0.113.7")
        assert kept["callback_url"] == "https://other.example/hook"


async def test_an_address_is_not_looked_up():
    resolver = FakeResolver()
    await check_name(parse("https://8.8.8.8/", POLICY), POLICY, resolver)
    assert resolver.asked == []


async def test_the_system_resolver_answers_with_addresses():
    resolver = SystemResolver()
    assert set(await resolver("localhost")) <= {ip_address("127.0.0.1"), ip_address("::1")}
    with pytest.raises(NotResolved):
        await resolver("a..b")
