"""Which callback URLs are refused without asking the DNS, and how the others are parsed."""

from ipaddress import ip_network

import pytest

from node.callbacks.target import Target, TargetPolicy, TargetRefused, parse

POLICY = TargetPolicy.of("https://node.example")
ANYTHING = TargetPolicy.of("http://127.0.0.1:8000", allow_private=True)

ACCEPTED = {
    "https://agent.example/hook": Target("https", "agent.example", 443, "/hook"),
    "http://agent.example": Target("http", "agent.example", 80, "/"),
    "HTTPS://Agent.EXAMPLE:8443/Hook/": Target("https", "agent.example", 8443, "/Hook/"),
    "https://agent.example:443/": Target("https", "agent.example", 443, "/"),
    "https://agent.example:80/": Target("https", "agent.example", 80, "/"),
    "http://a.b.c.agent.test:8080/x": Target("http", "a.b.c.agent.test", 8080, "/x"),
    "https://agent.example/a/../b;v=1?c=d:e&f=/@?": Target("https", "agent.example", 443, "/a/../b;v=1?c=d:e&f=/@?"),
    "https://agent.example?x=1": Target("https", "agent.example", 443, "/?x=1"),
    "https://agent.example/?": Target("https", "agent.example", 443, "/?"),
    "https://agent.example/@me/%C3%A9%20": Target("https", "agent.example", 443, "/@me/%C3%A9%20"),
    "https://xn--bcher-kva.example/": Target("https", "xn--bcher-kva.example", 443, "/"),
    "https://3com.example/": Target("https", "3com.example", 443, "/"),
    "https://127.0.0.1.agent.example/": Target("https", "127.0.0.1.agent.example", 443, "/"),
    "https://notnode.example/": Target("https", "notnode.example", 443, "/"),
    "https://sub.node.example/": Target("https", "sub.node.example", 443, "/"),
    "https://local.agent.example/": Target("https", "local.agent.example", 443, "/"),
    "https://1.1.1.1/hook": Target("https", "1.1.1.1", 443, "/hook"),
    "http://[2606:4700:4700:0:0:0:0:1111]:8080/": Target("http", "[2606:4700:4700::1111]", 8080, "/"),
    f"https://{'a.' * 123}example/": Target("https", f"{'a.' * 123}example", 443, "/"),
    "https://agent.example/" + "a" * 2026: Target("https", "agent.example", 443, "/" + "a" * 2026),
}

