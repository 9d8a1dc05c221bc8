"""Scrape /metrics of a run of every kind: names, help and types of all families.

usage: metrics_test.py ESPER CONFIGS      exit code 77: the build has no HTTP server
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

PREFIXES = ("esper_", "tolaria_", "kasmina_", "tamiyo_")
QUICK = ["--rounds", "100000", "--quiet"]
COMMANDS = {
    "hosts": ["hosts", "--task", "tiny", "--data", "tiny", "--envs", "2", *QUICK],
    "grow": ["grow", "--task", "tiny", "--data", "tiny", "--envs", "2", "--grow.policy=ppo", "--hidden", "8",
             "--grow.episode_steps=4", "--grow.step_batches=1", "--grow.validation_images=50", *QUICK],
    "fit": ["fit", "--data", "tiny", "--task", "tiny", "--candidates", "2", "--epoch-batches", "2",
            "--policy", "random", "--epochs", "100000", "--rails.on=on", "--quiet"],
    "prove": ["prove", "train", "--config", "CONFIGS/prove_generated.ini", *QUICK],
}
# what a scrape must have before it is complete: the metrics of a whole round
COMPLETE = {
    "hosts": ["esper_round_accuracy", "esper_charts_SPS"],
    "grow": ["esper_round_accuracy", "esper_losses_policy_loss", "esper_policy_op_entropy", "esper_round_fossils"],
    "fit": ["esper_round_accuracy", "esper_fit_parameters", "tolaria_training_latency_ms", "kasmina_seeds_active"],
    "prove": ["esper_round_accuracy", "esper_proof_depth", "esper_policy_choice_entropy"],
}
failures = []


def fail(text):
    failures.append(text)
    print(text)


def scrape(process, log, wanted):
    """The text of /metrics once it has all the wanted families."""
    text, address, end = "", None, time.monotonic() + 90
    while time.monotonic() < end and process.poll() is None:
        with open(log, encoding="utf-8", errors="replace") as stream:
            found = re.search(r"http://\S+/metrics", stream.read())
        if found:
            address = found[0]
            with urllib.request.urlopen(address, timeout=10) as answer:
                text = answer.read().decode()
            if all(f"# TYPE {name} " in text for name in wanted):
                return text
        time.sleep(0.05)
    with open(log, encoding="utf-8", errors="replace") as stream:
        said = stream.read()
    if "libmicrohttpd" in said:
        print("skipped: no HTTP server in this build")
        sys.exit(77)
    raise SystemExit(f"{process.args}: not all of {wanted} in {text[-2000:]!r} at {address}; it said {said[-2000:]}")


def check(kind, text):
    helps, types = {}, {}
    for line in text.splitlines():
        found = re.match(r"# (HELP|TYPE) (\S+) (.*)", line)
        if found:
            table = helps if found[1] == "HELP" else types
            if found[2] in table:
                fail(f"{kind}: {found[2]} has two lines of {found[1]}")
            table[found[2]] = found[3]
            continue
        name = re.match(r"[a-zA-Z_:][a-zA-Z0-9_:]*", line)
        if not name or name[0] not in types:
            fail(f"{kind}: no family for {line!r}")
        elif f'kind="{kind}"' not in line:
            fail(f"{kind}: no label in {line!r}")
    for name, words in helps.items():
        if not name.startswith(PREFIXES):
            fail(f"{kind}: {name} has no prefix of ours")
        if "does not describe" in words or words == name or not words.endswith(".") or len(words.split()) < 3:
            fail(f"{kind}: {name} has the help {words!r}")
        is_count = name.endswith("_total") or name == "tolaria_epochs_failed"
        if types.get(name) != ("counter" if is_count else "gauge"):
            fail(f"{kind}: {name} is a {types.get(name)}")
    return len(helps)


def main():
    esper, configs = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, words in COMMANDS.items():
            command = [esper, *(word.replace("CONFIGS", configs) for word in words), "--threads", "1", "--out",
                       os.path.join(folder, kind), "--telemetry.prometheus_port=0"]
            log = os.path.join(folder, kind + ".log")
            with open(log, "w", encoding="utf-8") as stream:
                process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
            try:
                counts[kind] = check(kind, scrape(process, log, COMPLETE[kind]))
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
    print("families:", counts)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
