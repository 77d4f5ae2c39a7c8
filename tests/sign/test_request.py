"""The three outcomes of a request's signature: what verifies, what counts as unsigned, and what is refused."""

import hashlib
from base64 import b64encode
from dataclasses import replace

import pytest
from nacl.signing import SigningKey

from node.sign.fields import MAX_FIELD, Malformed
from node.sign.keys import PublicKey
from node.sign.request import REPLAY_SECONDS, InvalidSignature, Verified
from node.sign.signature_base import PublicAddress, signature_base
from tests.sign.signing import BODY, COVERED, HWK, KEY, NOW, PUBLIC, Signed, content_digest, sign

OTHER = SigningKey(bytes(range(32)))
OTHER_PUBLIC = PublicKey(bytes(OTHER.verify_key))
WITHOUT_KEY = tuple(name for name in COVERED if name != "signature-key")
DID = f';created=1767225600;keyid="{PUBLIC.did}"'
SHA_512 = f"sha-512=:{b64encode(hashlib.sha512(BODY).digest()).decode()}:"
WEB_BOT_AUTH = 'wba=("@authority" "signature-agent";key="wba");created=1;keyid="poqkLGiymh";tag="web-bot-auth"'


def beside_a_foreign_one(signed: Signed) -> Signed:
    """Add another signature, which a proxy made with its own key for somebody else."""
    for name, more in (
        ("signature-input", 'proxy=("@method");created=1;tag="proxy"'),
        ("signature", "proxy=:YQ==:"),
        ("signature-key", f"proxy={HWK}"),
    ):
        signed = signed.with_header(name, f"{signed.headers[name]}, {more}" if name in signed.headers else more)
    return signed


def respaced(signed: Signed) -> Signed:
    """Change the spacing of the header. The base always has the canonical spelling."""
    spaced = signed.headers["signature-input"].replace("(", "(  ").replace(";created", "; created")
    return signed.with_header("signature-input", f" {spaced} ")


def beside_web_bot_auth(signed: Signed) -> Signed:
    """Add a second signature of a profile that is not ours."""
    return signed.with_header("signature-input", f"{WEB_BOT_AUTH}, {signed.headers['signature-input']}").with_header(
        "signature", f"wba=:AAAA:, {signed.headers['signature']}"
    )


def beside_a_foreign_tag() -> Signed:
    """Add a second signature for another service, whose key is in the request as well."""
    ours = sign(signature_key=f"sig={HWK}, theirs={HWK}")
    theirs = 'theirs=("@method");created=1;tag="theirs"'
    return ours.with_header("signature-input", f"{ours.headers['signature-input']}, {theirs}")


def twice_signed(second_key: SigningKey, did: str = DID) -> Signed:
    """Sign with an inline key and with a did:key."""
    first = sign()
    second = sign(WITHOUT_KEY, did, label="also", signature_key=None, key=second_key)
    return first.with_header(
        "signature-input", f"{first.headers['signature-input']}, {second.headers['signature-input']}"
    ).with_header("signature", f"{first.headers['signature']}, {second.headers['signature']}")


def covering(count: int) -> Signed:
    """Sign this many components, all of which exist."""
    names = [f"x-{n}" for n in range(count - len(COVERED))]
    return sign((*COVERED, *names), extra=dict.fromkeys(names, "a"))


SIGNED = sign()
INPUT_BYTES = len(sign(params=';created=1767225600;keyid=""').headers["signature-input"])

