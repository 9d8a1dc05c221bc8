#!/usr/bin/env python3
"""`esper serve` against its clients: answers, refusals, limits, live events, and a bounded load.

usage: serve_test.py PATH_TO_ESPER CONFIGS
"""
import http.client
import json
import os
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

ESPER, CONFIGS = sys.argv[1:3]
TOKEN = "0123456789abcdef0123"
n_failed = 0


def check(what, actual, expected):
    global n_failed
    if actual != expected:
        print(f"FAIL: {what}: {actual!r}, expected {expected!r}")
        n_failed += 1


def check_true(what, value):
    check(what, bool(value), True)


class Server:
    def __init__(self, *arguments, address="127.0.0.1", token=None, tsan_options=""):
        self.address = address
        self.process = subprocess.Popen([ESPER, "serve", *arguments, "--port", "0"], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env={**os.environ, "ESPER_TOKEN": token or "",
                                                               "TSAN_OPTIONS": f"{os.environ.get('TSAN_OPTIONS', '')} {tsan_options}"})
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("FAIL: no server: " + self.process.stderr.read())
        self.port = int(re.search(r":(\d+)/", line).group(1))

    def stop(self):
        self.process.terminate()
        code = self.process.wait(60)
        check("exit code after a signal", code in (0, 130), True)
        return self.process.stderr.read()

    def get(self, path, method="GET", headers=None, timeout=20):
        connection = http.client.HTTPConnection(self.address, self.port, timeout=timeout)
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, body.decode(), dict(answer.getheaders())

    def raw(self, text, timeout=5):
        """Sends bytes as they are; the first bytes of the answer, b"" when there is none."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as client:
            try:
                client.sendall(text)
                return client.recv(4096)
            except OSError:
                return b""


def run(*arguments):
    subprocess.run([ESPER, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_answers(server):
    status, body, headers = server.get("/")
    check("the page", (status, "Esper runs" in body), (200, True))
    check_true("a policy for the page's content", "default-src 'none'" in headers["Content-Security-Policy"])
    check("no sniffing", headers["X-Content-Type-Options"], "nosniff")
    for path in ("/page.css", "/page.js"):
        check(path, server.get(path)[0], 200)
    names = [one["name"] for one in json.loads(server.get("/api/runs")[1])]
    check("runs", names, ["grown", "hosts", "seeds/seed-1"])
    panels = {i: [one["name"] for one in json.loads(server.get(f"/api/panels?runs={i}")[1])] for i in (0, 1)}
    check_true("growth has a network", "network" in panels[0])
    check_true("hosts do not grow", "network" not in panels[1])
    for i, names in panels.items():
        for name in names:
            status, body, _ = server.get(f"/panel/{name}?runs={i}")
            check(f"panel {name} of run {i}", (status, body.startswith("<section"), body.count("<section")), (200, True, 1))
    check("two runs in one panel", server.get("/panel/curves?runs=0,1")[1].count("<li>") >= 2, True)
    curves = json.loads(server.get("/api/table/curves?runs=0")[1])
    check("rounds of the table", curves["round"], [1, 2, 3])
    asked = subprocess.run([ESPER, "query", "runs/grown", "SELECT accuracy FROM rounds", "--json"], check=True,
                           capture_output=True, text=True).stdout
    for one, other in zip(curves["accuracy"], [row["accuracy"] for row in json.loads(asked)]):
        check_true("accuracy of the table", abs(one - other) < 1e-6)
    asked = subprocess.run([ESPER, "query", "runs/grown", "SELECT unix_time FROM event_seed_germinated ORDER BY rowid DESC LIMIT 1",
                            "--json"], check=True, capture_output=True, text=True).stdout
    check_true("times of the table have all digits", json.loads(asked)[0]["unix_time"] in json.loads(server.get("/api/table/log?runs=0")[1])["unix_time"])
    check("a picture at a step", server.get("/panel/network?runs=0&round=2&env=1&step=3")[0], 200)
    status, body, headers = server.get("/", "HEAD")
    check("HEAD", (status, body), (200, ""))


def test_locked_run(server):
    """A run whose database another process has locked is waited for; the others are answered meanwhile."""
    done = []
    database = sqlite3.connect("runs/hosts/run.db", isolation_level=None)
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("BEGIN EXCLUSIVE")
    waiting = threading.Thread(target=lambda: done.append(("locked", server.get("/panel/summary?runs=1", timeout=60)[0])))
    waiting.start()
    time.sleep(0.3)
    done.append(("free", server.get("/panel/summary?runs=0", timeout=60)[0]))
    waiting.join()
    database.execute("ROLLBACK")
    database.close()
    check("the free run is answered first", [name for name, _ in done], ["free", "locked"])
    check("answers beside a locked run", (dict(done)["free"], dict(done)["locked"] in (404, 500)), (200, True))
    check("the run once it is free", server.get("/panel/summary?runs=1")[0], 200)


def test_stop_beside_a_locked_run():
    """A server ends although an answer waits for a database (up to five seconds), and says so."""
    server = Server("runs", tsan_options="report_thread_leaks=0")  # it ends without the thread that waits
    database = sqlite3.connect("runs/hosts/run.db", isolation_level=None)
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("BEGIN EXCLUSIVE")
    with socket.create_connection(("127.0.0.1", server.port), 5) as client:
        client.sendall(f"GET /panel/summary?runs=1 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        time.sleep(0.5)
        messages = server.stop()
    database.execute("ROLLBACK")
    database.close()
    check("the answer that was not waited for", "some answers were not waited for" in messages, True)
    check("nothing from a sanitizer", "Sanitizer" in messages, False)


def test_refusals(server):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"):
        check(method, server.get("/", method)[0], 405)
    for path in ("/../../etc/passwd", "/panel/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/panel/%00", "/run.db",
                 "/grown/run.db", "/api/table/runs;DROP", "/api/table/curves'--?runs=0", "/page.css/", "//", "/panel/"):
        status, body, _ = server.get(path)
        check(f"{path} is refused", (status, "root:" in body), (404, False))
    for query in ("", "?runs=", "?runs=9", "?runs=-1", "?runs=0;1", "?runs=0,", "?runs=99999999999", "?runs=a", "?runs=0&round=x",
                  "?runs=0&step=1e9", "?runs=0&env=-4", "?runs=0&env=' OR 1=1", "?runs=" + ",".join("0" * 1) + ",0" * 20):
        status, body, _ = server.get("/panel/network" + query.replace(" ", "%20"))
        if query != "?runs=0,":
            check(f"panel{query[:40]}", status, 404)
        check_true("no markup in messages", "<" not in body or status == 200)
    check("another name of this machine", server.get("/", headers={"Host": "evil.example"})[0], 403)
    check("a name that begins like ours", server.get("/", headers={"Host": "localhost.evil.example"})[0], 403)
    check("its own name", server.get("/", headers={"Host": f"localhost:{server.port}"})[0], 200)
    for site, mode, target, status in (("cross-site", "no-cors", "image", 403), ("cross-site", "cors", "empty", 403),
                                       ("cross-site", "navigate", "iframe", 403), ("cross-site", "navigate", "document", 200),
                                       ("same-origin", "cors", "empty", 200), ("none", "navigate", "document", 200)):
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": target}
        check(f"a request of {site} to {mode} for {target}", server.get("/api/runs", headers=headers)[0], status)
    check_true("huge header", server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100000 + b"\r\n\r\n")[9:12]
               in (b"431", b"413", b""))
    check_true("huge address", server.raw(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")[9:12]
               in (b"414", b"431", b"404", b""))
    for garbage in (b"\0" * 1000, b"\x16\x03\x01" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 500):
        check_true("garbage is no success", server.raw(garbage)[9:12] != b"200")
    check("it is still there", server.get("/")[0], 200)


def test_idle_clients(server):
    """2,000 that say nothing, and some that speak a byte at a time, keep nobody out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    clients = []
    for _ in range(2000):
        try:
            client = socket.socket()
            client.settimeout(0.5)
            client.connect(("127.0.0.1", server.port))
            clients.append(client)
        except OSError:
            client.close()
    for client in clients[-50:]:
        try:
            client.send(b"G")
        except OSError:
            pass
    check_true("most of them got in", len(clients) > 1000)
    # idle ones are dropped after 20 s: an answer before that did not wait for them
    begin = time.time()
    check("an answer beside idle clients", server.get("/api/runs", timeout=60)[0], 200)
    check_true("it did not wait until they were dropped", time.time() - begin < 15)
    for client in clients:
        client.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def read_events(server, seconds, wanted, found):
    """Adds names of events to `found` until `wanted` came or time is up."""
    with socket.create_connection(("127.0.0.1", server.port), seconds) as client:
        client.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
        end, text = time.time() + seconds, b""
        while time.time() < end and found.count("changed") < wanted:
            client.settimeout(max(end - time.time(), 0.01))
            try:
                piece = client.recv(4096)
            except OSError:
                break
            if not piece:
                break
            text += piece
            found[:] = re.findall(r"event: (\w+)", text.decode())


