#!/usr/bin/env python3
"""The page of `esper serve` in headless Chromium: it loads, shows the numbers of run.db, follows a run that is going on,
compares runs, can be used by keyboard, and looks right in light and dark, on a desk and on a phone.

usage: page_test.py PATH_TO_ESPER CONFIGS [FOLDER]     FOLDER keeps the screenshots
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import browser as chromium

ESPER, CONFIGS = sys.argv[1:3]
SHOTS = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
n_failed = 0
HOSTS, HOSTS_IN_ADDRESS = "a|b,c", "a%7Cb%2Cc"  # a name with the signs that lists are written with

# Ratio of luminance of every text to the nearest opaque background behind it; those below 4.5, which WCAG AA asks for.
CONTRAST = """(() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = (rgb) => { const c = rgb.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2]; };
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const toRgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const behind = (element) => { for (let e = element; e; e = e.parentElement) { const c = toRgb(getComputedStyle(e).backgroundColor);
    if (c[3] === 255) return c; } return [255, 255, 255]; };
  const bad = [];
  for (const e of document.querySelectorAll('h1,h2,p,dt,dd,th,td,li,label,legend,caption,figcaption,span,button,summary,text')) {
    if (!e.textContent.trim() || !e.getClientRects().length) continue;
    let back = behind(e);
    if (e.tagName === 'text') {                      // the seed's card that it stands on
      const at = e.getBoundingClientRect();
      for (const r of e.ownerSVGElement.querySelectorAll('rect.seed')) { const box = r.getBoundingClientRect();
        if (box.left <= at.left && box.right >= at.right && box.top <= at.top && box.bottom >= at.bottom) back = toRgb(getComputedStyle(r).fill); }
    }
    const a = light(toRgb(e.tagName === 'text' ? getComputedStyle(e).fill : getComputedStyle(e).color)), b = light(back);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push(`${e.tagName} "${e.textContent.trim().slice(0, 30)}" ${ratio.toFixed(2)}`);
  }
  return bad;
})()"""

# Texts of a drawing that lie over each other, or leave their drawing.
OVERLAPS = """(() => {
  const bad = [];
  for (const svg of document.querySelectorAll('main svg')) {
    const whole = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text')].filter((t) => t.textContent.trim()).map((t) => [t.textContent, t.getBoundingClientRect()]);
    boxes.forEach(([words, a], i) => {
      if (a.left < whole.left - 1 || a.right > whole.right + 1 || a.bottom > whole.bottom + 1) bad.push(`"${words}" leaves its drawing`);
      for (const [other, b] of boxes.slice(i + 1))
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3) bad.push(`"${words}" over "${other}"`);
    });
  }
  return bad;
})()"""

# Controls without a name, drawings without a description, tables without headings.
UNNAMED = """[...document.querySelectorAll('input,button')].filter((e) => !(e.labels && e.labels.length) && !e.textContent.trim()).map((e) => e.outerHTML)
  .concat([...document.querySelectorAll('main svg:not(.key)')].filter((e) => !e.getAttribute('aria-label')).map((e) => e.outerHTML.slice(0, 80)))
  .concat([...document.querySelectorAll('table')].filter((e) => !e.querySelector('th[scope]') || !e.caption).map((e) => e.outerHTML.slice(0, 80)))"""


def check(what, actual, expected):
    global n_failed
    if actual != expected:
        print(f"FAIL: {what}: {actual!r}, expected {expected!r}")
        n_failed += 1


def run(*arguments):
    return subprocess.run([ESPER, *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def ask(name, sql):
    return json.loads(run("query", "runs/" + name, sql, "--json", "--limit", "0"))


def start_server(path, port="0", *options):
    server = subprocess.Popen([ESPER, "serve", path, "--port", port, *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True)
    return server, server.stdout.readline().strip()


def is_drawn(page, *panels):
    page.wait("document.body.dataset.updates")
    for name in panels:
        page.wait(f"document.querySelector('#panel-{name} .help')")


def check_looks(page, what):
    check(what + ": contrast", page.evaluate(CONTRAST), [])
    check(what + ": overlaps", page.evaluate(OVERLAPS), [])
    check(what + ": names of controls and drawings", page.evaluate(UNNAMED), [])
    check(what + ": it does not scroll sideways", page.evaluate("document.documentElement.scrollWidth <= innerWidth"), True)
    check(what + ": no problems", page.problems(), [])
    if SHOTS:
        page.screenshot(os.path.join(SHOTS, what.replace(" ", "_") + ".png"))


def number(text):
    return float(re.sub(r"[^\d.−-]", "", text).replace("−", "-"))


def fact(page, name):
    return page.evaluate(f"[...document.querySelectorAll('#panel-summary dt')].find((e) => e.textContent === '{name}')?.nextSibling.textContent")


def test_growth(address):
    """Every panel of a grown run against the database."""
    with chromium.Browser(1280, 900) as page:
        page.open(address + "#runs=grown")
        is_drawn(page, "summary", "curves", "comparison", "network", "topologies", "environments", "decisions", "rewards",
                 "policy", "time", "anomalies", "log", "settings")
        rounds = ask("grown", "SELECT accuracy, reward, entropy FROM rounds")
        check("rounds", fact(page, "rounds"), "3 of 3")
        check("accuracy", abs(number(fact(page, "accuracy, last round")) - rounds[-1]["accuracy"]) < 0.01, True)
        label = page.evaluate("document.querySelector('#panel-curves svg[data-x]').getAttribute('aria-label')")
        check("the curve's last value", abs(number(label.rsplit(" ", 1)[1]) - rounds[-1]["accuracy"]) < 0.01, True)
        check("points of the curve", page.evaluate("document.querySelector('#panel-curves path.line').getAttribute('d').match(/[ML]/g).length"), 3)
        seeds = ask("grown", "SELECT blueprint, count(*) AS n FROM seeds GROUP BY blueprint ORDER BY blueprint")
        shown = page.evaluate("[...document.querySelectorAll('#panel-topologies tbody tr')].map((r) => [r.cells[0].textContent, Number(r.cells[1].textContent)]).sort()")
        check("seeds by blueprint", shown, [[row["blueprint"], row["n"]] for row in seeds])
        envs = ask("grown", "SELECT validation_accuracy AS a FROM event_env_stepped WHERE round = 3 AND step = 10 ORDER BY env")
        shown = page.evaluate("[...document.querySelectorAll('#panel-environments b')].map((e) => parseFloat(e.textContent))")
        check("environments", [round(one["a"], 1) for one in envs], shown)
        means = ask("grown", "SELECT arm, avg(test_accuracy) AS mean FROM episodes WHERE arm IS NOT NULL GROUP BY arm ORDER BY arm")
        shown = page.evaluate("[...document.querySelectorAll('#panel-comparison figure:first-child .value')].map((e) => e.textContent.trim())")
        check("held-out episodes", sorted(shown), sorted(f"{row['mean']:.2f}" for row in means))
        total = ask("grown", "SELECT avg(total) AS mean FROM rewards WHERE round = 3")[0]["mean"]
        shown = page.evaluate("[...document.querySelectorAll('#panel-rewards .value')].at(-1).textContent")
        check("reward", abs(number(shown) - total) < 0.001, True)
        test_decisions(page)
        anomalies = ask("grown", "SELECT count(*) AS n FROM anomalies")[0]["n"]
        shown = page.evaluate("[...document.querySelectorAll('#panel-anomalies tbody tr')].reduce((n, r) => n + Number(r.cells[2].textContent), 0)")
        check("anomalies", shown, anomalies)
        check_looks(page, "growth")
        test_steps(page)


def test_decisions(page):
    """Why an environment's decisions were taken, and how often each value of each head was chosen."""
    env = int(page.evaluate("document.querySelector('#panel-decisions caption').textContent").split()[1].rstrip(","))
    rows = ask("grown", f"SELECT step, op, slot, op_probabilities AS op_p, slot_probabilities AS slot_p, blueprint_probabilities AS"
               f" blueprint_p, is_forced FROM decisions WHERE round = 3 AND env = {env} ORDER BY step DESC LIMIT 30")[::-1]
    shown = page.evaluate("[...document.querySelectorAll('#panel-decisions tbody tr')].map((r) => [...r.querySelectorAll('.choice')].map((c) =>"
                          " [c.querySelector('.head').textContent, [...c.querySelectorAll('.option')].map((o) => o.textContent.trim().replace(/\\s+/g, ' '))]))")
    check("decisions with and without a choice", [len(choices) > 0 for choices in shown], [not row["is_forced"] for row in rows])
    n_compared = 0
    for row, choices in zip(rows, shown):
        for head, options in choices:
            known = json.loads(row[{"operation": "op_p", "slot": "slot_p", "blueprint": "blueprint_p"}[head]])
            check(f"step {row['step']}, {head}: what was legal", len(options) in (len(known), 4, 5), True)
            for option in options:
                name, percent, _ = option.split(" ")
                check(f"step {row['step']}, {head}: {name}", abs(float(percent) - 100 * known[name]) <= 0.051, True)
                n_compared += 1
    check("there are probabilities to compare", n_compared > 8, True)
    bold = page.evaluate("[...document.querySelectorAll('#panel-decisions tbody tr')].map((r) => r.querySelector('.chosen')?.textContent.trim().split(/\\s/)[0])")
    check("the chosen operations", bold, [None if row["is_forced"] else row["op"] for row in rows])
    names = {"Operation": "op", "Slot": "slot", "Blueprint": "blueprint", "Style": "style", "Tempo": "tempo", "Alpha target": "alpha_target",
             "Alpha speed": "alpha_speed", "Alpha curve": "alpha_curve"}
    figures = page.evaluate("[...document.querySelectorAll('#panel-decisions .charts figure')].map((f) =>"
                            " [f.querySelector('svg').getAttribute('aria-label').split(',')[0], f.querySelector('.value').textContent.trim()])")
    check("heads", [title for title, _ in figures], list(names))
    for title, words in figures:
        head = names[title]
        stride = "AND (round, step) IN (SELECT round, step FROM event_env_stepped)" if head == "op" else ""
        most = ask("grown", f"SELECT count(*) AS n, 100.0 * count(*) / (SELECT count({head}) FROM event_decision_taken WHERE 1 {stride}) AS share"
                   f" FROM event_decision_taken WHERE {head} IS NOT NULL {stride} GROUP BY {head} ORDER BY n DESC LIMIT 1")[0]
        share, n = words.split(" ")
        check(f"{title}: the value chosen most", (abs(float(share) - most["share"]) < 0.01, n), (True, f"({most['n']})"))


