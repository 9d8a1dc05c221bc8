#!/usr/bin/env bash
# `esper prove mine`: the table, the file of rules, JSON, soft facts and Prolog files, and what is refused.
#
# usage: prove_mine_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

# a graph without rules: parents of parents, one grandparent not known
mkdir kg
for i in 1 2 3 4 5; do
    printf 'parent(a%d,b%d).\nparent(b%d,c%d).\n' $i $i $i $i
    [[ $i == 5 ]] || printf 'grand(a%d,c%d).\n' $i $i
done > kg/train.txt
printf 'grand(a5,c5).\n' > kg/test.txt

run 0 prove mine --data kg --min-support 3 --held-out 0 --out mined.txt
expect_text "stderr" "$err" ""
expect_part "table" "$out" "kg: mined from 14 facts, 0 kept back: 3 rules in"
expect_part "table" "$out" "      4       0.800  1.000       0   0.000  parent(x,z), parent(z,y) -> grand(x,y)"
expect_text "file" "$(cat mined.txt)" "r1:1:grand(x,z), parent(y,z) -> parent(x,y)
r2:1:parent(z,x), grand(z,y) -> parent(x,y)
r3:0.8:parent(x,z), parent(z,y) -> grand(x,y)"
run 0 prove closure --data kg --rules ./mined.txt
expect_part "mined rules derive" "$out" "test            1 query, 1 in the closure (100.0 %), 0 of them facts"
run 0 prove depths --data kg --rules ./mined.txt
expect_part "mined rules prove" "$out" "      2         1   100.0 %"
run 0 prove mine --data kg --min-support 3 --held-out 0 --json
for part in '"count": 3' '"support": 4' '"given": 5' '"confidence": 0.8' '"pca_confidence": 1.0'; do
    expect_part "JSON" "$out" "$part"
done
run 0 prove mine --generated 200 --limit 3 --threads 1 --out one.txt
run 0 prove mine --generated 200 --limit 3 --threads 3 --out three.txt
cmp -s one.txt three.txt || fail "the rules depend on the threads"

# --- soft facts: the query is dropped, the other is used ---
printf '# model\ngrand(a5,c5) 0.9 1\nparent(c1,d1) 0.8 1\nparent(c1,e1) 0.1 1\n' > soft.txt
run 0 prove query "grand(b1,X)" --data kg --rules ./mined.txt --soft soft.txt --soft-min-score 0.5
expect_part "counts" "$err" "soft facts: 3 read, 1 added, 1 left out for score or rank, 1 dropped as valid or test queries, 0 facts already"
expect_text "answers" "$out" "grand(b1,X): 1 answer
      2  grand(b1,d1)"
run 2 prove closure --soft soft.txt
expect_part "soft alone" "$err" "--soft goes with --data"
run 2 prove query "grand(b1,X)" --data kg --rules ./mined.txt --soft missing.txt
expect_part "no soft facts" "$err" "missing.txt: No such file or directory"
printf 'grand(a5,c5) much 1\n' > bad.txt
run 2 prove query "grand(b1,X)" --data kg --rules ./mined.txt --soft bad.txt
expect_part "bad" "$err" 'bad.txt:1:14: the score "much" is not a number'

# --- a Prolog file ---
cat > family.pl << 'PROLOG'
:- dynamic parent/2.
parent("ann","bob").
parent(bob, cy).
grand(X,Y) :- parent(X,Z), parent(Z,Y).
one_step_list(G, L) :- findall(B, clause(G, B), L).
PROLOG
run 2 prove query "grand(ann,X)" --data family.pl
expect_part "helper" "$err" "family.pl:5:35: an argument that is no name, number or variable; --skip-unknown passes over such clauses"
run 0 prove query "grand(ann,X)" --data family.pl --skip-unknown
expect_part "helper" "$err" "family.pl: skipped 1 clause that is not understood, on line 5; what follows may be incomplete"
expect_text "answers" "$out" "grand(ann,X): 1 answer
      2  grand(ann,cy)"
printf 'parent(ann,"bob).\n' > broken.pl
run 2 prove closure --data broken.pl
expect_part "broken" "$err" "broken.pl:1:12: the quote is never closed"
printf 'parent(ann,bob).\n' > norules.pl
run 2 prove closure --data norules.pl
expect_part "no rules" "$err" "norules.pl: holds no rules"
run 0 prove mine --data norules.pl
run 2 prove closure --data nowhere.pl
run 0 prove query "grand(ann,X)" --data family.pl --skip-unknown --json
expect_part "with clauses left out nothing is complete" "$out" '"complete": false'
run 0 prove closure --data family.pl --skip-unknown --json
expect_part "nor is the closure" "$out" '"complete": false'
sed -i '$d' family.pl
run 0 prove closure --data family.pl --json
expect_part "all understood" "$out" '"complete": true'
run 0 prove export --data family.pl --out again.pl
expect_text "export" "$out" "again.pl: 2 facts, 1 rule"
run 0 prove query "grand(ann,X)" --data again.pl
expect_text "what was written is read" "$out" "grand(ann,X): 1 answer
      2  grand(ann,cy)"

# --- files that are more than files: links stay, devices are written to, stdout holds the file alone ---
mkdir elsewhere
ln -s elsewhere/target.pl link.pl
run 0 prove export --data family.pl --out link.pl
[[ -L link.pl ]] || fail "a link was replaced"
cmp again.pl elsewhere/target.pl || fail "the file behind a link differs"
run 0 prove export --data family.pl --out /dev/null
[[ -c /dev/null ]] || fail "/dev/null was replaced"
run 0 prove export --data family.pl --out /dev/stdout
expect_text "the file on stdout" "$out" "$(cat again.pl)"
"$esper" prove export --data family.pl --out /dev/stdout | cmp - again.pl || fail "the file in a pipe differs"
mkfifo pipe
cat pipe > read.pl &
run 0 prove export --data family.pl --out pipe
wait $!
[[ -p pipe ]] || fail "a pipe was replaced"
cmp again.pl read.pl || fail "the file through a pipe differs"
run 0 prove mine --generated 200 --limit 3 --out /dev/stdout
expect_text "rules on stdout" "$out" "$(cat one.txt)"

