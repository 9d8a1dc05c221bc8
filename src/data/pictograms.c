#include "data/pictograms.h"

const char *const es_pictogram_names[ES_PICTOGRAM_CLASSES] = {
    "arrow", "boat", "cup", "fish", "flag", "house", "key", "ladder", "star", "tree"};

static const char *const drawings[ES_PICTOGRAM_CLASSES][ES_PICTOGRAM_VARIANTS] = {
    {"0484 518457", "0353518457550503", "181383 508356", "004408 408448"},
    {"0585682805 4540 407444", "0686781806 35300535 55518555", "0585781805 25236365 33305053",
     "04276784 2068"},
    {"1117676111 62838566", "1024647010 4448 2868", "0226668202 1878",
     "202345636020 210123 618163 4548 2868"},
    {"0432643604 64828664", "8236043286", "04215174572704 827486", "042442644624 64838564"},
    {"1018 10707414", "18108214", "181080628414", "48408244 2868"},
    {"044084880804 38355558", "0421618404 14187874", "40088840 384558", "181030325250707818"},
    {"0232360602 3484 6466 8486", "0422442604 4484 7472 5452", "2060632320 4348 4666 4868",
     "0312324436160503 4484 6465 8487"},
    {"2028 6068 2262 2464 2666", "184078 3353 2565", "0383 0686 1118 4148 7178",
     "080626244442626080"},
    {"4048 0484 1177 1771", "406803832840", "405384554835043340", "4048 0286 0682"},
    {"40167640 4648", "4840 4512 4471", "20608365250320 4548", "4013330686537340 4648"},
};

// '0'..'8' to -1..1; exact in float32
static float grid_value(char digit) { return (float)(digit - '4') * 0.25f; }

EsPictogram es_pictogram_parse(int label, int variant) {
    ES_ASSERT(label >= 0 && label < ES_PICTOGRAM_CLASSES);
    ES_ASSERT(variant >= 0 && variant < ES_PICTOGRAM_VARIANTS);
    EsPictogram pictogram = {0};
    float x = 0, y = 0;
    int is_down = 0;
    for (const char *c = drawings[label][variant]; *c != '\0';) {
        if (*c == ' ') {
            is_down = 0;
            c++;
            continue;
        }
        float next_x = grid_value(c[0]);
        float next_y = grid_value(c[1]);
        if (is_down) {
            ES_ASSERT(pictogram.n_segments < ES_PICTOGRAM_MAX_SEGMENTS);
            pictogram.segments[pictogram.n_segments++] = (EsSegment){x, y, next_x, next_y};
        }
        x = next_x;
        y = next_y;
        is_down = 1;
        c += 2;
    }
    return pictogram;
}
