// Draws a pictogram on a canvas in float32: ground and texture, stray strokes, the drawing, noise;
// and fills a data set with such images, in pieces on a thread pool.
#include "data/generated_images.h"

#include <math.h>

#include "base/random_rules.h"
#include "data/dataset_internal.h"

#define MAX_PIXELS   (ES_GENERATED_MAX_SIZE * ES_GENERATED_MAX_SIZE)
#define TEXTURE_GRID 5

const EsImageRecipe es_recipe_tiny = {
    .stream = 0,
    .n_channels = 1,
    .size = 16,
    .n_variants = 3,
    .half_extent = {4.5f, 6.0f},
    .aspect = 0.15f,
    .turn = 0.1f,
    .shift = 1.0f,
    .pen = {0.4f, 0.7f},
    .contrast = {0.35f, 0.5f},
    .ground = {0.3f, 0.7f},
    .n_strays = {0, 2},
    .stray_length = {3.0f, 6.0f},
    .texture = 0.1f,
    .noise = 0.06f,
};

const EsImageRecipe es_recipe_generated = {
    .stream = 1,
    .n_channels = 3,
    .size = 32,
    .n_variants = 4,
    .half_extent = {7.0f, 11.0f},
    .aspect = 0.2f,
    .turn = 0.5f,
    .shift = 4.0f,
    .pen = {0.6f, 1.2f},
    .contrast = {0.3f, 0.5f},
    .ground = {0.25f, 0.75f},
    .n_strays = {0, 4},
    .stray_length = {4.0f, 10.0f},
    .texture = 0.15f,
    .noise = 0.06f,
};

// ---- random numbers of one image, in the order they are asked for ----

typedef struct Draws {
    uint64_t seed;
    uint32_t index;
    uint32_t step;
    uint32_t n_taken; // words
    EsRandom4 words;
} Draws;

static Draws begin_draws(const EsImageRecipe *recipe, uint64_t seed, uint32_t split,
                         uint32_t index) {
    return (Draws){.seed = seed, .index = index, .step = recipe->stream * 8 + split};
}

static uint32_t draw_word(Draws *draws) {
    if (draws->n_taken % 4 == 0) {
        draws->words = es_random_draw(draws->seed, draws->index, ES_PURPOSE_DATA_GENERATION,
                                      draws->step, draws->n_taken / 4);
    }
    return draws->words.word[draws->n_taken++ % 4];
}

static float draw_between(Draws *draws, float low, float high) {
    return low + (high - low) * es_random_uniform(draw_word(draws));
}

static float draw_range(Draws *draws, const float range[2]) {
    return draw_between(draws, range[0], range[1]);
}

// ---- the canvas ----

typedef struct Canvas {
    int n_channels;
    int size;
    float pixels[ES_GENERATED_MAX_CHANNELS][MAX_PIXELS]; // brightness, 0..1 apart from noise
    float distance2[MAX_PIXELS];                         // scratch: to the nearest segment, squared
} Canvas;

typedef struct Colour {
    float level[ES_GENERATED_MAX_CHANNELS];
} Colour;

// A colour that differs from `ground` by `contrast` in its strongest channel. Contrast is at most
// 0.5, so going up or going down always stays inside 0..1.
static Colour draw_colour(Draws *draws, int n_channels, Colour ground, float contrast) {
    Colour colour = {{0}};
    uint32_t strongest = es_random_below(draw_word(draws), (uint32_t)n_channels);
    for (int c = 0; c < n_channels; c++) {
        float share = draw_between(draws, -1.0f, 1.0f);
        if ((uint32_t)c == strongest) {
            share = share < 0 ? -1.0f : 1.0f;
        }
        float level = ground.level[c] + share * contrast;
        colour.level[c] = level < 0 || level > 1 ? ground.level[c] - share * contrast : level;
    }
    return colour;
}

