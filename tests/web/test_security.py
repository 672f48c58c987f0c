"""Every route and method, walked from the router: no token, a wrong Host or a foreign Origin gets nowhere."""

from __future__ import annotations

import os
import socket
from itertools import product
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from glassformer.runs.directory import RunDirectory
from glassformer.web.security import POLICY, TOKEN_HEADER, allowed_hosts
from glassformer.web.server import make_app

TOKEN, PORT = "a-token-of-the-tests", 4321
HOME = f"http://127.0.0.1:{PORT}"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")

# Names with which a browser may try to leave the folder.
_UP = ["..", "%2e%2e", ".%2e", "..%00", "%252e%252e", "..;", "\u2025", "．．", "....", "..\\"]
_BETWEEN = ["/", "\\", "%2f", "%5c", "//", "/./", "\u2215"]
_TARGETS = ["secret", "secret/recipe.yaml", "etc/passwd"]

TRAVERSALS = [
    *("".join([up, between, target]) for up, between, target in product(_UP, _BETWEEN, _TARGETS)),
    "/etc/passwd", "/secret", "//secret", "///", "/", ".", "..", "../", "./..", "one/../../secret", "one/../two", "one/",
    "one//",
    "./one", "one/.", "~", "~root", "C:\\secret", "C:/secret", "\\\\host\\share", "file:///etc/passwd", "http://evil.example/",
    "one\x00", "\x00", "one\n", " one", "one ", "one%00.yaml", "shown/../secret", "a" * 5000, "one/parent/../../../secret",
    "", "con", "*", "o?e", "[o]ne", "one;two", "one|two", "$(secret)", "`secret`", "<img src=x onerror=alert(1)>",
]  # fmt: skip


def every_route() -> list[tuple[str, str]]:
    app = make_app(Path("."), token=TOKEN, host="127.0.0.1", port=PORT, warm=False)
    paths = []
    for route in app.routes:
        assert isinstance(route, Route), "a route of another kind would not be walked"
        paths.append(route.path.replace("{name:path}", "app.js"))
    return [(path, method) for path in [*paths, "/nothing/here"] for method in METHODS]


ROUTES = every_route()


def test_the_walk_sees_the_whole_page() -> None:
    paths = {path for path, _ in ROUTES}
    assert {"/", "/static/app.js", "/api/folder", "/api/start", "/api/stop", "/api/generate", "/api/look"} <= paths
    assert len(paths) > 25


def test_nothing_passes_without_the_token(bare) -> None:
    for path, method in ROUTES:
        for headers in ({}, {TOKEN_HEADER: "wrong"}, {"cookie": f"glassformer_{PORT}=wrong"}, {"cookie": f"other={TOKEN}"}):
            answer = bare.request(method, path, headers={"origin": HOME, **headers})
            assert answer.status_code == 401, (path, method, headers)
        assert bare.request(method, f"{path}?token=wrong", headers={"origin": HOME}).status_code == 401, (path, method)
        if path != "/" or method != "GET":  # the token in an address opens the front door only
            assert bare.request(method, f"{path}?token={TOKEN}", headers={"origin": HOME}).status_code == 401, (path, method)


def test_nothing_passes_by_another_name(client) -> None:
    for path, method in ROUTES:
        for host in ("evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", f"127.0.0.1.evil.example:{PORT}"):
            assert client.request(method, path, headers={"host": host}).status_code == 403, (path, method, host)


def test_nothing_passes_from_another_site(client) -> None:
    for path, method in ROUTES:
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{PORT + 1}", f"https://127.0.0.1:{PORT}", ""):
            assert client.request(method, path, headers={"origin": origin}).status_code == 403, (path, method, origin)


def test_a_cookie_alone_changes_nothing(bare) -> None:
    """A form or a link of another site sends the cookie, but it can neither hide where it comes from nor give the header."""
    cookie = {"cookie": f"glassformer_{PORT}={TOKEN}"}
    for path, method in ROUTES:
        if method not in ("GET", "HEAD"):
            assert bare.request(method, path, headers=cookie).status_code == 403, (path, method)
            foreign = {**cookie, "origin": HOME, "sec-fetch-site": "cross-site"}
            assert bare.request(method, path, headers=foreign).status_code == 403, (path, method)


def test_the_address_with_the_token_opens_the_page(bare) -> None:
    answer = bare.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert bare.get("/").status_code == 200  # the client keeps the cookie
    assert bare.post("/api/byhand/plane", json={}, headers={"origin": HOME}).status_code == 400  # it got as far as the route


