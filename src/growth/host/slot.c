// Parses lists of slots and finds the place of each in a host.
#include "growth/host/slot.h"

#include <stdio.h>
#include <string.h>

int es_slots_of(const EsHostSpec *host, EsSlot slots[2 * ES_SLOTS_MAX]) {
    int n = 0, n_columns = ES_MIN(host->n_blocks, ES_HOST_BLOCKS_MAX);
    for (int row = 0; row < 2; row++) {
        for (int column = 0; column < n_columns; column++) {
            const EsHostBlock block = es_host_block(host, column);
            if (block.places & (row == 0 ? ES_HOST_BEFORE_POOL : ES_HOST_AFTER_POOL)) {
                EsSlot *slot = &slots[n++];
                *slot = (EsSlot){.row = row, .column = column, .n_channels = block.n_channels};
                snprintf(slot->name, sizeof slot->name, "r%dc%d", row, column);
            }
        }
    }
    return n;
}

static EsStatus fail_name(const EsHostSpec *host, const char *name, size_t length) {
    EsSlot all[2 * ES_SLOTS_MAX];
    char names[256] = "";
    size_t used = 0;
    int n = es_slots_of(host, all);
    if (n == 0) {
        return ES_FAIL(ARGUMENT,
                       "host \"%s\" has no layers and so no slots: nothing can grow in it",
                       host->name);
    }
    for (int i = 0; i < n; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 all[i].name);
    }
    return ES_FAIL(ARGUMENT, "host \"%s\" has no slot \"%.*s\"; it has %s", host->name,
                   (int)ES_MIN(length, 40), name, names);
}

// Positions in running order: block by block, before the pool first.
static void set_order(EsSlot *slots, int n_slots) {
    for (int i = 0; i < n_slots; i++) {
        slots[i].order = 0;
        for (int k = 0; k < n_slots; k++) {
            slots[i].order +=
                2 * slots[k].column + slots[k].row < 2 * slots[i].column + slots[i].row;
        }
    }
}

EsStatus es_slots_parse(const EsHostSpec *host, const char *names, EsSlot slots[ES_SLOTS_MAX],
                        int *n_slots) {
    EsSlot all[2 * ES_SLOTS_MAX];
    int is_wanted[2 * ES_SLOTS_MAX] = {0};
    int n_all = es_slots_of(host, all), n_wanted = 0;
    int wants_all = strcmp(names, "all") == 0;
    for (const char *at = names; !wants_all && *at != '\0';) {
        size_t length = strcspn(at, ",");
        int found = -1;
        for (int i = 0; i < n_all; i++) {
            if (strlen(all[i].name) == length && strncmp(all[i].name, at, length) == 0) {
                found = i;
            }
        }
        if (found < 0) {
            return fail_name(host, at, length);
        }
        if (is_wanted[found]) {
            return ES_FAIL(ARGUMENT, "slot \"%s\" comes twice in \"%s\"", all[found].name, names);
        }
        is_wanted[found] = 1;
        at += length + (at[length] == ',');
    }
    for (int i = 0; i < n_all; i++) {
        if (!wants_all && !is_wanted[i]) {
            continue;
        }
        if (n_wanted == ES_SLOTS_MAX) {
            return ES_FAIL(ARGUMENT, "\"%s\" are more than %d slots", names, ES_SLOTS_MAX);
        }
        slots[n_wanted++] = all[i];
    }
    if (n_wanted == 0) {
        return ES_FAIL(ARGUMENT, "a list of slots is empty");
    }
    set_order(slots, n_wanted);
    *n_slots = n_wanted;
    return ES_STATUS_OK;
}

int32_t es_slots_blueprints(const EsHostSpec *host) {
    int32_t of_kind = host->kind == ES_HOST_DENSE
                          ? ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_NORM) |
                                ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_MLP_SMALL) |
                                ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_MLP)
                          : ES_BLUEPRINTS_CNN;
    return of_kind | ES_BLUEPRINT_ID_BIT(ES_BLUEPRINT_ID_NOOP);
}

int es_slot_at(const EsSlot *slots, int n_slots, int block, int is_after_pool) {
    for (int i = 0; i < n_slots; i++) {
        if (slots[i].column == block && slots[i].row == is_after_pool) {
            return i;
        }
    }
    return -1;
}