SYNTAX = [
    # no absolute http or https URL
    "", "http", "http:", "http://", "https:///hook", "//agent.example/", "agent.example/hook", "/hook",
    "http:agent.example", "http:/agent.example/", "ftp://agent.example/", "gopher://agent.example/",
    "file:///etc/passwd", "ws://agent.example/", "javascript:alert(1)", "mailto:a@agent.example", "data:,x",
    "unix:///run/x.sock", "jar:http://agent.example!/",
    # blanks, control characters, and what is not ASCII
    " https://agent.example/", "https://agent.example/ ", "https://agent.example/a b", "https://agent.example/\n",
    "https://agent.example/\r\nX-A: b", "ht\ttps://agent.example/", "https://agent\x00.example/",
    "https://agent.example/\x7f", "https://bücher.example/", "https://agent.example/é",
    "https://agent\u3002example/", "https://\uff41gent.example/", "https://\uff11\uff12\uff17.0.0.1/",
    "https://①②⑦.⓪.⓪.①/", "http\u017f://agent.example/", "https://agent.example/\ud800",
    # what parsers read differently
    "https://me@agent.example/", "https://me:pw@agent.example/", "https://@agent.example/",
    "https://a@b@agent.example/", "https://agent.example\\@127.0.0.1/", "https:\\\\agent.example\\",
    "https://agent.example/\\..\\x", "https://agent.example#", "https://agent.example/#x",
    "https://agent.example#@127.0.0.1/", "https://agent.example?@127.0.0.1/", "https://agent.example;127.0.0.1/",
    "https://agent.example,b.example/", "https://agent.example&b/", "https://{agent}.example/",
    "https://agent%2eexample/", "https://agent.example%00.b.example/", "https://agent.example%2f@b/",
    "https://$HOST.example/",
    # malformed escapes, and escaped control characters
    "https://agent.example/%", "https://agent.example/%4", "https://agent.example/%zz",
    "https://agent.example/%0d%0aX", "https://agent.example/%00", "https://agent.example/%1F",
    "https://agent.example/?%7f", "https://agent.example/%u0041",
    # hosts that are no valid names
    "https://agent.example./", "https://.agent.example/", "https://agent..example/", "https://./", "https://../",
    "https://-agent.example/", "https://agent-.example/", "https://agent_1.example/", "https://*.example/",
    f"https://{'a' * 64}.example/", f"https://{'.'.join(['a' * 50] * 5)}.example/",
    # invalid ports
    "https://agent.example:/", "https://agent.example:0/", "https://agent.example:0443/",
    "https://agent.example:+443/", "https://agent.example:-1/", "https://agent.example:443:443/",
    "https://agent.example:x/", "https://agent.example:123456/",
    # addresses in other notations
    "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://0/", "http://1/",
    "http://134744072/", "http://127.1/", "http://8.8.8/", "http://0x7f.0.0.1/", "http://0177.0.0.1/",
    "http://08.8.8.8/", "http://8.8.8.08/", "http://8.8.8.256/", "http://8.8.8.8.8/", "http://1.2.3.4./",
    "http://a.1/", "http://a.0x/", "http://a.0xff/", "http://q177.0.0.1/", "http://[::1/", "http://::1/",
    "http://[]/", "http://[:]/", "http://[1::2::3]/", "http://[12345::]/", "http://[::1]a/",
    "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[::ffff:1.2.3]/", "http://[v1.a]/",
    "http://[1.2.3.4]/",
    "https://agent.example/" + "a" * 2027,
]  # fmt: skip

PRIVATE = [
    "http://localhost/", "https://LOCALHOST:8443/", "http://x.localhost/", "http://redis/",
    "http://metadata/computeMetadata/v1/", "http://printer.local/", "http://db.internal/",
    "http://metadata.google.internal/", "http://nas.lan/", "http://a.home/", "http://a.home.arpa/",
    "http://1.0.0.127.in-addr.arpa/", "http://x.corp/", "http://x.intranet/", "http://x.private/",
    "http://x.localdomain/", "http://abc.onion/", "http://x.alt/", "http://kubernetes.default.svc/",
    "http://ip6-localhost/", "http://127.0.0.1.nip.io/", "http://7f000001.nip.io/", "http://10-0-0-1.sslip.io/",
    "http://a.localtest.me/", "http://lvh.me/", "http://127.0.0.1/", "http://127.0.0.1:8080/", "http://10.1.2.3/",
    "http://169.254.169.254/latest/", "http://0.0.0.0/", "http://192.168.1.1/", "http://172.20.0.1/",
    "http://100.64.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://[::1]/", "http://[::]/",
    "http://[::ffff:8.8.8.8]/", "http://[::ffff:7f00:1]/", "http://[fd00::1]/", "http://[fe80::1]/",
    "http://[64:ff9b::808:808]/", "http://[2002:808:808::]/", "http://[2001:db8::1]/",
    "http://[2606:4700::5efe:a00:1]/",
]  # fmt: skip

PORTS = ["http://agent.example:22/", "http://agent.example:6379/", "http://8.8.8.8:25/", "https://agent.example:65536/"]

OWN = [
    "https://node.example/",
    "https://NODE.example:443/api/v1/relay",
    "http://node.example/",
    "http://node.example:8080/x",
]


@pytest.mark.parametrize(("url", "target"), ACCEPTED.items())
def test_a_public_url_is_taken_apart(url: str, target: Target):
    assert parse(url, POLICY) == target


