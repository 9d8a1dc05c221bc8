"""Let Prometheus' own Python client parse what the sink served.

usage: read_prometheus.py PROMETHEUS_SINK_TEST      exit code 77: the package prometheus_client is not installed
"""
import importlib.metadata
import math
import os
import subprocess
import sys
import tempfile

try:
    from prometheus_client.parser import text_string_to_metric_families
except ImportError as problem:
    print(f"skipped: {problem}")
    sys.exit(77)

LABELS = {"run": 'de"mo \\ x', "kind": "hosts"}
failures = []


def expect(what, seen, expected):
    if seen != expected:
        failures.append(what)
        print(f"{what} is {seen!r}, expected {expected!r}")


def fetch(program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "metrics.txt")
        environment = dict(os.environ, ES_TEST_EXPORT=path)
        result = subprocess.run([program, "export_for_reader"], env=environment, check=False)
        if result.returncode != 0:
            sys.exit(result.returncode)
        with open(path, encoding="utf-8", newline="") as stream:
            return stream.read()


def check(families):
    expect("names", len(families), len({family.name for family in families}))
    by_name = {family.name: family for family in families}
    counter = by_name["esper_events"]
    expect("type of the counter", counter.type, "counter")
    counts = {sample.labels["type"]: sample.value for sample in counter.samples}
    expect("metric packets", counts["metric"], 1001.0)
    expect("other packets", sum(counts.values()), 1001.0)
    rate = by_name["esper_charts_SPS"]
    expect("type", rate.type, "gauge")
    expect("help", rate.documentation, "Environment steps per second of the newest round.")
    expect("samples", [(s.labels, s.value) for s in rate.samples], [(LABELS, 0.1)])
    same = [(s.labels.get("raw_name"), s.value) for s in by_name["esper_a_b"].samples]
    expect("one family", same, [(None, 1.0), ("a/b", 2.0)])
    expect("NaN", math.isnan(by_name["esper_a_b__"].samples[0].value), True)
    # a\b"<newline> and a b<malformed><seedling> are both a_b__
    expect("raw name", by_name["esper_a_b__"].samples[1].labels["raw_name"], "a b\ufffd\U0001f331")
    expect("infinity", by_name["esper_a_b__"].samples[1].value, math.inf)
    expect("help with escapes", by_name["esper_a_b__"].documentation,
           'The metric a\\b"\n, which docs/telemetry.md does not describe.')
    expect("digit in front", by_name["esper_9"].samples[0].value, -math.inf)
    expect("missing", "esper_missing" in by_name, False)
    for i in range(1000):
        expect(f"many.{i}", by_name[f"esper_many_{i}"].samples[0].value, i / 3.0)


def main():
    text = fetch(sys.argv[1])
    families = list(text_string_to_metric_families(text))
    check(families)
    n_samples = sum(len(family.samples) for family in families)
    version = importlib.metadata.version("prometheus_client")
    print(f"prometheus_client {version}: {len(families)} families, {n_samples} samples")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
