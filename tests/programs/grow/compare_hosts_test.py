"""The peer of the host benchmark and the script that runs it, where something fails: neither PyTorch nor a GPU is
needed, since trainers, programs and PyTorch itself are stand-ins.

usage: compare_hosts_test.py
"""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
sys.modules["torch"] = types.SimpleNamespace(__version__="0.0")
import torch_hosts

OPTIONS = argparse.Namespace(task="tiny", hosts=2, batch=1, blocks=0, threads=1, device="cpu", precision="f32",
                             seconds=0.001, windows=5, way_limit=1.0, separate=False, compile="none", serve=True)
RATES = {"fast": 100.0, "near": 95.0, "slow": 10.0, "next": 97.0, "last": 96.0, "over": 91.0, "half": 50.0}


class StandIn:
    """A trainer that does what the name of its way says. `lock` exists while one of them measures."""

    lock = ""

    def __init__(self, options, way, n_hosts):
        self.name, self.n_hosts, self.n_measured = way.model, n_hosts, 0

    def open(self):
        if self.name == "leaves":
            os._exit(3)

    def build(self):
        print("a word on standard output", flush=True)
        if self.name == "raises":
            raise ValueError("cannot\nbe done")
        if self.name == "crashes":
            os.write(2, b"first\n  what(): the device is lost\n")
            os.kill(os.getpid(), signal.SIGSEGV)

    def calibrate(self):
        if self.name == "hangs":
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            time.sleep(60)

    def measure(self, n_windows):
        os.close(os.open(self.lock, os.O_CREAT | os.O_EXCL))
        time.sleep(0.01)
        os.unlink(self.lock)
        self.n_measured += 1
        if self.name == "tires" and self.n_measured > 2:  # after the survey and one round
            raise RuntimeError("no more")
        return {"rates": [RATES.get(self.name, 99.0) * self.n_hosts] * n_windows, "loss": 2.0}