def test_events(server):
    # the first says how things stand, the second that there is a run, the third that it goes on
    found = []
    listener = threading.Thread(target=read_events, args=(server, 120, 3, found))
    listener.start()
    end = time.time() + 60
    while not found and time.time() < end:
        time.sleep(0.05)
    check("how things stand", found, ["changed"])
    later = subprocess.Popen([ESPER, "hosts", "--rounds", "100000", "--threads", "1", "--quiet", "--out", "runs/later"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    listener.join()
    later.send_signal(signal.SIGINT)
    later.wait()
    check("news of a run that began later", found.count("changed"), 3)
    check_true("it is listed", "later" in server.get("/api/runs")[1])


def test_load(server):
    """A bounded load: eight clients and sixteen listeners, of whom half do not read."""
    listeners = []
    for i in range(16):
        client = socket.create_connection(("127.0.0.1", server.port), 10)
        client.sendall(f"GET /events HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
        listeners.append(client)
    problems = []

    def ask():
        for path in ("/api/runs", "/panel/curves?runs=0,1", "/panel/network?runs=0", "/api/table/log?runs=0", "/nothing") * 6:
            status = server.get(path, timeout=60)[0]
            if status != (404 if path == "/nothing" else 200):
                problems.append((path, status))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for client in listeners[:8]:
        client.close()
    for thread in threads:
        thread.join()
    check("answers under load", problems, [])
    # more listeners than there is room for are refused, the page is not
    more = []
    for _ in range(80):
        client = socket.create_connection(("127.0.0.1", server.port), 10)
        client.sendall(f"GET /events HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode())
        more.append(client)
    codes = [client.recv(12)[9:12] for client in more]
    check_true("too many listeners are refused", codes.count(b"503") > 0 and set(codes) == {b"200", b"503"})
    check("the page beside them", server.get("/")[0], 200)
    for client in listeners[8:] + more:
        client.close()


def test_token(folder):
    server = Server(folder, "--bind", "0.0.0.0", "--token", TOKEN)
    check("without a token", server.get("/")[0], 401)
    check("a wrong token", server.get("/api/runs", headers={"Authorization": "Bearer " + TOKEN[:-1] + "x"})[0], 401)
    check("a part of the token", server.get("/api/runs", headers={"Authorization": "Bearer " + TOKEN[:8]})[0], 401)
    check("an empty token", server.get("/api/runs", headers={"Authorization": "Bearer "})[0], 401)
    check("the token", server.get("/api/runs", headers={"Authorization": "Bearer " + TOKEN})[0], 200)
    check("the token of an address, elsewhere", server.get("/api/runs?token=" + TOKEN)[0], 401)
    status, _, headers = server.get("/?token=" + TOKEN)
    check("the first visit", (status, headers.get("Location")), (303, "/"))
    cookie = headers["Set-Cookie"].split(";")[0]
    check_true("a cookie that scripts do not see", "HttpOnly" in headers["Set-Cookie"])
    check("the next visit", server.get("/", headers={"Cookie": cookie})[0], 200)
    status, _, headers = server.get("/?token=" + TOKEN, headers={"Cookie": cookie})
    check("the token leaves the address at every visit", (status, headers.get("Location")), (303, "/"))
    check("another site, with the cookie", server.get("/api/runs", headers={"Cookie": cookie, "Sec-Fetch-Site": "cross-site"})[0], 403)
    other = Server(folder, token=TOKEN[::-1])  # of the environment
    check("without a token of the environment", other.get("/")[0], 401)
    cookies = cookie + "; " + other.get("/?token=" + TOKEN[::-1])[2]["Set-Cookie"].split(";")[0]
    check("cookies of two servers of a host", [one.get("/", headers={"Cookie": cookies})[0] for one in (server, other)], [200, 200])
    check_true("their names differ", len({one.split("=")[0] for one in cookies.split("; ")}) == 2)
    other.stop()
    server.stop()
    server = Server(folder, "--bind", "127.0.0.2", address="127.0.0.2")
    check("another address of this machine", server.get("/")[0], 200)
    check("a foreign name there", server.get("/", headers={"Host": "127.0.0.3"})[0], 403)
    server.stop()
    for arguments, words in ((["--bind", "0.0.0.0"], "token"), (["--token", "short"], "16"), (["--bind", "nowhere"], "address")):
        result = subprocess.run([ESPER, "serve", folder, *arguments], capture_output=True, text=True, timeout=20)
        check(f"{arguments}", (result.returncode, words in result.stderr), (2, True))
    result = subprocess.run([ESPER, "serve", "configs-of-nobody"], capture_output=True, text=True, timeout=20)
    check("no runs", result.returncode, 2)


def main():
    probe = subprocess.run([ESPER, "serve", os.devnull], capture_output=True, text=True, timeout=20)
    if "no web server" in probe.stderr:
        print("skipped: no libmicrohttpd in this build")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        growth = ["--config", os.path.join(CONFIGS, "tiny.ini"), "--rounds", "3", "--eval", "0", "--envs", "4",
                  "--episode-steps", "14", "--threads", "1", "--quiet"]
        run("grow", *growth, "--out", "runs/grown")
        run("hosts", "--rounds", "2", "--threads", "1", "--quiet", "--out", "runs/hosts")
        run("hosts", "--rounds", "1", "--threads", "1", "--quiet", "--out", "runs/seeds/seed-1")
        server = Server("runs")
        for test in (test_answers, test_locked_run, test_refusals, test_events, test_load, test_idle_clients):
            test(server)
        messages = server.stop()
        check("nothing from a sanitizer", "Sanitizer" in messages, False)
        test_stop_beside_a_locked_run()
        test_token("runs")
    print("all as expected" if n_failed == 0 else f"{n_failed} failures")
    return 1 if n_failed else 0


sys.exit(main())