// Fill with a colour plus a smooth texture: a coarse grid of random values, interpolated linearly.
// The texture's hue is one random direction in colour space.
static void paint_ground(Canvas *canvas, Draws *draws, Colour ground, float amplitude) {
    float grid[TEXTURE_GRID][TEXTURE_GRID];
    float hue[ES_GENERATED_MAX_CHANNELS];
    for (int i = 0; i < TEXTURE_GRID * TEXTURE_GRID; i++) {
        grid[i / TEXTURE_GRID][i % TEXTURE_GRID] = draw_between(draws, -amplitude, amplitude);
    }
    for (int c = 0; c < canvas->n_channels; c++) {
        hue[c] = canvas->n_channels == 1 ? 1.0f : draw_between(draws, -1.0f, 1.0f);
    }
    int cell = canvas->size / (TEXTURE_GRID - 1);
    for (int y = 0; y < canvas->size; y++) {
        for (int x = 0; x < canvas->size; x++) {
            float u = ((float)(x % cell) + 0.5f) / (float)cell;
            float v = ((float)(y % cell) + 0.5f) / (float)cell;
            const float *above = &grid[y / cell][x / cell];
            const float *below = &grid[y / cell + 1][x / cell];
            float top = above[0] + (above[1] - above[0]) * u;
            float bottom = below[0] + (below[1] - below[0]) * u;
            float value = top + (bottom - top) * v;
            for (int c = 0; c < canvas->n_channels; c++) {
                canvas->pixels[c][y * canvas->size + x] = ground.level[c] + value * hue[c];
            }
        }
    }
}

// distance2 = min(distance2, squared distance from each pixel's centre to the segment)
static void measure_segment(Canvas *canvas, EsSegment segment) {
    float ex = segment.x1 - segment.x0;
    float ey = segment.y1 - segment.y0;
    float length2 = ex * ex + ey * ey;
    float inverse = length2 > 0 ? 1.0f / length2 : 0.0f;
    for (int y = 0; y < canvas->size; y++) {
        float dy = (float)y + 0.5f - segment.y0;
        float *row = &canvas->distance2[y * canvas->size];
        for (int x = 0; x < canvas->size; x++) {
            float dx = (float)x + 0.5f - segment.x0;
            float along = (dx * ex + dy * ey) * inverse;
            along = along < 0 ? 0.0f : along;
            along = along > 1 ? 1.0f : along;
            float rx = dx - along * ex;
            float ry = dy - along * ey;
            float d2 = rx * rx + ry * ry;
            row[x] = d2 < row[x] ? d2 : row[x];
        }
    }
}

// Lines of half width `pen`, with an edge one pixel soft.
static void stroke_segments(Canvas *canvas, const EsSegment *segments, int n_segments, float pen,
                            Colour colour) {
    int n_pixels = canvas->size * canvas->size;
    for (int i = 0; i < n_pixels; i++) {
        canvas->distance2[i] = 1e6f;
    }
    for (int i = 0; i < n_segments; i++) {
        measure_segment(canvas, segments[i]);
    }
    for (int i = 0; i < n_pixels; i++) {
        float cover = pen + 0.5f - sqrtf(canvas->distance2[i]);
        cover = cover < 0 ? 0.0f : cover;
        canvas->distance2[i] = cover > 1 ? 1.0f : cover;
    }
    for (int c = 0; c < canvas->n_channels; c++) {
        float *pixels = canvas->pixels[c];
        for (int i = 0; i < n_pixels; i++) {
            pixels[i] += canvas->distance2[i] * (colour.level[c] - pixels[i]);
        }
    }
}

// ---- strokes and drawings ----

// Scale, mirror, rotate and shift a drawing into pixel coordinates. The rotation comes from its
// half angle's tangent t: cos = (1 - t^2) / (1 + t^2), sin = 2 t / (1 + t^2), so no library
// function is needed.
static void pose_pictogram(const EsImageRecipe *recipe, Draws *draws, EsPictogram *pictogram) {
    float extent = draw_range(draws, recipe->half_extent);
    float width = extent * draw_between(draws, 1 - recipe->aspect, 1 + recipe->aspect);
    float height = extent * draw_between(draws, 1 - recipe->aspect, 1 + recipe->aspect);
    width = draw_word(draws) & 1 ? -width : width;
    float t = draw_between(draws, -recipe->turn, recipe->turn);
    float cosine = (1 - t * t) / (1 + t * t);
    float sine = 2 * t / (1 + t * t);
    float centre = 0.5f * (float)recipe->size;
    float cx = centre + draw_between(draws, -recipe->shift, recipe->shift);
    float cy = centre + draw_between(draws, -recipe->shift, recipe->shift);
    for (int i = 0; i < pictogram->n_segments; i++) {
        EsSegment s = pictogram->segments[i];
        pictogram->segments[i] = (EsSegment){cx + cosine * width * s.x0 - sine * height * s.y0,
                                             cy + sine * width * s.x0 + cosine * height * s.y0,
                                             cx + cosine * width * s.x1 - sine * height * s.y1,
                                             cy + sine * width * s.x1 + cosine * height * s.y1};
    }
}