VERIFIED = {
    "the draft's -07, without alg in the key": sign(signature_key=f"sig={HWK}".replace('alg="Ed25519";', "")),
    "any label": sign(label="agent-7", signature_key=f"agent-7={HWK}"),
    "the target URI in place of authority and path": sign(
        ("@method", "@target-uri", "content-digest", "signature-key")
    ),
    "every derived component": sign((*COVERED, "@target-uri", "@scheme", "@request-target", "@query")),
    "a query, with its percent-encoding": sign((*COVERED, "@target-uri", "@query"), request=Signed(query="a=%2f&b")),
    "a did:key": sign(WITHOUT_KEY, DID, signature_key=None),
    "no body": sign(("@method", "@target-uri", "signature-key"), request=Signed(method="GET", body=b"")),
    "sha-512": sign(extra={"content-digest": SHA_512}),
    "a digest nobody knows beside sha-256": sign(extra={"content-digest": f"md5=:AA==:, {content_digest(BODY)}"}),
    "upper case in the Host": sign(extra={"host": "Node.Example"}),
    "the default port in the Host": sign().with_header("host", "node.example:443"),
    "the last second of its time": sign(params=f";created={NOW - 360}"),
    "a clock a minute ahead": sign(params=f";created={NOW + 60}"),
    "expiring right now": sign(params=f";created={NOW - 1};expires={NOW}"),
    "parameters nobody knows": sign(params=";created=1767225600;flavour=sweet;n=1.5;b"),
    "the longest nonce": sign(params=f';created=1767225600;nonce="{"n" * 128}"'),
    "our tag": sign(params=';created=1767225600;tag="relay-node"'),
    "blanks where the syntax allows them": respaced(sign()),
    "a foreign signature beside ours": beside_web_bot_auth(sign()),
    "a signature for another service beside ours, and the keys of both": beside_a_foreign_tag(),
    "a key that signs nothing beside ours": sign(signature_key=f"sig={HWK}, spare={HWK}"),
    "two signatures for us": twice_signed(second_key=KEY),
    "two signatures for us, the second by another key": twice_signed(OTHER, DID.replace(PUBLIC.did, OTHER_PUBLIC.did)),
    "sixteen components": covering(16),
    "four labels": SIGNED.with_header(
        "signature-input",
        ", ".join([*(f'a{i}=("@method");created=1' for i in range(3)), SIGNED.headers["signature-input"]]),
    ),
    "a Signature-Input of 4 KiB": sign(params=f';created=1767225600;keyid="{"k" * (MAX_FIELD - INPUT_BYTES)}"'),
    "a covered header of 4 KiB": sign((*COVERED, "x-long"), extra={"x-long": "a" * MAX_FIELD}),
}

UNVERIFIED = {
    "no signature": Signed(headers={"host": "node.example"}),
    "Signature without Signature-Input, as before RFC 9421": sign().with_header("signature-input", None),
    "an empty Signature-Input": sign().with_header("signature-input", ""),
    "a foreign tag": sign(params=';created=1767225600;tag="web-bot-auth"'),
    "a foreign tag with components we refuse": sign().with_header("signature-input", WEB_BOT_AUTH),
    "a keyid to look up": sign(WITHOUT_KEY, f';created=1;keyid="{PUBLIC.thumbprint}"', signature_key=None),
    "a did:key of another kind": sign(WITHOUT_KEY, ';created=1;keyid="did:key:zDnaeabc"', signature_key=None),
    "no key at all": sign(WITHOUT_KEY, signature_key=None),
    "a key to fetch": sign(signature_key='sig=jwks_uri;id="https://agent.example";dwk="x";kid="1"'),
    "a key in a token": sign(signature_key='sig=jwt;jwt="eyJhbGciOi"'),
    "a key in a token under another label": sign(signature_key='other=jwt;jwt="eyJhbGciOi"'),
    "a key in a token beside a did:key": sign(params=DID, signature_key='sig=jwt;jwt="eyJhbGciOi"'),
    "a foreign tag and a key that cannot be read": sign(
        params=';created=1767225600;tag="theirs"', signature_key="sig=("
    ),
    "a keyid to look up, beside a signature with a key and a foreign tag": beside_a_foreign_one(
        sign(WITHOUT_KEY, f';created=1;keyid="{PUBLIC.thumbprint}"', signature_key=None)
    ),
}

FORGED = Signed(
    headers={
        **SIGNED.headers,
        "signature-key": 'sig=hwk;kty="OKP";crv="Ed25519";x="AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"',
        "signature": f"sig=:{b64encode(bytes([1]) + bytes(63)).decode()}:",
    }
)

