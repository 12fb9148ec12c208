"""Who may read the page, how, and that nothing can be changed by it."""

import hashlib
import hmac
import time

import pytest
from module_world import a_mgr, measured, said
from wcache.ceph.web_host import HOURS, WebTokens
from wcache.web.app import KEPT_MAX, KEPT_S, REST_MAX_S, Response, network_of
from wcache.web.dashboard_login import NotLetInError
from web_world import KEY, Site, words


class Dashboard:
    """Knows one user by one token; another user may not read OSDs."""

    def user(self, token, whose):
        if token == "good":
            return "ann"
        if token == "poor":
            raise NotLetInError("the dashboard's user bob may not read OSDs", known=True)
        raise NotLetInError("the dashboard does not know this login, or it has expired")


@pytest.fixture
def site():
    return Site(a_mgr(), Dashboard())


def test_nobody_reads_without_a_login(site):
    for path in ("/", "/drives", "/history", "/nothing"):
        answer = site.ask(path)
        assert answer.code == 401
        assert "ceph wcache web token" in words(answer.text)
        assert "ACME" not in answer.text


def test_a_token_of_our_own_logs_in_by_the_form(site):
    body = f"token={site.token}".encode()
    answer = site.ask("/login", "POST", body)
    assert (answer.code, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "; HttpOnly; SameSite=Strict" in cookie
    assert "Secure" not in cookie
    assert site.ask("/", HTTP_COOKIE=cookie.split(";")[0]).code == 200
    assert site.ask("/", HTTP_AUTHORIZATION=f"Bearer {site.token}").code == 200


def test_a_form_in_chunks_is_refused_before_it_is_read(site):
    answer = site.ask("/login", "POST", b"token=x", HTTP_TRANSFER_ENCODING="chunked")
    assert answer.code == 413  # cheroot ends the connection after this one
    assert site.get("/", HTTP_TRANSFER_ENCODING="gzip, chunked").code == 413


def test_a_form_that_does_not_arrive_is_the_clients_fault(site):
    class Gone:
        def read(self, size):
            raise TimeoutError("timed out")

    assert site.ask("/login", "POST", b"token=x", **{"wsgi.input": Gone()}).code == 400
    assert site.failures == []


def test_under_tls_the_cookie_is_secure_and_the_browser_keeps_to_tls():
    site = Site(a_mgr(), secure=True)
    answer = site.ask("/login", "POST", f"token={site.token}".encode())
    assert "; Secure" in answer.headers["Set-Cookie"]
    assert answer.headers["Strict-Transport-Security"]


def test_a_token_that_is_wrong_or_has_expired_is_refused_with_the_reason(site):
    for token in ("", "x", "wcache1.ffffffff.00.00", site.token[:-1] + "g", "é" * 20, "x" * 10_000,
                  site.token.replace("wcache1.", "wcache1.f"), "a.b.c", "..."):
        answer = site.ask("/", HTTP_AUTHORIZATION=f"Bearer {token}")
        assert answer.code == 401
        if token:
            assert "is not one of this page" in words(answer.text)
    site.mgr.now_s += HOURS * 3600 - 1
    assert site.get("/").code == 200
    site.mgr.now_s += 2
    expired = site.get("/")
    assert expired.code == 401
    assert "this token has expired at" in words(expired.text)
    form = site.ask("/login", "POST", b"token=x")
    assert (form.code, "Set-Cookie" in form.headers) == (401, False)


def test_a_page_that_ends_meanwhile_lets_nobody_in_by_an_empty_key():
    """Anybody can sign with that."""
    tokens = WebTokens()
    tokens.serve(KEY, "http://127.0.0.1:8447/")
    said = f"wcache1.{2 ** 40:x}.00"

    class EndsThePage(str):
        def isascii(self):
            tokens.rest()
            return True

    signed = hmac.new(b"", said.encode(), hashlib.sha256).hexdigest()
    assert "not one of this page" in tokens.refused(EndsThePage(f"{said}.{signed}"))


def test_tokens_are_those_of_the_key_they_were_made_with():
    one, other = WebTokens(), WebTokens()
    one.serve(KEY, "u")
    other.serve(KEY, "u")
    token = one.issue()["token"]
    assert one.refused(token) == other.refused(token) == ""  # a mgr that takes over
    other.serve(bytes(32), "u")
    assert other.refused(token)
    one.rest()
    assert one.refused(token)


def test_a_login_of_the_dashboard_is_good_here(site):
    answer = site.ask("/", HTTP_COOKIE="token=good")
    assert answer.code == 200
    assert "Read by ann" in words(answer.text)
    assert site.ask("/", HTTP_COOKIE="session=1; a]b=2; token=good; x").code == 200


def test_a_dashboard_user_without_the_right_is_told_so(site):
    poor = site.ask("/", HTTP_COOKIE="token=poor")
    assert poor.code == 403
    assert "bob may not read OSDs" in words(poor.text)
    unknown = site.ask("/", HTTP_COOKIE="token=old")
    assert unknown.code == 401
    assert "does not know this login" in words(unknown.text)
    # a token of our own that is wrong does not keep somebody out who is logged in there
    assert site.ask("/", HTTP_COOKIE="wcache_token=x; token=good").code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "X"])