// A bent line of two segments anywhere in the image, with pen and contrast like the drawing's.
static void paint_stray(const EsImageRecipe *recipe, Canvas *canvas, Draws *draws, Colour ground) {
    EsSegment segments[2];
    float x = draw_between(draws, 0, (float)recipe->size);
    float y = draw_between(draws, 0, (float)recipe->size);
    for (int i = 0; i < 2; i++) {
        float length = draw_range(draws, recipe->stray_length);
        float dx = draw_between(draws, -1, 1);
        float dy = draw_between(draws, -1, 1);
        float norm = sqrtf(dx * dx + dy * dy) + 1e-3f;
        float next_x = x + length * dx / norm;
        float next_y = y + length * dy / norm;
        segments[i] = (EsSegment){x, y, next_x, next_y};
        x = next_x;
        y = next_y;
    }
    float pen = draw_range(draws, recipe->pen);
    Colour colour =
        draw_colour(draws, recipe->n_channels, ground, draw_range(draws, recipe->contrast));
    stroke_segments(canvas, segments, 2, pen, colour);
}

// Noise with a triangular distribution over -amplitude..amplitude (two random bytes per value),
// then rounding to bytes.
static void develop(const Canvas *canvas, Draws *draws, float amplitude, uint8_t *pixels) {
    int n_pixels = canvas->size * canvas->size;
    for (int c = 0; c < canvas->n_channels; c++) {
        for (int i = 0; i < n_pixels; i += 2) {
            uint32_t word = draw_word(draws);
            for (int half = 0; half < 2; half++) {
                int sum = (int)(word & 255u) + (int)((word >> 8) & 255u) - 255;
                word >>= 16;
                float value =
                    canvas->pixels[c][i + half] + amplitude * (float)sum * (1.0f / 255.0f);
                value = value < 0 ? 0.0f : value;
                value = value > 1 ? 1.0f : value;
                pixels[c * n_pixels + i + half] = (uint8_t)(value * 255.0f + 0.5f);
            }
        }
    }
}

static uint32_t count_classes(const EsImageRecipe *recipe) {
    return recipe->n_classes > 0 ? (uint32_t)recipe->n_classes : ES_PICTOGRAM_CLASSES;
}

uint8_t es_generated_label(const EsImageRecipe *recipe, uint64_t seed, uint32_t split,
                           uint32_t index) {
    // step + 4 keeps these draws apart from those of the images themselves
    uint32_t n_classes = count_classes(recipe);
    EsRandom4 key = es_random_draw(seed, index / n_classes, ES_PURPOSE_DATA_GENERATION,
                                   recipe->stream * 8 + 4 + split, 0);
    return (uint8_t)es_random_permute(index % n_classes, n_classes, key);
}

int es_generated_drawing(const EsImageRecipe *recipe, uint64_t seed, int label, int variant) {
    if (recipe->n_classes == 0) {
        return label * ES_PICTOGRAM_VARIANTS + variant;
    }
    ES_ASSERT(recipe->n_classes * recipe->n_variants <= ES_PICTOGRAM_DRAWINGS);
    // step + 7: no split is called 3
    EsRandom4 key = es_random_draw(seed, 0, ES_PURPOSE_DATA_GENERATION, recipe->stream * 8 + 7, 0);
    return (int)es_random_permute((uint32_t)(label * recipe->n_variants + variant),
                                  ES_PICTOGRAM_DRAWINGS, key);
}

void es_generated_image_draw(const EsImageRecipe *recipe, uint64_t seed, uint32_t split,
                             uint32_t index, int label, uint8_t *pixels) {
    ES_ASSERT(split < 4);
    ES_ASSERT(recipe->size <= ES_GENERATED_MAX_SIZE && recipe->size % (TEXTURE_GRID - 1) == 0 &&
              recipe->n_channels <= ES_GENERATED_MAX_CHANNELS);
    Draws draws = begin_draws(recipe, seed, split, index);
    Canvas canvas;
    canvas.n_channels = recipe->n_channels;
    canvas.size = recipe->size;

    Colour ground = {{0}};
    for (int c = 0; c < recipe->n_channels; c++) {
        ground.level[c] = draw_range(&draws, recipe->ground);
    }
    paint_ground(&canvas, &draws, ground, recipe->texture);

    int n_strays = recipe->n_strays[0] +
                   (int)es_random_below(draw_word(&draws),
                                        (uint32_t)(recipe->n_strays[1] - recipe->n_strays[0] + 1));
    for (int i = 0; i < n_strays / 2; i++) {
        paint_stray(recipe, &canvas, &draws, ground);
    }
    int variant = (int)es_random_below(draw_word(&draws), (uint32_t)recipe->n_variants);
    int drawing = es_generated_drawing(recipe, seed, label, variant);
    EsPictogram pictogram =
        es_pictogram_parse(drawing / ES_PICTOGRAM_VARIANTS, drawing % ES_PICTOGRAM_VARIANTS);
    pose_pictogram(recipe, &draws, &pictogram);
    float pen = draw_range(&draws, recipe->pen);
    Colour colour =
        draw_colour(&draws, recipe->n_channels, ground, draw_range(&draws, recipe->contrast));
    stroke_segments(&canvas, pictogram.segments, pictogram.n_segments, pen, colour);
    for (int i = n_strays / 2; i < n_strays; i++) {
        paint_stray(recipe, &canvas, &draws, ground);
    }
    develop(&canvas, &draws, recipe->noise, pixels);
}

