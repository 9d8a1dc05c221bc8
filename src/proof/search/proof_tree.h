// A proof as a tree: the query at the root, under every atom the body of the rule that gives it,
// and facts and comparisons at the leaves.
//
// A search finds a proof as a sequence of states. Here each state is explained by the rule or fact
// that made it of the one before, and the bindings of the variables are put back; the tree is then
// ground, and es_proof_tree_check can confirm it node by node without any search. The query itself
// is never a leaf. The graph must outlive the tree.
//
//     EsProofTree *tree;
//     ES_TRY(es_proof_tree_create(graph, ES_GOAL_CONSTRAINED, states, n, &tree));
//     ES_TRY(es_proof_tree_check(tree));
//     es_proof_tree_destroy(tree);
#ifndef ES_PROOF_PROOF_TREE_H
#define ES_PROOF_PROOF_TREE_H

#include "proof/search/closure.h"
#include "proof/search/prover.h"

ES_EXTERN_C_BEGIN

// the rule of a node that is a fact
#define ES_PROOF_NODE_FACT (-1)
// of a node that is a comparison
#define ES_PROOF_NODE_TEST (-2)

typedef struct EsProofNode {
    union { // ground
        EsAtom atom;
        EsAtom cells[ES_ATOM_MAX_CELLS];
        EsWideAtom whole;
    };
    int32_t rule;  // of graph->rules, ES_PROOF_NODE_FACT or ES_PROOF_NODE_TEST
    int32_t first; // its children, one per atom of the rule's body, begin at this node; 0: none
} EsProofNode;

typedef struct EsProofTree {
    const EsKnowledgeGraph *graph; // borrowed
    EsProofNode *nodes;            // [0] is the query; children come after their parent; owned
    int32_t count;
} EsProofTree;

// Explain a proof. states[0] is the query alone, a ground atom; each further one is a successor of
// the one before under the goal selection, as es_proof_expand gives them; the last has True as its
// successor. ARGUMENT when that is not so.
EsStatus es_proof_tree_create(const EsKnowledgeGraph *graph, EsGoalSelection selection,
                              const EsAtomSpan *states, int32_t n_states, EsProofTree **tree);

// Accepts NULL.
void es_proof_tree_destroy(EsProofTree *tree);

// Derive every node again: a leaf is a fact other than the query or a comparison that holds, every
// other node is the head of its rule under a substitution that makes the body its children, and
// each node but the root is the child of exactly one. INPUT names the node that is wrong.
EsStatus es_proof_tree_check(const EsProofTree *tree);

// The shortest proof of a ground atom, breadth first; *tree is NULL when there is none within the
// settings, and `answer` is that of es_prover_find_depth.
EsStatus es_proof_tree_find(const EsKnowledgeGraph *graph, const EsProverSettings *settings,
                            const EsAtom *query, EsProofTree **tree, EsProverAnswer *answer);

// Returns how many children a node has: the atoms and tests of its rule's body.
int es_proof_node_children(const EsProofTree *tree, int32_t node);

// Write why a node holds, as snprintf does: "fact", "comparison", "does not follow", or the rule
// with its line, "rule 29: son(x,z), daughter(y,z) -> brother(x,y)".
int es_proof_node_reason(const EsProofTree *tree, int32_t node, char *text, size_t bytes);

// Write the tree as snprintf does, a line per node and its children after it: two blanks a level,
// the atom, a tab, the reason. Control characters of names become '?', so that a line is a line.
int es_proof_tree_format(const EsProofTree *tree, char *text, size_t bytes);

// the most nodes of a tree of first derivations
#define ES_PROOF_TREE_MAX_NODES 1000000

// The proof of an atom by the first derivations of a closure with provenance; *tree is NULL when it
// is not in it or is a fact, or when the tree would have over ES_PROOF_TREE_MAX_NODES, which
// *is_too_large says. A derivation that serves twice is there twice.
EsStatus es_proof_tree_derive(const EsClosure *closure, const EsAtom *atom, EsProofTree **tree,
                              int *is_too_large);

ES_EXTERN_C_END

#endif
