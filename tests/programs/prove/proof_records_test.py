#!/usr/bin/env python3
"""What `esper prove train` records of its proofs: counts by depth and predicate equal a recount of the episodes and are the
same for any number of threads and ranks and after a resume; trees use facts and rules of the graph alone; report, page
and terminal show these numbers, of earlier schemas those of the sample; markup of names stays text.

usage: proof_records_test.py PATH_TO_ESPER [START_RANKS MPIRUN]
"""
import html
import html.parser
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile

ESPER = os.path.abspath(sys.argv[1])
RANKS = [os.path.abspath(sys.argv[2]), sys.argv[3]] if len(sys.argv) > 3 else None
TABLES = ("proof_depth_counted", "proof_predicate_counted", "proof_found")
# ten environments, four of which are sampled; true queries and corruptions
TRAIN = ["prove", "train", "--generated", "60", "--envs", "10", "--steps", "16", "--rounds", "6", "--eval", "-1", "--eval-every", "0",
         "--seed", "7", "--quiet", "--ppo.anneal_rounds=6"]
n_failed = 0


def check(what, actual, expected):
    global n_failed
    if actual != expected:
        n_failed += 1
        print(f"FAIL: {what} is {str(actual)[:600]}, expected {str(expected)[:600]}")


def run(*arguments, start=()):
    done = subprocess.run([*start, ESPER, *arguments], capture_output=True, text=True, check=False)
    check(f"exit code of {' '.join(arguments)} ({done.stderr.strip()[:300]})", done.returncode, 0)
    return done.stdout


def ask(folder, sql):
    return json.loads(run("query", folder, sql, "--json", "--limit", "0"))


def rows_of(folder, table):
    """Without the numbers of packets and the time; the order is that of emission."""
    rows = ask(folder, f"SELECT * FROM event_{table} ORDER BY rowid")
    return [{key: value for key, value in row.items() if key not in ("sequence", "row", "unix_time")} for row in rows]


def sums(folder, table):
    rows = ask(folder, f"SELECT round, label, sum(n_asked) AS n, sum(n_proved) AS proved FROM event_{table} GROUP BY round, label")
    return {(row["round"], row["label"]): (row["n"], row["proved"]) for row in rows}


def check_sums(folder):
    """All episodes, by whatever they are counted."""
    expected = {}
    for row in ask(folder, "SELECT * FROM event_proof_round"):
        for label, n, share in ((1, row["n_positives"], row["positives_proved"]), (0, row["n_negatives"], row["negatives_proved"])):
            if n > 0:
                expected[row["round"], label] = (n, round(share * n / 100))
    check(f"{folder}: rounds", len(expected) >= 5, True)
    for table in TABLES[:2]:
        check(f"{folder}: {table}", sums(folder, table), expected)


def check_recount(folder, depths):
    """Every environment is sampled, so that the episodes are all there; `depths` of queries that are known."""
    by_depth, by_predicate = {}, {}
    for row in ask(folder, "SELECT * FROM event_proof_episode"):
        known = depths.get(row["query"]) if row["label"] == 1 else None
        depth = ("proof", known) if known is not None else ("actions", row["n_steps"])
        predicate = row["query"].split("(")[0]
        for counts, key in ((by_depth, (row["round"], row["label"], *depth)), (by_predicate, (row["round"], row["label"], predicate))):
            n, n_proved, n_actions = counts.get(key, (0, 0, 0))
            counts[key] = (n + 1, n_proved + row["is_proved"], n_actions + row["n_steps"])
    counted = {(row["round"], row["label"], row["counted_by"], row["depth"]): (row["n_asked"], row["n_proved"], round(row["actions"] * row["n_asked"]))
               for row in ask(folder, "SELECT * FROM event_proof_depth_counted")}
    check(f"{folder}: recount by depth", counted, by_depth)
    counted = {(row["round"], row["label"], row["predicate"]): (row["n_asked"], row["n_proved"], round(row["actions"] * row["n_asked"]))
               for row in ask(folder, "SELECT * FROM event_proof_predicate_counted")}
    check(f"{folder}: recount by predicate", counted, by_predicate)
    return {key[2] for key in by_depth}


# --- trees ---

def read_graph():
    """Facts and rules of the village, in another form than the one they are recorded in."""
    run("prove", "export", "--generated", "60", "--out", "village.pl")
    facts, rules = set(), set()
    with open("village.pl", encoding="utf-8") as file:
        for line in file:
            line = line.strip().rstrip(".").replace("'", "")
            if line.startswith(":-"):
                continue
            head, _, body = line.partition(" :- ")
            if body:
                rules.add(name_variables(head, body.split(", ")))
            else:
                facts.add(line)
    return facts, rules


