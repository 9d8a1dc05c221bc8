#!/usr/bin/env bash
# The language of graphs: constants and comparisons in rules, names in quotes, and what is warned of.
#
# usage: prove_language_test.sh PATH_TO_ESPER
set -uo pipefail
esper=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../../..")
# shellcheck source=tests/programs/script_test.sh
source "$(dirname "$0")/../script_test.sh"
cd "$folder" || exit 1

# --- a constant in a rule is that constant ---
mkdir kg
printf 'lives(ann,paris).\nlives(bob,rome).\nlives(cy,paris).\n' > kg/train.txt
printf 'r1:1:lives(x,paris) -> french(x,x)\nr2:1:lives(x,z), lives(y,z), x != y -> near(x,y)\n' > kg/rules.txt
run 0 prove query "french(X,Y)" --data kg
expect_text "stderr" "$err" ""
expect_text "Bob of Rome is not French" "$out" "french(X,Y): 2 answers
      1  french(ann,ann)
      1  french(cy,cy)"
run 0 prove query "near(X,Y)" --data kg --closure-limit 0
expect_part "nobody is near himself" "$out" "near(X,Y): 2 answers"
run 0 prove query "near(ann,cy)" --data kg --explain
expect_text "a comparison in a proof" "$out" "near(ann,cy): proved in 2 steps
near(ann,cy)         rule 2: lives(x,z), lives(y,z), x != y -> near(x,y)
|- lives(ann,paris)  fact
|- lives(cy,paris)   fact
\`- ann != cy         comparison"
run 0 prove query "near(ann,cy)" --data kg --explain --json
expect_part "JSON" "$out" '"comparison": true'
run 0 prove closure --data kg
expect_part "closure" "$out" "closure         7"

# --- integers ---
mkdir ages
printf 'age(ann,7).\nage(bob,18).\nage(cy,-3).\nage(dan,018).\nage(eve,old).\n' > ages/train.txt
printf 'r1:1:age(x,y), y >= 18 -> adult(x,y)\nr2:1:age(x,u), age(y,v), u<v -> younger(x,y)\n' > ages/rules.txt
run 0 prove query "adult(X,Y)" --data ages
expect_text "what is no integer is not compared" "$out" "adult(X,Y): 1 answer
      1  adult(bob,18)"
run 0 prove query "younger(X,bob)" --data ages
expect_part "negative numbers" "$out" "younger(X,bob): 2 answers"
expect_part "negative numbers" "$out" "younger(cy,bob)"

# --- several goals ---
run 0 prove query "near(X,Y), lives(Y,paris), X != ann" --data kg --explain
expect_text "stderr" "$err" ""
expect_text "several goals" "$out" "near(X,Y), lives(Y,paris), X != ann: 1 answer
  X = cy, Y = ann
      near(cy,ann)         rule 2: lives(x,z), lives(y,z), x != y -> near(x,y)
      |- lives(cy,paris)   fact
      |- lives(ann,paris)  fact
      \`- cy != ann         comparison
      lives(ann,paris)  fact"
for question in "near(X,_), X != ann." "near(X,_), X != 'ann'." "near(X,_), X != ann ." "X != ann, near(X,_)."; do
    run 0 prove query "$question" --data kg
    expect_text "a period" "$out" "$question: 1 answer
  X = cy"
done
run 2 prove query "near(X,_), X != ." --data kg
expect_part "a period alone" "$err" "question:1:17: the term of a comparison has no name"
run 0 prove query "near(X,_), lives(X,_)" --data kg
expect_text "a plain _ makes no answers" "$out" "near(X,_), lives(X,_): 2 answers
  X = ann
  X = cy"
run 0 prove query "lives(X,Y), lives(Z,_)" --data kg --limit 2
expect_part "limit" "$out" "7 more are not shown (--limit raises it)"
run 0 prove query "near(ann,cy), lives(bob,rome)" --data kg
expect_text "yes" "$out" "near(ann,cy), lives(bob,rome): yes"
run 0 prove query "near(ann,cy), lives(bob,paris)" --data kg
expect_text "no" "$out" "near(ann,cy), lives(bob,paris): no, it does not follow"
run 0 prove query "near(X,Y), lives(Y,Z)" --data kg --json --explain
for part in '"count": 2' '"complete": true' '"X": "ann"' '"rule": "lives(x,z), lives(y,z), x != y -> near(x,y)"'; do
    expect_part "JSON" "$out" "$part"
done
run 0 prove query "near(X,Y), lives(Y,Z)" --data kg --closure-limit 4 --json
expect_part "a closure that was stopped" "$out" '"complete": false'
run 0 prove query "near(X,Y), lives(Y,Z)" --data kg --closure-limit 6 --max-depth 1 --explain
expect_part "a proof of a closure that was stopped" "$out" "near(ann,cy)         rule 2: lives(x,z)"
run 2 prove query "near(X,Y), lives(Y,pari)" --data kg
expect_part "a name" "$err" 'question:1:20: unknown constant "pari"; did you mean "paris"?'
run 2 prove query "near(X,Y), Z != X" --data kg
expect_part "a variable" "$err" 'question:1:12: the variable "Z" is compared, but in no atom predicate(a,b)'
run 2 prove query "near(X,Y), " --data kg
expect_part "an end" "$err" 'question:1:11: the line ends where an atom is expected'
run 0 prove query "age(X,Y), Y < 12." --data ages
expect_text "an integer that the graph does not have" "$out" "age(X,Y), Y < 12.: 2 answers
  X = ann, Y = 7
  X = cy, Y = -3"

run 2 prove query "age(X,Y), Y < 7.5" --data ages
expect_part "a decimal" "$err" 'question:1:15: "7.5" is compared by <, which takes integers of at most 18 digits'
run 2 prove query "age(X,Y), Y > old" --data ages
expect_part "a name that the graph has" "$err" 'question:1:15: "old" is compared by >, which takes integers'
printf 'price(a,5).\ncheap(X,X) :- price(X,P), P < 9.5.\ncheap(X,X) :- price(X,P), P < 5.\n' > price.pl
run 2 prove query "cheap(X,Y)" --data price.pl
expect_part "a decimal in Prolog" "$err" "price.pl:2:31: a comparison in order with a constant that is no integer of at most 18 digits"
run 0 prove query "cheap(X,Y)" --data price.pl --skip-unknown --json
expect_part "a decimal, passed over" "$out" '"complete": false'

# --- negation ---
mkdir no
printf 'edge(a,b).\nedge(b,c).\nedge(d,a).\nnode(a,a).\nnode(b,b).\nnode(c,c).\nnode(d,d).\n' > no/train.txt
printf 'r:1:%s\n' 'edge(x,y) -> reach(x,y)' 'edge(x,z), reach(z,y) -> reach(x,y)' \
    'node(x,x), node(y,y), x != y, not reach(x,y) -> apart(x,y)' \
    "'a' != y, apart(x,y) -> far(x,y)" > no/rules.txt
run 0 prove query "apart(c,X)" --data no
expect_text "what does not follow" "$out" "apart(c,X): 3 answers
      1  apart(c,a)
      1  apart(c,b)
      1  apart(c,d)"
run 0 prove query "apart(c,d)" --data no --explain
expect_part "a negation in a proof" "$out" "not reach(c,d)  does not follow"
run 0 prove query "far(c,d)" --data no --max-depth 1 --explain
expect_text "a proof from the closure has its tests, too" "$out" \
    "far(c,d): follows, but not within 1 step and 6 atoms (--max-depth, --max-atoms raise it)
far(c,d)              rule 4: 'a' != y, apart(x,y) -> far(x,y)
|- a != d             comparison
\`- apart(c,d)         rule 3: node(x,x), node(y,y), x != y, not reach(x,y) -> apart(x,y)
   |- node(c,c)       fact
   |- node(d,d)       fact
   |- c != d          comparison
   \`- not reach(c,d)  does not follow"
run 0 prove query "far(c,d), edge(d,X)" --data no --max-depth 1 --explain
expect_text "several goals beyond the limits have proofs, too" "$out" "far(c,d), edge(d,X): 1 answer
  X = a
      far(c,d)              rule 4: 'a' != y, apart(x,y) -> far(x,y)
      |- a != d             comparison
      \`- apart(c,d)         rule 3: node(x,x), node(y,y), x != y, not reach(x,y) -> apart(x,y)
         |- node(c,c)       fact
         |- node(d,d)       fact
         |- c != d          comparison
         \`- not reach(c,d)  does not follow
      edge(d,a)  fact"
run 0 prove query "far(c,d), edge(d,X)" --data no --max-depth 1 --explain --json
expect_part "JSON" "$out" '"negation": true'
run 0 prove query "apart(d,c)" --data no
expect_text "reached by three edges" "$out" "apart(d,c): no, it does not follow"
run 0 prove closure --data no
expect_part "closure" "$out" "closure        23"
run 0 prove query "apart(c,X), edge(X,_)" --data no
expect_part "several goals" "$out" "apart(c,X), edge(X,_): 3 answers"
printf "apart(c,d).\n" >> no/train.txt
run 2 prove train --data no --out never
expect_part "training" "$err" "training sees atoms and comparisons alone"
run 2 prove depths --data no --split train
expect_part "depths" "$err" "rules with negation are for the closure and for questions"
printf 'r:1:%s\n' 'edge(x,y), not lose(y,y) -> win(x,x)' 'win(x,x) -> lose(x,x)' > no/rules.txt
run 2 prove closure --data no
cycle="negation in a cycle, so that nothing is decided first: lose <- win <- not lose"
expect_text "a cycle" "$err" "esper prove closure: $cycle"
run 2 prove query "win(X,Y)" --data no
expect_text "a cycle" "$err" "esper prove query: $cycle"

cat > lost.pl << 'END'
p(a,b).
s(f(a)).
q(X,Y) :- p(X,Y), s(f(X)).
r(X,Y) :- p(X,Y), \+ q(X,Y).
END
for command in "query r(X,Y)" "query r(a,b)" "query r(X,Y),p(X,Y)" "closure"; do
    # shellcheck disable=SC2086 # a command and its question
    run 2 prove $command --data lost.pl --skip-unknown
    expect_part "$command without two clauses" "$err" "rules with negation need every clause, and 2 were passed over"
done
run 2 prove query "r(a,b)" --data lost.pl --skip-unknown --closure-limit 0
expect_part "no closure" "$err" "--closure-limit 0 asks for no closure, which rules with negation need"

printf 'p(a,b).\nq(a,c).\nh(X,X) :- p(X,_), \\+ q(X,_).\n' > plain.pl
run 2 prove closure --data plain.pl
expect_part "a plain _ in a negation" "$err" "plain.pl:3:24: a compared or negated variable that is in no other atom of the body"
printf 'p(a,b).\nh(X,_) :- p(X,_).\ng(X,X) :- p(X,_).\n' > plain.pl
run 2 prove closure --data plain.pl
expect_part "a plain _ in a head" "$err" "plain.pl:2:3: a variable of the head that is in no atom of the body"
run 0 prove query "g(X,Y)" --data plain.pl --skip-unknown
expect_part "a plain _ in an atom" "$out" "g(X,Y): 1 answer"

# --- learning, mining and confidences beside comparisons and negation, which are no relations ---
mkdir hop
for ((i = 0; i < 12; i++)); do printf 'p(a%d,b%d).\np(b%d,c%d).\nq(a%d,c%d).\n' $i $i $i $i $i $i; done > hop/train.txt
printf 'p(a0,d).\np(d,a0).\np(d,e).\n' >> hop/train.txt
printf 'q(a0,e).\n' | tee hop/valid.txt > hop/test.txt
printf 'r1:1:p(x,z), p(z,y), x != y -> q(x,y)\n' > hop/rules.txt
run 0 prove train --config "$root/configs/prove_generated.ini" --data hop --rounds 2 --quiet --out hops
expect_part "features of structure" "$out" "all              1     1  100.0 %"
run 0 prove curve --data hop --split train --min-depth 1 --max-depth 3 --nodes 2 --policy hops/policy.safetensors
expect_part "a policy on rules that compare" "$out" "             2          12         12         12         12"
run 0 prove mine --data hop --min-support 5 --held-out 0 --constants
expect_part "mined" "$out" "p(x,z), p(z,y) -> q(x,y)"
for rule in 'p(x,z), p(z,y), x != y -> q(x,y)' 'q(x,y), not p(x,y) -> r(x,y)'; do
    printf 'r1:1:%s\n' "$rule" > hop/rules.txt
    run 0 prove eval --data hop --score confidence --corruptions 0
    expect_part "$rule" "$out" "mined from the facts: 1, 3, 0 rules of 1, 2, 3 steps and 1 with constants"
    expect_part "$rule" "$out" "all                                1   1.000"
done
run 2 prove curve --data hop --split train --policy hops/policy.safetensors
expect_part "negation" "$err" "rules with negation are for the closure and for questions"

# --- warnings ---
printf 'r1:1:lives(x,bob) -> french(x,x)\nr2:1:lives(X,Y) -> in(X,Y)\n' > kg/rules.txt
printf 'lives(ann,paris).\nlives(bob,X).\n' > kg/train.txt
run 0 prove closure --data kg
expect_part "a variable with the name of a constant" "$err" 'kg/rules.txt:2: "X" is a variable here, though the graph has a constant of that name; in quotes it is the constant'
printf 'r1:1:lives(person,city) -> in(person,city)\n' > kg/rules.txt
run 0 prove closure --data kg
expect_part "a constant that was meant as a variable" "$err" 'kg/rules.txt:1: "person" is a constant here, and no fact and no query has it; a variable is one letter with digits behind it'

# --- names with blanks, commas and quotes ---
cat > kg/train.txt << 'END'
"lives in"('Anna O''Neil',"New York, NY").
'lives in'(bob,"say \"hi\"").
END
printf 'r1:1:"lives in"(x,'\''New York, NY'\'') -> '\''is from'\''(x,"the US")\n' > kg/rules.txt
printf '"is from"("Anna O'\''Neil",'\''the US'\'')\n' > kg/test.txt
run 0 prove query "'is from'(X,Y)" --data kg
expect_text "quotes" "$out" "'is from'(X,Y): 1 answer
      1  'is from'('Anna O\\'Neil','the US')"
run 0 prove query "'lives in'(bob,X)" --data kg
expect_part "a name with quotes inside" "$out" "'lives in'(bob,'say \"hi\"')"
run 0 prove query "'is from'('Anna O''Neil',\"the US\")" --data kg --explain
expect_part "the rule in the proof" "$out" "rule 1: 'lives in'(x,'New York, NY') -> 'is from'(x,'the US')"
run 0 prove closure --data kg
expect_part "queries in quotes" "$out" "test            1 query, 1 in the closure"
mkdir again
cp kg/rules.txt again/rules.txt
run 0 prove closure --data kg --out again/train.txt
run 0 prove closure --data again --out again.txt
expect_text "all atoms, read back" "$(sort again.txt)" "$(sort again/train.txt)"
expect_text "all atoms, read back" "$(grep -c . again.txt)" 3
expect_part "all atoms, in quotes" "$(cat again.txt)" "'lives in'('Anna O\\'Neil','New York, NY')."
run 0 prove query "'is from'('Anna O''Neil',X)" --data again
expect_part "a derived atom, now a fact" "$out" "fact  'is from'('Anna O\\'Neil','the US')"
printf "p('a\tb','c\td').\np(e,f).\nq(X,Y) :- p(X,Y).\n" > tabs.pl
run 0 prove closure --data tabs.pl --out again/train.txt
printf 'r:1:q(x,y) -> p(x,y)\n' > again/rules.txt
run 0 prove closure --data again --out again.txt
expect_text "names with tabs, read back" "$(sort again.txt)" "$(sort again/train.txt)"
expect_text "names with tabs, read back" "$(grep -c . again.txt)" 4
run 0 prove export --data kg --out names.pl
run 0 prove query "'is from'(X,Y)" --data names.pl
expect_part "through Prolog" "$out" "'is from'('Anna O\\'Neil','the US')"

# predicates of none to four arguments, from files and from Prolog
mkdir -p wide
cat > wide/train.txt << 'END'
rain.
'heavy rain'.
person(ann).
person("bob lee").
gives(ann,book,"bob lee").
gives("bob lee",'red ball',cy)
route(a,b,1,10).
route(b,c,2,20).
END
cat > wide/rules.txt << 'END'
r1:1:rain, person(x) -> wet(x)
r2:1:gives(x,z,y), person(y) -> has(y,z)
r3:1:route(x,y,_,t) -> reach(x,y,t)
r4:1:reach(x,y,_), route(y,z,_,t), x != z -> reach(x,z,t)
r5:1:person(x), not gives(x,book,"bob lee"), not storm -> poor(x)
r6:1:wet(x), 'heavy rain' -> flood
END
printf 'flood.\nreach(a,c,20)\ngives(cy,book,ann)\n' > wide/test.txt
run 0 prove closure --data wide --out wide.txt
expect_part "queries of all arities" "$out" "test            3 queries, 2 in the closure"
expect_part "out" "$(cat wide.txt)" "reach(a,c,20)."
expect_part "out" "$(cat wide.txt)" "flood."
run 0 prove query "reach(a,X,Y)" --data wide --explain
expect_part "three arguments" "$out" "reach(a,c,20)          rule 4: reach(x,u,v), route(u,y,w,z), x != y -> reach(x,y,z)"
run 0 prove query "flood" --data wide --explain
expect_part "none" "$out" "flood: proved in 3 steps"
run 0 prove query "poor(X)" --data wide
expect_part "a negation of three" "$out" "poor('bob lee')"
run 0 prove query "gives(X,Y,'bob lee'), person(X), rain" --data wide
expect_part "several goals" "$out" "X = ann, Y = book"
run 0 prove query "route(X,Y,1,Z)" --data wide --json
expect_part "arguments" "$(tr -d ' \n' <<< "$out")" '"arguments":["a","b","1","10"]'
run 2 prove query "route(X,Y)" --data wide
expect_part "another arity" "$err" 'question:1:1: "route" has 4 arguments, not 2'
mkdir -p positive
cp wide/train.txt wide/test.txt positive
grep -v poor wide/rules.txt > positive/rules.txt
run 0 prove depths --data positive --split test --max-depth 5
expect_part "depths" "$out" "3         1    33.3 %"
expect_part "depths" "$out" "4         1    33.3 %"
run 0 prove curve --data positive --split test --min-depth 3 --max-depth 5
run 0 prove export --data wide --out wide.pl
run 0 prove closure --data wide.pl --out again.txt
expect_text "through Prolog, all arities" "$(sort again.txt)" "$(sort wide.txt)"

# ranking and training take all of them, what knows pairs alone leaves the others out and says so
run 0 prove eval --data positive
expect_part "none has no corruption" "$err" "note: 1 query of the split test is left out: without arguments"
expect_part "places" "$out" "positive: 2 queries of the split test against 100 corruptions an argument"
run 0 prove eval --data positive --json
expect_part "none has no corruption" "$out" '"left_out": 1'
mkdir -p mixed
{
    cat positive/train.txt
    echo "wet(ann)"
    echo "reach(a,b,10)"
    for i in $(seq 1 12); do echo "likes(p$i,q$i)"; echo "knows(p$i,q$i)"; done
} > mixed/train.txt
cp positive/rules.txt mixed
printf 'likes(p1,q1)\nwet(cy)\n' > mixed/valid.txt
printf 'likes(p2,q2)\nflood.\nreach(a,c,20)\nwet("bob lee")\n' > mixed/test.txt
run 0 prove mine --data mixed --min-support 5 --held-out 0
expect_part "mine" "$err" 'note: mining rules takes predicates of two arguments; 8 others are left out, such as "flood" with 0'
expect_part "mine" "$out" "12       1.000  1.000       0   0.000  likes(x,y) -> knows(x,y)"
run 0 prove embed --data mixed --out mixed.safetensors --epochs 2 --json
expect_part "embed" "$err" "note: the embedding takes predicates of two arguments; 8 others are left out"
expect_part "embed" "$out" '"predicates_left_out": 8'
run 0 prove eval --data mixed --embedding mixed.safetensors --score confidence
expect_part "pairs" "$err" "note: 3 queries of the split test are left out: confidences and embeddings are of predicates of two arguments"
expect_part "pairs" "$out" "mixed: 1 query of the split test"
run 0 prove train --data mixed --rounds 2 --envs 8 --steps 4 --eval 0 --out mixed_run
expect_part "training" "$out" "mixed: 3 test queries against 100 corruptions an argument"
expect_part "training" "$out" "1 query without arguments, and so without corruptions, is left out of the ranking"
run 0 prove eval --data mixed --search best_first --policy mixed_run/policy.safetensors
# weights that stand for names are of predicates of as many arguments
mkdir -p two three
printf 'edge(a,b).\nedge(b,c).\npath(b,c).\n' > two/train.txt
printf 'edge(a,b,a).\nedge(b,c,a).\npath(b,c).\n' > three/train.txt
for name in two three; do
    echo 'path(a,b)' > $name/test.txt
    echo 'path(a,c)' > $name/valid.txt
done
echo '0:1:edge(x,y) -> path(x,y)' > two/rules.txt
echo '0:1:edge(x,y,z) -> path(x,y)' > three/rules.txt
run 0 prove train --data two --rounds 1 --envs 4 --steps 4 --eval -1 --policy.encoder=names --out two_run
run 2 prove eval --data three --search best_first --policy two_run/policy.safetensors
expect_part "other arities" "$err" "the same names, but predicates of other numbers of arguments"
run 2 prove train --data wide --rounds 1 --out wide_run
expect_part "negation" "$err" "rules with negation are for the closure and for questions"

# a proof of over a million atoms is told, and the others are shown
{
    echo "d0(a)."
    for i in $(seq 1 21); do echo "d$i(X) :- d$((i - 1))(X), d$((i - 1))(X)."; done
} > doubling.pl
run 0 prove query "d21(X)" --data doubling.pl --explain
expect_part "a huge proof" "$out" "d21(a)  follows; its proof has over 1,000,000 atoms and is not shown"
run 0 prove query "d21(X), d1(X)" --data doubling.pl --explain
expect_part "a huge proof" "$out" "d21(a)  follows; its proof has over 1,000,000 atoms and is not shown"
expect_part "a small one" "$out" "d1(a)     rule 2: d0(x), d0(x) -> d1(x)"

printf 'p(a,9.5).\np(b,3).\nlow(X) :- p(X,Y), Y < 20.\n' > decimals.pl
run 0 prove query "low(X)" --data decimals.pl
expect_part "decimals" "$err" '1 constant with a decimal point, such as "9.5": rules compare in order'
finish