def test_no_method_but_get_and_head_is_answered(site, method):
    before = said(site.mgr, "history"), said(site.mgr, "status")["frozen"]
    answer = site.ask("/", method, b"{}", HTTP_COOKIE=f"wcache_token={site.token}")
    assert (answer.code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert before == (said(site.mgr, "history"), said(site.mgr, "status")["frozen"])


def test_a_head_is_the_page_without_its_body(site):
    head, got = (site.get("/", method=method) for method in ("HEAD", "GET"))
    assert head.text == ""
    assert head.code == got.code
    assert head.headers["Content-Length"] == got.headers["Content-Length"]


@pytest.mark.parametrize("path", ["/", "/nothing", "/login", "/style.css"])
def test_every_answer_forbids_what_is_not_needed(site, path):
    headers = site.ask(path).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"


def test_requests_out_of_bounds_are_refused(site):
    assert site.get("/" + "a" * 400).code == 400
    assert site.get("/?q=" + "a" * 2000).code == 400
    assert site.get("/drives?" + "&".join(f"a{n}=1" for n in range(50))).code == 400
    assert site.ask("/login", "POST", b"token=" + b"x" * 4000).code == 413
    assert site.ask("/login", "POST", b"token=x", CONTENT_LENGTH="-1").code == 413
    assert site.ask("/login", "POST", b"token=x", CONTENT_LENGTH="").code == 413
    assert site.ask("/", HTTP_COOKIE="token=good" + ";a=b" * 4000).code == 401
    assert site.failures == []


@pytest.mark.slow
@pytest.mark.parametrize("path", [
    "/campaigns/<script>", "/experiments/%00", "/rollouts/../x", "/%E2%80%AE", "/drives?host=<b>",
    "/latency?osd='\"", "/history?what=\u202e", "/history?what=%ff", "/campaigns/\xff", "//", "/.",
])
def test_hostile_addresses_get_a_clear_answer(path):
    site = Site(measured())
    answer = site.get(path)
    assert answer.code in (200, 404, 503)
    assert "<script>" not in answer.text
    assert "<b>" not in answer.text
    assert site.failures == []


def test_a_failure_is_one_line_and_in_the_log(site):
    def broken(*_):
        raise RuntimeError("secret")

    site.app._read._answer = broken
    answer = site.get("/")
    assert (answer.code, site.failures) == (500, ["the web page failed"])
    assert "secret" not in answer.text


def test_while_a_page_is_made_another_is_asked_to_come_back(site, monkeypatch):
    monkeypatch.setattr("wcache.web.app.WAIT_S", 0.01)
    with site.app._making:
        assert site.get("/").code == 503
    assert site.get("/").code == 200


def test_between_two_pages_is_a_rest_that_others_have_the_interpreter_in(site, monkeypatch):
    mine = {"HTTP_COOKIE": f"wcache_token={site.token}"}
    site.ask("/", **mine)
    assert site.app.rest_until_s > 0
    slept = []
    monkeypatch.setattr("wcache.web.app.time.sleep", slept.append)
    site.app.rest_until_s = time.monotonic() + 1e9
    site.ask("/history", **mine)
    assert slept == [REST_MAX_S]


def test_a_page_of_a_moment_ago_is_shown_again_to_the_same_user(site, monkeypatch):
    made = []
    monkeypatch.setattr(site.app, "_page", lambda *what: made.append(what) or Response(200, "x"))
    mine = {"HTTP_COOKIE": f"wcache_token={site.token}"}
    site.ask("/", **mine)
    with site.app._making:  # nobody waits for another page
        for path in ("/", "/?x=1", "/?x=2"):
            assert site.ask(path, **mine).code == 200
    assert len(made) == 1
    site.ask("/", HTTP_COOKIE="token=good")
    site.ask("/?host=h1", **mine)
    assert [(path, query.get("host"), user) for path, query, user in made[1:]] == [
        ("", None, "ann"), ("", "h1", "a token")]
    assert site.ask("/").code == 401
    at_s = time.monotonic()
    monkeypatch.setattr("wcache.web.app.time.monotonic", lambda: at_s + KEPT_S)
    site.ask("/", **mine)
    assert len(made) == 4


def test_pages_that_are_kept_are_few_and_none_that_could_not_be_made(site, monkeypatch):
    monkeypatch.setattr("wcache.web.app.REST_MAX_S", 0.0)
    mine = {"HTTP_COOKIE": f"wcache_token={site.token}"}
    for number in range(KEPT_MAX + 3):
        site.ask(f"/?host=h{number}", **mine)
        site.ask(f"/none{number}", **mine)
    kept = [what[1] for what in site.app._kept]
    assert kept == [(("host", f"h{number}"),) for number in range(3, KEPT_MAX + 3)]


def test_who_asks_without_a_login_again_and_again_gets_a_line_in_place_of_a_page(
    site, monkeypatch
):
    at_s = time.monotonic()
    monkeypatch.setattr("wcache.web.app.time.monotonic", lambda: at_s)
    codes = [site.ask("/", REMOTE_ADDR="192.0.2.1").code for _ in range(100)]
    assert codes[0] == 401
    assert codes.count(429) > 30
    assert site.ask("/login", "POST", b"token=x", REMOTE_ADDR="192.0.2.1").code == 429
    form = f"token={site.token}".encode()
    assert site.ask("/login", "POST", form, REMOTE_ADDR="192.0.2.1").code == 303
    assert site.get("/", REMOTE_ADDR="192.0.2.1").code == 200
    assert site.ask("/", REMOTE_ADDR="192.0.2.2").code == 401
    for number in range(400):  # a network of its own each
        last = site.ask("/", REMOTE_ADDR=f"2001:db8:{number:x}::1").code
    assert last == 429
    assert site.get("/", REMOTE_ADDR="2001:db8:1::1").code == 200


@pytest.mark.parametrize(("address", "network"), [
    ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"),
    ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"), ("fe80::1%eth0", "fe80::/64"), ("", ""),
])
def test_an_address_counts_for_its_network(address, network):
    assert network_of(address) == network


def test_metrics_want_a_login_unless_an_option_opens_them(site):
    assert site.ask("/metrics").code == 401
    answer = site.ask("/metrics", HTTP_AUTHORIZATION=f"Bearer {site.token}")
    assert (answer.code, answer.headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    assert "\nwcache_probes{" in answer.text
    opened = Site(a_mgr(), open_metrics=True)
    assert opened.ask("/metrics").text == answer.text
    assert opened.ask("/").code == 401
    assert opened.ask("/metrics", "POST", b"x").code == 405