# --- paths of three steps, the same on any number of threads, and read back ---
mkdir great
for ((i = 0; i < 14; i++)); do printf 'parent(a%d,b%d).\nparent(b%d,c%d).\nparent(c%d,d%d).\ngreat(a%d,d%d).\n' $i $i $i $i $i $i $i $i; done > great/train.txt
long=(prove mine --data great --max-body 3 --held-out 0)
run 0 "${long[@]}" --threads 1 --out long.txt
expect_part "a path of three" "$out" "     14       1.000  1.000       0   0.000  parent(x,z), parent(z,u), parent(u,y) -> great(x,y)"
run 0 "${long[@]}" --threads 3 --out long3.txt
cmp long.txt long3.txt || fail "the rules depend on the threads"
sed -i '$d' great/train.txt
run 0 prove query "great(a13,X)" --data great --rules "$folder/long.txt"
expect_part "mined rules prove" "$out" "great(a13,d13)"

# --- rules with constants: all of rome speak latin, and one more does ---
mkdir towns
for ((i = 0; i < 11; i++)); do printf 'lives(p%d,rome).\nspeaks(p%d,latin).\n' $i $i; done > towns/train.txt
printf 'speaks(q,latin).\nlives(q,oslo).\n' >> towns/train.txt
run 0 prove mine --data towns --constants --threads 1 --out towns.txt
expect_part "constants" "$out" "     11       1.000  lives(x,'rome') -> speaks(x,'latin')"
expect_part "any constant" "$out" "     12       1.000  lives(x,z) -> speaks(x,'latin')"
expect_part "the other way round" "$out" "     11       0.917  speaks(x,'latin') -> lives(x,'rome')"
expect_text "file" "$(cat towns.txt)" "r1:1:lives(x,z) -> speaks(x,'latin')
r2:1:lives(x,'rome') -> speaks(x,'latin')
r3:0.916667:speaks(x,z) -> lives(x,'rome')
r4:0.916667:speaks(x,'latin') -> lives(x,'rome')"
run 0 prove mine --data towns --constants --threads 3 --out towns3.txt
cmp towns.txt towns3.txt || fail "the rules depend on the threads"
run 0 prove mine --data towns --constants --json
expect_part "constants as JSON" "$out" "\"rule\": \"lives(x,'rome') -> speaks(x,'latin')\""
# read back: a newcomer of rome speaks latin; q, who speaks it, is taken to live in rome, too
printf 'lives(r,rome).\n' >> towns/train.txt
printf 'speaks(r,latin).\n' > towns/test.txt
run 0 prove closure --data towns --rules ./towns.txt
expect_part "rules with constants derive" "$out" "closure        27"
expect_part "rules with constants derive" "$out" "1 in the closure (100.0 %)"
run 0 prove query "speaks(r,X)" --data towns --rules ./towns.txt --explain
expect_part "rules with constants prove" "$out" "speaks(r,latin)"
run 0 prove eval --data towns --rules ./towns.txt --corruptions 0
expect_part "rules with constants rank" "$out" "100.0 %"
# names with quotes and blanks, and inequalities that some fact needs: rome is named in lives, too
{
    for ((i = 0; i < 11; i++)); do printf 'p%d\tlives in\tNew "Rome"\np%d\tspeaks\tit'"'"'s\\own\n' $i $i; done
    printf 'it'"'"'s\\own\tlives in\tNew "Rome"\n'
} > towns/train.tsv
rm towns/train.txt towns/test.txt
run 0 prove mine --data towns --constants --out towns.txt
expect_part "quotes" "$(cat towns.txt)" "'lives in'(x,'New \"Rome\"'), x != 'it\\'s\\\\own' -> speaks(x,'it\\'s\\\\own')"
run 0 prove closure --data towns --rules ./towns.txt
expect_part "an inequality holds" "$out" "closure        23"

# --- Ctrl-C keeps nothing ---
"$esper" prove mine --generated 30000 --max-body 3 --threads 1 --out stopped.txt > /dev/null 2> stopped.err &
pid=$!
sleep 1.5
kill -INT "$pid"
wait "$pid"
code=$?
[[ $code == 130 ]] || fail "stopped mining: exit code $code, expected 130; $(cat stopped.err)"
expect_part "stopped" "$(cat stopped.err)" "no rules are kept"
[[ -z $(compgen -G "stopped.txt*") ]] || fail "stopped mining left $(compgen -G "stopped.txt*")"

run 2 prove export --data family.pl
expect_part "where to" "$err" "--out FILE is missing"

# --- what is refused ---
run 2 prove mine --data kg --min-confidence 2
run 2 prove mine --data kg --max-body 4
run 2 prove mine --data nowhere
printf 'a\tpart of\tb\nb\tpart of\tc\na\tpart of\tc\n' > kg/train.txt
run 0 prove mine --data kg --min-support 1 --held-out 0 --min-confidence 0.1 --out x.txt
expect_part "names with blanks are in quotes" "$(cat x.txt)" "'part of'(x,z), 'part of'(z,y) -> 'part of'(x,y)"
run 0 prove closure --data kg --rules ./x.txt
finish