@pytest.mark.parametrize(
    ("reason", "url"),
    [
        *(("syntax", url) for url in SYNTAX),
        *(("private", url) for url in PRIVATE),
        *(("port", url) for url in PORTS),
        *(("own", url) for url in OWN),
    ],
)
def test_it_is_refused(reason: str, url: str):
    with pytest.raises(TargetRefused) as refusal:
        parse(url, POLICY)
    assert refusal.value.reason == reason
    assert str(refusal.value)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("https://agent.example/ü", "is not plain ASCII"),
        ("https://agent.example/a b", "has blanks"),
        ("agent.example/hook?x=1#y", "does not begin with http"),
        ("https://agent.example\\@b#c", "has a backslash"),
        ("https://me@agent.example/#y", "has a fragment"),
        ("https://me%40@agent.example/", "has a user name"),
        ("https://agent%2Eexample/%zz", "the host has a percent-encoded"),
        ("https://agent.example/@%41%zz", "not followed by two hex digits"),
        ("https://agent.example:0/", "not of the form https://host/path"),
    ],
)
def test_the_likeliest_reason_is_named_why_a_url_is_none(url: str, wrong: str):
    with pytest.raises(TargetRefused, match=wrong):
        parse(url, POLICY)


def test_a_url_is_written_again_from_its_parts():
    for url in ("https://agent.example/hook?x=1", "http://agent.example:443/", "https://[2606:4700::1]:8443/"):
        target = parse(url, POLICY)
        assert target.url == url
        assert parse(target.url, POLICY) == target


def test_the_address_of_a_target_is_known_without_the_dns_only_if_it_is_one():
    assert str(parse("https://[2606:4700::1]/", POLICY).address) == "2606:4700::1"
    assert parse("https://agent.example/", POLICY).address is None


def test_an_operator_can_refuse_public_networks_too():
    policy = TargetPolicy.of("https://node.example", refused=[ip_network("8.8.0.0/16"), ip_network("2a00:64::/96")])
    for url in ("https://8.8.8.8/", "https://[2a00:64::7f00:1]/"):
        assert parse(url, POLICY)
        with pytest.raises(TargetRefused):
            parse(url, policy)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:39999/", "http://localhost:5000/", "http://[::1]:1/", "http://redis:6379/"]
)
def test_for_tests_private_targets_can_be_allowed(url: str):
    assert parse(url, ANYTHING)


def test_what_an_operator_refuses_is_not_called_even_then():
    policy = TargetPolicy.of("https://node.example", refused=[ip_network("10.0.0.0/8")], allow_private=True)
    assert parse("http://127.0.0.1:39999/", policy)
    for url in ("http://10.1.2.3:39999/", "http://[::ffff:10.1.2.3]:39999/"):
        with pytest.raises(TargetRefused):
            parse(url, policy)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/", "http://127.1:9000/", "http://me@127.0.0.1/", "file:///etc/passwd"]
)
def test_the_own_authority_and_bad_syntax_are_refused_even_then(url: str):
    with pytest.raises(TargetRefused):
        parse(url, ANYTHING)


def test_the_own_authority_is_known_in_every_form_of_the_public_url():
    for public_url in ("https://Node.Example", "https://node.example:", "http://node.example:8000/relay"):
        with pytest.raises(TargetRefused) as refusal:
            parse("https://node.example/", TargetPolicy.of(public_url))
        assert refusal.value.reason == "own"
    own = TargetPolicy.of("http://[2606:4700::1]:8080")
    with pytest.raises(TargetRefused):
        parse("http://[2606:4700:0::1]:8080/", own)


@pytest.mark.parametrize("is_private", [False, True])
def test_whoever_names_this_node_is_told_how_to_go_on(is_private: bool):
    policy = TargetPolicy.of("http://198.41.0.4:9000", allow_private=is_private)
    ways = ", or a port other than 80, 443, 8080, 8443, 9000" if is_private else ""
    with pytest.raises(TargetRefused) as refusal:
        parse("http://198.41.0.4:8080/hook", policy)
    assert str(refusal.value) == f"the URL is this node's own; give the receiver another name or address{ways}"
    assert parse("http://198.41.0.5:8080/hook", policy)
    if is_private:
        assert parse("http://198.41.0.4:8081/hook", policy)