INVALID = {
    "another method": (replace(SIGNED, method="PUT"), "invalid_signature"),
    "another path": (replace(SIGNED, path="/api/v1/relay"), "invalid_signature"),
    "a path that only decodes to the same": (replace(SIGNED, path="/api/v1/%62oard"), "invalid_signature"),
    "another covered header": (SIGNED.with_header("content-type", "text/plain"), "invalid_signature"),
    "another body": (replace(SIGNED, body=BODY + b" "), "invalid_signature"),
    "another body with its digest": (
        replace(SIGNED, body=b"{}").with_header("content-digest", content_digest(b"{}")),
        "invalid_signature",
    ),
    "another query under @target-uri": (
        replace(sign((*COVERED, "@target-uri")), query="public=false"),
        "invalid_signature",
    ),
    "another key": (sign(key=OTHER), "invalid_signature"),
    "another parameter": (
        SIGNED.with_header("signature-input", SIGNED.headers["signature-input"].replace("5600", "5601")),
        "invalid_signature",
    ),
    "components in another order": (
        SIGNED.with_header(
            "signature-input",
            SIGNED.headers["signature-input"].replace('"@method" "@authority"', '"@authority" "@method"'),
        ),
        "invalid_signature",
    ),
    "a flipped bit": (
        SIGNED.with_header("signature", SIGNED.headers["signature"].replace("sig=:", "sig=:A", 1).replace("==:", "=:")),
        "invalid_signature",
    ),
    "a short signature": (SIGNED.with_header("signature", "sig=:AAAA:"), "invalid_signature"),
    "no Signature": (SIGNED.with_header("signature", None), "invalid_signature"),
    "a Signature under another label": (SIGNED.with_header("signature", "other=:AAAA:"), "invalid_signature"),
    "a Signature that is no byte sequence": (SIGNED.with_header("signature", 'sig="AAAA"'), "invalid_signature"),
    "a Signature that is a number": (SIGNED.with_header("signature", "sig=1"), "invalid_signature"),
    "a Signature twice": (
        SIGNED.with_header("signature", f"sig=:AAAA:, {SIGNED.headers['signature']}"),
        "invalid_signature",
    ),
    "the forgery by the identity point": (FORGED, "invalid_signature"),
    "a signature for another node": (sign(extra={"host": "other.example"}), "invalid_signature"),
    "a signature for another node, with our Host put in": (
        sign(extra={"host": "other.example"}).with_header("host", "node.example"),
        "invalid_signature",
    ),
    "a signature for us, sent to another Host": (SIGNED.with_header("host", "other.example"), "invalid_signature"),
    "a port that is not ours": (sign(extra={"host": "node.example:8443"}), "invalid_signature"),
    "no Host": (SIGNED.with_header("host", None), "invalid_input"),
    "an empty Host": (SIGNED.with_header("host", ""), "invalid_input"),
    "one second too old": (sign(params=f";created={NOW - 361}"), "invalid_signature"),
    "more than a minute ahead": (sign(params=f";created={NOW + 61}"), "invalid_signature"),
    "expired": (sign(params=f";created={NOW - 10};expires={NOW - 1}"), "invalid_signature"),
    "no created": (sign(params=""), "invalid_input"),
    "created as a flag": (sign(params=";created"), "invalid_input"),
    "created as a decimal": (sign(params=";created=1767225600.0"), "invalid_input"),
    "created as a string": (sign(params=';created="1767225600"'), "invalid_input"),
    "expires as a string": (sign(params=';created=1767225600;expires="1767225900"'), "invalid_input"),
    "an empty nonce": (sign(params=';created=1767225600;nonce=""'), "invalid_input"),
    "a nonce too long": (sign(params=f';created=1767225600;nonce="{"n" * 129}"'), "invalid_input"),
    "a keyid as a token": (sign(params=";created=1767225600;keyid=me"), "invalid_input"),
    "a nonce as bytes": (sign(params=";created=1767225600;nonce=:AAAA:"), "invalid_input"),
    "a tag as a token": (sign(params=";created=1767225600;tag=relay-node"), "invalid_input"),
    "a parameter twice": (sign(params=";created=1767225600;created=1767225600"), "invalid_input"),
    "another algorithm": (sign(params=';created=1767225600;alg="rsa-pss-sha512"'), "unsupported_algorithm"),
    "another algorithm in the key": (
        sign(signature_key=f"sig={HWK}".replace('"Ed25519"', '"ES256"', 1)),
        "unsupported_algorithm",
    ),
    "another curve": (
        sign(signature_key=f"sig={HWK}".replace('crv="Ed25519"', 'crv="X25519"')),
        "unsupported_algorithm",
    ),
    "a key too short": (sign(signature_key='sig=hwk;kty="OKP";crv="Ed25519";x="AAAA"'), "invalid_key"),
    "a key in padded base64": (sign(signature_key=f'sig={HWK[:-1]}="'), "invalid_key"),
    "a key with stray bits": (sign(signature_key=f'sig={HWK[:-2]}t"'), "invalid_key"),
    "a key in a display string": (sign(signature_key=f"sig={HWK}".replace('x="', 'x=%"')), "invalid_key"),
    "no key in hwk": (sign(signature_key='sig=hwk;kty="OKP";crv="Ed25519"'), "invalid_key"),
    "the key under another label": (sign(signature_key=f"key={HWK}"), "invalid_key"),
    "a Signature-Key that cannot be read": (sign(signature_key="sig=hwk;;"), "invalid_key"),
    "a key whose scheme is a string": (sign(signature_key=f"sig={HWK}".replace("hwk", '"hwk"')), "invalid_key"),
    "a Signature-Key twice": (sign(signature_key=f"sig={HWK}, sig={HWK}"), "invalid_key"),
    "a did:key that is none": (
        sign(WITHOUT_KEY, ';created=1767225600;keyid="did:key:z6Mk0OIl"', signature_key=None),
        "invalid_key",
    ),
    "a did:key with a letter more": (
        sign(WITHOUT_KEY, f';created=1767225600;keyid="{PUBLIC.did}1"', signature_key=None),
        "invalid_key",
    ),
    "a component with a parameter": (
        SIGNED.with_header(
            "signature-input", SIGNED.headers["signature-input"].replace('"content-type"', '"content-type";sf')
        ),
        "invalid_input",
    ),
    "a component twice": (sign((*COVERED, "content-type")), "invalid_input"),
    "a component in upper case": (sign((*COVERED, "Content-Type")), "invalid_input"),
    "a component nobody knows": (sign((*COVERED, "@status")), "invalid_input"),
    "a component that is no string": (
        SIGNED.with_header("signature-input", SIGNED.headers["signature-input"].replace('"@path"', "path")),
        "invalid_input",
    ),
    "a covered header that is not there": (sign((*COVERED, "date")), "invalid_input"),
    "a covered header that is not ASCII": (sign((*COVERED, "x-name"), extra={"x-name": "Zo\xeb"}), "invalid_input"),
    "seventeen components": (covering(17), "invalid_input"),
    "five labels": (
        SIGNED.with_header("signature-input", ", ".join(f'a{i}=("@method");created=1' for i in range(5))),
        "invalid_input",
    ),
    "a Signature-Input over 4 KiB": (
        sign(params=f';created=1767225600;keyid="{"k" * (MAX_FIELD - INPUT_BYTES + 1)}"'),
        "invalid_input",
    ),
    "a covered header over 4 KiB": (
        sign((*COVERED, "x-long"), extra={"x-long": "a" * (MAX_FIELD + 1)}),
        "invalid_input",
    ),
    "a Signature-Input that cannot be read": (SIGNED.with_header("signature-input", "sig=("), "invalid_input"),
    "a Signature-Input that is no list": (SIGNED.with_header("signature-input", "sig=1"), "invalid_input"),
    "a label twice": (
        SIGNED.with_header("signature-input", f'sig=("@method");created=1, {SIGNED.headers["signature-input"]}'),
        "invalid_input",
    ),
    "a digest that cannot be read": (sign(extra={"content-digest": "sha-256=abc"}), "invalid_input"),
    "only a digest nobody knows": (sign(extra={"content-digest": "md5=:AA==:"}), "invalid_input"),
    "one of two digests wrong": (
        sign(extra={"content-digest": f"{content_digest(b'')}, {SHA_512}"}),
        "invalid_signature",
    ),
    "one of two signatures wrong": (twice_signed(second_key=OTHER), "invalid_signature"),
}