def test_every_answer_carries_the_policy(client) -> None:
    assert "unsafe" not in POLICY
    assert "script-src 'self';" in POLICY
    for path, method in ROUTES:
        if path != "/api/folder/events":  # the one stream that needs no name would never end
            answer = client.request(method, path)
            assert answer.headers["content-security-policy"] == POLICY, (path, method)
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("parameter", ["/api/run?run=", "/api/study?study=", "/api/run/report?run=", "/api/run/curves?run="])
def test_no_path_leads_out(client, folder, parameter) -> None:
    outside = RunDirectory(folder.parent / "secret")
    outside.write_recipe({"seed": 7})
    outside.report_file.write_text("secret")
    assert len(TRAVERSALS) >= 200
    for name in TRAVERSALS:
        answer = client.get(parameter.split("?")[0], params={parameter.split("?")[1].rstrip("="): name})
        assert answer.status_code == 404, name
        assert "secret" not in answer.text.replace(name, "")
    for name in TRAVERSALS:
        if name.strip("./"):  # of dots alone a client makes another address
            assert client.get(f"/static/{quote(name, safe='')}").status_code == 404, name


def test_a_link_leads_nowhere(client, folder) -> None:
    outside = RunDirectory(folder.parent / "secret")
    outside.write_recipe({"seed": 7})
    outside.report_file.write_text("secret")
    os.symlink(outside.root, folder / "link")
    os.symlink(folder.parent, folder / "up")
    for name in ("link", "up/secret"):
        assert client.get("/api/run", params={"run": name}).status_code == 404
    assert [row["name"] for row in client.get("/api/folder").json()["runs"]] == ["one", "two"]
    (folder / "one" / "report.html").symlink_to(outside.report_file)
    assert client.get("/api/run/report", params={"run": "one"}).status_code == 404
    for name in ("up/new", "link"):
        assert client.post("/api/start", json={"base": "docstrings-char", "name": name}).status_code == 400
    assert not (folder.parent / "new").exists()


def test_reading_changes_nothing(client, folder) -> None:
    def state() -> dict[str, tuple[int, int]]:
        files = sorted(folder.rglob("*"))
        return {str(file): (file.stat().st_mtime_ns, file.stat().st_size) for file in files}

    before = state()
    for path, method in ROUTES:
        if method in ("GET", "HEAD") and not path.endswith("/events"):
            for name in ("one", "two"):
                params = {"run": name, "study": name, "text": "a", "base": "docstrings-char", "maps": "x"}
                client.request(method, path, params=params)
    assert state() == before


def test_listening_everywhere_it_answers_to_addresses_and_its_own_name_only(folder) -> None:
    """A name can be bent to this address by whoever owns it; an address cannot, nor the name of this machine."""
    app = make_app(folder, token=TOKEN, host="0.0.0.0", port=PORT, warm=False)
    client = TestClient(app, headers={TOKEN_HEADER: TOKEN})
    name = socket.gethostname().lower()
    for host in ("192.168.0.9", "[fe80::1]", "127.0.0.1", "localhost", name, name.upper(), f"{name}.local"):
        assert client.get("/api/folder", headers={"host": f"{host}:{PORT}"}).status_code == 200, host
        own = {"host": f"{host}:{PORT}", "origin": f"http://{host.lower()}:{PORT}"}
        assert client.post("/api/byhand/plane", json={}, headers=own).status_code == 400, host  # got as far as the route
        for origin in (f"http://10.0.0.66:{PORT}", f"http://evil.example:{PORT}", f"http://{host}:{PORT + 1}", "null"):
            assert client.post("/api/byhand/plane", json={}, headers={**own, "origin": origin}).status_code == 403, origin
    for host in ("evil.example", "192.168.0.9.evil.example", f"{name}.evil.example", "0x7f.1", "1", "", "[]", "192.168.0.9:1"):
        assert client.get("/api/folder", headers={"host": f"{host}:{PORT}"}).status_code == 403, host
    assert client.get("/api/folder", headers={"host": f"192.168.0.9:{PORT + 1}"}).status_code == 403
    here = TestClient(make_app(folder, token=TOKEN, host="127.0.0.1", port=PORT, warm=False), headers={TOKEN_HEADER: TOKEN})
    assert here.get("/api/folder", headers={"host": f"192.168.0.9:{PORT}"}).status_code == 403


def test_a_web_socket_is_closed(bare) -> None:
    with pytest.raises(WebSocketDisconnect), bare.websocket_connect("/api/folder"):
        pass


def test_listens_on_this_machine_only() -> None:
    assert allowed_hosts("127.0.0.1", 5) == ["127.0.0.1:5", "localhost:5", "[::1]:5"]
    assert "0.0.0.0:5" not in allowed_hosts("0.0.0.0", 5)
    assert "192.168.0.9:5" in allowed_hosts("192.168.0.9", 5)


class PanicException(BaseException):
    """As an extension written in Rust raises it."""


PanicException.__module__ = "pyo3_runtime"


@pytest.mark.parametrize("error", [RuntimeError("x"), PanicException("x")])
@pytest.mark.parametrize("place", ["in a route", "outside of every route"])
def test_an_unexpected_error_carries_the_policy_too(client, monkeypatch, error, place) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise error

    if place == "in a route":
        monkeypatch.setattr("glassformer.web.served_folder.ServedFolder.run", fail)
    else:
        monkeypatch.setattr("starlette.routing.Route.matches", fail)
    answer = client.get("/api/run", params={"run": "one"})
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "Traceback" not in answer.text
