"""Random Datalog programs with stratified negation, predicates of none to four arguments, constants and comparisons:
`esper prove closure` against the one stable model that clingo finds. Programs that are not stratified must be refused.

usage: compare_clingo.py ESPER [PROGRAMS]
"""

import pathlib
import random
import subprocess
import sys
import tempfile

import clingo

CONSTANTS = ["ann", "bob", "two words", "Big", "it's", "1", "2", "10", "-4"]
INTEGERS = ["1", "2", "10", "-4"]
VARIABLES = ["A", "B", "C"]
ARITY = {"none": 0, "one": 1, "two": 2, "other": 2, "three": 3, "four": 4}


def is_integer(name):
    return name.lstrip("-").isdigit()


def ours(term):
    """A term as rule files and facts have it."""
    return term if term in VARIABLES or is_integer(term) else "'" + term.replace("'", "\\'") + "'"


def theirs(term):
    return term if term in VARIABLES or is_integer(term) else '"' + term + '"'


def spell(atom, term):
    name, arguments = atom
    return name + ("(" + ",".join(map(term, arguments)) + ")" if arguments else "")


def draw_atom(dice, terms):
    name = dice.choice(list(ARITY))
    return name, [dice.choice(terms) for _ in range(ARITY[name])]


def draw_rule(dice, constants):
    """(head, atoms, negated atoms, comparisons); variables of the last three and of the head are in the atoms."""
    atoms = [draw_atom(dice, VARIABLES * 5 + constants) for _ in range(dice.choice([1, 1, 2, 2, 3]))]
    bound = sorted({t for _, arguments in atoms for t in arguments if t in VARIABLES})
    terms = bound * 4 + constants
    negated = [draw_atom(dice, terms) for _ in range(dice.choice([0, 0, 1]))]
    comparisons = []
    if bound and dice.random() < 0.3:
        comparisons.append((dice.choice(bound), "!=", dice.choice(terms)))
    if bound and dice.random() < 0.3:
        # clingo compares names in order, too; ours are integers alone
        side = dice.choice(bound)
        atoms.append(("number", [side]))
        comparisons.append((side, dice.choice(["<", "<=", ">", ">="]), dice.choice(INTEGERS)))
    return draw_atom(dice, terms), atoms, negated, comparisons


def strata(rules):
    """The stratum of every predicate, None where a predicate depends on its own negation."""
    level = {name: 0 for name in [*ARITY, "number"]}
    for _ in range(len(level) + 1):
        changed = False
        for (head, _), atoms, negated, _ in rules:
            least = max([level[n] for n, _ in atoms] + [level[n] + 1 for n, _ in negated])
            if least > level[head]:
                level[head] = least
                changed = True
        if not changed:
            return level
    return None


def rule_text(rule, term, negation, arrow):
    head, atoms, negated, comparisons = rule
    body = [spell(a, term) for a in atoms] + [negation + spell(a, term) for a in negated]
    body += [f"{term(x)} {test} {term(y)}" for x, test, y in comparisons]
    return arrow(spell(head, term), ", ".join(body))


def run_esper(esper, folder, facts, rules):
    folder.joinpath("train.txt").write_text("".join(spell(f, ours) + ".\n" for f in facts))
    folder.joinpath("rules.txt").write_text(
        "".join("r:1:" + rule_text(r, ours, "not ", lambda head, body: f"{body} -> {head}") + "\n" for r in rules))
    command = [esper, "prove", "closure", "--data", folder, "--out", folder / "out.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.returncode, done.stderr, set()
    return 0, "", set(folder.joinpath("out.txt").read_text().splitlines())


def run_clingo(facts, rules):
    control = clingo.Control(["--warn=none"])
    text = "".join(spell(f, theirs) + ".\n" for f in facts)
    text += "".join(rule_text(r, theirs, "not ", lambda head, body: f"{head} :- {body}.") + "\n" for r in rules)
    control.add("base", [], text)
    control.ground([("base", [])])
    models = []
    control.solve(on_model=lambda model: models.append(model.symbols(atoms=True)))
    assert len(models) == 1, "a stratified program has one stable model"
    found = set()
    for symbol in models[0]:
        terms = [a.string if a.type == clingo.SymbolType.String else str(a.number) for a in symbol.arguments]
        found.add((symbol.name, tuple(terms)))
    return found


def written(atom):
    """As --out writes it: quotes where a name needs them."""
    def term(name):
        return "'" + name.replace("'", "\\'") + "'" if " " in name else name
    return spell((atom[0], list(atom[1])), term) + "."


def main():
    esper = pathlib.Path(sys.argv[1]).resolve()
    n_programs = int(sys.argv[2]) if len(sys.argv) > 2 else 240
    n_stratified = n_refused = n_derived = 0
    with tempfile.TemporaryDirectory() as name:
        for seed in range(n_programs):
            dice = random.Random(seed)
            constants = dice.sample(CONSTANTS, 3)
            facts = [("number", [i]) for i in INTEGERS]
            facts += [f for f in (draw_atom(dice, constants) for _ in range(dice.randint(20, 70)))
                      if f[1] or dice.random() < 0.2]
            rules = []
            while len(rules) < 4 + seed % 10:
                rule = draw_rule(dice, constants)
                # mostly stratified
                if seed % 8 == 0 or strata([*rules, rule]) is not None:
                    rules.append(rule)
            code, error, atoms = run_esper(esper, pathlib.Path(name), facts, rules)
            if strata(rules) is None:
                assert code == 2 and "negation in a cycle" in error, (seed, code, error)
                n_refused += 1
                continue
            assert code == 0, (seed, error)
            expected = {written(atom) for atom in run_clingo(facts, rules)}
            assert atoms == expected, (seed, sorted(atoms ^ expected)[:5])
            n_stratified += any(negated for _, _, negated, _ in rules)
            n_derived += len(atoms) - len({spell(f, ours) for f in facts})
    print(f"{n_programs} programs: {n_stratified} with stratified negation, {n_refused} refused for a cycle, "
          f"{n_derived} atoms derived; 0 mismatches")
    assert n_stratified > n_programs // 3 and n_refused > n_programs // 20 and n_derived > 3 * n_programs


main()