@pytest.mark.parametrize("request_", VERIFIED.values(), ids=VERIFIED)
def test_it_verifies_with(request_: Signed):
    outcome = request_.judged()
    assert isinstance(outcome, Verified), outcome
    assert outcome.key == PUBLIC


@pytest.mark.parametrize("request_", UNVERIFIED.values(), ids=UNVERIFIED)
def test_it_counts_as_unsigned_with(request_: Signed):
    assert request_.judged() is None


@pytest.mark.parametrize(("request_", "error"), INVALID.values(), ids=INVALID)
def test_it_is_refused_with(request_: Signed, error: str):
    with pytest.raises(InvalidSignature) as refused:
        request_.judged()
    assert refused.value.error == error
    assert refused.value.header == f"error={error}"


@pytest.mark.parametrize("left_out", ["@method", "@authority", "@path", "content-digest", "signature-key"])
def test_what_has_to_be_covered_and_is_not_is_named_in_signature_error(left_out: str):
    with pytest.raises(InvalidSignature) as refused:
        sign([name for name in COVERED if name != left_out]).judged()
    assert left_out in refused.value.message
    assert refused.value.header == (
        'error=invalid_input, required_input=("@method" "@authority" "@path" "content-digest" "signature-key")'
    )


def test_two_hosts_are_refused_even_if_both_are_ours():
    with pytest.raises(InvalidSignature):
        replace(SIGNED, more_lines=((b"host", b"node.example"),)).judged()


