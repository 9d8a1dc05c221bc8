// packet_fuzz ROUNDS SEED: damage that many packets at random and open them. Exit code 0 when each
// was refused or could be read whole.
#include "packet_fuzz.h"

int main(int argc, char **argv) {
    char *end_of_rounds = NULL, *end_of_seed = NULL;
    long long n_rounds = argc == 3 ? strtoll(argv[1], &end_of_rounds, 10) : 0;
    unsigned long long seed = argc == 3 ? strtoull(argv[2], &end_of_seed, 10) : 0;
    if (argc != 3 || *end_of_rounds != '\0' || *end_of_seed != '\0' || n_rounds < 1) {
        fprintf(stderr, "usage: packet_fuzz ROUNDS SEED\n");
        return 2;
    }
    FuzzCounts counts = fuzz_packets(n_rounds, seed);
    printf("%lld packets refused, %lld opened and read, %lld violations\n",
           (long long)counts.n_refused, (long long)counts.n_opened, (long long)counts.n_violations);
    return counts.n_violations > 0 || counts.n_refused == 0 || counts.n_opened == 0;
}
