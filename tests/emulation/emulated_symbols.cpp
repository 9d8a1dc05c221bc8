// The program's own symbol table: names of kernels, and where __shared__ variables lie.
//
// A __shared__ variable is a thread-local of a C++ function, which no other code of ours has: its
// mangled name begins with _ZZ.
#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emulated_internal.h"

namespace {

struct Range {
    size_t offset, bytes; // in the thread's block of thread-locals
};

struct Function {
    uintptr_t address; // as linked
    const char *name;
};

struct Symbols {
    std::vector<Range> shared;
    std::vector<Function> functions; // by address
    uintptr_t load_address;
};

// The table's strings stay mapped: the program runs from the same file.
void read_table(const char *file, Symbols *symbols) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)file;
    const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(file + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_SYMTAB) {
            continue;
        }
        const ElfW(Sym) *table = (const ElfW(Sym) *)(file + sections[i].sh_offset);
        const char *strings = file + sections[sections[i].sh_link].sh_offset;
        for (size_t k = 0; k < sections[i].sh_size / sizeof *table; k++) {
            const char *name = strings + table[k].st_name;
            int type = table[k].st_info & 0xF;
            if (table[k].st_shndx == SHN_UNDEF) {
                continue;
            }
            if (type == STT_TLS && strncmp(name, "_ZZ", 3) == 0) {
                symbols->shared.push_back({table[k].st_value, table[k].st_size});
            } else if (type == STT_FUNC) {
                symbols->functions.push_back({table[k].st_value, name});
            }
        }
    }
}

int first_object(dl_phdr_info *info, size_t, void *found) {
    *(dl_phdr_info *)found = *info;
    return 1;
}

// The program itself is the first object; its thread-locals are those of the calling thread.
dl_phdr_info this_program() {
    dl_phdr_info info = {};
    dl_iterate_phdr(first_object, &info);
    return info;
}

Symbols read_symbols() {
    Symbols symbols = {};
    symbols.load_address = this_program().dlpi_addr;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file >= 0 && fstat(file, &status) == 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (bytes != MAP_FAILED) {
            read_table((const char *)bytes, &symbols);
        }
    }
    if (file >= 0) {
        close(file);
    }
    std::sort(symbols.functions.begin(), symbols.functions.end(),
              [](const Function &a, const Function &b) { return a.address < b.address; });
    std::sort(symbols.shared.begin(), symbols.shared.end(),
              [](const Range &a, const Range &b) { return a.offset < b.offset; });
    return symbols;
}

const Symbols &all_symbols() {
    static const Symbols symbols = read_symbols();
    return symbols;
}

// not in the function that uses it: it would be taken for a __shared__ variable
thread_local char *thread_locals = NULL;

} // namespace

std::string es_emulated_name(const void *kernel) {
    const Symbols &symbols = all_symbols();
    uintptr_t address = (uintptr_t)kernel - symbols.load_address;
    auto found = std::lower_bound(symbols.functions.begin(), symbols.functions.end(), address,
                                  [](const Function &f, uintptr_t a) { return f.address < a; });
    char text[32];
    if (found == symbols.functions.end() || found->address != address) {
        snprintf(text, sizeof text, "kernel at %p", kernel);
        return text;
    }
    int status = 0;
    char *plain = abi::__cxa_demangle(found->name, NULL, NULL, &status);
    std::string name = plain != NULL ? plain : found->name;
    free(plain);
    return name.substr(0, name.find('('));
}

void es_emulated_poison_shared() {
    if (thread_locals == NULL) {
        thread_locals = (char *)this_program().dlpi_tls_data;
    }
    for (const Range &range : all_symbols().shared) {
        memset(thread_locals + range.offset, 0xFF, range.bytes);
    }
}