def test_steps(page):
    """The slider, by keyboard, shows the seeds of its step as the database has them."""
    seeds = ask("grown", "SELECT env, slot, blueprint, germinated_step FROM seeds WHERE round = 3 ORDER BY germinated_step LIMIT 1")[0]
    page.evaluate("(() => { const f = document.getElementById('pick-env'); f.value = %d; f.dispatchEvent(new Event('change')); })()" % seeds["env"])
    page.wait(f"document.querySelector('#panel-network figcaption').textContent.startsWith('Environment {seeds['env']},')")
    slide = "(() => { const s = document.getElementById('pick-step'); s.value = %d; s.dispatchEvent(new Event('input')); })()"
    page.evaluate(slide % seeds["germinated_step"])
    page.wait(f"document.querySelector('#panel-network figcaption').textContent.endsWith('step {seeds['germinated_step']}')")
    check("the seed of that step", seeds["blueprint"] in page.evaluate("document.querySelector('#panel-network svg').textContent"), True)
    page.evaluate("document.getElementById('pick-step').focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    page.wait(f"document.querySelector('#panel-network figcaption').textContent.endsWith('step {seeds['germinated_step'] + 1}')")
    check("the slider keeps the focus", page.evaluate("document.activeElement.id"), "pick-step")
    test_drag(page)
    page.evaluate("document.querySelector('#panel-curves svg[data-x]').focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
    reading = page.wait("document.querySelector('#panel-curves .reading').textContent")
    accuracy = ask("grown", "SELECT accuracy FROM rounds WHERE round = 2")[0]["accuracy"]
    check("a value read off the chart", reading.startswith("at 2 ≈ ") and abs(number(reading.rsplit(":", 1)[1]) - accuracy) < 0.1, True)


def test_drag(page):
    """The slider follows the mouse over several steps with the button held, while its pictures come."""
    page.evaluate("document.getElementById('pick-step').scrollIntoView({ block: 'center' })")
    box = page.evaluate("(() => { const s = document.getElementById('pick-step'), b = s.getBoundingClientRect();"
                        " return [b.left, b.top + b.height / 2, b.width, Number(s.max)]; })()")
    left, y, width, last = box
    check("there are steps to drag over", last >= 6, True)

    def mouse(kind, step):
        thumb = 16  # its middle stays half its width inside
        page.call("Input.dispatchMouseEvent", type=kind, x=left + thumb / 2 + (width - thumb) * step / last, y=y, button="left",
                  buttons=0 if kind == "mouseReleased" else 1, clickCount=1)

    mouse("mousePressed", 1)
    for step in (1, 3, 5, 2):
        mouse("mouseMoved", step)
        page.wait(f"document.querySelector('#panel-network figcaption').textContent.endsWith('step {step}')")
    page.evaluate("window.dragged = document.getElementById('pick-step')")
    mouse("mouseReleased", 2)
    check("the slider where the mouse let it go", page.evaluate("[dragged.isConnected, dragged.value, document.querySelector('.controls output').textContent]"),
          [True, "2", "2"])
    # an update leaves a field alone that somebody types in
    page.evaluate("(() => { const f = window.typed = document.getElementById('pick-env'); f.focus(); f.value = '77'; drawn.clear(); return update(); })()")
    check("a field under a live update", page.evaluate("[document.activeElement === typed, typed.isConnected, typed.value]"), [True, True, "77"])
    page.evaluate("(() => { typed.blur(); drawn.clear(); return update(); })()")
    check("the field afterwards", page.evaluate("typed.value === document.querySelector('.controls').dataset.env"), True)
    # many moves at once: the last one counts
    page.evaluate("for (const v of [0, 1, 4, 3, 5]) { dragged.value = v; dragged.dispatchEvent(new Event('input')); }")
    page.wait("document.querySelector('#panel-network figcaption').textContent.endsWith('step 5')")
    page.evaluate("fetch('/api/runs').then(() => new Promise((go) => setTimeout(go, 300)))")
    check("the newest question is answered", page.evaluate("document.querySelector('#panel-network figcaption').textContent").endswith("step 5"), True)


def test_confusion(page):
    """The matrix has the cells of the file, and every picture is shown: the page's policy lets them in."""
    with open("runs/fit/networks/1/confusion.json", encoding="utf-8") as file:
        confusion = json.load(file)
    page.wait("document.querySelector('#panel-confusion table')")
    n = len(confusion["classes"])
    cells = {(label, found): count for label, found, count in confusion["cells"]}
    shown = page.evaluate("[...document.querySelectorAll('#panel-confusion tbody tr')].map((r) => [...r.querySelectorAll('td.cell')].map((c) => parseInt(c.textContent)))")
    check("confusions", shown, [[cells.get((label, found), 0) for found in range(n)] for label in range(n)])
    page.wait("[...document.querySelectorAll('#panel-confusion img')].every((e) => e.complete)")
    sizes = page.evaluate("[...document.querySelectorAll('#panel-confusion img')].map((e) => [e.naturalWidth, e.naturalHeight])")
    check("pictures", sizes, [[16, 16]] * len(confusion["mistakes"]))
    words = page.evaluate("document.querySelector('#panel-confusion li').innerText")
    first = confusion["mistakes"][0]
    check("the first picture", words.startswith(f"{confusion['classes'][first['label']]} → {confusion['classes'][first['predicted']]}"), True)


def test_other_kinds(address):
    with chromium.Browser(1280, 900, is_dark=True) as page:
        page.open(address + "#runs=fit")
        is_drawn(page, "rails", "network", "fitted")
        latency = ask("fit", "SELECT breaker, n_failed FROM epochs ORDER BY epoch DESC LIMIT 1")[0]
        breaker = {1: "closed", 2: "open", 3: "half open"}[int(latency["breaker"])]
        facts = dict(page.evaluate("[...document.querySelectorAll('#panel-rails table')[0].tBodies[0].rows].map((r) => [r.cells[3].textContent, r.cells[1].textContent])"))
        check("rails", [facts["tolaria.breaker.state"], facts["tolaria.epochs.failed"]], [breaker, str(int(latency["n_failed"]))])
        check("what nothing measures", facts["tolaria.grad_agg.conflict_ratio"], "not measured")
        test_confusion(page)
        with open("runs/fit/networks/1/network.json", encoding="utf-8") as file:
            network = json.load(file)
        shown = page.evaluate("[...document.querySelectorAll('#panel-fitted dd')].map((e) => e.textContent)")
        check("the network of the fit", (shown[0], number(shown[2])),
              (f"{network['made_by']['test_accuracy']:.2f} %", network["parameters"]))
        n_events = ask("fit", "SELECT count(*) AS n FROM trainer_events")[0]["n"]
        check("what the rails did", page.evaluate("document.querySelectorAll('#panel-rails table')[1].tBodies[0].rows.length"), min(n_events, 40))
        legal = page.evaluate("document.querySelector('#panel-decisions .choice').textContent.trim().split(/\\s+/)")
        row = ask("fit", "SELECT op_probabilities AS legal FROM decisions WHERE env = (SELECT env FROM event_env_stepped WHERE round ="
                  " (SELECT max(round) FROM event_env_stepped) ORDER BY validation_accuracy DESC, env LIMIT 1) ORDER BY round LIMIT 1")[0]
        check("what was legal for rules", legal, ["operation", *json.loads(row["legal"])])
        check_looks(page, "fit dark")
    with chromium.Browser(1280, 900) as page:
        page.open(address + "#runs=proofs")
        is_drawn(page, "proofs")
        share = "SELECT {0} AS k, sum(n_proved) * 100.0 / sum(n_asked) AS share, sum(n_asked) AS n FROM {1} WHERE label = 1 GROUP BY 1 ORDER BY {2}"
        for figure, asked in ((0, share.format("depth", "proof_depths", "1")), (1, share.format("predicate", "proof_predicates", "share DESC, n DESC, k"))):
            shown = page.evaluate(f"[...document.querySelectorAll('#panel-proofs figure.chart')[{figure}].querySelectorAll('.value')].map((e) => e.textContent)")
            proved = ask("proofs", asked)
            check("the rows of proofs", len(shown), len(proved))
            check("the shares of proofs", [abs(number(text.split("%")[0]) - row["share"]) < 0.01 and text.endswith(f"of {row['n']}")
                                           for text, row in zip(shown, proved)], [True] * len(proved))
        newest = ask("proofs", "SELECT query, proof FROM event_proof_found ORDER BY rowid DESC LIMIT 1")[0]
        check("the proof that is drawn", page.evaluate("document.querySelector('#panel-proofs .proof figcaption').firstChild.textContent").strip(), newest["query"])
        shown = page.evaluate("[...document.querySelector('#panel-proofs .tree').querySelectorAll('li')].map((e) => {"
                              " let level = 0; for (let up = e.parentElement; !up.classList.contains('tree'); up = up.parentElement.parentElement) level++;"
                              " return '  '.repeat(level) + e.children[0].textContent + '\\t' + e.children[1].textContent; })")
        check("its tree", shown, newest["proof"].splitlines())
        check_looks(page, "proofs")
    with chromium.Browser(1280, 900, is_dark=True) as page:
        page.open(address + "#runs=proofs")
        is_drawn(page, "proofs")
        check_looks(page, "proofs dark")
    with chromium.Browser(390, 844) as page:
        page.open(address + "#runs=proofs")
        is_drawn(page, "proofs")
        check_looks(page, "proofs phone")
    with chromium.Browser(390, 844) as page:
        page.open(address + "#runs=grown")
        is_drawn(page, "network", "settings")
        check_looks(page, "phone")
    with chromium.Browser(1280, 900) as page:
        page.open(address + "#runs=" + HOSTS_IN_ADDRESS)
        is_drawn(page, "environments")
        check("hosts have no panel of growth", page.evaluate("!document.querySelector('#panel-network')"), True)
        check_looks(page, "hosts")


def test_comparison(address):
    with chromium.Browser(1280, 900, is_dark=True) as page:
        page.open(address + "#runs=grown")
        is_drawn(page, "curves")
        before = int(page.evaluate("document.body.dataset.updates"))
        page.evaluate(f"document.querySelector('#runs input[value=\"{HOSTS}\"]').click()")
        page.wait(f"Number(document.body.dataset.updates) > {before}")
        page.wait("document.querySelectorAll('#panel-curves figure:first-child path.line:not(.key *)').length === 2")
        legend = page.evaluate("[...document.querySelectorAll('#panel-curves figure:first-child li')].map((e) => e.textContent)")
        check("two runs in one chart", legend, ["grown", HOSTS])
        check("the address keeps the choice", page.evaluate("location.hash"), "#runs=grown," + HOSTS_IN_ADDRESS)
        page.evaluate("document.querySelector('#panel-curves svg[data-x]').focus()")
        page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowLeft", code="ArrowLeft", windowsVirtualKeyCode=37)
        reading = page.wait("document.querySelector('#panel-curves .reading').textContent")
        check("names of values read off the chart", re.findall(r"(?:≈ |, )([^:]+): ", reading), [name for name in ("grown", HOSTS) if name in reading])
        check("the last name", HOSTS in reading, True)
        check_looks(page, "comparison dark")


def test_live(address):
    """A run that begins while the page is open appears, and its rounds are counted as they come."""
    with chromium.Browser(1280, 900) as page:
        page.open(address)
        is_drawn(page, "summary")
        page.wait("document.getElementById('state').className === 'live'")
        process = subprocess.Popen([ESPER, "hosts", "--rounds", "100000", "--threads", "1", "--quiet", "--out", "runs/live"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            page.wait("[...document.querySelectorAll('#runs label')].some((e) => e.textContent === 'live')", 60)
            page.evaluate("""for (const label of document.querySelectorAll('#runs label')) {
                const box = label.querySelector('input'); if (box.checked !== (label.textContent === 'live')) box.click(); }""")
            rounds = ("[...document.querySelectorAll('#panel-summary dt')].find((e) => e.textContent === 'rounds')?.nextSibling.textContent"
                      ".replaceAll('\\u202f', '')")
            first = page.wait(f"({rounds} || '').endsWith('of 100000') && parseInt({rounds})", 60)
            page.wait(f"parseInt({rounds}) > {first}", 60)  # raises when rounds do not go on
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()
        page.wait("[...document.querySelectorAll('#panel-summary dd')].some((e) => e.textContent === 'interrupted')", 60)
        check("no problems", page.problems(), [])


def test_restart():
    """An open page keeps its run when a new server numbers runs otherwise, and says so when one refuses it."""
    server, address = start_server("runs")
    port = address.rsplit(":", 1)[1].strip("/")
    with chromium.Browser(1280, 900) as page:
        page.open(address + "#runs=grown")
        is_drawn(page, "summary")
        page.wait("document.getElementById('state').className === 'live'")
        server.terminate()
        server.wait()
        page.wait("document.getElementById('state').textContent === 'no connection; trying again'")
        shutil.copytree("runs/" + HOSTS, "runs/0-first")
        before = int(page.evaluate("document.body.dataset.updates"))
        server, _ = start_server("runs", port)
        page.wait(f"Number(document.body.dataset.updates) > {before}", 60)
        check("the run after a restart", (fact(page, "rounds"), page.evaluate("!!document.querySelector('#panel-network .controls')")), ("3 of 3", True))
        check("the new run is offered", page.evaluate("[...document.querySelectorAll('#runs input')].map((e) => [e.value, e.checked])"
                                                      ".filter(([name, on]) => on || name === '0-first').sort()"), [["0-first", False], ["grown", True]])
        server.terminate()
        server.wait()
        server, _ = start_server("runs", port, "--token", "0123456789abcdef")
        page.wait("document.getElementById('state').textContent.startsWith('no live updates: the server refused')", 60)
        server.terminate()
        server.wait()


def test_report():
    """The report prints and reads without a script."""
    run("report", "runs/grown", "runs/fit", "--out", "report.html")
    with chromium.Browser(1280, 900) as page:
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.open("file://" + os.path.abspath("report.html"))
        page.wait_for_load()
        page.call("Emulation.setScriptExecutionDisabled", value=False)
        page.wait("document.querySelectorAll('section').length > 10")
        check_looks(page, "report")
        pdf = page.call("Page.printToPDF", printBackground=True)["data"]
        check("it prints", len(pdf) > 20000, True)


def main():
    if chromium.find() is None:
        print("skipped: no Chromium here (Debian's package chromium)")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        growth = ["--config", os.path.join(CONFIGS, "tiny.ini"), "--rounds", "3", "--envs", "4", "--episode-steps", "14", "--threads",
                  "1", "--quiet", "--eval", "4", "--evaluate.against=wait,random"]
        run("grow", *growth, "--out", "runs/grown")
        run("hosts", "--rounds", "4", "--threads", "1", "--quiet", "--out", "runs/" + HOSTS)
        run("fit", "--data", "tiny", "--epochs", "6", "--epoch-batches", "10", "--candidates", "2", "--rails.on=on",
            "--rails.epoch_budget_ms=0.5", "--threads", "1", "--quiet", "--out", "runs/fit")
        run("prove", "train", "--config", os.path.join(CONFIGS, "prove_generated.ini"), "--rounds", "5", "--threads", "1", "--quiet",
            "--out", "runs/proofs")
        server, address = start_server("runs")
        try:
            for test in (test_growth, test_other_kinds, test_comparison, test_live):
                test(address)
        finally:
            server.terminate()
            server.wait()
        test_restart()
        test_report()
    print("all as expected" if n_failed == 0 else f"{n_failed} failures")
    return 1 if n_failed else 0


sys.exit(main())