// --- drawings ---

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

// --- a data set of them ---

// images per piece of work: about a millisecond of drawing
#define PIECE_IMAGES 64

// more would not fit the 32-bit image number
#define MAX_IMAGES_PER_SPLIT ((int64_t)1 << 30)

typedef struct Job {
    EsDataset *dataset;
    const EsImageRecipe *recipe;
    uint64_t seed;
} Job;

// Piece p draws images p PIECE_IMAGES and following of the whole set. The splits lie one after
// another; within its split an image is numbered from 0.
static void draw_piece(void *context, int64_t piece, int worker) {
    (void)worker;
    const Job *job = context;
    EsDataset *dataset = job->dataset;
    int64_t first = piece * PIECE_IMAGES;
    int64_t end = ES_MIN(first + PIECE_IMAGES, dataset->n_images);
    for (int64_t i = first; i < end; i++) {
        uint32_t split = 0;
        int64_t index = i;
        if (index >= dataset->train.count) {
            index -= dataset->train.count;
            split = 1;
            if (index >= dataset->validation.count) {
                index -= dataset->validation.count;
                split = 2;
            }
        }
        uint8_t label = es_generated_label(job->recipe, job->seed, split, (uint32_t)index);
        dataset->labels[i] = label;
        es_generated_image_draw(job->recipe, job->seed, split, (uint32_t)index, label,
                                dataset->images + (size_t)i * dataset->image_bytes);
    }
}

EsStatus es_dataset_draw(EsDataset *dataset, const char *name, const EsImageRecipe *recipe,
                         uint64_t seed, const int64_t counts[3], EsThreadPool *pool) {
    int shape[3] = {recipe->n_channels, recipe->size, recipe->size};
    int n_classes = (int)count_classes(recipe);
    ES_TRY(es_dataset_allocate(dataset, name, shape, n_classes, counts));
    EsStatus status = recipe->n_classes > 0
                          ? ES_STATUS_OK
                          : es_names_copy(es_pictogram_names, n_classes, &dataset->class_names);
    if (status != ES_STATUS_OK) {
        es_dataset_destroy(dataset);
        return status;
    }
    Job job = {dataset, recipe, seed};
    int64_t n_pieces = (dataset->n_images + PIECE_IMAGES - 1) / PIECE_IMAGES;
    if (pool != NULL) {
        es_thread_pool_run(pool, n_pieces, draw_piece, &job);
    } else {
        for (int64_t piece = 0; piece < n_pieces; piece++) {
            draw_piece(&job, piece, 0);
        }
    }
    es_dataset_measure(dataset);
    return ES_STATUS_OK;
}

EsStatus es_dataset_generate(EsDataset *dataset, EsGeneratedKind kind,
                             const EsDatasetOptions *options, EsThreadPool *pool) {
    int is_tiny = kind == ES_GENERATED_TINY;
    int64_t asked[3] = {options->n_train, options->n_validation, options->n_test};
    int64_t counts[3] = {is_tiny ? 8000 : 20000, is_tiny ? 2000 : 4000, is_tiny ? 2000 : 4000};
    for (int i = 0; i < 3; i++) {
        if (asked[i] < 0 || asked[i] > MAX_IMAGES_PER_SPLIT) {
            return ES_FAIL(ARGUMENT,
                           "cannot generate %lld images per split, expected 0 (default) to %lld",
                           (long long)asked[i], (long long)MAX_IMAGES_PER_SPLIT);
        }
        counts[i] = asked[i] > 0 ? asked[i] : counts[i];
    }
    return es_dataset_draw(dataset, is_tiny ? "tiny" : "generated",
                           is_tiny ? &es_recipe_tiny : &es_recipe_generated, options->seed, counts,
                           pool);
}