def is_running(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


class PeerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        StandIn.lock = os.path.join(folder.name, "lock")
        torch_hosts.Trainer = StandIn

    def make_peer(self, *names):
        torch_hosts.ways_of = lambda options, n_hosts: [
            torch_hosts.Way(name, "nchw", "f32", False, "eager") for name in names]
        torch_hosts.name_of = lambda way, options: way.model
        peer = torch_hosts.Peer(OPTIONS)
        self.addCleanup(peer.close)
        return peer

    def pids(self, peer):
        return [child.process.pid for child in peer.children.values()]

    def test_failing_ways_take_no_other_along(self):
        peer = self.make_peer("raises", "slow", "crashes", "near", "hangs", "leaves", "fast")
        report = peer.report(2)
        self.assertEqual(report["failed"], {
            "raises": "build: ValueError: cannot", "crashes": "build: ended by SIGSEGV: what(): the device is lost",
            "hangs": "calibrate: no answer in 1 s", "leaves": "open: exit code 3"})
        self.assertEqual(report["all"], {"slow": 20.0, "near": 190.0, "fast": 200.0})
        self.assertEqual((report["best"], report["images_per_second"]), ("fast", 200.0))
        self.assertEqual((report["samples"], report["loss"], report["hosts"]), ([200.0] * 5, 2.0, 2))
        self.assertEqual(list(peer.children), ["near", "fast"])

    def test_at_most_a_few_are_kept(self):
        peer = self.make_peer("over", "fast", "near", "last", "next")
        self.assertEqual(peer.report(1)["best"], "fast")
        self.assertEqual(list(peer.children), ["fast", "near", "last", "next"])

    def test_the_best_way_is_compiled_too(self):
        for choice, compiled in (("none", []), ("best", ["fast+"]), ("all", ["near+", "fast+", "slow+"])):
            options = argparse.Namespace(**{**vars(OPTIONS), "compile": choice})
            peer = self.make_peer("near", "fast", "slow")
            peer.options = options
            torch_hosts.ways_of = lambda options, n_hosts: [
                torch_hosts.Way(name, "nchw", "f32", is_compiled, "eager")
                for is_compiled in ([False] if options.compile == "none" else [True, False])
                for name in ("near", "fast", "slow")]
            torch_hosts.name_of = lambda way, options: way.model + "+" * way.is_compiled
            report = peer.report(1)
            self.assertEqual([name for name in report["all"] if name.endswith("+")], compiled)
            self.assertEqual(list(report["all"])[:3], ["near", "fast", "slow"])
            peer.close()

    def test_children_stay_for_one_number_of_hosts(self):
        peer = self.make_peer("fast", "near")
        peer.report(2)
        first = self.pids(peer)
        peer.report(2)
        self.assertEqual(self.pids(peer), first)
        self.assertEqual(peer.report(3)["images_per_second"], 300.0)
        second = self.pids(peer)
        self.assertFalse(any(map(is_running, first)))
        peer.close()
        self.assertFalse(any(map(is_running, second)))

    def test_a_kept_way_that_fails_later(self):
        peer = self.make_peer("tires", "near")
        self.assertEqual(peer.report(1)["best"], "tires")
        report = peer.report(1)
        self.assertEqual((report["best"], report["failed"]), ("near", {"tires": "measure: RuntimeError: no more"}))

    def test_what_was_ended_comes_back(self):
        peer = self.make_peer("half", "slow", "tires")
        self.assertEqual(peer.report(1)["best"], "tires")
        self.assertEqual(list(peer.children), ["tires"])
        report = peer.report(1)
        self.assertEqual((report["best"], list(report["failed"])), ("half", ["tires"]))
        self.assertEqual(report["all"], {"half": 50.0, "slow": 10.0})

    def test_all_fail(self):
        peer = self.make_peer("raises", "leaves")
        for _ in range(2):
            report = peer.report(4)
            self.assertIn("no way of training 4 hosts works", report["error"])
            self.assertEqual(list(report["failed"]), ["leaves", "raises"])

    def test_the_end_of_the_parent_ends_children(self):
        peer = self.make_peer("hangs")
        reader, writer = os.pipe()
        parent = os.fork()
        if parent == 0:
            try:
                peer.n_hosts = 1
                peer.start()
                os.write(writer, str(self.pids(peer)[0]).encode())
                peer.children["hangs"].ask("calibrate")
            finally:
                os._exit(1)
        os.close(writer)
        child = int(os.read(reader, 20))
        self.assertTrue(is_running(child))
        os.kill(parent, signal.SIGKILL)
        os.waitpid(parent, 0)
        limit = time.monotonic() + 10
        while is_running(child) and time.monotonic() < limit:
            time.sleep(0.01)
        self.assertFalse(is_running(child))


ESPER = """#!/usr/bin/env python3
import json, sys
hosts = int(sys.argv[sys.argv.index("--envs") + 1])
print(json.dumps([{"case": "tiny", "parameters": {"E": hosts}, "unit": "images/s", "value": 200.0, "device": "x"}]))
"""
# stands in for a Python with PyTorch: it dies when asked for 3 hosts, and 5 it cannot train
PYTHON = """#!/usr/bin/env python3
import json, sys
for line in sys.stdin:
    if line == "3\\n":
        sys.exit("the peer is dead")
    report = {"images_per_second": 100.0, "best": "a", "torch": "0", "python": "3", "input": "", "loss": 1.0}
    report = {"error": "none works"} if line == "5\\n" else report
    print(json.dumps({**report, "all": {}, "failed": {"b": "build: lost"}}), flush=True)
"""


class ScriptTest(unittest.TestCase):
    def test_numbers_of_hosts_fail_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("esper", ESPER), ("python", PYTHON)):
                path = pathlib.Path(folder, name)
                path.write_text(text)
                path.chmod(0o755)
            result = subprocess.run(
                [sys.executable, ROOT / "benchmarks" / "compare_hosts_gpu", "--device", "cpu", "--envs", "5,3,2",
                 "--rounds", "2", "--esper", f"{folder}/esper", "--python", f"{folder}/python",
                 "--out", f"{folder}/out.json"], check=False, capture_output=True, text=True)
            records = json.loads(pathlib.Path(folder, "out.json").read_text())
        self.assertEqual(result.returncode, 1)
        self.assertEqual([(r["parameters"]["E"], r["ratio"], r["samples"]) for r in records], [(2, 2.0, 2)])
        self.assertEqual(records[0]["peer"]["failed"], {"b": "build: lost"})
        self.assertIn("failed in PyTorch, E=2: b: build: lost\n", result.stdout)
        self.assertIn("E=5: PyTorch: none works\n", result.stderr)
        self.assertIn("E=3: PyTorch ended: the peer is dead\n", result.stderr)


if __name__ == "__main__":
    unittest.main()
