// Environments of proofs in a build without CUDA: there is no such backend.
#include "proof/agent/proof_env_internal.h"

const EsProofEnvBackend *es_proof_env_backend_cuda(void) { return NULL; }