def name_variables(head, body):
    """The rule with its variables numbered by first occurrence, head before body."""
    names = {}

    def rename(atom):
        predicate, terms = atom[:-1].split("(")
        return predicate, tuple(names.setdefault(term, len(names)) for term in terms.split(","))
    return rename(head), tuple(rename(atom) for atom in body)


def follows(rule, atoms):
    """Whether atoms, the head first, are the rule under one substitution."""
    bound = {}
    return len(atoms) == 1 + len(rule[1]) and all(
        atom[:-1].split("(")[0] == predicate and all(bound.setdefault(v, t) == t for v, t in zip(variables, atom[:-1].split("(")[1].split(",")))
        for (predicate, variables), atom in zip([rule[0], *rule[1]], atoms))


def read_tree(text):
    """(atom, reason, children)"""
    path = []
    for line in text.splitlines():
        level = (len(line) - len(line.lstrip(" "))) // 2
        node = (*line.strip(" ").split("\t"), [])
        check("a line has an atom and a reason", len(node), 3)
        del path[level:]
        check("levels", len(path), level)
        if path:
            path[-1][2].append(node)
        path.append(node)
    return path[0]


def check_node(node, query, facts, rules):
    atom, reason, children = node
    if reason == "fact":
        check(f"{atom} is another fact", (atom in facts, atom != query, children), (True, True, []))
        return 1
    body, _, head = reason.partition(": ")[2].partition(" -> ")
    rule = name_variables(head, body.split(", "))
    check(f"{reason} is a rule of the graph", rule in rules, True)
    check(f"{atom} by {reason}", follows(rule, [atom] + [child[0] for child in children]), True)
    return 1 + sum(check_node(child, query, facts, rules) for child in children)


def check_trees(folder, facts, rules):
    trees = ask(folder, "SELECT * FROM event_proof_found")
    for row in trees:
        root = read_tree(row["proof"])
        check("the root", root[0], row["query"])
        check(f"atoms of the proof of {row['query']}", check_node(root, row["query"], facts, rules), row["n_atoms"])
        episode = ask(folder, f"SELECT query, label, is_proved, n_steps FROM event_proof_episode WHERE env = {row['env']} AND episode = {row['episode']}")
        check("its episode", episode, [{"query": row["query"], "label": 1, "is_proved": 1, "n_steps": row["n_steps"]}])
    found = ask(folder, "SELECT p.round, (SELECT count(*) FROM event_proof_found f WHERE f.round = p.round) AS n,"
                " (SELECT count(*) FROM event_proof_episode e WHERE e.round = p.round AND label = 1 AND is_proved = 1) AS proved FROM event_proof_round p")
    check(f"{folder}: the first four of each round", [row["n"] for row in found], [min(row["proved"], 4) for row in found])
    return len(trees), sum(row["n_atoms"] for row in trees)


# --- tests ---

def test_counts():
    run(*TRAIN, "--threads", "1", "--out", "one")
    run(*TRAIN, "--threads", "2", "--out", "two")
    check_sums("one")
    variants = ["two"]
    # a run that was interrupted; proofs that began before are whole
    run(*TRAIN, "--threads", "1", "--rounds", "3", "--out", "resumed")
    run("prove", "train", "--resume", "resumed", "--rounds", "6", "--quiet")
    variants.append("resumed")
    if RANKS:
        run(*TRAIN, "--threads", "1", "--out", "ranks", start=["bash", *RANKS, "2"])
        variants.append("ranks")
    else:
        print("no MPI: ranks are not tried")
    for other in variants:
        for table in TABLES:
            check(f"{table} of {other}", rows_of(other, table), rows_of("one", table))
    # nothing of the training depends on it
    run(*TRAIN, "--threads", "1", "--telemetry.level=minimal", "--out", "minimal")
    hashes = "SELECT round, state_hash FROM rounds ORDER BY round"
    check("states with less telemetry", ask("minimal", hashes), ask("one", hashes))
    for table in TABLES:
        check(f"{table} at level minimal", rows_of("minimal", table), [])