def test_a_header_sent_on_two_lines_is_covered_as_one_joined_by_a_comma():
    signed = sign((*COVERED, "x-list"), extra={"x-list": "a, b"}).with_header("x-list", None)
    lines = ((b"x-list", b" a "), (b"x-list", b"\tb"))
    assert isinstance(replace(signed, more_lines=lines).judged(), Verified)


@pytest.mark.parametrize("target", [("@target-uri",), ("@target-uri", "@request-target")])
def test_a_question_mark_with_nothing_behind_it_may_be_signed_though_no_server_tells_of_it(target: tuple[str, ...]):
    signed = sign(("@method", *target, "content-digest", "signature-key"), request=Signed(path="/api/v1/board?"))
    sent = replace(signed, path="/api/v1/board")
    verified = sent.judged()
    assert verified
    assert dict(verified.components)["@target-uri"] == "https://node.example/api/v1/board?"
    with pytest.raises(InvalidSignature):
        replace(sent, query="wait=30").judged()
    behind_a_query = sign(("@method", *target, "content-digest", "signature-key"), request=Signed(path="/api?wait=30?"))
    with pytest.raises(InvalidSignature):
        replace(behind_a_query, path="/api", query="wait=30").judged()


@pytest.mark.parametrize("prefix", ["/relay", "/a", "/api"])
def test_under_a_path_prefix_a_signature_fits_though_the_proxy_has_stripped_it(prefix: str):
    signed = sign((*COVERED, "@target-uri"), request=Signed(path=f"{prefix}/api/v1/board"))
    address = PublicAddress.parse(f"https://node.example{prefix}/")
    assert isinstance(replace(signed, path="/api/v1/board").judged(address=address), Verified)
    with pytest.raises(InvalidSignature):
        replace(signed, path=signed.path).judged(address=address)


def test_a_node_without_tls_on_its_own_port_verifies_what_was_signed_for_it():
    signed = sign(extra={"host": "127.0.0.1:8000"})
    assert isinstance(signed.judged(address=PublicAddress.parse("http://127.0.0.1:8000")), Verified)


@pytest.mark.parametrize(
    ("name", "value"),
    [("x", 'a\n"@method": PUT'), ("x", "a\r"), ("x", "\x00"), ("x", "é"), ('x": a\n"y', "b"), ("@status", "200")],
)
def test_a_base_is_not_built_from_what_could_be_read_as_another_line(name: str, value: str):
    with pytest.raises(Malformed):
        signature_base([(name, value)], "()")


def replay_id(signed: Signed) -> str:
    outcome = signed.judged()
    assert isinstance(outcome, Verified)
    return outcome.replay_id


def test_the_replay_id_is_the_nonce_of_a_key_or_else_the_signature_itself():
    nonce = ';created=1767225600;nonce="a"'
    assert replay_id(sign(params=nonce)) == replay_id(sign(params=nonce, request=Signed(body=b"{}")))
    assert replay_id(sign(params=nonce)) != replay_id(sign(params=';created=1767225600;nonce="b"'))
    assert replay_id(sign()) == replay_id(sign())
    assert replay_id(sign()) != replay_id(sign(request=Signed(body=b"{}")))
    other = sign(WITHOUT_KEY, nonce + f';keyid="{PUBLIC.did}"', signature_key=None)
    assert replay_id(other) == replay_id(sign(params=nonce))
    named = nonce + f';keyid="{OTHER_PUBLIC.did}"'
    assert replay_id(sign(WITHOUT_KEY, named, signature_key=None, key=OTHER)) != replay_id(other)


def test_a_used_signature_is_remembered_until_it_is_out_of_time():
    ahead = sign(params=f";created={NOW + 60}")
    assert isinstance(ahead.judged(now=NOW), Verified)
    assert isinstance(ahead.judged(now=NOW + REPLAY_SECONDS), Verified)
    with pytest.raises(InvalidSignature):
        ahead.judged(now=NOW + REPLAY_SECONDS + 1)
