"""Every web node is replaced, one after the other, while clients continue: not a single request fails."""

import http.client
import json
import signal
import threading
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path

from tests.deploy.processes import HELLO, call, start, until_ready, web_node
from tests.deploy.proxy import Proxy
from tests.support.effort import FULL
from tests.support.servers import PATIENCE, RedisServer, until

ROUNDS = 5 if FULL else 1
WRITERS = 4
PAUSE = 0.01  # s between two writes of a writer, because the machine has processes to start as well
DRAIN = "300"  # s; a second signal ends the drain, once the proxy has seen it, however busy the machine is


class Load:
    """Clients that write on kept connections, read what they wrote, and hold requests with `wait`."""

    def __init__(self, port: int) -> None:
        self.failures: list[str] = []
        self.kept: list[str] = []
        self.held = 0
        self._port = port
        self._stop = threading.Event()
        writers = [threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)]
        self._threads = [*writers, threading.Thread(target=self._hold)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *ending: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, writer: int) -> None:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        for number in count():
            if self._stop.wait(PAUSE):
                break
            payload = {"message": f"{HELLO} This is number {number} of writer {writer}.", "public": False}
            answer = self._ask(link, "POST", "/api/v1/relay", payload)
            if answer:
                self.kept.append(answer["reference_id"])
                self._ask(link, "GET", f"/api/v1/relay/{self.kept[-1]}")
        link.close()

    def _hold(self) -> None:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        session = self._ask(link, "POST", "/api/v1/sessions", {"ttl_seconds": 3600})["session_id"]
        while not self._stop.is_set():
            self._ask(link, "GET", f"/api/v1/sessions/{session}/messages?since_seq=0&wait=1")
            self.held += 1
        link.close()

    def _ask(self, link: http.client.HTTPConnection, method: str, path: str, body: object = None) -> dict[str, str]:
        try:
            sent = None if body is None else json.dumps(body)
            link.request(method, path, sent, {"Content-Type": "application/json"})
            answer = link.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(f"{method} {path}: {error!r}")
            link.close()
            return {}
        if answer.status != 200 and answer.status != 201:
            self.failures.append(f"{method} {path}: {answer.status} {text!r}")
            return {}
        return json.loads(text)


def test_nodes_are_replaced_under_load_without_a_failed_request(tmp_path: Path, shared_redis: RedisServer) -> None:
    settings = {"RELAY_DRAIN_SECONDS": DRAIN, "RELAY_TRUSTED_PROXIES": "127.0.0.1"}
    with ExitStack() as stack:
        web = partial(web_node, redis_url=shared_redis.url, **settings)
        nodes = [stack.enter_context(web(tmp_path / name)) for name in ("one", "two")]
        for node in nodes:
            stack.callback(node.kill)  # at the end, before they would begin to drain
        proxy = stack.enter_context(Proxy(tmp_path, *(node.port for node in nodes)))
        proxy.sees(True, True)
        with Load(proxy.port) as load:
            for number, node in [*enumerate(nodes, 1)] * ROUNDS:
                before = len(load.kept)
                until(lambda: len(load.kept) > before + 50, "requests flow")  # noqa: B023 - awaited at once
                node.signal(signal.SIGTERM)
                until(lambda: proxy.has_left(f"node-{number}"), "it gets no more requests")  # noqa: B023 - the same
                node.signal(signal.SIGTERM)
                assert node.wait() == 0
                start(node, shared_redis.url, **settings)
                until_ready(node)
                proxy.sees(True, True)
        assert load.failures == []
        assert load.held
        assert min(proxy.requests().values()) > 0
        for reference in load.kept[:: max(1, len(load.kept) // 200)]:
            assert call(proxy.port, "GET", f"/api/v1/relay/{reference}")[0] == 200