def test_recount():
    few = ["--envs", "4", "--steps", "40", "--threads", "1"]
    run(*TRAIN, *few, "--out", "few")
    check_sums("few")
    check("nothing is known", check_recount("few", {}), {"actions"})
    # a graph with files, some depths of which are published, names with markup, and a proof of two steps
    os.mkdir("graph")
    names = {"ann": "<b>ann</b>", "bob": "b&b", "cy": "<script>alert(1)</script>", "dan": "dan"}
    triples = [("parent", "ann", "bob"), ("parent", "bob", "cy"), ("parent", "cy", "dan"), ("grand", "ann", "cy"), ("grand", "bob", "dan")]
    atoms = [f"{p}({names[a]},{names[b]})" for p, a, b in triples]
    quoted = [re.sub(r"([(,])([^,()]*<script>alert\(1\)</script>)", r"\1'\2'", atom) for atom in atoms]
    with open("graph/train.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(quoted) + "\n")
    with open("graph/rules.txt", "w", encoding="utf-8") as file:
        file.write("r0:1.0:parent(x,z), parent(z,y) -> grand(x,y)\n")
    with open("graph/train_depths.txt", "w", encoding="utf-8") as file:
        file.write(f"{quoted[3]} 2\n")
    marked = ["prove", "train", "--data", "graph", "--envs", "4", "--steps", "40", "--rounds", "6", "--eval", "-1", "--eval-every", "0", "--quiet",
              "--threads", "1", "--out", "marked"]
    run(*marked)
    check_sums("marked")
    check("one is known", check_recount("marked", {quoted[3]: 2}), {"proof", "actions"})
    run("report", "marked", "--out", "marked.html")
    with open("marked.html", encoding="utf-8") as file:
        page = file.read()
    check("markup of names", [tag for tag in ("<script", "<b>ann", "alert(1)</script>") if tag in page], [])
    shown = ask("marked", "SELECT proof FROM event_proof_found ORDER BY rowid DESC LIMIT 1")[0]["proof"].splitlines()[1].strip().split("\t")[0]
    check("a fact in the tree", f'<li class="leaf"><code>{html.escape(shown)}</code>' in page.replace("&#39;", "&#x27;"), True)
    check("names are there", any(tag in shown for tag in ("<b>", "<script>")), True)


class Trees(html.parser.HTMLParser):
    """Trees of a panel, as they are recorded: an element's level is the number of lists around it."""

    def __init__(self, panel):
        super().__init__()
        self.trees, self.level, self.into = [], 0, None
        self.feed(panel)

    def handle_starttag(self, tag, attrs):
        if tag == "ul" and ("class", "tree") in attrs:
            self.trees.append("")
            self.level = 1
        elif tag == "ul" and self.level > 0:
            self.level += 1
        elif self.level > 0 and tag in ("code", "span"):
            self.trees[-1] += "  " * (self.level - 1) if tag == "code" else "\t"
            self.into = tag

    def handle_endtag(self, tag):
        self.level -= tag == "ul" and self.level > 0
        if tag == self.into:
            self.trees[-1] += "\n" if tag == "span" else ""
            self.into = None

    def handle_data(self, data):
        if self.into:
            self.trees[-1] += data


def test_trees(facts, rules):
    # proofs of several steps, whose known depths are found by the program
    run(*TRAIN, "--threads", "2", "--envs", "40", "--env.negatives=0", "--env.find_depths=on", "--env.min_query_depth=3", "--env.max_query_depth=6",
        "--env.end=off", "--out", "deep")
    check_trees("deep", facts, rules)
    check_sums("deep")
    depths = ask("deep", "SELECT DISTINCT counted_by, depth BETWEEN 3 AND 6 AS is_deep FROM event_proof_depth_counted")
    check("depths that were found", depths, [{"counted_by": "proof", "is_deep": 1}])
    run("report", "deep", "--out", "deep.html")
    recorded = [row["proof"] for row in ask("deep", "SELECT proof FROM event_proof_found ORDER BY rowid DESC LIMIT 4")]
    check("trees with branches", any(re.search(r"\n    [^ ].*\n  [^ ]", proof) for proof in recorded), True)
    check("the trees that are drawn", Trees(panel_of("deep.html")).trees, recorded)
    n_trees, n_atoms = check_trees("one", facts, rules)
    check("there are trees, and they have branches", (n_trees >= 6, n_atoms > 2 * n_trees), (True, True))
    run(*TRAIN, "--threads", "1", "--env.skip_unary=on", "--out", "skipped")
    n_trees, n_atoms = check_trees("skipped", facts, rules)
    check("states that are passed over", n_trees >= 4, True)
    run(*TRAIN, "--threads", "1", "--env.memory=off", "--out", "forgetful")
    check("a run that forgets its states", rows_of("forgetful", "proof_found"), [])
    check_sums("forgetful")


def panel_of(path):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    return page[page.index('id="panel-proofs"'):].split("</section>")[0]


def figures_of(panel):
    """{title: [(label, percent, count)]} of its bars"""
    found = {}
    for figure in re.findall(r'<figure class="chart.*?</figure>', panel, re.S):
        title = re.search(r"<figcaption>(.*?)( <span|</figcaption>)", figure).group(1)
        bars = re.findall(r"<title>(.*?)</title>.*?<text class=\"value\"[^>]*>([0-9.]+) % of ([0-9]+)</text>", figure, re.S)
        found[title] = [(label, round(float(percent), 1), int(count)) for label, percent, count in bars]
    return found


def shares(folder, sql):
    return [(str(row["k"]), round(float(f"{row['share']:.4g}"), 1), row["n"]) for row in ask(folder, sql)]


def test_views():
    run("report", "one", "--out", "one.html")
    panel = panel_of("one.html")
    share = "100.0 * sum(n_proved) / sum(n_asked) AS share, sum(n_asked) AS n"
    by = "SELECT {0} AS k, " + share + " FROM event_proof_{1}_counted WHERE label = {2} GROUP BY 1 ORDER BY {3}"
    bars = figures_of(panel)
    check("bars by depth", bars.get("By actions"), shares("one", by.format("depth", "depth", 1, "1")))
    for title, label, n_shown in (("By predicate, the best first", 1, 24), ("Corruptions, the worst predicates", 0, 12)):
        check(title, bars.get(title), shares("one", by.format("predicate", "predicate", label, "share DESC, n DESC, k"))[:n_shown])
    n_true = ask("one", "SELECT sum(n_positives) AS n FROM event_proof_round")[0]["n"]
    check("how many", f"All {n_true} episodes" in panel, True)
    newest = ask("one", "SELECT query, proof FROM event_proof_found ORDER BY rowid DESC LIMIT 1")[0]
    tree = re.search(r'<ul class="tree">.*?</div>', panel, re.S).group(0)
    lines = [html.unescape(re.sub("<[^>]*>", "", line)).strip() for line in tree.split("<li")[1:]]
    lines = [line.split(">", 1)[1] for line in lines]
    check("the newest tree", lines, [line.strip().replace("\t", " ") for line in newest["proof"].splitlines()])
    check("lists are closed", (tree.count("<ul"), tree.count("<li")), (tree.count("</ul>"), tree.count("</li>")))
    # the terminal
    best = shares("one", by.format("predicate", "predicate", 1, "share DESC, n DESC, k"))[0]
    words = re.sub(" +", " ", run("watch", "one"))
    check("the terminal's best predicate", f"Best and worst predicates\n{best[0]} {best[1]:.1f} % of {best[2]}\n" in words, True)
    first = ask("one", by.format("depth", "depth", 1, "1"))[0]
    check("the terminal's depths", f"{first['k']}: {first['share']:.0f} % of {first['n']} " in words, True)
    check("the terminal's proof", "\n" + newest["proof"].replace("\t", "  ") in run("watch", "one"), True)
    # a run of an earlier schema: the sample, and it says so
    shutil.copytree("one", "old")
    with sqlite3.connect("old/run.db") as database:
        for view in ("proof_depths", "proof_predicates", "proof_trees", "raw_events"):
            database.execute(f"DROP VIEW {view}")
        for table in TABLES:
            database.execute(f"DROP TABLE event_{table}")
    run("report", "old", "--out", "old.html")
    panel = panel_of("old.html")
    check("a sample", ("A sample: episodes of the first environments" in panel, "Proofs appear here as trees" in panel), (True, True))
    sampled = "SELECT n_steps AS k, 100.0 * sum(is_proved) / count(*) AS share, count(*) AS n FROM event_proof_episode WHERE label = 1 GROUP BY 1"
    check("bars of the sample", figures_of(panel).get("By actions of the episode"), shares("old", sampled))
    check("the terminal's sample", "by actions of the episode (sample)" in run("watch", "old"), True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        facts, rules = read_graph()
        check("the village", (len(facts) > 300, len(rules) > 40), (True, True))
        test_counts()
        test_recount()
        test_trees(facts, rules)
        test_views()
        os.chdir("/")
    print("all as expected" if n_failed == 0 else f"{n_failed} failed")
    sys.exit(n_failed > 0)


main()
